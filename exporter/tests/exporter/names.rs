//! GPUs of which a library tells less than all: none takes another's name, none is passed over in silence, and a
//! library is not opened anew for what that cannot bring back.

use std::thread;

use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_standins::{
    Answer, Behaviour, DcgmReturn, DcgmScript, Device, NvmlReturn, NvmlScript,
};

use crate::fixture::{Served, Tree, eventually, samples, value};
use crate::superchip::{Engines, PCI, Superchip, module_lines, uuid};

const UUID: &str = "nvmlDeviceGetUUID";

/// How often NVML was initialised.
fn inits(node: &Superchip) -> usize {
    node.nvml.calls().unwrap().iter().filter(|call| call.symbol == "nvmlInit_v2").count()
}

/// How often it was asked how many GPUs there are: at each discovery.
fn discoveries(node: &Superchip) -> usize {
    let calls = node.nvml.calls().unwrap();
    calls.iter().filter(|call| call.symbol == "nvmlDeviceGetCount_v2").count()
}

fn fails(node: &mut Superchip, place: usize, symbol: &str, code: NvmlReturn) {
    let change = |script: &mut NvmlScript| {
        let behaviour = Behaviour::fails(code);
        script.devices[place].calls.insert(symbol.to_owned(), behaviour);
    };
    node.nvml.change(change).unwrap();
}

