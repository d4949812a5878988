//! Files of RAPL zones, as the powercap framework registers them.
//!
//! Kernel: Documentation/power/powercap/powercap.rst. Zones nest as folders below the control type, and
//! the class folder holds a flat list of links to all of them.

use crate::disk::Entry;
use crate::sensor::{Rail, Sensor, Shows};

const CONTROL_TYPE: &str = "devices/virtual/powercap/intel-rapl";

/// Folder of a zone: `intel-rapl:0:1` is inside `intel-rapl:0`.
pub(crate) fn folder(zone: &str) -> String {
    match zone.rsplit_once(':') {
        Some((parent, _)) if parent.contains(':') => format!("{}/{zone}", folder(parent)),
        _ => format!("{CONTROL_TYPE}/{zone}"),
    }
}

/// The control type itself.
pub(crate) fn control_type() -> Vec<Entry> {
    vec![
        Entry::File(format!("{CONTROL_TYPE}/enabled"), "1\n".into()),
        Entry::Link("class/powercap/intel-rapl".into(), format!("../../{CONTROL_TYPE}")),
    ]
}

/// Everything of a zone but the reading.
pub(crate) fn entries(sensor: &Sensor) -> Vec<Entry> {
    let folder = folder(&sensor.id);
    let link = Entry::Link(format!("class/powercap/{}", sensor.id), format!("../../{folder}"));
    let attribute =
        |name: &str, text: String| Entry::File(format!("{folder}/{name}"), format!("{text}\n"));
    let mut entries = vec![link, attribute("name", name(sensor)), attribute("enabled", "1".into())];
    if let Shows::Counter { range_uj, .. } = sensor.shows {
        entries.push(attribute("max_energy_range_uj", range_uj.to_string()));
    }
    entries
}

fn name(sensor: &Sensor) -> String {
    match sensor.rail {
        Rail::Core => "core".into(),
        Rail::Dram => "dram".into(),
        Rail::Package | Rail::Total | Rail::CpuRail | Rail::Soc => {
            format!("package-{}", sensor.socket)
        }
    }
}
