//! CPU package, DRAM and platform energy, from the kernel's powercap tree.
//!
//! Reads `name`, `energy_uj` and `max_energy_range_uj` of every zone under `class/powercap`
//! (kernel: Documentation/power/powercap/powercap.rst); Intel and AMD share the tree. The counter
//! wraps at its own zone's range. Since 5.10 only root reads it (CVE-2020-8694): such a zone is
//! reported as denied and the others go on. Zone names are labels, never parts of a metric name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wattscribe_rules::Averaging;

use crate::sensor::{Kind, Meter, Plate, Sensor, Source, Zone};
use crate::sysfs::Sysfs;

/// What a reader is told, once, when zones are denied.
pub const DENIED_FIX: &str = "energy_uj is readable by root only: run as root, grant CAP_DAC_READ_SEARCH \
     (systemd: AmbientCapabilities=CAP_DAC_READ_SEARCH), or relax the file with a udev rule";

/// All zones, ordered by id.
pub fn discover(sysfs: &Sysfs) -> Result<Vec<Sensor>, String> {
    let root = sysfs.powercap();
    sysfs.list(&root).map_err(|error| format!("cannot list {}: {error}", root.display()))?;
    let mut dirs = BTreeMap::new();
    collect(sysfs, &root, &mut dirs);
    let named = |(id, dir): (String, PathBuf)| {
        // Behind all links: the class lists a zone by its number alone.
        let dir = sysfs.canonical(&dir).unwrap_or(dir);
        let plate = Plate::read(sysfs, dir.join("name"));
        plate.text().is_some().then_some((id, Found { dir, plate }))
    };
    let zones: Zones = dirs.into_iter().filter_map(named).collect();
    if zones.is_empty() {
        return Err(format!("no RAPL zone under {}", root.display()));
    }
    Ok(zones.keys().map(|id| sensor(sysfs, id, &zones)).collect())
}

/// A zone's directory and its name.
struct Found {
    dir: PathBuf,
    plate: Plate,
}

/// All zones by id.
type Zones = BTreeMap<String, Found>;

fn sensor(sysfs: &Sysfs, id: &str, zones: &Zones) -> Sensor {
    // From the inside out: `dram` says nothing without the package around it.
    let around: Vec<&Found> = ancestry(id).filter_map(|id| zones.get(id)).collect();
    let names = || around.iter().filter_map(|zone| zone.plate.text());
    let name = names().next().unwrap_or_default();
    let file = |name: &str| around.first().map(|zone| zone.dir.join(name)).unwrap_or_default();
    Sensor {
        source: Source::Rapl,
        id: id.to_owned(),
        channel: id.to_owned(),
        kind: Kind::Zone(zone_kind(id, name)),
        socket: names().find_map(package_number),
        label: name.to_owned(),
        averaging: Averaging::Difference,
        meter: Meter::Energy {
            value: file("energy_uj"),
            range_uj: range_uj(sysfs, &file("max_energy_range_uj")),
            plates: around.iter().map(|zone| zone.plate.clone()).collect(),
        },
    }
}

/// `intel-rapl:0:1`, then `intel-rapl:0`: a zone and those that contain it. Ends at the control type.
fn ancestry(id: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(id), |id| id.rsplit_once(':').map(|(outer, _)| outer))
}

/// Finds every zone directory below `dir`. The kernel lists a child in the class directory and in
/// its parent; the id is the same, so it is one zone.
fn collect(sysfs: &Sysfs, dir: &Path, dirs: &mut BTreeMap<String, PathBuf>) {
    for id in sysfs.list(dir).unwrap_or_default() {
        // A class entry links back to its parent only by `device` and `subsystem`, never by a zone's id.
        if is_zone(&id) && !dirs.contains_key(&id) {
            let zone = dir.join(&id);
            dirs.insert(id, zone.clone());
            collect(sysfs, &zone, dirs);
        }
    }
}

fn range_uj(sysfs: &Sysfs, file: &Path) -> Option<u64> {
    sysfs.text_if_any(file)?.parse().ok().filter(|range| *range > 0)
}

/// `intel-rapl:0`, `intel-rapl-mmio:0`, `intel-rapl:0:1`; not the control type `intel-rapl` itself.
fn is_zone(name: &str) -> bool {
    name.starts_with("intel-rapl") && name.contains(':')
}

/// `package-1`, `package-1-die-0` -> 1.
fn package_number(name: &str) -> Option<u32> {
    name.strip_prefix("package-")?.split('-').next()?.parse().ok()
}

fn zone_kind(id: &str, name: &str) -> Zone {
    match name {
        _ if name.starts_with("package-") && id.starts_with("intel-rapl-mmio") => Zone::PackageMmio,
        _ if name.starts_with("package-") => Zone::Package,
        "core" => Zone::Core,
        "uncore" => Zone::Uncore,
        // Below the memory-mapped package stands the same memory again.
        "dram" if !id.starts_with("intel-rapl-mmio") => Zone::Dram,
        // One for each package but the first has its number: `psys-1`.
        _ if name == "psys" || name.starts_with("psys-") => Zone::Psys,
        _ => Zone::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_name_and_place() {
        let cases = [
            ("intel-rapl:0", "package-0", Zone::Package, Some(0)),
            ("intel-rapl:1", "package-15", Zone::Package, Some(15)),
            ("intel-rapl:2", "package-0-die-1", Zone::Package, Some(0)),
            ("intel-rapl-mmio:0", "package-0", Zone::PackageMmio, Some(0)),
            ("intel-rapl-mmio:0:0", "dram", Zone::Other, None),
            ("intel-rapl:0:0", "core", Zone::Core, None),
            ("intel-rapl:0:1", "uncore", Zone::Uncore, None),
            ("intel-rapl:0:2", "dram", Zone::Dram, None),
            ("intel-rapl:3", "psys", Zone::Psys, None),
            ("intel-rapl:3", "psys-1", Zone::Psys, None),
            ("intel-rapl:4", "weird name!", Zone::Other, None),
        ];
        for (id, name, kind, socket) in cases {
            assert!(is_zone(id), "{id}");
            assert_eq!(zone_kind(id, name), kind, "{id} {name}");
            assert_eq!(package_number(name), socket, "{id} {name}");
        }
        assert!(!is_zone("intel-rapl"));
    }
}
