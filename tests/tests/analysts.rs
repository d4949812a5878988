//! The energy that an analyst computes from samples.csv with pandas is the energy that the report states.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use wattscribe_simulator::{Machine, Waveform};
use wattscribe_tests::nodes::Nodes;
use wattscribe_tests::program::{run, wattscribe};
use wattscribe_tests::python::Script;

/// The text of `wattscribe energy INPUT --format json`.
fn energy(input: &Path, args: &[&str]) -> String {
    let mut command = wattscribe();
    run(command.arg("energy").arg(input).args(["--format", "json"]).args(args)).succeeded().stdout
}

/// The energy of a node, or of one of its sockets, in joules.
fn joules(windows: &str, node: &str, socket: Option<u32>) -> f64 {
    let windows: Vec<Value> = serde_json::from_str(windows).unwrap();
    let is_it = |window: &&Value| {
        window["hostname"] == node
            && window["socket_id"].as_u64() == socket.map(u64::from)
            && window["boundary"] == if socket.is_some() { "socket" } else { "node" }
    };
    let window = windows.iter().find(is_it).unwrap();
    assert_eq!(window["verdict"], "full", "{window}");
    window["energy_j"].as_f64().unwrap()
}

#[test]
fn the_formula_and_the_report_agree() {
    let square = Waveform::Square { low_w: 80.0, high_w: 160.0, period_s: 0.7, duty: 0.5 };
    let ramp = Waveform::Ramp { from_w: 60.0, to_w: 180.0, duration_s: 8.0 };
    let sine = Waveform::Sine { mean_w: 120.0, amplitude_w: 40.0, period_s: 1.3, phase_rad: 0.0 };
    let constant = Waveform::Constant { watts: 94.29 };
    let nodes = Nodes::start(&[
        Machine::grace("grace-a", &[square, ramp]),
        Machine::grace("grace-b", &[sine, constant]),
    ]);
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    run(nodes.record(&out).args(["--duration", "5s"])).succeeded();
    let csv = out.join("cpu/samples.csv");
    let Some(script) = Script::named("formula") else { return };
    let hosts = script.arg(&csv).answer();
    assert_eq!(hosts.as_object().unwrap().len(), 2, "{hosts}");
    let (mut by_formula, mut by_report) = (0.0, 0.0);
    for (host, by_pandas) in hosts.as_object().unwrap() {
        let window = ["--from", text(by_pandas, "from"), "--to", text(by_pandas, "to")];
        let from_run = energy(&out, &window);
        // To the bit: the same text.
        assert_eq!(energy(&csv, &window), from_run);
        assert_eq!(energy(&out.join("cpu_samples"), &window), from_run);
        let (expected, found) =
            (by_pandas["joules"].as_f64().unwrap(), joules(&from_run, host, None));
        check_close(found, expected, host);
        by_formula += expected;
        by_report += found;
    }
    check_close(by_report, by_formula, "both");
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap()
}

/// Equal but for the order in which some hundred doubles were added.
fn check_close(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() <= expected * 1e-9,
        "{what}: {found} J, expected {expected} J"
    );
}

#[test]
fn files_of_older_recorders_have_their_energy() {
    let v1 = |t: u32| {
        [
            ("Grace Power Socket 0", 0, 100.0),
            ("CPU Power Socket 0", 0, 48.0),
            ("Grace Power Socket 1", 1, 50.0),
        ]
        .map(|(sensor, socket, watts)| {
            format!("1,{t}.25,node-a,acpi,{sensor},{socket},{watts:?},150.0\r\n")
        })
        .concat()
    };
    let v2 = |t: u32| {
        [(0, 100.0), (1, 50.0)]
            .map(|(n, watts)| format!("2,{t}.25,node-a,acpi,CPU{n}:cpuSidePowerUsageW,{n},{watts:?},48.0,5.1,,150.0\r\n"))
            .concat()
    };
    const V1: &str =
        "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,total_power_w\r\n";
    const V2: &str = "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,total_power_w\r\n";
    let seconds = 1_788_310_143..=1_788_310_153;
    let files = [
        ("v1", V1.to_owned() + &seconds.clone().map(v1).collect::<String>()),
        ("v2", V2.to_owned() + &seconds.map(v2).collect::<String>()),
    ];
    let folder = TempDir::new().unwrap();
    for (version, lines) in files {
        let csv = folder.path().join(format!("{version}.csv"));
        std::fs::write(&csv, lines).unwrap();
        let windows = energy(&csv, &[]);
        let found = [Some(0), Some(1), None].map(|socket| joules(&windows, "node-a", socket));
        assert_eq!(found, [1000.0, 500.0, 1500.0], "{version}");
    }
}
