//! `wattscribe record` around a command, on a terminal, and beside another recorder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use wattscribe_simulator::{Machine, Waveform};
use wattscribe_tests::nodes::Nodes;
use wattscribe_tests::program::{Running, run, wattscribe};
use wattscribe_tests::python::Script;
use wattscribe_tests::wait::eventually;

fn nodes() -> Nodes {
    let totals = [Waveform::Constant { watts: 94.29 }, Waveform::Constant { watts: 100.5 }];
    Nodes::start(&[Machine::grace("grace", &totals)])
}

#[test]
fn the_commands_exit_code_is_the_recorders_and_its_window_is_bracketed() {
    let cases: [(&[&str], i32); 6] = [
        (&["true"], 0),
        (&["sh", "-c", "sleep 0.5; exit 7"], 7),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["no-such-command"], 127),
        (&["/"], 126),
    ];
    let nodes = nodes();
    let folder = TempDir::new().unwrap();
    thread::scope(|scope| {
        for (number, (command, code)) in cases.into_iter().enumerate() {
            let (nodes, out) = (&nodes, folder.path().join(number.to_string()));
            scope.spawn(move || {
                let ended = run(nodes.record(&out).arg("--").args(command));
                assert_eq!(ended.code, code, "{command:?}: {}", ended.stderr);
                match code {
                    126 | 127 => {
                        let line = format!("cannot run {}", command[0]);
                        assert!(ended.stderr.contains(&line), "{}", ended.stderr);
                        assert!(!out.join("windows.csv").exists());
                    }
                    _ => check_window(&out, &command.join(" ")),
                }
            });
        }
    });
}

/// The command's window is in windows.csv, and covered by readings from end to end.
fn check_window(out: &Path, name: &str) {
    let windows = out.join("windows.csv");
    let mut command = wattscribe();
    command.arg("energy").arg(out).args(["--format", "json"]).arg("--windows").arg(&windows);
    let ended = run(&mut command).succeeded();
    let stated: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    // Two sockets, the node, the total.
    assert_eq!(stated.len(), 4, "{}", ended.stdout);
    for window in stated {
        assert_eq!(window["name"], name);
        assert_eq!(window["verdict"], "full", "{window}");
        assert!(window["energy_j"].as_f64().unwrap() > 0.0, "{window}");
    }
}

#[test]
fn a_command_is_told_of_sigterm() {
    let nodes = nodes();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let waits = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut recorder = Running::start(nodes.record(&out).args(["--", "sh", "-c", waits]));
    recorder.says("the command runs", |said| said.contains("ready\n").then_some(()));
    recorder.signal(Signal::TERM);
    let ended = recorder.wait();
    assert_eq!(ended.code, 9, "{}", ended.stderr);
    check_window(&out, &format!("sh -c {waits}"));
}

/// Waits until there are rows beside the header.
fn begun(out: &Path) {
    let csv = out.join("cpu/samples.csv");
    eventually("rows", || (std::fs::metadata(&csv).ok()?.len() > 200).then_some(()));
}

#[test]
fn a_recording_ends_in_order_when_asked_and_after_its_duration() {
    let nodes = nodes();
    let folder = TempDir::new().unwrap();
    for (name, signal) in [("interrupt", Signal::INT), ("terminate", Signal::TERM)] {
        let out = folder.path().join(name);
        let recorder = Running::start(&mut nodes.record(&out));
        begun(&out);
        recorder.signal(signal);
        recorder.wait().succeeded();
        assert!(out.join("cpu/cpu_manifest.json").exists(), "{name}");
        assert!(out.join("cpu_samples/part-000001.parquet").exists(), "{name}");
    }
    let begin = Instant::now();
    run(nodes.record(&folder.path().join("duration")).args(["--duration", "1s"])).succeeded();
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_second_recorder_is_refused() {
    let nodes = nodes();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let first = Running::start(&mut nodes.record(&out));
    begun(&out);
    let second = run(&mut nodes.record(&out));
    assert_eq!(second.code, 1);
    assert_eq!(second.stderr.lines().count(), 1, "{}", second.stderr);
    assert!(second.stderr.contains("another recorder is writing here"), "{}", second.stderr);
    first.signal(Signal::TERM);
    first.wait().succeeded();
}

/// What the terminal showed while a program ran on it until Ctrl-C was typed at `awaited`, and its exit code.
fn on_terminal(command: &Command, awaited: &str) -> Option<(String, i64)> {
    let script = Script::named("terminal")?.arg(awaited).arg(command.get_program());
    let answer = command.get_args().fold(script, |script, arg| script.arg(arg)).answer();
    Some((answer["shown"].as_str().unwrap().to_owned(), answer["code"].as_i64().unwrap()))
}

#[test]
fn the_terminal_shows_how_it_stands_until_ctrl_c() {
    let nodes = nodes();
    let folder = TempDir::new().unwrap();
    let command = nodes.record(&folder.path().join("alone"));
    let Some((shown, code)) = on_terminal(&command, "watts 194.8") else { return };
    assert_eq!(code, 0, "{shown}");
    let is_whole = |line: &str| {
        ["SIMULATED HARDWARE", "targets 1/1 up", "rows ", "watts 194.8", "lag "]
            .iter()
            .all(|part| line.contains(part))
    };
    assert!(shown.split('\r').any(is_whole), "{shown}");
    assert!(shown.contains("SIMULATED HARDWARE recorded to"), "{shown}");

    // Ctrl-C goes to the command as well, and the recorder ends as the command did.
    let out = folder.path().join("around");
    let mut command = nodes.record(&out);
    command.args(["--", "sh", "-c", "echo begun; exec sleep 60"]);
    let (shown, code) = on_terminal(&command, "begun").unwrap();
    assert_eq!(code, 128 + 2, "{shown}");
    check_window(&out, "sh -c echo begun; exec sleep 60");
}
