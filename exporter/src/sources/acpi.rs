//! ACPI power_meter channels, from the hwmon class.
//!
//! Reads `name`, `power*_oem_info`, `power*_label` and `power*_cap_max` of every hwmon device named
//! `power_meter` (kernel: Documentation/hwmon/acpi_power_meter.rst, Documentation/hwmon/sysfs-interface.rst),
//! and notes where `power*_average` (or `power*_input`), `power*_average_interval` and `power*_enable`
//! stand. Those are the worker's to read: they call the firmware, and discovery repeats.
//!
//! The attributes stand in `hwmonN/device/` on kernels before 6.15 and in `hwmonN/` since; both are looked
//! at, and one channel seen twice is one channel. `power_meter` is the meter's own name: a laptop battery
//! or a graphics card has another one, and is no server power.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wattscribe_rules::{Averaging, classify};

use crate::sensor::{Kind, Meter, Plate, Sensor, Source};
use crate::sysfs::Sysfs;

const DRIVER_NAME: &str = "power_meter";

/// All channels, ordered by where they stand.
pub fn discover(sysfs: &Sysfs) -> Result<Vec<Sensor>, String> {
    let root = sysfs.hwmon();
    let devices =
        sysfs.list(root).map_err(|error| format!("cannot list {}: {error}", root.display()))?;
    let mut found: BTreeMap<PathBuf, Sensor> = BTreeMap::new();
    for hwmon in devices.iter().filter(|name| name.starts_with("hwmon")) {
        for sensor in device_channels(sysfs, hwmon) {
            let Meter::Power { value, .. } = &sensor.meter else { continue };
            let file = sysfs.canonical(value).unwrap_or_else(|| value.clone());
            keep_better(&mut found, file, sensor);
        }
    }
    let mut sensors: Vec<Sensor> = found.into_values().collect();
    sensors.sort_by(|a, b| a.channel.cmp(&b.channel));
    make_ids_unique(&mut sensors);
    if sensors.is_empty() {
        return Err(format!("no power_meter channel under {}", root.display()));
    }
    Ok(sensors)
}

/// The distinct labels of some sensors, for a reason in the log.
pub fn labels(sensors: &[Sensor]) -> String {
    let mut labels: Vec<&str> = sensors.iter().map(|sensor| sensor.label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    labels.join(", ")
}

/// The channels of one hwmon device, from both places where attributes may stand.
fn device_channels(sysfs: &Sysfs, hwmon: &str) -> Vec<Sensor> {
    let class = sysfs.hwmon().join(hwmon);
    let places = [class.clone(), class.join("device")];
    let is_meter = places
        .iter()
        .any(|dir| sysfs.text_if_any(&dir.join("name")).is_some_and(|name| name == DRIVER_NAME));
    if !is_meter {
        return Vec::new();
    }
    // The ACPI device (ACPI000D:00) keeps its name when hwmon numbers move; hwmonN does not.
    let device = sysfs
        .canonical(&class.join("device"))
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| hwmon.to_owned());
    // Behind all links: when hwmon numbers move, hwmonN leads to another device at once, and its power
    // would be published under this one's name until discovery looks again.
    let dirs = places.iter().filter_map(|dir| sysfs.canonical(dir));
    // Where both places have a file of their own for a channel, it is still one channel.
    let mut channels = BTreeMap::new();
    for sensor in dirs.flat_map(|dir| channels_in(sysfs, &dir, hwmon, &device)) {
        keep_better(&mut channels, sensor.channel.clone(), sensor);
    }
    channels.into_values().collect()
}

/// The channels whose values stand in one directory.
fn channels_in(sysfs: &Sysfs, dir: &Path, hwmon: &str, device: &str) -> Vec<Sensor> {
    let Ok(names) = sysfs.list(dir) else {
        return Vec::new(); // It went away meanwhile: the next discovery sees how things stand.
    };
    let mut values: BTreeMap<&str, &str> = BTreeMap::new(); // power1 -> its file
    for name in &names {
        let Some(channel) = name.strip_suffix("_average").or(name.strip_suffix("_input")) else {
            continue;
        };
        let is_power = channel
            .strip_prefix("power")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        // Sorted names put `_average` before `_input`: the average wins where both exist.
        if is_power {
            values.entry(channel).or_insert(name);
        }
    }
    let sensor = |(channel, value)| channel_sensor(sysfs, dir, hwmon, device, channel, value);
    values.into_iter().map(sensor).collect()
}

fn channel_sensor(
    sysfs: &Sysfs,
    dir: &Path,
    hwmon: &str,
    device: &str,
    channel: &str,
    value: &str,
) -> Sensor {
    let attribute = |suffix: &str| dir.join(format!("{channel}_{suffix}"));
    let plates: Vec<Plate> =
        ["oem_info", "label"].map(|suffix| Plate::read(sysfs, attribute(suffix))).into();
    let label = plates.iter().find_map(Plate::text).map_or_else(|| channel.to_owned(), printable);
    let (averaging, interval) = if value.ends_with("_input") {
        (Averaging::Instant, None)
    } else {
        (Averaging::Unknown, Some(attribute("average_interval")))
    };
    let limit_w = sysfs
        .text_if_any(&attribute("cap_max"))
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|microwatts| microwatts.is_finite() && *microwatts > 0.0)
        .map(|microwatts| microwatts / 1e6);
    let rail = classify(&label);
    Sensor {
        source: Source::Acpi,
        id: format!("{device}/{channel}"),
        channel: format!("{hwmon}/{channel}"),
        kind: Kind::Rail(rail.kind),
        socket: rail.socket,
        label,
        averaging,
        meter: Meter::Power {
            value: dir.join(value),
            enable: attribute("enable"),
            interval,
            limit_w,
            plates,
        },
    }
}

/// A label without control characters, at which some readers of a page would end a line or the page. A
/// line feed stays: the exposition format escapes it.
fn printable(label: &str) -> String {
    label.replace(|c: char| c.is_control() && c != '\n', " ")
}

/// Keeps one sensor per key: of two names for one thing the one whose directory has a label, then the one
/// that is an average, then the first.
fn keep_better<K: Ord>(found: &mut BTreeMap<K, Sensor>, key: K, sensor: Sensor) {
    let rank = |sensor: &Sensor| match &sensor.meter {
        Meter::Power { plates, interval, .. } => {
            (plates.iter().any(|plate| plate.text().is_some()), interval.is_some())
        }
        _ => (false, false),
    };
    if found.get(&key).is_none_or(|known| rank(&sensor) > rank(known)) {
        found.insert(key, sensor);
    }
}

/// Two devices of one name (on different buses) are told apart by where they stand today.
fn make_ids_unique(sensors: &mut [Sensor]) {
    let ids: Vec<String> = sensors.iter().map(|sensor| sensor.id.clone()).collect();
    for sensor in sensors {
        if ids.iter().filter(|id| **id == sensor.id).count() > 1 {
            sensor.id = format!("{}@{}", sensor.id, sensor.channel);
        }
    }
}
