//! A running simulation against its own truth, through the files only.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use wattscribe_simulator::{
    Fault, Kind, Machine, RaplPackage, Simulation, SimulatorError, Waveform,
};

const RANGE_UJ: f64 = 262_143_328_850.0;
/// A microsecond at 300 W, for times that went through `f64` seconds since 1970, and a whole microjoule.
const ROUNDING_J: f64 = 1e-3;
const STEP: Waveform = Waveform::Step { before_w: 100.0, after_w: 300.0, at_s: 20.0 };

fn start(machines: &[Machine], since_epoch_s: u64) -> (TempDir, Simulation) {
    let folder = TempDir::new().unwrap();
    let epoch = SystemTime::now() - Duration::from_secs(since_epoch_s);
    let simulation = Simulation::start(folder.path(), machines, epoch).unwrap();
    (folder, simulation)
}

fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn read(file: &Path) -> u64 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// Waits for what the refreshing thread must bring about, and fails when it never does.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::yield_now();
    }
}

#[test]
fn a_counter_follows_the_truth_across_its_wrap() {
    // The epoch is 19 s back and the counter wraps 0.2 s after the start, in the middle of the reads.
    let package = RaplPackage::new(0, STEP).wrapping_at(19.2);
    let at_epoch_uj = package.at_epoch_uj as f64;
    let machine = Machine { name: "r0".into(), kind: Kind::Rapl { packages: vec![package] } };
    let (_folder, simulation) = start(&[machine], 19);
    let epoch_s = simulation.epoch_unix_s();
    let file = simulation.reading_file("r0", "intel-rapl:0").unwrap();
    let (mut last_uj, mut wraps, mut due_j) = (0_u64, 0_u32, None);
    eventually("the counter wraps and catches up with the truth", || {
        let counted_uj = read(&file);
        let read_s = now_unix_s();
        wraps += u32::from(counted_uj < last_uj);
        last_uj = counted_uj;
        let counted_j = (f64::from(wraps) * RANGE_UJ + counted_uj as f64 - at_epoch_uj) / 1e6;
        let truth_j = simulation.truth("r0", 0, epoch_s, read_s).unwrap();
        // A value may be late, by as much as the thread was kept from running; it is never early.
        assert!(counted_j <= truth_j + ROUNDING_J, "{counted_j} J counted of {truth_j} J used");
        if wraps == 1 {
            due_j.get_or_insert(truth_j);
        }
        due_j.is_some_and(|due_j| counted_j >= due_j)
    });
    assert_eq!(wraps, 1);
    simulation.stop().unwrap();
}

#[test]
fn truth_is_the_integral_between_wall_clock_times() {
    let machines = [Machine::grace("g0", &[STEP, STEP.scaled(0.5)]), Machine::rapl("r0", &[STEP])];
    let (_folder, simulation) = start(&machines, 0);
    let start_s = now_unix_s();
    // Well before and well after the step, so that it does not matter when exactly the epoch was.
    let cases = [
        ("g0", 0, start_s - 10.0, start_s, 1_000.0),
        ("g0", 1, start_s - 10.0, start_s, 500.0),
        ("g0", 0, start_s + 100.0, start_s + 110.0, 3_000.0),
        ("r0", 0, start_s + 100.0, start_s + 100.0, 0.0),
    ];
    for (node, socket, from_s, to_s, expected_j) in cases {
        let found = simulation.truth(node, socket, from_s, to_s).unwrap();
        assert!(
            (found - expected_j).abs() < 1e-3,
            "{node} {socket}: {found} J, expected {expected_j} J"
        );
    }
    let rail =
        simulation.sensor_truth("g0", "ACPI000D:01/power1", start_s - 10.0, start_s).unwrap();
    assert!((rail - 490.0).abs() < 1e-3, "{rail}");

    let errors = [
        (simulation.truth("g9", 0, 0.0, 1.0), r#"the simulation has no machine "g9""#),
        (simulation.truth("g0", 2, 0.0, 1.0), r#"machine "g0" has no socket "2""#),
        (
            simulation.sensor_truth("g0", "hwmon0", 0.0, 1.0),
            r#"machine "g0" has no sensor "hwmon0""#,
        ),
    ];
    for (found, expected) in errors {
        assert_eq!(found.unwrap_err().to_string(), expected);
    }
}

#[test]
fn faults_are_injected_while_it_runs() {
    let sine = Waveform::Sine { mean_w: 200.0, amplitude_w: 100.0, period_s: 0.7, phase_rad: 0.0 };
    let (_folder, simulation) = start(&[Machine::grace("g0", &[sine])], 0);
    let sensor = "ACPI000D:00/power1";
    let file = simulation.reading_file("g0", sensor).unwrap();
    let moves = || {
        let before = read(&file);
        eventually("the value moves", || read(&file) != before);
    };
    moves();
    simulation.fail("g0", sensor, Fault::Text("N/A\n".into())).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "N/A\n");
    simulation.heal("g0", sensor).unwrap();
    moves();

    simulation.fail("g0", sensor, Fault::Frozen).unwrap();
    let (frozen, other) =
        (read(&file), simulation.reading_file("g0", "ACPI000D:01/power1").unwrap());
    let other_before = read(&other);
    eventually("another sensor moves", || read(&other) != other_before);
    assert_eq!(read(&file), frozen);
    simulation.heal("g0", sensor).unwrap();

    simulation.renumber_hwmon("g0").unwrap();
    let file = simulation.reading_file("g0", sensor).unwrap();
    assert!(file.parent().unwrap().ends_with("hwmon1"), "{}", file.display());
    let before = read(&file);
    eventually("the value moves at its new place", || read(&file) != before);
    simulation.stop().unwrap();
}

#[test]
fn a_tree_that_vanishes_is_reported_when_it_stops() {
    let sine = Waveform::Sine { mean_w: 200.0, amplitude_w: 100.0, period_s: 0.7, phase_rad: 0.0 };
    let (folder, simulation) = start(&[Machine::grace("g0", &[sine])], 0);
    fs::rename(folder.path().join("g0"), folder.path().join("elsewhere")).unwrap();
    eventually("the thread meets the missing folder", || simulation.has_ended());
    assert!(matches!(simulation.stop(), Err(SimulatorError::Change { .. })));
}
