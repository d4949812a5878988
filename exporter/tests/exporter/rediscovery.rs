//! Sensors that move, vanish and come back keep their identity, and never show another one's power.

use std::sync::Arc;

use tempfile::TempDir;
use wattscribe_exporter::board::Board;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure;
use wattscribe_exporter::page;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_parser::Format;
use wattscribe_simulator::{GraceSocket, HwmonLayout, Kind, Machine, Waveform};

use crate::fixture::{Tree, board, eventually, free, samples, value};

fn text(board: &Board) -> String {
    page::render(board, Now::read(), Format::Text)
}

fn has_all(board: &Board, count: usize) -> bool {
    samples(&text(board), "cpu_power_acpi_watts").len() == count
}

/// What is measured, without where it stands: the firmware's label and the watts.
fn labels_and_watts(page: &str) -> Vec<(String, String)> {
    let one = |line: &&str| {
        let label = line.split("oem_info=\"").nth(1).unwrap().split('"').next().unwrap();
        (label.to_owned(), line.rsplit(' ').next().unwrap().to_owned())
    };
    let mut found: Vec<_> = samples(page, "cpu_power_acpi_watts").iter().map(one).collect();
    found.sort();
    found
}

/// Which identity belongs to which label.
fn identities(page: &str) -> Vec<(String, String)> {
    let between = |line: &str, start: &str| {
        line.split(start).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let one = |line: &&str| (between(line, "sensor=\""), between(line, ",label=\""));
    let mut found: Vec<_> = samples(page, "power_sensor_info").iter().map(one).collect();
    found.sort();
    found
}

#[test]
fn renumbered_sensors_keep_identity_and_power() {
    for layout in [HwmonLayout::New, HwmonLayout::Old] {
        let folder = TempDir::new().unwrap();
        let socket = |n, watts| GraceSocket::new(n, Waveform::Constant { watts });
        let sockets = vec![socket(0, 100.0), socket(2, 300.0)];
        let kind = Kind::Grace { layout, averaging_ms: 50, sockets };
        let machine = Machine { name: "node".into(), kind };
        let mut tree = wattscribe_simulator::Tree::build(&machine, folder.path(), 0.0).unwrap();
        let board = board(Sysfs::new(folder.path(), None), Source::Acpi);
        eventually("all are read", || has_all(&board, 6));
        let before = text(&board);

        tree.renumber_hwmon().unwrap();
        // Discovery has not looked again: what is published meanwhile is still under its own label.
        let reads = || value(&text(&board), "power_read_duration_seconds_count", &[]).unwrap();
        let reads_before = reads();
        eventually("each is read again", || {
            let page = text(&board);
            let known = labels_and_watts(&before);
            let strangers: Vec<_> =
                labels_and_watts(&page).into_iter().filter(|one| !known.contains(one)).collect();
            assert!(strangers.is_empty(), "{layout:?}: {strangers:?}");
            reads() > reads_before + 12.0
        });

        board.rediscover().unwrap();
        eventually("all are read at their new places", || has_all(&board, 6));
        let after = text(&board);
        assert_eq!(labels_and_watts(&after), labels_and_watts(&before), "{layout:?}");
        assert_eq!(identities(&after), identities(&before), "{layout:?}");
        let total = &["Grace Power Socket 0", "hwmon1/power1"];
        assert_eq!(value(&after, "cpu_power_acpi_watts", total), Some(100.0), "{after}");
        assert!(samples(&after, "power_withheld").is_empty(), "{after}");
    }
}

fn two_meters() -> (Tree, Arc<Board>) {
    let tree =
        Tree::meters(&[("Grace Power Socket 0", "98029000"), ("Grace Power Socket 1", "95000000")]);
    let board = board(tree.sysfs(), Source::Acpi);
    eventually("both are read", || has_all(&board, 2));
    (tree, board)
}

#[test]
fn a_sensor_that_vanishes_is_lost_and_may_come_back() {
    let (tree, board) = two_meters();
    let known = identities(&text(&board));
    for _ in 0..3 {
        tree.remove("class/hwmon/hwmon0");
        board.rediscover().unwrap();
        let page = text(&board);
        assert!(has_all(&board, 1), "{page}");
        let sensor = r#"sensor="ACPI000D:00/power1""#;
        assert!(value(&page, "power_sensor_state", &[sensor, r#"state="lost""#]).is_some());
        assert!(value(&page, "power_withheld", &[sensor, r#"reason="gone""#]).is_some());
        assert_eq!(identities(&page), known, "a lost sensor is still named");
        board.rediscover().unwrap();
        assert!(has_all(&board, 1));

        tree.link("class/hwmon/hwmon0", "../../devices/ACPI000D:00/hwmon/hwmon0");
        board.rediscover().unwrap();
        eventually("it is back", || has_all(&board, 2));
        assert_eq!(identities(&text(&board)), known);
    }
}

#[test]
fn losing_everything_is_a_finding_like_any_other() {
    let (tree, board) = two_meters();
    tree.remove("class/hwmon");
    board.rediscover().unwrap();
    let page = text(&board);
    assert!(has_all(&board, 0), "{page}");
    assert_eq!(samples(&page, "power_withheld").len(), 2, "{page}");
    assert!(!board.is_ready(Now::read()));
}

#[test]
fn a_sensor_that_appears_is_read() {
    let (tree, board) = two_meters();
    tree.write("class/hwmon/hwmon7/name", "power_meter\n");
    tree.write("class/hwmon/hwmon7/power1_average", "5000000\n");
    board.rediscover().unwrap();
    eventually("it is read", || has_all(&board, 3));
    assert_eq!(value(&text(&board), "cpu_power_acpi_watts", &["hwmon7/power1"]), Some(5.0));
    // Nothing has changed since: nobody is disturbed.
    let cells = board.cells();
    board.rediscover().unwrap();
    assert!(board.cells().iter().zip(&cells).all(|(now, then)| Arc::ptr_eq(now, then)));
}

const ZONES: [(&str, &str); 4] = [
    ("intel-rapl:0", "package-0"),
    ("intel-rapl:0:0", "dram"),
    ("intel-rapl:1", "package-1"),
    ("intel-rapl:1:0", "dram"),
];

/// Two packages with their memory, whose counters stand a second's energy apart: what one zone has counted
/// more than another looks like power.
fn two_packages() -> Tree {
    let tree = Tree::new::<&str>(&[]);
    for (number, (id, name)) in ZONES.iter().enumerate() {
        let zone = format!("class/powercap/{id}");
        tree.write(&format!("{zone}/name"), format!("{name}\n"));
        tree.write(&format!("{zone}/energy_uj"), format!("{}\n", 5_000_000 * (number + 1)));
        tree.write(&format!("{zone}/max_energy_range_uj"), "262143328850\n");
    }
    tree
}

#[test]
fn zones_that_change_places_never_count_for_each_other() {
    let tree = two_packages();
    let board = board(tree.sysfs(), Source::Rapl);
    let joules = |zone: &str, socket: u32| {
        let labels = format!(r#"zone="{zone}",socket="{socket}""#);
        value(&text(&board), "cpu_energy_joules_total", &[&labels])
    };
    eventually("the memory of socket 0 is read twice", || joules("intel-rapl:0:0", 0) == Some(0.0));
    tree.write("class/powercap/intel-rapl:0:0/energy_uj", "12000000");
    eventually("it counts", || joules("intel-rapl:0:0", 0) == Some(2.0));
    let since = || value(&text(&board), "cpu_energy_since_timestamp_seconds", &["intel-rapl:0:0"]);
    let since_before = since();

    tree.swap("class/powercap/intel-rapl:0", "class/powercap/intel-rapl:1");
    tree.swap("class/powercap/intel-rapl:0:0", "class/powercap/intel-rapl:1:0");
    // Discovery has not looked again: what has no place of its own any more has no number.
    eventually("all four are known to be others", || {
        let page = text(&board);
        let drams = samples(&page, "cpu_energy_joules_total");
        assert!(
            drams.iter().all(|line| line.ends_with(" 2.000000") || line.ends_with(" 0.000000"))
        );
        ZONES.iter().all(|(id, _)| {
            let labels = format!(r#"sensor="{id}",reason="gone""#);
            value(&page, "power_withheld", &[&labels]).is_some()
        })
    });
    assert!(samples(&text(&board), "cpu_power_rapl_watts").is_empty());

    board.rediscover().unwrap();
    eventually("each is read under its own socket", || {
        joules("intel-rapl:0:0", 1) == Some(0.0) && joules("intel-rapl:1:0", 0) == Some(0.0)
    });
    assert_eq!(joules("intel-rapl:0:0", 0), None);
    assert!(since() > since_before, "a count of its own");
    tree.write("class/powercap/intel-rapl:1:0/energy_uj", "13000000");
    eventually("what it counts is its own", || joules("intel-rapl:1:0", 0) == Some(1.0));
    assert_eq!(joules("intel-rapl:0:0", 1), Some(0.0));
}

#[test]
fn a_zone_that_is_found_again_as_it_was_counts_on() {
    let tree = two_packages();
    let board = board(tree.sysfs(), Source::Rapl);
    let joules = || value(&text(&board), "cpu_energy_joules_total", &["intel-rapl:0:0"]);
    eventually("two reads", || joules() == Some(0.0));
    let (place, elsewhere) = ("class/powercap/intel-rapl:0:0", "class/elsewhere");
    tree.write("class/elsewhere/nothing", "");
    tree.swap(place, elsewhere);
    board.rediscover().unwrap();
    assert_eq!(joules(), None, "it is lost");
    tree.write("class/elsewhere/energy_uj", "13000000");
    tree.swap(place, elsewhere);
    board.rediscover().unwrap();
    eventually("what it counted meanwhile", || joules() == Some(3.0));
}

#[test]
fn a_meter_whose_label_changes_is_another_meter() {
    let (tree, board) = two_meters();
    let label = "devices/ACPI000D:00/hwmon/hwmon0/power1_oem_info";
    tree.write(label, "CPU Power Socket 1\n");
    let gone = r#"sensor="ACPI000D:00/power1",reason="gone""#;
    eventually("it is withheld", || value(&text(&board), "power_withheld", &[gone]).is_some());
    assert!(has_all(&board, 1));
    board.rediscover().unwrap();
    eventually("it is read as what it is", || has_all(&board, 2));
    let rail = r#"type="cpu_rail",socket="1",oem_info="CPU Power Socket 1""#;
    assert_eq!(value(&text(&board), "cpu_power_acpi_watts", &[rail]), Some(98.029));
}

#[test]
fn a_label_that_hangs_is_told_and_holds_up_nobody_else() {
    let (tree, board) = two_meters();
    let label = "devices/ACPI000D:00/hwmon/hwmon0/power1_oem_info";
    tree.hang(label);
    let errors = || board.health().errors(Source::Acpi, Failure::Timeout);
    let withheld = |what: &str| {
        let labels = format!(r#"source="acpi",sensor="{what}",reason="timeout""#);
        value(&text(&board), "power_withheld", &[&labels]).is_some()
    };
    board.rediscover().unwrap();
    assert!(!has_all(&board, 0), "what was known stays");
    eventually("both the sensor and discovery are overdue", || {
        board.watch(Now::read());
        withheld("discovery") && withheld("ACPI000D:00/power1")
    });
    assert!(has_all(&board, 1), "the other meter is read on");
    for _ in 0..10 {
        board.rediscover().unwrap();
        board.watch(Now::read());
    }
    assert_eq!(errors(), 2, "each is told once");

    free(&tree, label, "Grace Power Socket 0\n");
    eventually("discovery is back", || {
        board.watch(Now::read());
        !withheld("discovery")
    });
    board.rediscover().unwrap();
    eventually("both are read", || has_all(&board, 2));
    assert_eq!(errors(), 2);
}
