//! Module power through a library that is really loaded: the lines that readers know, the rule of 5 %, and
//! GPUs that come, go and change places.

use std::thread;

use wattscribe_exporter::clock::Now;
use wattscribe_rules::{ModuleMean, module_mean};
use wattscribe_standins::{Answer, Device, NvmlReturn, NvmlScript, unbalanced};

use crate::fixture::{Served, eventually, samples, value};
use crate::superchip::{PCI, Superchip, module_lines, uuid};

#[test]
fn lines_are_those_that_readers_know() {
    let node = Superchip::gb200([500_000.0, 498_000.0, 600_000.0, 620_000.0]);
    let page = node.served(4).page();
    assert_eq!(
        samples(&page, "cpu_power_nvml_watts"),
        [
            r#"cpu_power_nvml_watts{type="module",socket="0",gpus="0,1",source="nvml"} 499.000000"#,
            r#"cpu_power_nvml_watts{type="module",socket="1",gpus="2,3",source="nvml"} 610.000000"#,
        ]
    );
    let gpu = |place: usize, socket: u32, watts: &str| {
        let (uuid, pci) = (uuid(place), PCI[place]);
        format!(
            r#"gpu_module_power_watts{{gpu="{place}",uuid="{uuid}",pci="{pci}",socket="{socket}",source="nvml"}} {watts}"#
        )
    };
    assert_eq!(
        module_lines(&page),
        [
            gpu(0, 0, "500.000000"),
            gpu(1, 0, "498.000000"),
            gpu(2, 1, "600.000000"),
            gpu(3, 1, "620.000000")
        ]
    );
    let families: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(families[..2], ["cpu_power_acpi_watts", "cpu_power_nvml_watts"], "{page}");
    for place in 0..4 {
        let sensor = format!(r#"sensor="{}""#, uuid(place));
        let window_s = value(&page, "power_reading_window_seconds", &[&sensor]);
        assert_eq!(window_s, Some(1.0), "the field is a mean of one second");
        let read_at = value(&page, "power_reading_timestamp_seconds", &[&sensor]).unwrap();
        assert!((Now::read().wall_s - read_at).abs() < 10.0, "{read_at}");
    }
}

#[test]
fn a_pair_that_differs_by_more_than_5_percent_is_withheld() {
    let mut node = Superchip::gb200([500_000.0, 500_000.0, 600_000.0, 600_000.0]);
    let served = node.served(4);
    let withheld = &[r#"source="nvml""#, r#"sensor="socket0""#, r#"reason="disagree""#];
    let cases = [
        (487_500.0, 512_500.0, true),  // 5 % exactly
        (487_250.0, 512_750.0, false), // 5.1 %
        (500_000.0, 526_000.0, false),
        (500_000.0, 525_000.0, true),
        (700_000.0, 100_000.0, false),
        (539_000.0, 534_000.0, true),
    ];
    for (first, second, passes) in cases {
        node.set_mw(0, first);
        node.set_mw(1, second);
        let mean_w = passes.then_some((first + second) / 2e3);
        let spread = (first - second).abs() / ((first + second) / 2.0);
        let what = format!("{first} mW and {second} mW");
        let mut page = String::new();
        eventually(&what, || {
            page = served.page();
            let spread_ratio = value(&page, "gpu_module_spread_ratio", &[r#"socket="0""#]);
            spread_ratio.is_some_and(|ratio| (ratio - spread).abs() < 1e-6)
        });
        assert_eq!(value(&page, "cpu_power_nvml_watts", &[r#"socket="0""#]), mean_w, "{page}");
        assert_eq!(value(&page, "power_withheld", withheld).is_some(), !passes, "{page}");
        assert_eq!(value(&page, "cpu_power_nvml_watts", &[r#"socket="1""#]), Some(600.0));
        assert_eq!(module_lines(&page).len(), 4, "each GPU's own reading is always there: {page}");
    }
}

#[test]
fn one_gpu_is_its_own_mean_and_a_silent_one_is_no_member() {
    let mut node = Superchip::gb200([500_000.0, 700_000.0, 600_000.0, 600_000.0]);
    let served = node.served(4);
    node.answer(1, Answer::Error(NvmlReturn::NotSupported));
    let one = &[r#"socket="0",gpus="0""#];
    eventually("one member", || value(&served.page(), "cpu_power_nvml_watts", one) == Some(500.0));
    let page = served.page();
    let silent = format!(r#"sensor="{}",reason="not_supported""#, uuid(1));
    assert!(value(&page, "power_withheld", &[&silent]).is_some(), "{page}");
    assert_eq!(value(&page, "gpu_module_spread_ratio", &[r#"socket="0""#]), None);
}

#[test]
fn a_gpu_whose_numa_node_nobody_tells_is_in_no_mean() {
    let node = Superchip::new(&["98029000"], &[(-1, 500_000.0), (0, 600_000.0)]);
    node.tree.write("bus/pci/devices/0009:01:00.0/numa_node", "0\n");
    let page = node.served(2).page();
    let means = samples(&page, "cpu_power_nvml_watts");
    assert_eq!(means.len(), 1, "{page}");
    assert!(means[0].contains(r#"gpus="1""#), "{means:?}");
    let alone = &[r#"gpu="0""#, r#"socket="""#];
    assert_eq!(value(&page, "gpu_module_power_watts", alone), Some(500.0));
}

#[test]
fn without_the_library_nothing_is_said_of_it() {
    let node = Superchip::gb200([1.0; 4]);
    let mut config = node.config();
    config.nvml = ["libnvidia-ml.so.1", "libnvidia-ml.so"].map(|name| node.tree.path(name)).into();
    let page = Served::start(&config).page();
    assert!(!page.contains("nvml") && !page.contains("module"), "{page}");
    assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 2);
}

#[test]
fn a_library_that_appears_later_is_read() {
    let node = Superchip::gb200([500_000.0; 4]);
    let hidden = node.nvml.library().with_extension("hidden");
    std::fs::rename(node.nvml.library(), &hidden).unwrap();
    let served = Served::start(&node.config());
    let missing = r#"source="nvml",sensor="library",reason="disconnected""#;
    eventually("the one that was named is missed", || {
        value(&served.page(), "power_withheld", &[missing]).is_some()
    });
    std::fs::rename(&hidden, node.nvml.library()).unwrap();
    eventually("it is read", || module_lines(&served.page()).len() == 4);
}

#[test]
fn one_handle_serves_all_scrapes_and_is_given_back() {
    let node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    let reads = || {
        let calls = node.nvml.calls().unwrap();
        calls.iter().filter(|call| call.symbol == "nvmlDeviceGetFieldValues").count()
    };
    let before = reads();
    (0..50).for_each(|_| drop(served.page()));
    eventually("it is read on", || reads() > before + 20);
    drop(served);
    eventually("it is shut down", || unbalanced(&node.nvml.calls().unwrap()).is_empty());
    let calls = node.nvml.calls().unwrap();
    let count = |symbol: &str| calls.iter().filter(|call| call.symbol == symbol).count();
    assert_eq!((count("nvmlInit_v2"), count("nvmlShutdown")), (1, 1));
    for call in calls.iter().filter(|call| call.symbol == "nvmlDeviceGetFieldValues") {
        let asked = format!("{}", call.args);
        assert!(!asked.contains("[186,1]"), "a module is never asked for the moment: {asked}");
    }
}

#[test]
fn a_driver_that_is_loaded_anew_is_read_again_with_the_same_identities() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    let known = module_lines(&served.page());
    node.nvml.change(|script| script.driver.error = Some(NvmlReturn::DriverNotLoaded)).unwrap();
    let down = &[r#"source="nvml""#, r#"sensor="library""#, r#"reason="disconnected""#];
    eventually("it is down", || value(&served.page(), "power_withheld", down).is_some());
    let page = served.page();
    assert!(module_lines(&page).is_empty(), "{page}");
    let state = value(&page, "power_sensor_state", &[&uuid(0), r#"state="unavailable""#]);
    assert_eq!(state, Some(1.0), "{page}");
    let change = |script: &mut NvmlScript| {
        script.driver.error = None;
        script.driver.load += 1;
    };
    node.nvml.change(change).unwrap();
    eventually("it is read again", || module_lines(&served.page()) == known);
    assert!(samples(&served.page(), "power_withheld").is_empty());
}

#[test]
fn a_gpu_that_is_lost_leaves_the_others_alone_and_keeps_its_name() {
    let mut node = Superchip::gb200([500_000.0, 510_000.0, 600_000.0, 605_000.0]);
    let served = node.served(4);
    let known = module_lines(&served.page());
    node.nvml.change(|script| script.devices[0].lost = true).unwrap();
    let lost = format!(r#"sensor="{}",reason="gone""#, uuid(0));
    eventually("it is lost", || value(&served.page(), "power_withheld", &[&lost]).is_some());
    // The library numbers the others anew: what is published under a UUID is that GPU's power all the same.
    let moved = [r#"gpu="0""#, &uuid(1)];
    eventually("the others move up", || {
        let page = served.page();
        for line in module_lines(&page) {
            let of = |line: &String| {
                let uuid = line.split("uuid=\"").nth(1).unwrap().split('"').next().unwrap();
                (uuid.to_owned(), line.rsplit(' ').next().unwrap().to_owned())
            };
            assert!(known.iter().any(|known| of(known) == of(&line)), "{line}");
        }
        value(&page, "gpu_module_power_watts", &moved) == Some(510.0)
    });
    let page = served.page();
    assert_eq!(module_lines(&page).len(), 3, "{page}");
    let info = value(&page, "power_sensor_info", &[&uuid(0)]);
    assert_eq!(info, Some(1.0), "a lost GPU is still named: {page}");
    node.nvml.change(|script| script.devices[0].lost = false).unwrap();
    eventually("it is back", || module_lines(&served.page()) == known);
}

type Change = fn(&mut Vec<Device>);

/// What becomes of the four GPUs of a node. Each keeps its power, whatever its number and its place.
const CHANGES: [(&str, Change); 6] = [
    ("nothing", |_| {}),
    ("they are counted the other way round", |gpus| gpus.reverse()),
    ("one fewer", |gpus| drop(gpus.remove(0))),
    ("one more", |gpus| {
        gpus.insert(0, Device::new("GPU-new", "0028:01:00.0").module_mw(470_000.0))
    }),
    ("another one in the place of the first", |gpus| {
        gpus[0] = Device::new("GPU-new", PCI[0]).module_mw(470_000.0);
    }),
    ("two change places", |gpus| {
        let (first, last) = (gpus[0].pci.clone(), gpus[3].pci.clone());
        (gpus[0].pci, gpus[3].pci) = (last, first);
    }),
];

#[test]
fn a_reading_stands_under_its_own_name_through_every_change() {
    thread::scope(|scope| {
        for (what, change) in CHANGES {
            for is_reloaded in [false, true] {
                scope.spawn(move || check_names(what, change, is_reloaded));
            }
        }
    });
}

/// Changes the GPUs of a running node, with the driver loaded anew or not, and follows each by its UUID.
fn check_names(what: &str, change: Change, is_reloaded: bool) {
    let milliwatts = [500_000.0, 510_000.0, 600_000.0, 605_000.0];
    let mut node = Superchip::gb200(milliwatts);
    let served = node.served(4);
    let before = node.nvml.script().devices.clone();
    let changed = |script: &mut NvmlScript| {
        change(&mut script.devices);
        script.driver.load += u64::from(is_reloaded);
    };
    node.nvml.change(changed).unwrap();
    let after = &node.nvml.script().devices;

    let watts_of = |uuid: &str| {
        let place = before.iter().position(|gpu| gpu.uuid == uuid);
        place.map_or(470.0, |place| milliwatts[place] / 1e3)
    };
    let expected: Vec<Line> = (0..)
        .zip(after)
        .map(|(index, gpu)| (index, gpu.uuid.clone(), gpu.pci.clone(), watts_of(&gpu.uuid)))
        .collect();
    let mut page = String::new();
    eventually(&format!("{what}, reloaded: {is_reloaded}"), || {
        page = served.page();
        let found: Vec<Line> = module_lines(&page).iter().map(|text| line(text)).collect();
        for (_, uuid, _, watts) in &found {
            assert_eq!(*watts, watts_of(uuid), "{what}: another GPU's power under {uuid}: {page}");
        }
        found == expected
    });
    assert_eq!(samples(&page, "cpu_power_nvml_watts"), means(&expected), "{what}: {page}");
    for old in &before {
        let is_gone = after.iter().all(|gpu| gpu.uuid != old.uuid);
        let labels = format!(r#"sensor="{}",reason="gone""#, old.uuid);
        assert_eq!(value(&page, "power_withheld", &[&labels]).is_some(), is_gone, "{what}: {page}");
    }
}

/// Number, UUID, place and watts of a GPU.
type Line = (u32, String, String, f64);

fn line(text: &str) -> Line {
    let label = |name: &str| {
        let (_, rest) = text.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let watts = text.rsplit(' ').next().unwrap().parse().unwrap();
    (label("gpu").parse().unwrap(), label("uuid"), label("pci"), watts)
}

/// The lines of the means of these GPUs: the first two places are of socket 0, the next two of socket 1.
fn means(gpus: &[Line]) -> Vec<String> {
    let mut lines = Vec::new();
    for (socket, places) in PCI.chunks(2).enumerate() {
        let here = gpus.iter().filter(|(_, _, pci, _)| places.contains(&pci.as_str()));
        let (indices, watts): (Vec<String>, Vec<Option<f64>>) =
            here.map(|(index, _, _, watts)| (index.to_string(), Some(*watts))).unzip();
        if let ModuleMean::Mean { watts, .. } = module_mean(&watts) {
            let gpus = indices.join(",");
            let labels = format!(r#"type="module",socket="{socket}",gpus="{gpus}",source="nvml""#);
            lines.push(format!("cpu_power_nvml_watts{{{labels}}} {watts:.6}"));
        }
    }
    lines
}
