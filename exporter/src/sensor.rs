//! One sensor: what it measures, where it stands, and how the text of its file becomes a number.
//!
//! The parsing here is pure; [`Sensor::measure`] alone reads, through [`Sysfs`].

use std::path::PathBuf;

use wattscribe_rules::{Averaging, RailKind};

use crate::failure::Failure;
use crate::sysfs::Sysfs;

/// A sensor that discovery found.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Who reads it.
    pub source: Source,
    /// Identity that survives a reboot and a renumbering: `ACPI000D:00/power1`, `intel-rapl:0`, `cpu0/1130`,
    /// a GPU's UUID.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// ACPI power_meter channels through hwmon.
    Acpi,
    /// CPU entities of NVIDIA DCGM.
    Dcgm,
    /// Powercap zones (Intel and AMD RAPL).
    Rapl,
    /// GPUs through NVIDIA NVML: the power of modules. Beside the ladder, which is about CPUs.
    Nvml,
}

impl Source {
    /// All sources: those of the ladder in its order, then the others.
    pub const ALL: [Source; 4] = [Source::Acpi, Source::Dcgm, Source::Rapl, Source::Nvml];

    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acpi => "acpi",
            Self::Dcgm => "dcgm",
            Self::Rapl => "rapl",
            Self::Nvml => "nvml",
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
}

impl Kind {
    /// The `type` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rail(rail) => rail.as_str(),
            Self::Zone(zone) => zone.as_str(),
            Self::CpuField(field) => field.as_str(),
            Self::Module => "module",
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
        matches!(self, Self::Zone(Zone::Core | Zone::Uncore | Zone::Dram | Zone::Other))
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
    },
    /// A counter of energy.
    Energy {
        /// The value, in microjoules.
        value: PathBuf,
        /// Where the counter wraps, in microjoules.
        range_uj: Option<u64>,
    },
    /// A CPU entity of DCGM.
    Entity(u32),
    /// A GPU of NVML.
    Gpu(Gpu),
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
    /// What its place among the sensors of its source goes by: numbers as numbers, then the channel.
    pub fn rank(&self) -> (u32, &str) {
        let number = match &self.meter {
            Meter::Power { .. } | Meter::Energy { .. } => 0,
            Meter::Entity(entity) => *entity,
            Meter::Gpu(gpu) => gpu.index,
        };
        (number, &self.channel)
    }

    /// Reads the sensor's file once. May block for as long as the firmware does.
    pub fn measure(&self, sysfs: &Sysfs) -> Result<Measure, Failure> {
        match &self.meter {
            Meter::Power { value, enable, limit_w, .. } => {
                let zero_is_true = self.kind.can_read_zero();
                let watts =
                    sysfs.text(value).and_then(|text| parse_power(&text, zero_is_true, *limit_w));
                watts.map(Measure::Watts).map_err(|failure| {
                    // Whatever a meter that is switched off answers, this is why.
                    let is_off = sysfs.text_if_any(enable).is_some_and(|text| text == "0");
                    if is_off { Failure::SwitchedOff } else { failure }
                })
            }
            Meter::Energy { value, .. } => {
                parse_energy(&sysfs.text(value)?).map(Measure::MicroJoules)
            }
            // There is no file: the thread that owns the library reads it.
            Meter::Entity(_) | Meter::Gpu(_) => Err(Failure::NotSupported),
        }
    }

    /// What one value is an average over, asked of the driver where it can tell. May block like a read:
    /// for an ACPI meter the answer is a call into the firmware (kernel: drivers/hwmon/acpi_power_meter.c).
    pub fn ask_averaging(&self, sysfs: &Sysfs) -> Averaging {
        match &self.meter {
            Meter::Power { interval: Some(interval), .. } => {
                parse_average_interval(sysfs.text_if_any(interval).as_deref())
            }
            _ => self.averaging,
        }
    }
}

