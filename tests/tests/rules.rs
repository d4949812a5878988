//! Rules live and over files: what `wattscribe record` derives is, to the bit, what `wattscribe rules eval` makes of the
//! recorded rows: of Parquet, of the journal, after `kill -9` and over restarts; and of CSV, as far as that can carry it.
//! The built-in rules give the means and the residuals of the modules of a GB200 as they were measured.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use wattscribe_simulator::{Fault, Machine, Waveform};
use wattscribe_table::{DerivedRow, PartReader, Row, RunReader};
use wattscribe_tests::http;
use wattscribe_tests::nodes::{Nodes, record};
use wattscribe_tests::program::{Running, run, wattscribe};
use wattscribe_tests::wait::eventually;

/// Rules that settle often, so that a test of some seconds has many results of every kind.
const RULES: &str = r#"
wattscribe_rules: 1
every: 200ms
look_back: 1s
lateness: 300ms
gap: 1s
rules:
  - name: node:acpi_watts:sum
    function: sum
    of: cpu_power_acpi_watts{type="total"}
    by: [node]
    boundary: socket_total
    unit: W
  - name: node:acpi_watts:max
    function: max
    of: cpu_power_acpi_watts{type="total"}
    by: [node]
    boundary: socket_total
    unit: W
  - name: node:rapl_watts:sum
    function: sum
    of: cpu_power_rapl_watts{type="package"}
    by: [node]
    boundary: package
    unit: W
  - name: fleet:acpi_watts:sum
    function: sum
    of: node:acpi_watts:sum
    by: []
    boundary: socket_total
    unit: W
  - name: node:acpi_joules:integrate
    function: integrate
    of: cpu_power_acpi_watts{type="total"}
    over: {every: 400ms, length: 1s}
    by: [node]
    boundary: socket_total
    unit: J
  - name: node:acpi_watts:p95
    function: quantile
    quantile: 0.95
    of: node:acpi_watts:sum
    over: {every: 1s}
    by: [node]
    boundary: socket_total
    unit: W
  - name: socket:rapl_joules:check
    function: check
    of: cpu_power_rapl_watts{type="package"}
    against: cpu_energy_joules_total{type="package"}
    over: {every: 1s}
    by: [node, socket]
    boundary: package
    unit: J
  - name: fleet:acpi_joules:sum
    function: sum
    of: node:acpi_joules:integrate
    by: []
    boundary: socket_total
    unit: J
"#;

/// A result to the bit.
fn to_the_bit(row: &DerivedRow) -> String {
    let bits = |number: Option<f64>| number.map(f64::to_bits);
    let numbers = [row.value, row.low, row.high, row.counter, row.spread, Some(row.coverage)];
    format!("{row:?} {:?}", numbers.map(bits))
}

fn sorted(rows: impl Iterator<Item = DerivedRow>) -> Vec<String> {
    let mut rows: Vec<String> = rows.map(|row| to_the_bit(&row)).collect();
    rows.sort_unstable();
    rows
}

/// What a recorder derived.
fn recorded(out: &Path) -> Vec<DerivedRow> {
    RunReader::open(out).unwrap().rows().unwrap().map(Result::unwrap).collect()
}

/// What a recording gives.
fn evaluated(run_path: &Path, folder: &Path, threads: &str) -> Vec<DerivedRow> {
    let out = TempDir::new_in(folder).unwrap();
    let mut command = wattscribe();
    command.args(["rules", "eval", "--threads", threads, "--out"]).arg(out.path()).arg(run_path);
    let rules = folder.join("rules.yaml");
    if rules.is_file() {
        command.arg("--rules").arg(rules);
    }
    let ended = run(&mut command).succeeded();
    let is_of_csv = |line: &str| line.contains("a samples.csv has no readings of pages");
    let is_csv = run_path.is_file();
    assert!(ended.stderr.lines().all(|line| is_csv && is_of_csv(line)), "{}", ended.stderr);
    let mut parts: Vec<PathBuf> = fs::read_dir(out.path().join(DerivedRow::TABLE))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    parts.sort_unstable();
    let rows = |path: &PathBuf| PartReader::open(path).unwrap().map(Result::unwrap);
    parts.iter().flat_map(rows).collect()
}

fn check_same(out: &Path, folder: &Path) -> Vec<DerivedRow> {
    let live = recorded(out);
    let expected = sorted(live.iter().cloned());
    let mut once = expected.clone();
    once.dedup();
    assert_eq!(once.len(), expected.len(), "a result is recorded twice");
    for threads in ["1", "3"] {
        let found = sorted(evaluated(out, folder, threads).into_iter());
        let missing: Vec<_> =
            expected.iter().filter(|row| found.binary_search(row).is_err()).collect();
        let more: Vec<_> =
            found.iter().filter(|row| expected.binary_search(row).is_err()).collect();
        assert!(
            missing.is_empty() && more.is_empty(),
            "live only: {missing:#?}\nfiles only: {more:#?}"
        );
    }
    live
}

