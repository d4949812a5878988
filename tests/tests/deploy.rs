//! What is deployed, as the programs that will read it see it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use wattscribe_tests::file;
use wattscribe_tests::peer::Peer;
use wattscribe_tests::program::{exporter_path, run};

/// The program accepts it, and has nothing to say.
fn check(program: &Path, args: &[&str], folder: &str) {
    let ended = run(Command::new(program).args(args).current_dir(file(folder)));
    assert_eq!(ended.code, 0, "{args:?}: {}{}", ended.stdout, ended.stderr);
    assert!(!ended.stderr.to_lowercase().contains("warn"), "{args:?}: {}", ended.stderr);
}

#[test]
fn prometheus_takes_configuration_rules_and_alerts() {
    let Some(promtool) = Peer::Promtool.find() else { return };
    check(&promtool, &["check", "config", "prometheus.yml"], "deploy/prometheus");
    check(&promtool, &["check", "rules", "rules.yml", "alerts.yml"], "deploy/prometheus");
    check(&promtool, &["test", "rules", "rules_test.yml", "alerts_test.yml"], "deploy/prometheus");
}

#[test]
fn bash_can_read_the_slurm_script() {
    let Some(bash) = Peer::Bash.find() else { return };
    check(&bash, &["-n", "record.sbatch"], "deploy/slurm");
}

#[test]
fn systemd_takes_the_unit() {
    let Some(analyze) = Peer::SystemdAnalyze.find() else { return };
    // The unit names the program where it will be installed; here it is where it was built.
    let unit = file("deploy/systemd/cpu-power-exporter.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let installed = "/usr/bin/cpu-power-exporter";
    assert!(text.contains(installed));
    let folder = TempDir::new().unwrap();
    let unit = folder.path().join("cpu-power-exporter.service");
    std::fs::write(&unit, text.replace(installed, exporter_path().to_str().unwrap())).unwrap();
    let ended = run(Command::new(analyze).args(["verify", "--man=no"]).arg(&unit));
    // It also speaks of the other units that it loads; ours must not be among them.
    let ours: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains("cpu-power-exporter")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}
