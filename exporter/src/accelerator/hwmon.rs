//! Where a driver shows the power or the energy of its device among the kernel's sensors.

use std::path::{Path, PathBuf};

use wattscribe_rules::Averaging;

use super::device::Device;
use super::gpu_metrics::GpuMetrics;
use super::scope::Scope;
use crate::sensor::Source;
use crate::sysfs::Sysfs;

/// A file of a device, and what one value of it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// The file.
    pub file: PathBuf,
    /// What it is called: `hwmon3/power1_average`.
    pub name: String,
    /// What the driver calls it: `PPT`, `card`.
    pub label: String,
}

impl Channel {
    /// What one value is an average over. The time of `power*_average` is the driver's, which does not tell it
    /// (kernel: Documentation/hwmon/sysfs-interface.rst).
    pub fn averaging(&self) -> Averaging {
        if self.name.ends_with("_average") { Averaging::Unknown } else { Averaging::Instant }
    }
}

/// What a device's directory of sensors has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Channels {
    /// Gauges of its power, the one that is an average first.
    pub power: Vec<Channel>,
    /// Counters of its energy, the widest scope first.
    pub energy: Vec<(Scope, Channel)>,
    /// AMD's table of parts.
    pub table: Option<Table>,
}

/// AMD's table of parts, as far as it tells what will be in it. Of a device that was asleep nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The file.
    pub file: PathBuf,
    /// Whether it is of a CPU and a GPU in one package, whose parts it tells apart.
    pub is_apu: bool,
    /// Whether it counts energy in a unit that it states.
    pub counts: bool,
}

impl Channels {
    /// What there is of a device. Of one that sleeps no value is read.
    pub fn of(device: &Device, sysfs: &Sysfs) -> Self {
        let hwmon = device.hwmon(sysfs);
        let names = hwmon.as_deref().map(|dir| sysfs.list(dir).unwrap_or_default());
        let (hwmon, names) = (hwmon.unwrap_or_default(), names.unwrap_or_default());
        let channel = |name: &str| {
            names.iter().any(|found| found == name).then(|| channel(sysfs, &hwmon, name))
        };
        match device.source() {
            Source::Amdgpu => Self {
                power: ["power1_average", "power1_input"].into_iter().filter_map(channel).collect(),
                energy: Vec::new(),
                table: table(device, sysfs),
            },
            Source::I915 | Source::Xe => {
                let found = ["energy1_input", "energy2_input"].into_iter().filter_map(channel);
                let mut energy: Vec<_> = found.map(|channel| (scope(&channel), channel)).collect();
                energy.sort_by_key(|(scope, _)| *scope);
                Self { energy, ..Self::default() }
            }
            // Any driver that shows the power of its card as the kernel's sensors do.
            Source::OtherDriver => Self {
                power: ["power1_average", "power1_input"].into_iter().filter_map(channel).collect(),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

fn table(device: &Device, sysfs: &Sysfs) -> Option<Table> {
    let file = device.directory(sysfs).join("gpu_metrics");
    sysfs.canonical(&file)?;
    let bytes = if device.is_asleep(sysfs) { None } else { sysfs.read(&file).ok() };
    let found = bytes.and_then(|bytes| GpuMetrics::parse(&bytes).ok());
    Some(Table {
        file,
        is_apu: found.is_some_and(|table| table.is_apu),
        counts: found.is_some_and(|table| table.energy_uj.is_some()),
    })
}

fn channel(sysfs: &Sysfs, hwmon: &Path, name: &str) -> Channel {
    let stem = name.rsplit_once('_').map_or(name, |(stem, _)| stem);
    let label = sysfs.text_if_any(&hwmon.join(format!("{stem}_label")));
    let directory = hwmon.file_name().unwrap_or_default().to_string_lossy();
    Channel {
        file: hwmon.join(name),
        name: format!("{directory}/{name}"),
        label: label.unwrap_or_default(),
    }
}

/// What a counter of Intel's covers: `xe` says it in the label, and the only one of `i915` is the card's
/// (kernel: Documentation/ABI/testing/sysfs-driver-intel-xe-hwmon, sysfs-driver-intel-i915-hwmon).
fn scope(channel: &Channel) -> Scope {
    match channel.label.as_str() {
        "pkg" => Scope::Package,
        "" if channel.name.ends_with("energy2_input") => Scope::Package,
        _ => Scope::Card,
    }
}
