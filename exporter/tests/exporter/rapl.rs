//! Powercap zones: which are found, that one which fails leaves the others alone, and energy against truth.

use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sources;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_simulator::{Kind, Machine, RaplPackage, Simulation, Waveform};

use crate::fixture::{INTERVAL, Served, Tree, board, config, eventually, samples, value};

const NARROW: u64 = 65_532_610_987;

#[test]
fn zones_are_found_by_id_and_known_by_name() {
    let names = [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0/intel-rapl:0:0", "core"),
        ("intel-rapl:0/intel-rapl:0:1", "uncore"),
        ("intel-rapl:0/intel-rapl:0:2", "dram"),
        ("intel-rapl:1", "package-0-die-1"),
        ("intel-rapl:2", "psys"),
        ("intel-rapl:3", "package-15"),
        ("intel-rapl:3/intel-rapl:3:0", "weird name!"),
        ("intel-rapl-mmio:0", "package-0"),
        ("intel-rapl-mmio:0/intel-rapl-mmio:0:0", "dram"),
    ];
    let tree = Tree::new::<&str>(&[]);
    for (path, name) in names {
        tree.write(&format!("devices/powercap/{path}/name"), format!("{name}\n"));
        // The class lists every zone, also those that stand below another.
        let id = path.rsplit('/').next().unwrap();
        let target = format!("../../devices/powercap/{path}");
        tree.link(&format!("class/powercap/{id}"), &target);
    }
    tree.write("class/powercap/intel-rapl/enabled", "1\n");
    tree.write("class/powercap/intel-rapl:9/enabled", "a zone without a name is none\n");
    let expected = [
        ("intel-rapl-mmio:0", "package_mmio", Some(0)),
        ("intel-rapl-mmio:0:0", "other", Some(0)),
        ("intel-rapl:0", "package", Some(0)),
        ("intel-rapl:0:0", "core", Some(0)),
        ("intel-rapl:0:1", "uncore", Some(0)),
        ("intel-rapl:0:2", "dram", Some(0)),
        ("intel-rapl:1", "package", Some(0)),
        ("intel-rapl:2", "psys", None),
        ("intel-rapl:3", "package", Some(15)),
        ("intel-rapl:3:0", "other", Some(15)),
    ];
    let found = sources::discover(Source::Rapl, &tree.sysfs()).unwrap();
    let found: Vec<_> = found.iter().map(|s| (s.id.as_str(), s.kind.as_str(), s.socket)).collect();
    assert_eq!(found, expected);
}

/// A memory zone, whose power may be zero, and a package beside it.
fn zones() -> Tree {
    Tree::new(&[
        ("class/powercap/intel-rapl:0/name", "package-0".to_owned()),
        ("class/powercap/intel-rapl:0/energy_uj", "0".to_owned()),
        ("class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850".to_owned()),
        ("class/powercap/intel-rapl:0/intel-rapl:0:0/name", "dram".to_owned()),
        (DRAM, "1000000".to_owned()),
        ("class/powercap/intel-rapl:0/intel-rapl:0:0/max_energy_range_uj", NARROW.to_string()),
    ])
}

