//! What goes wrong in a round of the soak, when, and by what on the page it is seen to have gone wrong.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use wattscribe_simulator::{Fault, Machine, Tree, Waveform};
use wattscribe_standins::{
    Behaviour, Block, DcgmReturn, DcgmScript, Device, Entity, NvmlReturn, NvmlScript, Stage,
};

/// How long a round is, in seconds. Every fault is over by then.
pub(crate) const ROUND_S: f64 = 220.0;

/// Where the four GPUs of a GB200 node with two modules stand, and the NUMA node of each.
const GPUS: [(&str, u32); 4] =
    [("0008:01:00.0", 0), ("0009:01:00.0", 0), ("0018:01:00.0", 1), ("0019:01:00.0", 1)];

/// The GPU that another one is put in the place of, and the other one.
const REPLACED: (usize, &str) = (2, "GPU-00000009-0000-0000-0000-000000000000");

/// A meter of a whole socket, and that of the other.
const TOTALS: [&str; 2] = ["ACPI000D:00/power1", "ACPI000D:03/power1"];

type Outcome = Result<(), Box<dyn Error>>;

/// A fault of a round.
pub(crate) struct Step {
    /// What it is.
    pub(crate) what: &'static str,
    /// When it begins, in seconds of the round.
    pub(crate) from_s: f64,
    /// When it is over.
    pub(crate) until_s: f64,
    /// What stands on the page at some time in between.
    pub(crate) sign: &'static str,
    begin: fn(&mut Stand) -> Outcome,
    end: fn(&mut Stand) -> Outcome,
}

/// Faults of GPUs and of files first, which go on side by side; then the meters die for so long that DCGM is chosen,
/// and DCGM for so long that the meters are.
pub(crate) const ROUND: [Step; 12] = [
    Step {
        what: "an NVML call that does not come back",
        from_s: 2.0,
        until_s: 7.0,
        sign: r#"reason="timeout""#,
        begin: |stand| {
            let blocked = Behaviour::blocks(Block::UntilChanged);
            stand.gpu(0, |gpu| {
                gpu.calls.insert("nvmlDeviceGetFieldValues".into(), blocked);
            })
        },
        end: |stand| stand.gpu(0, |gpu| gpu.calls.clear()),
    },
    Step {
        what: "a meter's file that is gone",
        from_s: 8.0,
        until_s: 14.0,
        sign: r#"{source="acpi",sensor="ACPI000D:00/power1",reason="gone"}"#,
        begin: |stand| stand.fail(TOTALS[0], Fault::Missing),
        end: |stand| stand.heal(TOTALS[0]),
    },
    Step {
        what: "a GPU that is lost",
        from_s: 10.0,
        until_s: 16.0,
        sign: r#"sensor="GPU-00000001-0000-0000-0000-000000000000",reason="gone""#,
        begin: |stand| stand.gpu(1, |gpu| gpu.lost = true),
        end: |stand| stand.gpu(1, |gpu| gpu.lost = false),
    },
    Step {
        what: "a meter's file that cannot be read",
        from_s: 18.0,
        until_s: 22.0,
        sign: r#"{source="acpi",sensor="ACPI000D:00/power1",reason="io"}"#,
        begin: |stand| stand.fail(TOTALS[0], Fault::ReadError),
        end: |stand| stand.heal(TOTALS[0]),
    },
    Step {
        what: "a driver that is loaded anew",
        from_s: 19.0,
        until_s: 23.0,
        sign: r#"{source="nvml",sensor="library",reason="disconnected"}"#,
        begin: |stand| {
            stand.driver(|script| script.driver.error = Some(NvmlReturn::DriverNotLoaded))
        },
        end: |stand| {
            stand.driver(|script| {
                script.driver.error = None;
                script.driver.load += 1;
            })
        },
    },
    Step {
        what: "a meter that hangs",
        from_s: 26.0,
        until_s: 40.0,
        sign: r#"{source="acpi",sensor="ACPI000D:00/power1",reason="timeout"}"#,
        begin: |stand| stand.fail(TOTALS[0], Fault::Hung),
        end: |stand| stand.heal(TOTALS[0]),
    },
    Step {
        what: "another GPU in the place of one",
        from_s: 28.0,
        until_s: 42.0,
        sign: r#"uuid="GPU-00000009-0000-0000-0000-000000000000""#,
        begin: |stand| stand.gpu(REPLACED.0, |gpu| gpu.uuid = REPLACED.1.to_owned()),
        end: |stand| stand.gpu(REPLACED.0, |gpu| gpu.uuid = uuid(REPLACED.0)),
    },
    Step {
        what: "GPUs of a module that disagree",
        from_s: 43.0,
        until_s: 46.0,
        sign: r#"{source="nvml",sensor="socket0",reason="disagree"}"#,
        begin: |stand| stand.gpu(0, |gpu| *gpu = gpu.clone().module_mw(650_000.0)),
        end: |stand| stand.gpu(0, |gpu| *gpu = gpu.clone().module_mw(500_000.0)),
    },
    Step {
        what: "an NVML library that is gone",
        from_s: 47.0,
        until_s: 54.0,
        sign: r#"{source="nvml",sensor="library",reason="disconnected"}"#,
        begin: |stand| {
            hide(stand.nvml.library())?;
            // What is loaded already is needed no more once the driver has been loaded anew.
            stand.driver(|script| script.driver.load += 1)
        },
        end: |stand| show(stand.nvml.library()),
    },
    Step {
        what: "meters that are dead until DCGM is chosen",
        from_s: 56.0,
        until_s: 122.0,
        sign: r#"rung="dcgm""#,
        begin: |stand| {
            TOTALS.into_iter().try_for_each(|total| stand.fail(total, Fault::Text("0\n".into())))
        },
        end: |stand| TOTALS.into_iter().try_for_each(|total| stand.heal(total)),
    },
    Step {
        what: "a DCGM engine that is started anew without its library",
        from_s: 128.0,
        until_s: 134.0,
        sign: r#"{source="dcgm",sensor="library",reason="disconnected"}"#,
        begin: |stand| {
            hide(stand.dcgm.library())?;
            stand.engine(DcgmScript::restart)
        },
        end: |stand| show(stand.dcgm.library()),
    },
    Step {
        what: "a DCGM engine that is away until the meters are chosen",
        from_s: 146.0,
        until_s: 212.0,
        sign: r#"rung="acpi""#,
        begin: |stand| {
            stand.engine(|script| {
                script.engine.running = false;
                script.embedded_error = Some(DcgmReturn::RequiresRoot);
            })
        },
        end: |stand| {
            stand.engine(|script| {
                script.embedded_error = None;
                script.restart();
            })
        },
    },
];

