//! Rules around a command: its window is bracketed by results; and what an explanation says is missing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use wattscribe_simulator::{Machine, Waveform};
use wattscribe_table::{DerivedRow, RunReader};
use wattscribe_tests::nodes::{Nodes, record};
use wattscribe_tests::program::{run, wattscribe};

fn nodes() -> Nodes {
    let sine = Waveform::Sine { mean_w: 120.0, amplitude_w: 40.0, period_s: 5.0, phase_rad: 0.0 };
    Nodes::start(&["a", "b"].map(|name| Machine::grace(name, &[sine, sine])))
}

fn recorded(out: &Path) -> Vec<DerivedRow> {
    RunReader::open(out).unwrap().rows().unwrap().map(Result::unwrap).collect()
}

/// A sum of results over the window of a command: both its edges need an instant beside them.
const NAMED: &str = r#"wattscribe_rules: 1
every: 1s
rules:
  - name: node:acpi_watts:sum
    function: sum
    of: cpu_power_acpi_watts{type="total"}
    by: [node]
    boundary: socket_total
    unit: W
  - name: node:acpi_joules:integrate
    function: integrate
    of: node:acpi_watts:sum
    over: named
    by: [node]
    withhold: {coverage_below: 100%}
    boundary: socket_total
    unit: J
  - name: fleet:acpi_joules:sum
    function: sum
    of: node:acpi_joules:integrate
    by: []
    boundary: socket_total
    unit: J
"#;

#[test]
fn a_commands_window_is_covered_by_results_from_edge_to_edge() {
    let folder = TempDir::new().unwrap();
    let (rules, out) = (folder.path().join("rules.yaml"), folder.path().join("run"));
    fs::write(&rules, NAMED).unwrap();
    let nodes = nodes();
    let targets = ["a", "b"].map(|name| (name, nodes.address(name)));
    let around = |rules: &Path, interval: &str| {
        let mut command = record(targets, interval, &out);
        run(command.arg("--rules").arg(rules).args(["--", "sleep", "0.2"])).succeeded()
    };
    let ended = around(&rules, "300ms");
    assert!(!ended.stderr.contains("WARN"), "{}", ended.stderr);
    // Without --windows those of the recording are taken.
    for windows in [&[][..], &["--windows", out.join("windows.csv").to_str().unwrap()]] {
        let mut command = wattscribe();
        command.args(["rules", "eval", "--format", "json"]).arg(&out).args(windows);
        let stdout = run(&mut command).succeeded().stdout;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&stdout).unwrap();
        let mut joules = BTreeMap::new();
        for row in rows.iter().filter(|row| row["unit"] == "J") {
            assert_eq!(row["coverage"], 1.0, "{row}");
            let key = (row["rule"].as_str().unwrap(), row["node"].as_str().unwrap_or("fleet"));
            joules.insert(key, row["value"].as_f64().unwrap());
        }
        let (node, fleet) = ("node:acpi_joules:integrate", "fleet:acpi_joules:sum");
        assert_eq!(joules.len(), 3, "{stdout}");
        let sum = joules[&(node, "a")] + joules[&(node, "b")];
        assert!((joules[&(fleet, "fleet")] - sum).abs() < 1e-9, "{stdout}");
    }
    // Going on with other rules, and with an interval that is too long for them, is said.
    fs::write(&rules, NAMED.replace("every: 1s", "every: 1s\ngap: 2s")).unwrap();
    let said = around(&rules, "1s").stderr;
    assert!(said.contains("the recording goes on with other rules"), "{said}");
    assert!(said.contains("set `gap: 3s` and `look_back: 5s`"), "{said}");
}

#[test]
fn an_explanation_names_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let (rules, out) = (folder.path().join("rules.yaml"), folder.path().join("run"));
    let text = NAMED.replace("over: named", "over: {every: 1s}").replace(
        "  - name: fleet",
        "  \
- name: node:share:ratio
    function: ratio
    of: cpu_power_acpi_watts{type=\"total\"}
    to: accelerator_power_watts{scope=\"gpu\"}
    by: [node]
    boundary: accelerator
    unit: '1'
  - name: node:acpi_watts:p95
    function: quantile
    quantile: 0.95
    of: cpu_power_acpi_watts{type=\"total\"}
    over: {every: 1s}
    by: [node]
    boundary: socket_total
    unit: W
  - name: fleet",
    );
    fs::write(&rules, text).unwrap();
    let nodes = nodes();
    let mut command = record([("a", nodes.address("a"))], "100ms", &out);
    run(command.arg("--rules").arg(&rules).args(["--duration", "6s"])).succeeded();
    let last = |rule: &str| recorded(&out).into_iter().rfind(|row| row.rule == rule).unwrap();
    let cases = [
        (
            "node:share:ratio",
            "    no member of accelerator_power_watts{scope=\"gpu\"} in this group\n",
        ),
        (
            "node:acpi_watts:p95",
            "    2 members of cpu_power_acpi_watts{type=\"total\"}, quantile takes one\n",
        ),
    ];
    for (rule, expected) in cases {
        let row = last(rule);
        let at = format!("{:.6}", row.start_us.unwrap_or(row.timestamp_us) as f64 / 1e6);
        let explain = |node: &str| {
            let mut command = wattscribe();
            command.args(["rules", "explain", rule, "--at", &at, "--node", node]).arg(&out);
            run(&mut command)
        };
        let said = explain("a").succeeded().stdout;
        assert!(said.contains(expected), "{said}");
        let ended = explain("b");
        assert_eq!(ended.code, 1);
        assert!(
            ended.stderr.contains("no target is called \"b\", expected one of a"),
            "{}",
            ended.stderr
        );
    }
}
