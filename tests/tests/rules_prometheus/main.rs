//! Rules in Prometheus: promtool runs the tests that are exported with them, and a real Prometheus that is loaded with them
//! agrees with the engine at every evaluation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod agreement;
mod pages;
mod stored;
mod windows;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use wattscribe_rules::rule;
use wattscribe_tests::peer::Peer;
use wattscribe_tests::program::{run, wattscribe};

/// Every function and guard.
const EVERY: &str = include_str!("every.yaml");

/// Exports a rule file, or the built-in rules, as a user does.
fn export(rules: Option<&str>, scrape_interval: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut command = wattscribe();
    command.args([
        "rules",
        "export",
        "--prometheus",
        "--scrape-interval",
        scrape_interval,
        "--out",
    ]);
    command.arg(folder.path());
    if let Some(rules) = rules {
        let path = folder.path().join("rules.yaml");
        std::fs::write(&path, rules).unwrap();
        command.arg("--rules").arg(path);
    }
    run(&mut command).succeeded();
    folder
}

fn promtool(program: &Path, folder: &Path, args: &[&str]) -> String {
    let ended = run(Command::new(program).args(args).current_dir(folder));
    assert_eq!(ended.code, 0, "{args:?}: {}{}", ended.stdout, ended.stderr);
    assert!(!ended.stderr.to_lowercase().contains("warn"), "{args:?}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn promtool_finds_the_exported_tests_true() {
    let Some(program) = Peer::Promtool.find() else { return };
    let files = [("built in", None, 250), ("every function", Some(EVERY), 500)];
    for (name, rules, expressions_min) in files {
        for interval in ["1s", "5s", "15s"] {
            let folder = export(rules, interval);
            promtool(&program, folder.path(), &["check", "rules", "rules.yml"]);
            promtool(&program, folder.path(), &["test", "rules", "rules_test.yml"]);
            let tests = std::fs::read_to_string(folder.path().join("rules_test.yml")).unwrap();
            let (there, absent) =
                (tests.matches("value: ").count(), tests.matches("exp_samples: []").count());
            assert!(
                there >= expressions_min && absent >= 20,
                "{name}, {interval}: {there} samples, {absent} that are withheld"
            );
        }
    }
}

/// Windows and the part of them that must be covered.
fn shares() -> String {
    let mut rules = String::from("wattscribe_rules: 1\ngap: 1m\nrules:\n");
    for share in [1, 34, 50, 90, 100] {
        for window in ["30s", "1m", "2m30s"] {
            rules += &format!(
                "  - name: node:power_joules:over{window}_{share}\n    function: integrate\n    \
                 of: cpu_power_acpi_watts{{type=\"total\"}}\n    over: {{every: 30s, length: {window}}}\n    \
                 by: [node]\n    withhold: {{coverage_below: {share}%}}\n    boundary: socket_total\n    unit: J\n"
            );
        }
    }
    rules
}

/// A window has as many readings as its guard asks for whatever the interval is, also where that does not divide it, and
/// never fewer than the two that have time between them.
#[test]
fn promtool_finds_every_share_of_a_window_true() {
    let Some(program) = Peer::Promtool.find() else { return };
    let rules = shares();
    for interval in ["1s", "5s", "7s", "15s", "20s"] {
        let folder = export(Some(&rules), interval);
        promtool(&program, folder.path(), &["check", "rules", "rules.yml"]);
        promtool(&program, folder.path(), &["test", "rules", "rules_test.yml"]);
        let tests = std::fs::read_to_string(folder.path().join("rules_test.yml")).unwrap();
        assert!(tests.matches("value: ").count() >= 50, "{interval}: {tests}");
        let rules = std::fs::read_to_string(folder.path().join("rules.yml")).unwrap();
        let least = rules.split("count_over_time(").skip(1).map(|rest| {
            let (_, number) = rest.split_once(">= ").unwrap();
            number.split_whitespace().next().unwrap().parse::<u32>().unwrap()
        });
        assert!(least.min().unwrap() >= 2, "{interval}: a window of one reading");
    }
}

#[test]
fn a_wrong_rule_fails_the_exported_tests() {
    let Some(program) = Peer::Promtool.find() else { return };
    let broken = [
        (
            "sum",
            "sum by (instance) (member:cpu_power_acpi_watts:reading)",
            "avg by (instance) (member:cpu_power_acpi_watts:reading)",
        ),
        ("whole", "== count by (instance) (member:cpu_power_acpi_watts:expected)", "> bool 0"),
        ("spread", "> 0.05 * 1.000000000001", "> 0.5 * 1.000000000001"),
        ("energy", "[1m]) * 60 < Inf", "[1m]) * 61 < Inf"),
        ("window", "[59s999ms:1m] offset 15s", "[59s999ms:1m] offset 1m15s"),
        ("counter", "unless resets(", "and resets("),
    ];
    for (what, from, to) in broken {
        let folder = export(None, "5s");
        let path = folder.path().join("rules.yml");
        let rules = std::fs::read_to_string(&path).unwrap();
        assert!(rules.contains(from), "{what}: no {from:?}");
        std::fs::write(&path, rules.replace(from, to)).unwrap();
        let test = ["test", "rules", "rules_test.yml"];
        let ended = run(Command::new(&program).args(test).current_dir(folder.path()));
        assert_eq!(ended.code, 1, "{what}: {}{}", ended.stdout, ended.stderr);
    }
}

/// The rules that are built in and all others, with windows that fit into a test.
fn live_rules() -> String {
    let (head, every) = EVERY.split_once("\nrules:\n").unwrap();
    let (_, builtin) = rule::BUILTIN.split_once("\nrules:\n").unwrap();
    let text = format!("{head}\nrules:\n{builtin}\n{every}");
    [
        ("{every: 1m}", "{every: 5s, length: 10s}"),
        ("{every: 30s, length: 1m}", "{every: 5s, length: 10s}"),
        ("{every: 30s, length: 2m}", "{every: 5s, length: 10s}"),
        ("{every: 30s}", "{every: 5s}"),
    ]
    .iter()
    .fold(text, |text, (from, to)| text.replace(from, to))
}