fn nodes() -> Nodes {
    let ramp = Waveform::Ramp { from_w: 60.0, to_w: 180.0, duration_s: 60.0 };
    let sine = Waveform::Sine { mean_w: 120.0, amplitude_w: 40.0, period_s: 5.0, phase_rad: 0.0 };
    Nodes::start(&[
        Machine::grace("a", &[ramp, sine]),
        Machine::grace("b", &[sine, ramp]),
        Machine::rapl("c", &[sine, sine]),
    ])
}

/// A recording that goes on and on, and what stands in its way.
struct Recording {
    nodes: Nodes,
    folder: TempDir,
    out: PathBuf,
}

impl Recording {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        let out = folder.path().join("run");
        Self { nodes: nodes(), folder, out }
    }

    fn command(&self, targets: &[&str]) -> Command {
        let targets = targets.iter().map(|name| (*name, self.nodes.address(name)));
        let mut command = record(targets, "100ms", &self.out);
        command.arg("--rules").arg(self.folder.path().join("rules.yaml"));
        command
    }

    /// Records for a while, and ends in order.
    fn record(&self, targets: &[&str], duration: &str) -> Vec<DerivedRow> {
        run(self.command(targets).args(["--duration", duration])).succeeded();
        check_same(&self.out, self.folder.path())
    }

    /// Records for a while, and is killed: no result is there that files do not give.
    fn kill_after(&self, targets: &[&str], after: Duration) {
        let recorder = Running::start(&mut self.command(targets));
        thread::sleep(after);
        recorder.kill();
        let expected = sorted(evaluated(&self.out, self.folder.path(), "2").into_iter());
        for row in sorted(recorded(&self.out).into_iter()) {
            assert!(expected.binary_search(&row).is_ok(), "killed after {after:?}: {row}");
        }
    }
}

const ALL: [&str; 3] = ["a", "b", "c"];

