//! Where a driver shows the power or the energy of its device among the kernel's sensors.

use std::path::{Path, PathBuf};

use wattscribe_rules::Averaging;

use super::device::{self, Device};
use super::scope::Scope;
use crate::failure::Failure;
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
    pub table: Option<PathBuf>,
}

/// A device and its channels.
pub type Shape = (Device, Channels);

/// All devices, ordered by address. Of none of them any value is read: nothing here waits for a device.
///
/// # Errors
/// As [`device::discover`].
pub fn discover(sysfs: &Sysfs) -> Result<Vec<Shape>, Failure> {
    let devices = device::discover(sysfs)?.into_iter();
    devices.map(|device| Channels::of(&device, sysfs).map(|channels| (device, channels))).collect()
}

impl Channels {
    /// What there is of a device.
    ///
    /// # Errors
    /// A listing that failed.
    pub fn of(device: &Device, sysfs: &Sysfs) -> Result<Self, Failure> {
        let Some(hwmon) = device.hwmon(sysfs)? else {
            return Ok(Self { table: table(device, sysfs), ..Self::default() });
        };
        let names = device::listed(sysfs, &hwmon)?;
        let channel = |name: &str| {
            names.iter().any(|found| found == name).then(|| channel(sysfs, &hwmon, name))
        };
        let gauges = ["power1_average", "power1_input"].into_iter().filter_map(channel);
        Ok(match device.source() {
            Source::Amdgpu => {
                Self { power: gauges.collect(), table: table(device, sysfs), ..Self::default() }
            }
            Source::I915 | Source::Xe => {
                let found = ["energy1_input", "energy2_input"].into_iter().filter_map(channel);
                let mut energy: Vec<_> = found.map(|channel| (scope(&channel), channel)).collect();
                energy.sort_by_key(|(scope, _)| *scope);
                Self { energy, ..Self::default() }
            }
            // Any driver that shows the power of its card as the kernel's sensors do.
            Source::OtherDriver => Self { power: gauges.collect(), ..Self::default() },
            _ => Self::default(),
        })
    }
}

/// AMD's table, if there is one.
fn table(device: &Device, sysfs: &Sysfs) -> Option<PathBuf> {
    let file = device.directory(sysfs).join("gpu_metrics");
    (device.source() == Source::Amdgpu && sysfs.canonical(&file).is_some()).then_some(file)
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
