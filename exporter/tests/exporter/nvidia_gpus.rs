//! GPUs of NVIDIA as accelerators: a real dlopen of a stand-in, beside the PCI devices that sysfs shows.

use tempfile::TempDir;
use wattscribe_exporter::args::Config;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_standins::{
    Answer, Behaviour, Device, NvmlReturn, NvmlScript, Series, Stage, field, scope,
};

use crate::fixture::{Served, Tree, config, eventually, samples};
use crate::machine::{CONTROLLER_3D, DISPLAY, Pci};
use crate::superchip::uuid;

/// GPUs in sysfs, and the library that measures them.
pub(crate) struct Gpus {
    pub(crate) tree: Tree,
    pub(crate) nvml: Stage<NvmlScript>,
    _folder: TempDir,
}

impl Gpus {
    /// GPUs with these devices of NVML; sysfs has all of them.
    pub(crate) fn new(class: &str, devices: Vec<Device>) -> Self {
        let tree = Tree::new::<&str>(&[]);
        for device in &devices {
            let ids = ["0x10de", "0x2330", class];
            tree.pci(Pci { at: &device.pci, ids, driver: "nvidia", node: "" });
        }
        let folder = TempDir::new().unwrap();
        let nvml = Stage::new(folder.path(), NvmlScript::new(devices)).unwrap();
        Self { tree, nvml, _folder: folder }
    }

    pub(crate) fn config(&self) -> Config {
        let nvml = vec![self.nvml.library().to_owned()];
        Config { nvml, ..config(self.tree.sysfs(), SourceChoice::Auto) }
    }

    pub(crate) fn served(&self, gpus: usize) -> Served {
        let served = Served::start(&self.config());
        eventually("the GPUs are read", || powers(&served.page()).len() == gpus);
        served
    }
}

fn powers(page: &str) -> Vec<&str> {
    samples(page, "accelerator_power_watts")
}

fn number(milliwatts: f64) -> Answer {
    Answer::Number(milliwatts.into())
}

/// An H100 that draws so much, in milliwatts, and says so in every way that it has.
fn h100(place: usize, milliwatts: f64) -> Device {
    let pci = format!("0000:{:02x}:00.0", 0x18 + 0x10 * place);
    let memory = milliwatts / 5.0;
    let named = Device {
        name: "NVIDIA H100".to_owned(),
        mig: Some(false),
        ..Device::new(&uuid(place), &pci)
    };
    named
        .gpu_mw(milliwatts)
        .with(field::POWER_INSTANT, scope::GPU, number(milliwatts + 1_500.0))
        .with(field::POWER_AVERAGE, scope::MEMORY, number(memory))
        .with(field::TOTAL_ENERGY, scope::GPU, number(5e9))
}

/// Eight of them, as a node has.
pub(crate) fn eight() -> Gpus {
    Gpus::new(
        CONTROLLER_3D,
        (0..8_u32).map(|n| h100(n as usize, 300_000.0 + f64::from(n))).collect(),
    )
}

/// A laptop with a GPU that sleeps.
pub(crate) fn laptop() -> Gpus {
    let gpus = Gpus::new(DISPLAY, vec![h100(0, 9_000.0)]);
    gpus.tree.runtime_status("devices/pci0000:00/0000:18:00.0", "suspended");
    gpus
}

#[test]
fn each_gpu_has_one_power_and_what_else_it_tells() {
    let gpus = eight();
    let page = gpus.served(8).page();
    let first = powers(&page)[0];
    for label in [
        "kind=\"gpu\",pci=\"0000:18:00.0\",uuid=\"GPU-00000000-",
        "vendor_id=\"10de\",device_id=\"2330\",driver=\"nvidia\",socket=\"0\",scope=\"gpu\",averaging=\"mean\"} 300.000000",
    ] {
        assert!(first.contains(label), "{first}");
    }
    assert_eq!(samples(&page, "accelerator_instant_power_watts").len(), 8);
    let memory = samples(&page, "accelerator_component_power_watts");
    assert!(
        memory.len() == 8 && memory[0].ends_with("component=\"memory\"} 60.000000"),
        "{memory:?}"
    );
    assert!(samples(&page, "accelerator_suspended").iter().all(|line| line.ends_with(" 0")));
    assert!(samples(&page, "gpu_module_power_watts").is_empty(), "it is no superchip");
}

