//! samples.csv as the readers of other recorders take it, in the version that they know.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::{Value, json};
use tempfile::TempDir;
use wattscribe_simulator::{Machine, Waveform};
use wattscribe_tests::nodes::Nodes;
use wattscribe_tests::program::run;
use wattscribe_tests::python::Script;

#[test]
fn each_version_is_taken_by_who_knows_it_and_refused_by_who_does_not() {
    let totals = [Waveform::Constant { watts: 94.29 }, Waveform::Constant { watts: 100.5 }];
    let nodes = Nodes::start(&[Machine::grace("grace-a", &totals)]);
    let folder = TempDir::new().unwrap();
    for version in ["2", "3"] {
        let out = folder.path().join(version);
        run(nodes.record(&out).args(["--csv-version", version, "--duration", "2s"])).succeeded();
        for known in ["2", "3"] {
            let Some(script) = Script::named("samples_csv") else { return };
            let found = script.arg(out.join("cpu/samples.csv")).arg(known).answer();
            assert_eq!(found["has_other_ends"], json!(false), "{found}");
            if known == version {
                check_rows(&found);
            } else {
                assert_eq!(found["reasons"], json!(["cpu_samples_csv_header_mismatch"]), "{found}");
            }
        }
    }
}

/// Two rows a scrape, each with what the waveforms say.
fn check_rows(found: &Value) {
    assert_eq!(found["reasons"], json!([]), "{found}");
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.len() >= 10 && rows.len().is_multiple_of(2), "{found}");
    for pair in rows.chunks(2) {
        assert_eq!(pair[0]["timestamp_unix"], pair[1]["timestamp_unix"]);
        for (row, (socket, [watts, cpu_rail, soc])) in
            pair.iter().zip([(0, [94.29, 46.202, 5.657]), (1, [100.5, 49.245, 6.03])])
        {
            let sensor = format!("CPU{socket}:cpuSidePowerUsageW");
            let expected = json!([
                "grace-a",
                "acpi",
                sensor,
                socket,
                watts,
                cpu_rail,
                soc,
                null,
                94.29 + 100.5
            ]);
            let columns = [
                "hostname",
                "source",
                "sensor",
                "socket_id",
                "power_w",
                "cpu_rail_w",
                "soc_w",
                "dram_w",
                "total_power_w",
            ];
            assert_eq!(json!(columns.map(|column| &row[column])), expected);
        }
    }
}