#[test]
fn live_and_files_give_the_same_over_kills_and_restarts() {
    let recording = Recording::new();
    let live = recording.record(&ALL, "4s");
    for rule in RULES.lines().filter_map(|line| line.strip_prefix("  - name: ")) {
        assert!(live.iter().any(|row| row.rule == rule && row.value.is_some()), "{rule}");
    }
    assert!(live.iter().all(|row| row.simulated));
    let kept = fs::read_to_string(recording.out.join("rules.yaml")).unwrap();
    assert_eq!(kept, RULES);
    let manifest = fs::read(recording.out.join("cpu/cpu_manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert!(manifest["wattscribe"]["rules"].as_str().unwrap().ends_with("rules.yaml"));

    for tenths in [1, 14, 0, 23, 9, 3] {
        recording.kill_after(&ALL, Duration::from_millis(100 * tenths + 37));
    }
    recording.record(&ALL, "2s");
    // A node that is not recorded any more is missing from the fleet, and one that is withheld is not a zero.
    let broken = Fault::Text("N/A\n".to_owned());
    recording.nodes.simulation.fail("a", "ACPI000D:03/power1", broken).unwrap();
    recording.kill_after(&["a", "c"], Duration::from_millis(2300));
    let live = recording.record(&["a", "c"], "2500ms");
    let withheld =
        |rule: &str| live.iter().filter(|row| row.rule == rule && row.value.is_none()).count();
    assert!(withheld("node:acpi_watts:sum") > 0 && withheld("fleet:acpi_watts:sum") > 0);
    recording.nodes.simulation.heal("a", "ACPI000D:03/power1").unwrap();
    recording.record(&ALL, "3s");
}

#[test]
fn a_csv_gives_the_same_results_of_sockets() {
    let recording = Recording::new();
    let live = recording.record(&ALL, "5s");
    let csv = recording.out.join("cpu/samples.csv");
    let found = evaluated(&csv, recording.folder.path(), "2");
    // A CSV has no counters, and its scrapes are as old as their readings: the last instants are not settled.
    let last_us = found.iter().map(|row| row.timestamp_us).max().unwrap();
    let is_carried = |row: &&DerivedRow| {
        row.rule != "socket:rapl_joules:check"
            && row.start_us.is_none()
            && row.timestamp_us <= last_us
    };
    let first_us = found.iter().map(|row| row.timestamp_us).min().unwrap();
    let expected = live.iter().filter(is_carried).filter(|row| row.timestamp_us >= first_us);
    let expected = sorted(expected.cloned());
    assert!(expected.len() > 40, "{expected:#?}");
    let found = sorted(found.iter().filter(is_carried).cloned());
    let missing: Vec<_> = expected.iter().filter(|row| found.binary_search(row).is_err()).collect();
    assert!(missing.is_empty(), "{missing:#?}\n{found:#?}");
}

#[test]
fn the_recorders_page_has_the_newest_results() {
    let recording = Recording::new();
    let mut recorder = Running::start(recording.command(&ALL).args([
        "--listen",
        "127.0.0.1:0",
        "--duration",
        "60s",
    ]));
    let address: SocketAddr = recorder.says("the page", |log| {
        let (_, after) = log.split_once("is at http://")?;
        after.split_once("/metrics")?.0.parse().ok()
    });
    let page = eventually("results on the page", || {
        let page = http::get(address, "/metrics").text();
        page.contains("\nfleet:acpi_watts:sum ").then(|| format!("\n{page}"))
    });
    assert_eq!(http::get(address, "/readyz").text(), "ready\n");
    for line in [
        "# TYPE node:acpi_watts:sum gauge",
        "wattscribe_target_up{target=\"c\"} 1",
        "wattscribe_target_simulated{target=\"a\"} 1",
        "wattscribe_rule_timestamp_seconds{rule=\"node:rapl_watts:sum\"} ",
    ] {
        assert!(page.contains(&format!("\n{line}")), "{line} in {page}");
    }
    let watts = |rule: &str| -> f64 {
        let line = page.lines().find(|line| line.starts_with(rule)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!((100.0..400.0).contains(&watts("node:rapl_watts:sum{node=\"c\"}")), "{page}");
    let broken = Fault::Text("N/A\n".to_owned());
    recording.nodes.simulation.fail("a", "ACPI000D:03/power1", broken).unwrap();
    eventually("a result is withheld", || {
        let page = http::get(address, "/metrics").text();
        page.contains("\nwattscribe_rule_withheld{rule=\"node:acpi_watts:sum\",reason=\"members\",")
            .then_some(())
    });
    recorder.signal(Signal::TERM);
    recorder.wait().succeeded();
}

#[test]
fn a_rule_file_is_checked_and_a_bad_one_is_refused_everywhere() {
    let folder = TempDir::new().unwrap();
    let (good, bad) = (folder.path().join("good.yaml"), folder.path().join("bad.yaml"));
    fs::write(&good, RULES).unwrap();
    fs::write(&bad, RULES.replace("function: sum", "function: summ").replace("unit: W", "unit: V"))
        .unwrap();
    let check = |path: &Path| run(wattscribe().args(["rules", "check"]).arg(path));
    let ended = check(&good).succeeded();
    assert_eq!(ended.stdout, format!("{}: 8 rules\n", good.display()));
    let ended = check(&bad);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    let start = format!("{}: line ", bad.display());
    assert!(ended.stderr.lines().count() > 3, "{}", ended.stderr);
    assert!(ended.stderr.lines().all(|line| line.starts_with(&start)), "{}", ended.stderr);
    assert_eq!(check(&folder.path().join("none.yaml")).code, 2);
    let out = folder.path().join("run");
    let mut command = record([("a", "127.0.0.1:9".parse().unwrap())], "1s", &out);
    assert_eq!(run(command.arg("--rules").arg(&bad)).code, 2);
    assert!(!out.exists(), "nothing is begun");
}

#[test]
fn a_result_is_explained() {
    let recording = Recording::new();
    let live = recording.record(&ALL, "3s");
    let row = live.iter().rfind(|row| row.rule == "node:acpi_watts:sum").unwrap();
    let explain = |rule: &str, more: &[&str]| {
        let at = format!("{:.6}", row.timestamp_us as f64 / 1e6);
        let mut command = wattscribe();
        command.args(["rules", "explain", rule, "--at", &at]).args(more).arg(&recording.out);
        run(&mut command)
    };
    let node = row.node.as_deref().unwrap();
    let text = explain("node:acpi_watts:sum", &["--node", node]).succeeded().stdout;
    assert!(text.contains(&format!("\n  {} W\n", row.value.unwrap())), "{text}");
    for socket in ["0", "1"] {
        let series = format!(
            "    cpu_power_acpi_watts{{socket=\"{socket}\",source=\"acpi\",type=\"total\"}}  "
        );
        assert!(text.contains(&series), "{text}");
    }
    assert!(text.contains("2 of 2 members"), "{text}");
    let text = explain("fleet:acpi_watts:sum", &[]).succeeded().stdout;
    assert!(
        text.contains("node:acpi_watts:sum{node=\"a\"}") && text.contains("{node=\"b\"}"),
        "{text}"
    );
    let ended = explain("node:nothing:sum", &[]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("no rule is called \"node:nothing:sum\""), "{}", ended.stderr);
}