/// Nothing but `nvmlDeviceGetPowerUsage`: the fields of the others are not there.
#[test]
fn a_gpu_without_fields_is_asked_in_the_older_way() {
    let pci = "0000:18:00.0";
    let mut device = Device::new(&uuid(0), pci).gpu_mw(70_000.0);
    let fails = Behaviour::fails(NvmlReturn::NotSupported);
    device.calls.insert("nvmlDeviceGetFieldValues".to_owned(), fails);
    let gpus = Gpus::new(CONTROLLER_3D, vec![device]);
    let page = gpus.served(1).page();
    let power = powers(&page)[0];
    assert!(power.contains("averaging=\"unknown\"") && power.ends_with(" 70.000000"), "{power}");
    assert!(samples(&page, "accelerator_instant_power_watts").is_empty());
}

/// N19: one that falls off the bus is there, and is lost; the others go on. N20: and they keep their names.
#[test]
fn a_gpu_that_is_lost_is_told() {
    let mut gpus = eight();
    let served = gpus.served(8);
    gpus.nvml.change(|script| script.devices[2].lost = true).unwrap();
    eventually("it is lost", || {
        let page = served.page();
        let state =
            "power_sensor_state{source=\"nvml\",sensor=\"0000:38:00.0/power\",state=\"lost\"} 1";
        page.lines().any(|line| line == state) && powers(&page).len() == 7
    });
    let page = served.page();
    assert!(powers(&page)[2].contains(&uuid(3)), "{}", powers(&page)[2]);
    assert_eq!(samples(&page, "accelerator_info").len(), 8, "sysfs still shows it");
}

/// N10: a laptop's GPU sleeps, and the library that would wake it is not even loaded.
#[test]
fn a_gpu_that_sleeps_is_not_woken_by_its_library() {
    let gpus = laptop();
    let served = Served::start(&gpus.config());
    for _ in 0..20 {
        let page = served.page();
        assert!(powers(&page).is_empty(), "{page}");
        assert!(samples(&page, "accelerator_suspended")[0].ends_with(" 1"), "{page}");
        let reason =
            "power_withheld{source=\"nvml\",sensor=\"0000:18:00.0/power\",reason=\"asleep\"} 1";
        assert!(page.lines().any(|line| line == reason), "{page}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(gpus.nvml.calls().unwrap().is_empty(), "it was touched");
    // Somebody who wants to know whatever it costs.
    let woken = Served::start(&Config { allow_wake: true, ..gpus.config() });
    eventually("it is measured", || powers(&woken.page()).len() == 1);
}

/// The counter is believed where it counts what the power adds up to; one of another scope or unit is not.
#[test]
fn the_counter_of_a_gpu_is_compared_with_its_power() {
    // Ten times a second, for two minutes.
    let counting = |watts: f64| {
        let steps = (0..1_200_u32).map(|tenth| f64::from(tenth) / 10.0);
        Answer::Number(Series::steps(steps.map(|second| (second, 1e9 + watts * 1e3 * second))))
    };
    let devices = [(0, 300.0), (1, 750.0)].map(|(place, watts)| {
        h100(place, 300_000.0).with(field::TOTAL_ENERGY, scope::GPU, counting(watts))
    });
    let gpus = Gpus::new(CONTROLLER_3D, devices.to_vec());
    let served = gpus.served(2);
    let is = |page: &str, pci: &str, counter: &str| {
        let marks = [format!("pci=\"{pci}\""), format!("counter=\"{counter}\"")];
        let energy = samples(page, "accelerator_energy_joules_total");
        energy.iter().any(|line| marks.iter().all(|mark| line.contains(mark)))
    };
    eventually("one is believed and the other is not", || {
        let page = served.page();
        is(&page, "0000:18:00.0", "hardware") && is(&page, "0000:28:00.0", "integrated")
    });
    let reason =
        "power_withheld{source=\"nvml\",sensor=\"0000:28:00.0/energy\",reason=\"disagree\"} 1";
    assert!(served.page().lines().any(|line| line == reason));
}

/// A GPU that is handed to a virtual machine sleeps for its own reasons.
#[test]
fn a_gpu_of_a_virtual_machine_that_sleeps_holds_up_no_other() {
    let gpus = Gpus::new(CONTROLLER_3D, vec![h100(0, 70_000.0)]);
    let ids = ["0x10de", "0x2330", CONTROLLER_3D];
    let passed = gpus.tree.pci(Pci { at: "0000:f8:00.0", ids, driver: "vfio-pci", node: "" });
    gpus.tree.runtime_status(&passed, "suspended");
    let page = gpus.served(1).page();
    assert!(powers(&page)[0].contains("pci=\"0000:18:00.0\""), "{page}");
}
