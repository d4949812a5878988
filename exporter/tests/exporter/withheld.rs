//! A reading that cannot be defended is no sample: it has a state and a reason, and comes back by itself.

use std::path::Path;

use wattscribe_exporter::sensor::Source;

use crate::fixture::{Served, Tree, board, eventually, samples, value};

const VALUE: &str = "devices/ACPI000D:00/hwmon/hwmon0/power1_average";
const ENABLE: &str = "devices/ACPI000D:00/hwmon/hwmon0/power1_enable";
const SENSOR: &str = "sensor=\"ACPI000D:00/power1\"";

/// A node of two meters, of which the first is broken in turn.
struct Node {
    tree: Tree,
    served: Served,
}

impl Node {
    fn new() -> Self {
        Self::with(&[])
    }

    /// The node with more files.
    fn with(files: &[(&str, &str)]) -> Self {
        let tree = Tree::meters(&[
            ("Grace Power Socket 0", "98029000"),
            ("Grace Power Socket 1", "95000000"),
        ]);
        for (path, content) in files {
            tree.write(path, content);
        }
        let served = Served::board(board(tree.sysfs(), Source::Acpi));
        let node = Self { tree, served };
        node.recovers();
        node
    }

    /// After `harm` the first meter is in this state for this reason and without a number; after `heal`
    /// it is back. The second meter is there all the time.
    fn check(&self, harm: impl FnOnce(&Tree), state: &str, reason: &str, heal: impl FnOnce(&Tree)) {
        let errors_before = self.errors(reason);
        harm(&self.tree);
        let (state, reason_label) = (format!("state=\"{state}\""), format!("reason=\"{reason}\""));
        let mut page = String::new();
        eventually(&format!("{state} {reason_label}"), || {
            page = self.served.page();
            value(&page, "power_withheld", &[SENSOR, &reason_label]).is_some()
        });
        assert!(value(&page, "power_sensor_state", &[SENSOR, &state]).is_some(), "{page}");
        let watts = samples(&page, "cpu_power_acpi_watts");
        assert_eq!(watts.len(), 1, "{page}");
        assert!(watts[0].ends_with(" 95.000000"), "{page}");
        assert!(value(&page, "power_reading_timestamp_seconds", &[SENSOR]).is_none(), "{page}");
        assert!(self.errors(reason) > errors_before, "{page}");
        heal(&self.tree);
        self.recovers();
    }

    fn recovers(&self) {
        eventually("both meters are published", || {
            let page = self.served.page();
            samples(&page, "power_withheld").is_empty()
                && samples(&page, "cpu_power_acpi_watts").len() == 2
        });
    }

    fn errors(&self, reason: &str) -> f64 {
        let reason = format!("reason=\"{reason}\"");
        value(&self.served.page(), "power_read_errors_total", &[&reason]).unwrap()
    }
}

fn put_back(tree: &Tree) {
    tree.write(VALUE, "98029000\n");
}

#[test]
fn text_that_is_no_power_is_withheld() {
    let node = Node::new();
    let cases = [
        ("N/A\n", "transient", "malformed"),
        ("", "transient", "malformed"),
        ("\n", "transient", "malformed"),
        ("nan", "transient", "malformed"),
        ("inf", "transient", "malformed"),
        ("98.029 W", "transient", "malformed"),
        ("-5000000", "implausible", "negative"),
        ("0", "unavailable", "zero"),
        ("4294967295000", "unavailable", "sensor_unknown"),
        ("9e99", "unavailable", "sensor_unknown"),
    ];
    for (text, state, reason) in cases {
        node.check(|tree| tree.write(VALUE, text), state, reason, put_back);
    }
}

#[test]
fn files_that_cannot_be_read_are_withheld() {
    let node = Node::new();
    node.check(|tree| tree.remove(VALUE), "lost", "gone", put_back);
    let a_directory = |tree: &Tree| {
        tree.remove(VALUE);
        tree.write(&format!("{VALUE}/file"), "1");
    };
    let directory_away = |tree: &Tree| {
        tree.remove(VALUE);
        put_back(tree);
    };
    node.check(a_directory, "transient", "io", directory_away);
    let an_input_error = |tree: &Tree| tree.replace_by_link(VALUE, Path::new("/proc/self/mem"));
    node.check(an_input_error, "transient", "io", put_back);
    node.tree.write("another", "");
    if node.tree.deny("another") {
        let denied = |tree: &Tree| assert!(tree.deny(VALUE));
        node.check(denied, "denied", "denied", put_back);
    }
}

#[test]
fn a_meter_that_is_switched_off_says_so_whatever_it_answers() {
    let node = Node::new();
    // Also a number: it may be the last that was measured.
    for text in ["0", "", "N/A", "98029000"] {
        let off = |tree: &Tree| {
            tree.write(ENABLE, "0\n");
            tree.write(VALUE, text);
        };
        let on = |tree: &Tree| {
            put_back(tree);
            tree.write(ENABLE, "1\n");
        };
        node.check(off, "disabled", "switched_off", on);
    }
}

#[test]
fn a_reading_beyond_the_meters_own_cap_is_implausible() {
    let node = Node::with(&[("devices/ACPI000D:00/hwmon/hwmon0/power1_cap_max", "500000000\n")]);
    let beyond = |tree: &Tree| tree.write(VALUE, "1001000000");
    // A meter averages over less than its cap does: up to twice the cap may be true.
    node.check(beyond, "implausible", "over_limit", |tree| tree.write(VALUE, "999000000"));
}
