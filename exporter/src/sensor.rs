//! One sensor: what it measures, where it stands, and one read of it.
//!
//! A path is no identity: zones and meters are numbered anew when a driver is loaded anew, and another one
//! may stand at the same path. A read counts only between two looks at what says that it still is the sensor
//! that was found; else it is [`Failure::Gone`].

use std::path::PathBuf;

use wattscribe_rules::{Averaging, RailKind};

use crate::accelerator::quantity::Quantity;
use crate::attribute::{AveragingTexts, parse_energy, parse_power};
use crate::failure::Failure;
use crate::sysfs::Sysfs;

/// A sensor that discovery found.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Who reads it.
    pub source: Source,
    /// Identity that survives a reboot and a renumbering: `ACPI000D:00/power1`, `cpu0/1130`, a GPU's UUID. A
    /// powercap zone has no other than its place, `intel-rapl:0`, where another may stand tomorrow: see
    /// [`Sensor::is_same`].
    pub id: String,
    /// Where it stands today: `hwmon3/power1`, `intel-rapl:0`, `cpu0/1130`, a GPU's PCI address.
    pub channel: String,
    /// What it measures.
    pub kind: Kind,
    /// The CPU socket it belongs to, when its label says so.
    pub socket: Option<u32>,
    /// The firmware's or the driver's own name for it.
    pub label: String,
    /// What one value is an average over, as far as the kind of file tells; see [`Sensor::ask_averaging`].
    pub averaging: Averaging,
    /// What to read.
    pub meter: Meter,
}

/// A family of sensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// ACPI power_meter channels through hwmon.
    Acpi,
    /// CPU entities of NVIDIA DCGM.
    Dcgm,
    /// Powercap zones (Intel and AMD RAPL).
    Rapl,
    /// GPUs through NVIDIA NVML. Beside the ladder, which is about CPUs, like all that follow.
    Nvml,
    /// AMD's GPUs and APUs, through files of their driver.
    Amdgpu,
    /// Intel's GPUs, through files of their older driver.
    I915,
    /// Intel's GPUs, through files of their newer driver.
    Xe,
    /// AMD's NPUs.
    Amdxdna,
    /// Intel's NPUs.
    IntelVpu,
    /// Accelerators of any other driver, or of none.
    OtherDriver,
}

impl Source {
    /// All sources: those of the ladder in its order, then those of accelerators.
    pub const ALL: [Source; 10] = [
        Source::Acpi,
        Source::Dcgm,
        Source::Rapl,
        Source::Nvml,
        Source::Amdgpu,
        Source::I915,
        Source::Xe,
        Source::Amdxdna,
        Source::IntelVpu,
        Source::OtherDriver,
    ];

    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acpi => "acpi",
            Self::Dcgm => "dcgm",
            Self::Rapl => "rapl",
            Self::Nvml => "nvml",
            Self::Amdgpu => "amdgpu",
            Self::I915 => "i915",
            Self::Xe => "xe",
            Self::Amdxdna => "amdxdna",
            Self::IntelVpu => "intel_vpu",
            Self::OtherDriver => "other",
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acpi => "ACPI",
            Self::Dcgm => "DCGM",
            Self::Rapl => "RAPL",
            Self::Nvml => "NVML",
            other => other.as_str(),
        }
    }
}

/// What a sensor measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A rail of a Grace socket.
    Rail(RailKind),
    /// A powercap zone.
    Zone(Zone),
    /// A DCGM field of a CPU.
    CpuField(CpuField),
    /// A whole superchip module, as one of its GPUs reports it.
    Module,
    /// An accelerator.
    Accelerator(Quantity),
}

