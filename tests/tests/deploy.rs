//! What is deployed, as the programs that will read it see it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use wattscribe_tests::file;
use wattscribe_tests::peer::Peer;
use wattscribe_tests::program::{Ended, exporter_path, run};

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
fn systemd_takes_the_unit_with_and_without_its_drop_in() {
    let Some(analyze) = Peer::SystemdAnalyze.find() else { return };
    let unit = unit_as_built();
    let drop_ins = unit.folder.path().join("cpu-power-exporter.service.d");
    check_unit(&analyze, &unit.path);
    std::fs::create_dir(&drop_ins).unwrap();
    std::fs::copy(file("deploy/systemd/nvidia.conf"), drop_ins.join("nvidia.conf")).unwrap();
    check_unit(&analyze, &unit.path);
    // What is wrong in a drop-in is found.
    std::fs::write(drop_ins.join("wrong.conf"), "[Service]\nNothing=1\n").unwrap();
    assert_eq!(complaints(&analyze, &unit.path).1.len(), 1);
}

/// The unit in a folder of its own. It names the program where it will be installed; here it is where it was built.
struct Unit {
    path: PathBuf,
    folder: TempDir,
}

fn unit_as_built() -> Unit {
    let unit = file("deploy/systemd/cpu-power-exporter.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let installed = "/usr/bin/cpu-power-exporter";
    assert!(text.contains(installed));
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cpu-power-exporter.service");
    std::fs::write(&path, text.replace(installed, exporter_path().to_str().unwrap())).unwrap();
    Unit { path, folder }
}

fn check_unit(analyze: &Path, unit: &Path) {
    let (ended, complaints) = complaints(analyze, unit);
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

/// What it says of the unit. It also speaks of the other units that it loads.
fn complaints(analyze: &Path, unit: &Path) -> (Ended, Vec<String>) {
    let ended = run(Command::new(analyze).args(["verify", "--man=no"]).arg(unit));
    let is_ours = |line: &&str| line.contains("cpu-power-exporter");
    let ours = ended.stderr.lines().filter(is_ours).map(str::to_owned).collect();
    (ended, ours)
}