#[test]
fn a_uuid_that_cannot_be_read_makes_no_second_gpu() {
    let mut node = Superchip::gb200([500_000.0, 510_000.0, 600_000.0, 605_000.0]);
    let served = node.served(4);
    let known = module_lines(&served.page());
    fails(&mut node, 1, UUID, NvmlReturn::Unknown);
    let before = discoveries(&node);
    eventually("it is discovered again", || discoveries(&node) > before);
    let withheld = format!(r#"sensor="{}",reason="io""#, uuid(1));
    eventually("it is read", || value(&served.page(), "power_withheld", &[&withheld]).is_some());
    let page = served.page();
    assert_eq!(samples(&page, "power_sensor_info").len(), 2 + 4, "{page}");
    node.nvml.change(|script| script.devices[1].calls.clear()).unwrap();
    eventually("it is read again", || module_lines(&served.page()) == known);
    assert_eq!(inits(&node), 1);
}

/// A node whose script was changed before it was read.
fn changed(change: impl FnOnce(&mut NvmlScript)) -> Superchip {
    let mut node = Superchip::gb200([500_000.0, 510_000.0, 600_000.0, 605_000.0]);
    node.nvml.change(change).unwrap();
    node
}

/// The names of the GPUs on a page.
fn names(page: &str) -> Vec<String> {
    let infos = samples(page, "power_sensor_info").into_iter();
    let gpus = infos.filter(|line| line.contains(r#"source="nvml""#));
    gpus.map(|line| line.split("sensor=\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
        .collect()
}

#[test]
fn gpus_without_uuids_go_by_their_addresses() {
    let empty = |script: &mut NvmlScript| {
        script.devices.iter_mut().for_each(|gpu| gpu.uuid.clear());
    };
    let page = changed(empty).served(4).page();
    assert_eq!(names(&page), PCI);
    let means = samples(&page, "cpu_power_nvml_watts");
    assert_eq!(means.len(), 2, "{page}");
    let watts = |pci: &str| value(&page, "gpu_module_power_watts", &[pci]);
    assert_eq!(PCI.map(watts), [500.0, 510.0, 600.0, 605.0].map(Some));
}

#[test]
fn gpus_with_one_uuid_are_told_apart() {
    let double = |script: &mut NvmlScript| script.devices[2].uuid = script.devices[0].uuid.clone();
    let page = changed(double).served(4).page();
    let double = |place: usize| format!("{}@{}", uuid(0), PCI[place]);
    assert_eq!(names(&page), [double(0), uuid(1), double(2), uuid(3)]);
    let means: Vec<&str> = samples(&page, "cpu_power_nvml_watts")
        .into_iter()
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(means, ["505.000000", "602.500000"]);
}

#[test]
fn a_gpu_that_is_refused_is_shown_by_its_number() {
    let device = |symbol: &'static str| {
        move || {
            let mut node = Superchip::gb200([500_000.0; 4]);
            fails(&mut node, 1, symbol, NvmlReturn::Unknown);
            check_refused(&mut node, "gpu1", "io");
        }
    };
    // Discovery looks every ten seconds: side by side they take no longer than one.
    thread::scope(|scope| {
        scope.spawn(device(UUID));
        scope.spawn(device("nvmlDeviceGetPciInfo_v3"));
        // Each handle is asked for once for its persistence mode, and once for the enumeration.
        let mut node = Superchip::gb200([500_000.0; 4]);
        let refused = Behaviour::fails(NvmlReturn::NoPermission).after(4 + 3);
        let change = |script: &mut NvmlScript| {
            script.calls.insert("nvmlDeviceGetHandleByIndex_v2".to_owned(), refused);
        };
        node.nvml.change(change).unwrap();
        check_refused(&mut node, "gpu3", "not_permitted");
    });
}

/// Three GPUs are read, and of the fourth it is told that it is there, and why it has no name until it has.
fn check_refused(node: &mut Superchip, place: &str, reason: &str) {
    let served = node.served(3);
    let page = served.page();
    let refused = format!(r#"source="nvml",sensor="{place}",reason="{reason}""#);
    assert_eq!(value(&page, "power_withheld", &[&refused]), Some(1.0), "{page}");
    let errors = format!(r#"source="nvml",reason="{reason}""#);
    assert!(value(&page, "power_read_errors_total", &[&errors]).unwrap() >= 1.0, "{page}");
    let heal = |script: &mut NvmlScript| {
        script.calls.clear();
        script.devices.iter_mut().for_each(|gpu| gpu.calls.clear());
    };
    node.nvml.change(heal).unwrap();
    eventually("it is named", || module_lines(&served.page()).len() == 4);
    assert!(samples(&served.page(), "power_withheld").is_empty(), "{place}");
}

#[test]
fn nvml_is_not_opened_anew_for_what_it_no_longer_lists() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    node.nvml.change(|script| drop(script.devices.remove(3))).unwrap();
    let gone = format!(r#"sensor="{}",reason="gone""#, uuid(3));
    eventually("it is gone", || value(&served.page(), "power_withheld", &[&gone]).is_some());
    let before = discoveries(&node);
    eventually("it is discovered again", || discoveries(&node) > before);
    // Its handle may have said that it is lost before it was no longer listed.
    assert!(inits(&node) <= 2, "initialised {} times", inits(&node));
    assert_eq!(module_lines(&served.page()).len(), 3);
}

#[test]
fn a_gpu_that_is_listed_and_lost_has_a_few_attempts() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    node.answer(2, Answer::Error(NvmlReturn::GpuIsLost));
    eventually("NVML is opened anew", || inits(&node) == 2);
    let before = discoveries(&node);
    eventually("time goes by", || discoveries(&node) > before);
    // At intervals of 50 ms there were a hundred rounds and more; the second attempt waits for 5 s, the third for 10 s.
    assert!(inits(&node) <= 4, "initialised {} times", inits(&node));
    node.set_mw(2, 500_000.0);
    eventually("it is back", || module_lines(&served.page()).len() == 4);
}

#[test]
fn a_gpu_that_sysfs_shows_later_is_looked_for() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    let pci = "0028:01:00.0";
    for (name, text) in [("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", "2")] {
        node.tree.write(&format!("bus/pci/devices/{pci}/{name}"), text);
    }
    eventually("NVML is opened anew", || inits(&node) == 2);
    let new = Device::new("GPU-new", pci).module_mw(470_000.0);
    node.nvml.change(|script| script.devices.push(new)).unwrap();
    eventually("it is read", || module_lines(&served.page()).len() == 5);
    assert_eq!(inits(&node), 2);
}

#[test]
fn a_field_that_an_engine_lacks_for_a_while_comes_back() {
    let mut engines = Engines::of(&[(50.0, 6.0)]);
    let refuse = |script: &mut DcgmScript| {
        script.watch_refused.insert(1132, DcgmReturn::Timeout);
    };
    engines.dcgm.change(refuse).unwrap();
    let config = engines.config(&Tree::new::<&str>(&[]), SourceChoice::Dcgm);
    let served = Served::start(&config);
    let read = || samples(&served.page(), "cpu_power_dcgm_watts").len();
    eventually("the rail is read alone", || read() == 1);
    engines.dcgm.change(|script| script.watch_refused.clear()).unwrap();
    eventually("both are read", || read() == 2);
}
