//! A superchip node in a folder: meters of its sockets, PCI devices of its GPUs, and stand-ins for the
//! libraries of NVIDIA.

use std::path::PathBuf;

use tempfile::TempDir;
use wattscribe_exporter::args::Config;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_exporter::sources::dcgm::Access;
use wattscribe_standins::{Answer, DcgmScript, Device, Entity, NvmlScript, Stage, field, scope};

use crate::fixture::{Served, Tree, config, eventually, samples};

/// Where the GPUs of a node with two modules stand.
pub(crate) const PCI: [&str; 4] = ["0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"];

/// The UUID of the GPU at this place.
pub(crate) fn uuid(place: usize) -> String {
    format!("GPU-{place:08}-0000-0000-0000-000000000000")
}

/// A node with GPUs.
#[derive(Debug)]
pub(crate) struct Superchip {
    pub(crate) tree: Tree,
    pub(crate) nvml: Stage<NvmlScript>,
    _folder: TempDir,
}

impl Superchip {
    /// Sockets with these totals in microwatts as text, and GPUs each with its NUMA node and the milliwatts
    /// of its module.
    pub(crate) fn new(totals: &[&str], gpus: &[(i32, f64)]) -> Self {
        let labels: Vec<String> =
            (0..totals.len()).map(|socket| format!("Grace Power Socket {socket}")).collect();
        let meters: Vec<(&str, &str)> =
            labels.iter().map(String::as_str).zip(totals.iter().copied()).collect();
        let tree = Tree::meters(&meters);
        let mut devices = Vec::new();
        for (place, (numa_node, milliwatts)) in gpus.iter().enumerate() {
            tree.write(
                &format!("bus/pci/devices/{}/numa_node", PCI[place]),
                format!("{numa_node}\n"),
            );
            devices.push(Device::new(&uuid(place), PCI[place]).module_mw(*milliwatts));
        }
        let folder = TempDir::new().unwrap();
        let nvml = Stage::new(folder.path(), NvmlScript::new(devices)).unwrap();
        Self { tree, nvml, _folder: folder }
    }

    /// Two sockets with two GPUs each.
    pub(crate) fn gb200(milliwatts: [f64; 4]) -> Self {
        let [a, b, c, d] = milliwatts;
        Self::new(&["98029000", "103500000"], &[(0, a), (0, b), (1, c), (1, d)])
    }

    /// How to run over it.
    pub(crate) fn config(&self) -> Config {
        let nvml = vec![self.nvml.library().to_owned()];
        Config { nvml, ..config(self.tree.sysfs(), SourceChoice::Auto) }
    }

    /// An exporter over it, once it has read this many GPUs.
    pub(crate) fn served(&self, gpus: usize) -> Served {
        let served = Served::start(&self.config());
        eventually("the GPUs are read", || module_lines(&served.page()).len() == gpus);
        served
    }

    /// What the module of a GPU draws from now on, in milliwatts.
    pub(crate) fn set_mw(&mut self, place: usize, milliwatts: f64) {
        self.answer(place, Answer::Number(milliwatts.into()));
    }

    /// What a GPU answers from now on when it is asked for its module.
    pub(crate) fn answer(&mut self, place: usize, answer: Answer) {
        let set = |script: &mut NvmlScript| {
            let device = script.device_mut(PCI[place]).unwrap();
            device.set(field::POWER_AVERAGE, scope::MODULE, answer);
        };
        self.nvml.change(set).unwrap();
    }
}

/// The lines of single GPUs.
pub(crate) fn module_lines(page: &str) -> Vec<String> {
    samples(page, "gpu_module_power_watts").into_iter().map(str::to_owned).collect()
}

/// A DCGM of CPUs, each with its fields 1130 and 1132 in watts.
#[derive(Debug)]
pub(crate) struct Engines {
    pub(crate) dcgm: Stage<DcgmScript>,
    _folder: TempDir,
}

impl Engines {
    pub(crate) fn new(script: DcgmScript) -> Self {
        let folder = TempDir::new().unwrap();
        Self { dcgm: Stage::new(folder.path(), script).unwrap(), _folder: folder }
    }

    pub(crate) fn of(cpus: &[(f64, f64)]) -> Self {
        let entity = |(id, (rail, sys_io)): (usize, &(f64, f64))| {
            Entity::new(u32::try_from(id).unwrap()).watts(1130, *rail).watts(1132, *sys_io)
        };
        Self::new(DcgmScript::new(cpus.iter().enumerate().map(entity)))
    }

    pub(crate) fn libraries(&self) -> Vec<PathBuf> {
        vec![self.dcgm.library().to_owned()]
    }

    /// How to run over a tree and this.
    pub(crate) fn config(&self, tree: &Tree, source: SourceChoice) -> Config {
        let dcgm = Access::new(self.libraries(), "127.0.0.1".to_owned());
        Config { dcgm, ..config(tree.sysfs(), source) }
    }
}