impl Kind {
    /// The `type` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rail(rail) => rail.as_str(),
            Self::Zone(zone) => zone.as_str(),
            Self::CpuField(field) => field.as_str(),
            Self::Module => "module",
            Self::Accelerator(quantity) => quantity.as_str(),
        }
    }

    /// Whether this is what its source has for a whole socket, which the ladder and readiness ask for.
    /// DCGM has no more than the rail of the cores.
    pub fn is_socket_power(self) -> bool {
        matches!(
            self,
            Self::Rail(RailKind::Total)
                | Self::Zone(Zone::Package)
                | Self::CpuField(CpuField::CpuRail)
        )
    }

    /// Whether a zero can be true. A powered socket, and any firmware rail, never draws nothing;
    /// an unused uncore or a DRAM zone can.
    pub fn can_read_zero(self) -> bool {
        matches!(
            self,
            Self::Zone(Zone::Core | Zone::Uncore | Zone::Dram | Zone::Other)
                | Self::Accelerator(Quantity::Component(_) | Quantity::Energy)
        )
    }
}

/// A power field of a CPU entity (DCGM: dcgm_fields.h). Ids stay when names change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuField {
    /// 1130: the rail of the cores.
    CpuRail,
    /// 1132: SysIO, the rest of the die.
    SysIo,
}

impl CpuField {
    /// The field's number.
    pub fn id(self) -> u16 {
        match self {
            Self::CpuRail => 1130,
            Self::SysIo => 1132,
        }
    }

    /// The `type` label: the words that the same rails have where firmware shows them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuRail => "cpu_rail",
            Self::SysIo => "soc",
        }
    }
}

/// What a powercap zone covers (kernel: drivers/powercap/intel_rapl_common.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// A CPU package, or one die of it. Does not contain its DRAM.
    Package,
    /// The same package once more, through the memory-mapped interface: never added to it.
    PackageMmio,
    /// The cores, inside the package.
    Core,
    /// The integrated graphics and the rest of the uncore, inside the package.
    Uncore,
    /// The memory of a package, outside the package.
    Dram,
    /// The platform, around everything else.
    Psys,
    /// A zone of another name.
    Other,
}

impl Zone {
    /// The `type` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::PackageMmio => "package_mmio",
            Self::Core => "core",
            Self::Uncore => "uncore",
            Self::Dram => "dram",
            Self::Psys => "psys",
            Self::Other => "other",
        }
    }
}

/// What a sensor is read from.
#[derive(Debug, Clone, PartialEq)]
pub enum Meter {
    /// A gauge of power.
    Power {
        /// The value, in microwatts.
        value: PathBuf,
        /// `power*_enable`, which explains a missing value; it may not exist.
        enable: PathBuf,
        /// `power*_average_interval`, for a value that is an average; it may not exist.
        interval: Option<PathBuf>,
        /// The largest power that the meter declares possible.
        limit_w: Option<f64>,
        /// What says that it is this meter.
        plates: Vec<Plate>,
    },
    /// A counter of energy.
    Energy {
        /// The value, in microjoules.
        value: PathBuf,
        /// Where the counter wraps, in microjoules.
        range_uj: Option<u64>,
        /// What says that it is this zone: its own name, and those of the zones around it.
        plates: Vec<Plate>,
    },
    /// A CPU entity of DCGM.
    Entity(u32),
    /// A GPU of NVML.
    Gpu(Gpu),
    /// An accelerator whose own thread reads it: a gauge of power, or a counter of energy.
    Device {
        /// Whether it counts.
        counts: bool,
    },
}

impl Meter {
    fn plates(&self) -> &[Plate] {
        match self {
            Self::Power { plates, .. } | Self::Energy { plates, .. } => plates,
            Self::Entity(_) | Self::Gpu(_) | Self::Device { .. } => &[],
        }
    }

    pub(crate) fn range_uj(&self) -> Option<u64> {
        match self {
            Self::Energy { range_uj, .. } => *range_uj,
            _ => None,
        }
    }
}

/// A file that says what a sensor is, and what it said when the sensor was found. Kernels keep these texts in
/// memory: looking at one costs no call of firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plate {
    file: PathBuf,
    text: Option<String>,
}

impl Plate {
    /// Notes what a file says now. A file that is missing, unreadable or empty says nothing.
    pub fn read(sysfs: &Sysfs, file: PathBuf) -> Self {
        let text = sysfs.text_if_any(&file);
        Self { file, text }
    }

