//! What users of other exporters met with hwmon and ACPI power meters, row by row: what goes in, and what
//! our page says. A row that cannot arise here says why.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;

use wattscribe_exporter::sensor::Source;

use crate::fixture::{Served, Tree, board, eventually, samples, value};

/// A meter that is watched, `hwmon0`, and one beside it that reads 95 W all the time.
struct Node {
    tree: Tree,
    served: Served,
}

impl Node {
    /// With more files beside the first meter's value.
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Tree::meters(&[
            ("Grace Power Socket 0", "98029000"),
            ("Grace Power Socket 1", "95000000"),
        ]);
        for (name, text) in files {
            tree.write(&of_first(name), text);
        }
        let served = Served::board(board(tree.sysfs(), Source::Acpi));
        let node = Self { tree, served };
        eventually("the other meter is read", || node.watts("hwmon1/power1") == Some(95.0));
        node
    }

    fn watts(&self, channel: &str) -> Option<f64> {
        let sensor = format!(r#"sensor="{channel}""#);
        value(&self.served.page(), "cpu_power_acpi_watts", &[&sensor])
    }

    /// The first meter is published with these watts, or has this state and reason and no number; the
    /// other is there.
    fn check(&self, id: &str, expected: Result<f64, (&str, &str)>) {
        let sensor = r#"sensor="ACPI000D:00/power1""#;
        let Err((state, reason)) = expected else {
            eventually(id, || self.watts("hwmon0/power1") == expected.ok());
            return;
        };
        let (state, reason) = (format!(r#"state="{state}""#), format!(r#"reason="{reason}""#));
        let mut page = String::new();
        eventually(&format!("{id} {reason}"), || {
            page = self.served.page();
            value(&page, "power_withheld", &[sensor, &reason]).is_some()
        });
        assert_eq!(
            value(&page, "power_sensor_state", &[sensor, &state]),
            Some(1.0),
            "{id}: {page}"
        );
        assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 1, "{id}: {page}");
        assert!(value(&page, "power_read_errors_total", &[&reason]).unwrap() > 0.0, "{id}: {page}");
    }
}

/// A file of the first meter.
fn of_first(name: &str) -> String {
    format!("devices/ACPI000D:00/hwmon/hwmon0/{name}")
}

/// Files by name, and their text.
type Files<'a> = &'a [(&'a str, &'a str)];

/// A row, files of the meter, and what becomes of it.
type OfFiles<'a> = (&'a str, Files<'a>, Result<f64, (&'a str, &'a str)>);

const AVERAGE: &str = "power1_average";

#[test]
fn a_reading_is_published_or_withheld_with_its_reason() {
    let rows: [OfFiles<'_>; 12] = [
        ("H01", &[(AVERAGE, "4294967295000")], Err(("unavailable", "sensor_unknown"))),
        ("H07", &[(AVERAGE, "")], Err(("transient", "malformed"))),
        ("H07", &[(AVERAGE, "N/A")], Err(("transient", "malformed"))),
        ("H07", &[(AVERAGE, "-5000000")], Err(("implausible", "negative"))),
        ("H16", &[(AVERAGE, ""), ("power1_enable", "0")], Err(("disabled", "switched_off"))),
        // What it answers may be the last that it measured.
        ("H16", &[("power1_enable", "0")], Err(("disabled", "switched_off"))),
        ("H16", &[("power1_enable", "1")], Ok(98.029)),
        // The garbage of old kernels, with a cap of 500 W and without any.
        (
            "H21",
            &[(AVERAGE, "4294000000000"), ("power1_cap_max", "500000000")],
            Err(("implausible", "over_limit")),
        ),
        ("H21", &[(AVERAGE, "600000000"), ("power1_cap_max", "500000000")], Ok(600.0)),
        ("H21", &[(AVERAGE, "600000000"), ("power1_cap_max", "0")], Ok(600.0)),
        (
            "H24",
            &[(AVERAGE, "9000000000"), ("power1_cap_max", "500000000")],
            Err(("implausible", "over_limit")),
        ),
        // No bound is declared: it is what was read, and no smoothing hides it.
        ("H24", &[(AVERAGE, "9000000000")], Ok(9000.0)),
    ];
    for (id, files, expected) in rows {
        Node::new(files).check(id, expected);
    }
}

#[test]
fn one_file_that_fails_is_one_sensor() {
    let node = Node::new(&[]);
    let place = node.tree.path(&of_first(AVERAGE));
    node.tree.remove(&of_first(AVERAGE));
    // The kernel answers whoever opens a socket with ENXIO, as it does for a device that has gone.
    let socket = UnixListener::bind(place).unwrap();
    node.check("H20", Err(("lost", "gone")));
    drop(socket);
    node.tree.remove(&of_first(AVERAGE));
    node.tree.write(&of_first("power1_average/file"), "");
    node.check("H07", Err(("transient", "io")));
    node.tree.remove(&of_first(AVERAGE));
    node.tree.write(&of_first(AVERAGE), "98029000");
    node.check("H20", Ok(98.029));
}

#[test]
fn a_meter_that_fails_for_ever_is_asked_less_and_less() {
    let node = Node::new(&[]);
    node.tree.replace_by_link(&of_first(AVERAGE), "/proc/self/mem");
    let count = |family, label: &str| value(&node.served.page(), family, &[label]).unwrap();
    let reads = || count("power_read_duration_seconds_count", "");
    let errors = || count("power_read_errors_total", r#"reason="io""#);
    eventually("H02: it fails", || errors() > 0.0);
    let before = reads();
    // Pauses of 0, 1, 2, 4 ... intervals: within 100 intervals it is read eight times.
    eventually("H02: the other meter is read on", || reads() >= before + 100.0 + errors());
    assert!((3.0..=10.0).contains(&errors()), "H02: {} reads failed", errors());
    node.check("H02", Err(("transient", "io")));
}

#[test]
fn a_label_names_its_rail_or_none() {
    let long = format!("Grace Power Socket 0 {}", "x".repeat(107));
    let rows = [
        ("H08", "Grace Input Power Socket 0", "total", "0"),
        ("H08", "GRACE INPUT POWER SOCKET 0", "total", "0"),
        ("H08", "Grace  Input   Power  Socket 0", "total", "0"),
        ("H08", "Grace Power Socket0", "total", "0"),
        ("H08", "Grace Power Socket 12", "total", "12"),
        ("H08", &long, "total", "0"),
        ("H08", "Grace Power Socket \u{0661}", "other", ""),
        ("H08", "something else", "other", ""),
        ("H09", "Grace Output Power Socket 0", "other", ""),
        ("H09", "CPU Rail Output Power in uW socket 0", "other", ""),
        ("H09", "Grace Energy Socket 0", "other", ""),
        ("H09", "CPU Power Socket 0 Throttle", "other", ""),
        ("H10", "CPU Power Socket 0", "cpu_rail", "0"),
        ("H10", "SysIO Power Socket 0", "soc", "0"),
    ];
    for (id, label, kind, socket) in rows {
        let padded = format!("{label}\0\n");
        let node = Node::new(&[("power1_oem_info", &padded)]);
        eventually(id, || node.watts("hwmon0/power1").is_some());
        let page = node.served.page();
        let rail = format!(r#"type="{kind}",socket="{socket}",oem_info="{label}""#);
        assert!(value(&page, "cpu_power_acpi_watts", &[&rail]).is_some(), "{id} {rail}: {page}");
        let info = format!(r#"type="{kind}",socket="{socket}",label="{label}""#);
        assert_eq!(value(&page, "power_sensor_info", &[&info]), Some(1.0), "{id}: {page}");
    }
}

#[test]
fn a_window_is_told_only_where_it_is_known() {
    let rows: [(Files<'_>, Option<f64>); 8] = [
        (&[("power1_average_interval", "50")], Some(0.05)),
        (&[], None),
        (&[("power1_average_interval", "0")], None),
        (&[("power1_average_interval", "unknown")], None),
        (&[("power1_average_interval", "4000000000")], None),
        (
            &[
                ("power1_average_interval", "1000"),
                ("power1_average_interval_min", "50"),
                ("power1_average_interval_max", "1000"),
            ],
            Some(1.0),
        ),
        (&[("power1_average_interval", "49"), ("power1_average_interval_min", "50")], None),
        (&[("power1_average_interval", "1001"), ("power1_average_interval_max", "1000")], None),
    ];
    for (files, window_s) in rows {
        let node = Node::new(files);
        eventually("H17", || node.watts("hwmon0/power1").is_some());
        let page = node.served.page();
        let sensor = r#"sensor="ACPI000D:00/power1""#;
        let found = value(&page, "power_reading_window_seconds", &[sensor]);
        assert_eq!(found, window_s, "H17 {files:?}: {page}");
        let averaging = if window_s.is_some() { "mean" } else { "unknown" };
        let averaging = format!(r#"averaging="{averaging}""#);
        let told = value(&page, "power_sensor_info", &[sensor, &averaging]);
        assert_eq!(told, Some(1.0), "H17 {files:?}: {page}");
    }
}

#[test]
fn attributes_are_found_at_both_places_and_count_once() {
    let (class, device) = ("class/hwmon/hwmon0", "class/hwmon/hwmon0/device");
    // Which files stand where, with what they read; the watts that are published.
    let rows: [(&[(&str, Files<'_>)], f64); 6] = [
        (&[(class, &[(AVERAGE, "1000000")])], 1.0),
        (&[(device, &[(AVERAGE, "2000000")])], 2.0),
        (&[(class, &[(AVERAGE, "1000000")]), (device, &[(AVERAGE, "2000000")])], 1.0),
        (&[(class, &[("power1_input", "1000000")]), (device, &[(AVERAGE, "2000000")])], 2.0),
        (&[(class, &[(AVERAGE, "1000000")]), (device, &[("power1_input", "2000000")])], 1.0),
        (&[(class, &[(AVERAGE, "1000000"), ("power1_input", "2000000")])], 1.0),
    ];
    for (files, watts) in rows {
        let tree = Tree::new(&[("class/hwmon/hwmon0/name", "power_meter\n")]);
        for (dir, files) in files {
            files.iter().for_each(|(name, text)| tree.write(&format!("{dir}/{name}"), text));
        }
        let served = Served::board(board(tree.sysfs(), Source::Acpi));
        let published = || -> Vec<String> {
            let page = served.page();
            samples(&page, "cpu_power_acpi_watts").iter().map(|line| line.to_string()).collect()
        };
        eventually("H12: it is read", || !published().is_empty());
        let lines = published();
        assert_eq!(lines.len(), 1, "H12 {files:?}: {lines:?}");
        assert!(lines[0].ends_with(&format!(" {watts:.6}")), "H12 {files:?}: {lines:?}");
    }
}

#[test]
fn nothing_on_the_page_is_there_twice() {
    // Two chips of one name, with one label, and a third node that leads to the first chip once more.
    let tree = Tree::meters(&[("CPU Power", "1000000"), ("CPU Power", "2000000")]);
    tree.link("class/hwmon/hwmon9", "../../devices/ACPI000D:00/hwmon/hwmon0");
    let served = Served::board(board(tree.sysfs(), Source::Acpi));
    eventually("H05: both are read", || samples(&served.page(), "cpu_power_acpi_watts").len() == 2);
    let page = served.page();
    let mut seen = BTreeSet::new();
    for line in page.lines() {
        // A series, or a word about a family: `# HELP name`, `# TYPE name`.
        let what = match line.strip_prefix("# ") {
            Some(comment) => comment.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" "),
            None => line.rsplit_once(' ').unwrap().0.to_owned(),
        };
        assert!(seen.insert(what.clone()), "H05, H06: {what} is there twice: {page}");
    }
}

#[test]
fn every_socket_is_found_whatever_its_number() {
    for (id, sockets) in [("H13", vec![0, 1, 2, 3]), ("H13", vec![0, 2]), ("H13", vec![7])] {
        let labels: Vec<String> =
            sockets.iter().rev().map(|socket| format!("Grace Power Socket {socket}")).collect();
        let texts: Vec<String> =
            sockets.iter().rev().map(|socket| format!("{}000000", 100 + socket)).collect();
        let meters: Vec<(&str, &str)> =
            labels.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
        let tree = Tree::meters(&meters);
        let served = Served::board(board(tree.sysfs(), Source::Acpi));
        eventually(id, || samples(&served.page(), "cpu_power_acpi_watts").len() == sockets.len());
        let page = served.page();
        for socket in sockets {
            let labels = format!(r#"type="total",socket="{socket}""#);
            let watts = value(&page, "cpu_power_acpi_watts", &[&labels]);
            assert_eq!(watts, Some(f64::from(100 + socket)), "{id} socket {socket}: {page}");
        }
    }
}

#[test]
fn parts_that_draw_more_than_their_whole_are_told() {
    // The total, the rails beside it, and the fraction.
    let rows: [(&str, Files<'_>, Option<f64>); 4] = [
        (
            "100000000",
            &[("CPU Power Socket 0", "60000000"), ("SysIO Power Socket 0", "20000000")],
            Some(0.8),
        ),
        (
            "80000000",
            &[("CPU Power Socket 0", "90000000"), ("SysIO Power Socket 0", "30000000")],
            Some(1.5),
        ),
        ("80000000", &[("CPU Power Socket 0", "90000000"), ("SysIO Power Socket 0", "N/A")], None),
        ("80000000", &[("CPU Power Socket 1", "90000000")], None),
    ];
    for (total, rails, expected) in rows {
        let meters = [&[("Grace Power Socket 0", total)], rails].concat();
        let tree = Tree::meters(&meters);
        let board = board(tree.sysfs(), Source::Acpi);
        eventually("H24: all are read", || board.cells().iter().all(|cell| cell.has_been_read()));
        let page = Served::board(board).page();
        let sensor = r#"source="acpi",sensor="ACPI000D:00/power1""#;
        assert_eq!(value(&page, "power_parts_ratio", &[sensor]), expected, "H24: {page}");
        // Nothing says which of them is wrong: all stand.
        let readable = meters.iter().filter(|(_, text)| *text != "N/A").count();
        assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), readable, "H24: {page}");
    }
}

/// Every row, and where it is held: a test of this program, or why it cannot arise. The numbers are those of
/// our list of what users of other exporters met; between them there are none of this source.
pub(crate) const ROWS: [(&str, &str); 19] = [
    ("H01", "a_reading_is_published_or_withheld_with_its_reason"),
    ("H02", "a_meter_that_fails_for_ever_is_asked_less_and_less"),
    // Without any source the program ends with code 1 and every reason on one line, as the one does whose
    // place it takes: orchestration decides by that code.
    ("H04", "a_machine_without_any_source"),
    ("H05", "nothing_on_the_page_is_there_twice"),
    ("H06", "nothing_on_the_page_is_there_twice"),
    ("H07", "a_reading_is_published_or_withheld_with_its_reason"),
    ("H08", "a_label_names_its_rail_or_none"),
    ("H09", "a_label_names_its_rail_or_none"),
    ("H10", "a_label_names_its_rail_or_none"),
    ("H11", "a_source_that_dies_for_good_is_replaced_and_never_mixed"),
    ("H12", "attributes_are_found_at_both_places_and_count_once"),
    ("H13", "every_socket_is_found_whatever_its_number"),
    ("H14", "renumbered_sensors_keep_identity_and_power"),
    ("H16", "a_reading_is_published_or_withheld_with_its_reason"),
    ("H17", "a_window_is_told_only_where_it_is_known"),
    ("H18", "slow_sensors_do_not_add_up"),
    ("H20", "one_file_that_fails_is_one_sensor"),
    ("H21", "a_reading_is_published_or_withheld_with_its_reason"),
    ("H24", "parts_that_draw_more_than_their_whole_are_told"),
];

/// The tests of all files that hold rows.
const SOURCES: [&str; 8] = [
    include_str!("hwmon_rows.rs"),
    include_str!("rapl_rows.rs"),
    include_str!("golden.rs"),
    include_str!("hang.rs"),
    include_str!("process.rs"),
    include_str!("rapl.rs"),
    include_str!("reconsider.rs"),
    include_str!("rediscovery.rs"),
];

/// Every row is there once, in order, but for these numbers, and is held by a test that exists.
pub(crate) fn check_rows(letter: char, rows: &[(&str, &str)], last: u32, unused: &[u32]) {
    let numbers = (1..=last).filter(|number| !unused.contains(number));
    let expected: Vec<String> = numbers.map(|number| format!("{letter}{number:02}")).collect();
    let found: Vec<&str> = rows.iter().map(|(id, _)| *id).collect();
    assert_eq!(found, expected);
    for (id, held) in rows {
        let is_test = |source: &&str| source.contains(&format!("#[test]\nfn {held}()"));
        assert!(SOURCES.iter().any(is_test) || held.starts_with("never: "), "{id}: {held}");
    }
}

#[test]
fn every_row_of_a_meter_is_held_or_cannot_arise() {
    check_rows('H', &ROWS, 24, &[3, 15, 19, 22, 23]);
}
