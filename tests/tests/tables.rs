//! The Parquet files of a run, as pyarrow, pandas, Polars and DuckDB read them: also while it is being recorded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use wattscribe_simulator::{Fault, Machine, Waveform};
use wattscribe_tests::nodes::Nodes;
use wattscribe_tests::program::{Running, run, wattscribe};
use wattscribe_tests::python::Script;
use wattscribe_tests::wait::eventually;

const TABLES: [&str; 6] =
    ["cpu_samples", "scrapes", "readings", "derived", "rule_members", "energy_windows"];

/// Columns whose types are told here in the words of tests/peers/tables.py.
const TYPES: [(&str, &str, &str); 16] = [
    ("cpu_samples", "timestamp", "timestamp us utc"),
    ("cpu_samples", "sensor_time", "timestamp us utc"),
    ("cpu_samples", "hostname", "string"),
    ("cpu_samples", "socket_id", "int64"),
    ("cpu_samples", "power_w", "double"),
    ("cpu_samples", "simulated", "bool"),
    ("scrapes", "timestamp", "timestamp us utc"),
    ("scrapes", "seq", "int64"),
    ("scrapes", "outcome", "string"),
    ("readings", "labels", "string"),
    ("readings", "value", "double"),
    ("readings", "read_at", "timestamp us utc"),
    ("derived", "timestamp", "timestamp us utc"),
    ("derived", "members_expected", "int64"),
    ("rule_members", "labels", "string"),
    ("energy_windows", "energy_j", "double"),
];

/// Two nodes, one of which has a socket that is withheld: its rows have no power.
fn nodes() -> Nodes {
    let totals = [Waveform::Constant { watts: 94.29 }, Waveform::Constant { watts: 100.5 }];
    let nodes = Nodes::start(&[Machine::grace("grace", &totals), Machine::rapl("rapl", &totals)]);
    let broken = Fault::Text("N/A\n".to_owned());
    nodes.simulation.fail("grace", "ACPI000D:03/power1", broken).unwrap();
    eventually("a socket is withheld", || {
        nodes.page("grace").contains("\npower_withheld{").then_some(())
    });
    nodes
}

#[test]
fn every_reader_reads_the_same_rows_and_types() {
    let nodes = nodes();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    run(nodes.record(&out).args(["--keep", "power_", "--duration", "2s"])).succeeded();
    write_windows(&out);
    let Some(first) = read(&out) else { return };
    for (table, column, expected) in TYPES {
        assert_eq!(
            first[table]["readers"]["pyarrow"]["types"][column], expected,
            "{table}.{column}"
        );
    }
    check_simulated(&nodes, &out, &first);

    // Again while the same run is recorded to.
    let mut recorder = Running::start(nodes.record(&out).args(["--keep", "power_"]));
    let csv = out.join("cpu/samples.csv");
    let length = std::fs::metadata(&csv).unwrap().len();
    eventually("the run goes on", || {
        (std::fs::metadata(&csv).unwrap().len() > length).then_some(())
    });
    assert_eq!(read(&out).unwrap(), first);
    assert!(recorder.is_running());
    recorder.signal(Signal::TERM);
    recorder.wait().succeeded();

    // Two parts a table now; one more result.
    write_windows(&out);
    let last = read(&out).unwrap();
    for table in TABLES {
        let rows = |tables: &Value| tables[table]["readers"]["pyarrow"]["rows"].as_u64().unwrap();
        // Members are met once.
        assert!(rows(&last) > rows(&first) || table == "rule_members", "{table}");
    }
}

/// Writes windows as Parquet beside the run, without a gap limit that the recording could fail.
fn write_windows(out: &Path) {
    let mut command = wattscribe();
    command.arg("energy").arg(out).args(["--every", "500ms", "--format", "parquet"]);
    let path = run(&mut command).succeeded().stdout;
    assert!(Path::new(path.trim()).starts_with(out.join("energy_windows")), "{path}");
}

/// All tables, once it is sure that all readers agree about them. None without Python.
fn read(out: &Path) -> Option<Value> {
    let script = Script::named("tables")?;
    let tables = TABLES.iter().fold(script, |script, table| script.arg(out.join(table))).answer();
    for table in TABLES {
        let readers = tables[table]["readers"].as_object().unwrap();
        assert_eq!(readers.len(), 4);
        let pyarrow = &readers["pyarrow"];
        assert!(pyarrow["rows"].as_u64().unwrap() > 0, "{table}");
        for (reader, found) in readers {
            assert_eq!(found, pyarrow, "{table} by {reader}");
        }
        assert_eq!(tables[table]["metadata"]["wattscribe.schema"], table);
    }
    Some(tables)
}

/// The marker goes the whole way: from the page to the manifest and every file.
fn check_simulated(nodes: &Nodes, out: &Path, tables: &Value) {
    for node in ["grace", "rapl"] {
        assert!(nodes.page(node).contains("\npower_simulated 1\n"), "{node}");
    }
    let manifest = std::fs::read(out.join("cpu/cpu_manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["wattscribe"]["simulated"], json!("true"));
    for table in TABLES {
        assert_eq!(tables[table]["metadata"]["wattscribe.simulated"], json!("true"), "{table}");
    }
}
