//! Sensors that move, vanish and come back keep their identity, and never show another one's power.

use std::sync::Arc;

use tempfile::TempDir;
use wattscribe_exporter::board::Board;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::page;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_parser::Format;
use wattscribe_simulator::{GraceSocket, HwmonLayout, Kind, Machine, Waveform};

use crate::fixture::{Tree, board, eventually, samples, value};

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
