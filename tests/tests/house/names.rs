//! Names of metrics in documents, dashboards and rules: each is published, read, or recorded by a rule.

use std::collections::BTreeSet;

use wattscribe_exporter::families;
use wattscribe_rules::rule::builtin;
use wattscribe_table::{CpuSample, Row};

use crate::repository::{files, text};

/// Where names stand that a reader may copy.
const PLACES: [&str; 5] = ["README.md", "CHANGELOG.md", "docs", "dashboards", "deploy"];

/// How names of ours begin.
const BEGINNINGS: [&str; 4] = ["power_", "cpu_power_", "cpu_energy_", "gpu_module_"];

/// Names of other things: a kernel driver, a file of a PCI device in sysfs, a module of ours.
const OTHER: [&str; 3] = ["power_meter", "power_state", "power_page"];

/// The names that rules record, those of Prometheus and our own.
fn recorded() -> BTreeSet<String> {
    let rules = text("deploy/prometheus/rules.yml");
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    names.map(str::to_owned).chain(builtin().rules.into_iter().map(|rule| rule.name)).collect()
}

fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = recorded();
    for family in families::ALL {
        known.extend(
            ["", "_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", family.name)),
        );
    }
    known.extend(CpuSample::columns().into_iter().map(|column| column.name.to_owned()));
    known.extend(OTHER.map(str::to_owned));
    known
}

/// Words of a text that look like metrics of ours and are none.
fn unknown<'a>(text: &'a str, known: &BTreeSet<String>) -> Vec<&'a str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let words = words.map(|word| word.trim_matches(':'));
    let is_ours = |word: &&str| {
        let is_recorded = word.contains(':') && word.contains('_') && !word.contains("::");
        BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
            || (is_recorded && (word.contains("power") || word.contains("energy")))
    };
    words.filter(is_ours).filter(|word| !known.contains(*word)).collect()
}

#[test]
fn no_document_names_a_metric_that_is_not_there() {
    let known = known();
    assert!(recorded().len() >= 4, "rules.yml records {:?}", recorded());
    let mut read = 0;
    for ending in [".md", ".json", ".yml", ".service", ".sbatch"] {
        for path in files(&PLACES, ending) {
            read += 1;
            assert_eq!(unknown(&text(&path), &known), Vec::<&str>::new(), "{path}");
        }
    }
    assert!(read > 10, "only {read} files");
}

#[test]
fn unknown_names_are_found() {
    let known = known();
    let cases: [(&str, &[&str]); 6] = [
        ("rate(cpu_energy_joules_total[5m])", &[]),
        ("cpu_power_watts + power_sensor_states", &["cpu_power_watts", "power_sensor_states"]),
        ("power_read_duration_seconds_bucket", &[]),
        (
            "instance:cpu_power_acpi_watts:sum / instance:cpu_power_watts:sum",
            &["instance:cpu_power_watts:sum"],
        ),
        ("record: power_w", &[]),
        ("gpu_power_draw", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(unknown(text, &known), expected, "{text}");
    }
}