    /// What it said.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    fn is_unchanged(&self, sysfs: &Sysfs) -> bool {
        sysfs.text_if_any(&self.file) == self.text
    }
}

/// A GPU as NVML shows it today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its number. It moves when GPUs come and go, and identifies nothing.
    pub index: u32,
    /// Its UUID; empty where it does not tell.
    pub uuid: String,
    /// Its PCI address as sysfs writes it, `0008:01:00.0`.
    pub pci: String,
    /// Whether it is partitioned (MIG), where it can be. The power of its instances is its own.
    pub mig: Option<bool>,
}

/// What one read gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// Power in watts.
    Watts(f64),
    /// A counter's value in microjoules.
    MicroJoules(u64),
}

impl Sensor {
    /// Whether what is read of it is a count of energy, and its power a difference.
    pub fn counts(&self) -> bool {
        match self.meter {
            Meter::Energy { .. } => true,
            Meter::Device { counts } => counts,
            Meter::Gpu(_) => self.kind == Kind::Accelerator(Quantity::Energy),
            Meter::Power { .. } | Meter::Entity(_) => false,
        }
    }

    /// What its place among the sensors of its source goes by: numbers as numbers, then the channel.
    pub fn rank(&self) -> (u32, &str) {
        let number = match &self.meter {
            Meter::Power { .. } | Meter::Energy { .. } | Meter::Device { .. } => 0,
            Meter::Entity(entity) => *entity,
            Meter::Gpu(gpu) => gpu.index,
        };
        (number, &self.channel)
    }

    /// Whether it is the same thing as another sensor, wherever the two stand. Only then does a count go on.
    pub fn is_same(&self, other: &Self) -> bool {
        let what = |sensor: &Self| (sensor.kind, sensor.socket, sensor.meter.range_uj());
        self.id == other.id && self.label == other.label && what(self) == what(other)
    }

    /// Reads the sensor's files once. May block for as long as the firmware does.
    ///
    /// # Errors
    /// [`Failure::Gone`] also where another sensor stands at the path by now, before the read or after it.
    pub fn measure(&self, sysfs: &Sysfs) -> Result<Measure, Failure> {
        let is_there = || self.meter.plates().iter().all(|plate| plate.is_unchanged(sysfs));
        if !is_there() {
            return Err(Failure::Gone);
        }
        let measured = self.read(sysfs);
        if is_there() { measured } else { Err(Failure::Gone) }
    }

    fn read(&self, sysfs: &Sysfs) -> Result<Measure, Failure> {
        match &self.meter {
            Meter::Power { value, enable, limit_w, .. } => {
                let text = sysfs.text(value);
                // Whatever a meter that is switched off answers: it measures nothing, and a number would be
                // that of earlier.
                if sysfs.text_if_any(enable).is_some_and(|text| text == "0") {
                    return Err(Failure::SwitchedOff);
                }
                parse_power(&text?, self.kind.can_read_zero(), *limit_w).map(Measure::Watts)
            }
            Meter::Energy { value, .. } => {
                parse_energy(&sysfs.text(value)?).map(Measure::MicroJoules)
            }
            // There is no file of its own: the thread that owns the library or the device reads it.
            Meter::Entity(_) | Meter::Gpu(_) | Meter::Device { .. } => Err(Failure::NotSupported),
        }
    }

    /// What one value is an average over, asked of the driver where it can tell. May block like a read:
    /// for an ACPI meter the answer is a call into the firmware (kernel: drivers/hwmon/acpi_power_meter.c).
    pub fn ask_averaging(&self, sysfs: &Sysfs) -> Averaging {
        let Meter::Power { interval: Some(interval), .. } = &self.meter else {
            return self.averaging;
        };
        let text = |suffix: &str| {
            let mut file = interval.clone().into_os_string();
            file.push(suffix);
            sysfs.text_if_any(file.as_ref())
        };
        AveragingTexts { interval_ms: text(""), min_ms: text("_min"), max_ms: text("_max") }.parse()
    }
}