/// The longest averaging interval that is believed: an hour. Firmware prints nonsense here, too.
const AVERAGE_INTERVAL_MS_MAX: u64 = 3_600_000;

/// Milliseconds, when they can be believed. A driver prints `unknown`, or leaves the file out.
fn parse_average_interval(text: Option<&str>) -> Averaging {
    match text.and_then(|text| text.parse::<u64>().ok()) {
        Some(ms) if (1..=AVERAGE_INTERVAL_MS_MAX).contains(&ms) => {
            Averaging::Mean { window_s: ms as f64 / 1e3 }
        }
        _ => Averaging::Unknown,
    }
}

/// What ACPI's "unknown" (0xFFFFFFFF mW) becomes in hwmon's microwatts on kernels that pass it on.
const UNKNOWN_MICROWATTS: f64 = 4_294_967_295_000.0;

/// A meter averages over less than its cap does, so a true reading may pass the cap for a moment.
/// Twice the largest cap is no longer a moment.
const LIMIT_FACTOR: f64 = 2.0;

/// Microwatts as hwmon prints them, in watts.
fn parse_power(text: &str, zero_is_true: bool, limit_w: Option<f64>) -> Result<f64, Failure> {
    let microwatts: f64 = text.parse().map_err(|_| Failure::Malformed)?;
    if !microwatts.is_finite() {
        return Err(Failure::Malformed);
    }
    if microwatts >= UNKNOWN_MICROWATTS {
        return Err(Failure::SensorUnknown);
    }
    if microwatts < 0.0 {
        return Err(Failure::Negative);
    }
    if microwatts == 0.0 && !zero_is_true {
        return Err(Failure::Zero);
    }
    let watts = microwatts / 1e6;
    if limit_w.is_some_and(|limit| watts > limit * LIMIT_FACTOR) {
        return Err(Failure::OverLimit);
    }
    Ok(watts)
}

/// Microjoules as powercap prints them.
fn parse_energy(text: &str) -> Result<u64, Failure> {
    match text.parse() {
        Ok(microjoules) => Ok(microjoules),
        Err(_) if text.starts_with('-') => Err(Failure::Negative),
        Err(_) => Err(Failure::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_text_becomes_watts_or_a_reason() {
        let cases: [(&str, Result<f64, Failure>); 13] = [
            ("150000000", Ok(150.0)),
            ("98029000", Ok(98.029)),
            ("1", Ok(0.000001)),
            ("0", Err(Failure::Zero)),
            ("", Err(Failure::Malformed)),
            ("N/A", Err(Failure::Malformed)),
            ("NaN", Err(Failure::Malformed)),
            ("inf", Err(Failure::Malformed)),
            ("unknown", Err(Failure::Malformed)),
            ("-5000000", Err(Failure::Negative)),
            ("4294967295000", Err(Failure::SensorUnknown)),
            ("1000000000", Ok(1000.0)),
            ("1000000001", Err(Failure::OverLimit)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_power(text, false, Some(500.0)), expected, "{text:?}");
        }
        assert_eq!(parse_power("0", true, None), Ok(0.0), "a zone that can be idle");
    }

    #[test]
    fn an_averaging_interval_is_believed_only_within_reason() {
        let mean = |window_s| Averaging::Mean { window_s };
        let cases = [
            (Some("50"), mean(0.05)),
            (Some("1000"), mean(1.0)),
            (Some("0"), Averaging::Unknown),
            (Some("unknown"), Averaging::Unknown),
            (Some("4000000000"), Averaging::Unknown),
            (None, Averaging::Unknown),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_average_interval(text), expected, "{text:?}");
        }
    }

    #[test]
    fn energy_text_becomes_microjoules_or_a_reason() {
        let cases = [
            ("262143328000", Ok(262_143_328_000)),
            ("0", Ok(0)),
            ("", Err(Failure::Malformed)),
            ("-1", Err(Failure::Negative)),
            ("1.5", Err(Failure::Malformed)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_energy(text), expected, "{text:?}");
        }
    }
}