impl Step {
    pub(crate) fn begin(&self, stand: &mut Stand) -> Outcome {
        (self.begin)(stand)
    }

    pub(crate) fn end(&self, stand: &mut Stand) -> Outcome {
        (self.end)(stand)
    }
}

/// A GB200 node that does not exist: meters in a tree, and stand-ins for the libraries of NVIDIA.
pub(crate) struct Stand {
    pub(crate) tree: Tree,
    pub(crate) nvml: Stage<NvmlScript>,
    pub(crate) dcgm: Stage<DcgmScript>,
}

impl Stand {
    /// Puts it into a folder. The libraries log no calls: a log would grow with them.
    pub(crate) fn new(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let root = folder.join("sys");
        let waves = [120.0, 95.0].map(|watts| Waveform::Constant { watts });
        let tree = Tree::build(&Machine::grace("gb200", &waves), &root, 0.0)?;
        let mut devices = Vec::new();
        for (place, (pci, numa_node)) in GPUS.into_iter().enumerate() {
            let device = root.join("bus/pci/devices").join(pci);
            fs::create_dir_all(&device)?;
            fs::write(device.join("numa_node"), format!("{numa_node}\n"))?;
            devices.push(Device::new(&uuid(place), pci).module_mw(500_000.0));
        }
        let cpus = [(0, 58.0), (1, 46.0)];
        let cpus = cpus.map(|(id, rail_w)| Entity::new(id).watts(1130, rail_w).watts(1132, 6.0));
        let mut nvml = Stage::new(folder, NvmlScript::new(devices))?;
        nvml.change(|script| script.log = None)?;
        let mut dcgm = Stage::new(folder, DcgmScript::new(cpus))?;
        dcgm.change(|script| script.log = None)?;
        Ok(Self { tree, nvml, dcgm })
    }

    fn fail(&mut self, sensor: &str, fault: Fault) -> Outcome {
        Ok(self.tree.fail(sensor, fault, 0.0)?)
    }

    fn heal(&mut self, sensor: &str) -> Outcome {
        Ok(self.tree.heal(sensor, 0.0)?)
    }

    fn gpu(&mut self, place: usize, change: impl FnOnce(&mut Device)) -> Outcome {
        self.driver(|script| change(&mut script.devices[place]))
    }

    fn driver(&mut self, change: impl FnOnce(&mut NvmlScript)) -> Outcome {
        Ok(self.nvml.change(change)?)
    }

    fn engine(&mut self, change: impl FnOnce(&mut DcgmScript)) -> Outcome {
        Ok(self.dcgm.change(change)?)
    }
}

fn uuid(place: usize) -> String {
    format!("GPU-{place:08}-0000-0000-0000-000000000000")
}

/// Takes a library's file away.
fn hide(library: &Path) -> Outcome {
    Ok(fs::rename(library, hidden(library))?)
}

/// Puts it back.
fn show(library: &Path) -> Outcome {
    Ok(fs::rename(hidden(library), library)?)
}

fn hidden(library: &Path) -> PathBuf {
    library.with_extension("hidden")
}