const PACKAGE: &str = "class/powercap/intel-rapl:0/energy_uj";
const DRAM: &str = "class/powercap/intel-rapl:0/intel-rapl:0:0/energy_uj";
const DRAM_LABELS: &[&str] = &[r#"zone="intel-rapl:0:0""#, r#"type="dram""#, r#"socket="0""#];

#[test]
fn a_page_shows_what_was_counted_to_the_microjoule() {
    let tree = zones();
    tree.write(DRAM, (NARROW - 3_000_000).to_string());
    let served = Served::board(board(tree.sysfs(), Source::Rapl));
    let joules = || value(&served.page(), "cpu_energy_joules_total", DRAM_LABELS);
    eventually("two reads", || joules() == Some(0.0));
    // Steps of a few joules: within what a zone may deliver between two reads.
    let steps = [
        ((NARROW - 1_000_000).to_string(), 2.0),
        ("1000000".to_owned(), 4.0), // past the range of this very zone
        ("4000001".to_owned(), 7.000_001),
    ];
    for (uj, expected) in steps {
        tree.write(DRAM, uj);
        eventually(&format!("{expected} J"), || joules() == Some(expected));
    }
    tree.write(DRAM, "0");
    eventually("the count starts anew", || joules() == Some(0.0));
    let page = served.page();
    let resets = value(&page, "power_read_errors_total", &["reason=\"counter_reset\""]);
    assert_eq!(resets, Some(1.0), "{page}");
    assert!(value(&page, "power_reading_window_seconds", &["intel-rapl:0:0"]).unwrap() > 0.0);
}

#[test]
fn a_zone_that_fails_leaves_the_others_alone() {
    let tree = zones();
    let served = Served::board(board(tree.sysfs(), Source::Rapl));
    let is_withheld = |reason: &str| {
        let page = served.page();
        let reason = format!("reason=\"{reason}\"");
        assert!(value(&page, "cpu_power_rapl_watts", &["package"]).is_none(), "{page}");
        value(&page, "power_withheld", &[r#"sensor="intel-rapl:0""#, &reason]).is_some()
            && value(&page, "cpu_power_rapl_watts", DRAM_LABELS) == Some(0.0)
    };
    let harms: [(&str, &dyn Fn()); 5] = [
        ("zero", &|| ()),
        ("malformed", &|| tree.write(PACKAGE, "")),
        ("negative", &|| tree.write(PACKAGE, "-1")),
        ("gone", &|| tree.remove(PACKAGE)),
        ("io", &|| tree.write(&format!("{PACKAGE}/file"), "")),
    ];
    for (reason, harm) in harms {
        harm();
        eventually(reason, || is_withheld(reason));
    }
    tree.remove(PACKAGE);
    tree.write(PACKAGE, "0");
    if tree.deny(PACKAGE) {
        eventually("denied", || is_withheld("denied"));
        assert_eq!(served.get("/readyz").status, 503, "no package is measured");
    }
}

#[test]
fn a_wrap_on_the_way_changes_nothing() {
    const WATTS: f64 = 150.0;
    let folder = TempDir::new().unwrap();
    // The ladder takes a second; the counter wraps in the middle of the scrapes that follow.
    let package = RaplPackage::new(0, Waveform::Constant { watts: WATTS }).wrapping_at(2.5);
    let machine = Machine { name: "node".into(), kind: Kind::Rapl { packages: vec![package] } };
    let simulation = Simulation::start(folder.path(), &[machine], SystemTime::now()).unwrap();
    let sysfs = Sysfs::new(simulation.sysfs_root("node").unwrap(), None);
    let served = Served::start(&config(sysfs, SourceChoice::Rapl));
    let zone = &[r#"zone="intel-rapl:0""#];
    let mut read = Vec::new(); // (when, joules)
    eventually("scrapes from before the wrap to well after it", || {
        let page = served.page();
        let joules = value(&page, "cpu_energy_joules_total", zone);
        let at_s = value(&page, "power_reading_timestamp_seconds", &[r#"sensor="intel-rapl:0""#]);
        read.extend(at_s.zip(joules));
        at_s.is_some_and(|at_s| at_s > simulation.epoch_unix_s() + 3.5)
    });
    assert!(read[0].0 < simulation.epoch_unix_s() + 2.5, "the first scrape came too late");
    assert!(read.is_sorted_by(|a, b| a.1 <= b.1), "a counter never falls: {read:?}");
    let (first, last) = (read[0], read[read.len() - 1]);
    let truth_j = simulation.sensor_truth("node", "intel-rapl:0", first.0, last.0).unwrap();
    // Both ends are late by what the simulation and the reader were kept from running.
    let slack_j = WATTS * (Duration::from_millis(500) + INTERVAL).as_secs_f64();
    let counted_j = last.1 - first.1;
    assert!((counted_j - truth_j).abs() < slack_j, "{counted_j} J counted of {truth_j} J");
    assert_eq!(samples(&served.page(), "power_simulated"), ["power_simulated 1"]);
}
