//! What is said of a library, look by look, on clocks of the test's own making.

use std::collections::BTreeSet;
use std::time::Duration;

use wattscribe_exporter::cell::{Cell, Limits, Verdict};
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure;
use wattscribe_exporter::library::{Standing, Status};
use wattscribe_exporter::sensor::{Gpu, Kind, Measure, Meter, Sensor, Source};
use wattscribe_exporter::vigil::{Said, Vigil};
use wattscribe_rules::Averaging;

const LIMITS: Limits =
    Limits { stale_after: Duration::from_secs(3), read_deadline: Duration::from_secs(1) };

fn at(second: u64) -> Now {
    let since = Duration::from_secs(second);
    Now { wall_s: 1e9 + second as f64, monotonic: since, boot: since }
}

fn gpu(index: u32) -> Sensor {
    let id = format!("GPU-{index}");
    Sensor {
        source: Source::Nvml,
        id: id.clone(),
        channel: format!("000{index}:01:00.0"),
        kind: Kind::Module,
        socket: Some(index),
        label: String::new(),
        averaging: Averaging::Mean { window_s: 1.0 },
        meter: Meter::Gpu(Gpu { index, uuid: id, pci: String::new() }),
    }
}

/// A verdict as a cell gives it that was just read.
fn verdict(outcome: Result<f64, Failure>) -> Verdict {
    let cell = Cell::new(gpu(0));
    cell.finish(outcome.map(Measure::Watts), at(0)).ok();
    cell.judge(at(0), LIMITS)
}

/// One look: how the library stands and since when it is busy, what two GPUs give, and what is said.
type Look = (Standing, Option<u64>, [Result<f64, Failure>; 2], &'static [&'static str]);

/// Looks once a second, and compares what is said: `+` for information, `!` for a warning.
fn check(looks: &[Look]) {
    let mut vigil = Vigil::default();
    for (second, (standing, busy_since, outcomes, expected)) in looks.iter().enumerate() {
        let busy_since = busy_since.map(at);
        let status = Status { standing: standing.clone(), busy_since, ..Status::default() };
        let gpus = [gpu(0), gpu(1)];
        let verdicts = outcomes.map(verdict);
        let seen: Vec<_> = gpus.iter().zip(&verdicts).collect();
        let said = vigil.look(&status, &seen, &[], at(second as u64), LIMITS);
        let said: Vec<String> = said
            .into_iter()
            .map(|said| match said {
                Said::Warn(text) => format!("! {text}"),
                Said::Info(text) => format!("+ {text}"),
            })
            .collect();
        assert_eq!(said, *expected, "look {second}");
    }
}

const OK: Result<f64, Failure> = Ok(500.0);
const GONE: Result<f64, Failure> = Err(Failure::Disconnected);
const NONE: Result<f64, Failure> = Err(Failure::FirstRead);

fn down() -> Standing {
    Standing::Down("no driver".to_owned())
}

#[test]
fn a_library_that_never_served_is_told_without_alarm() {
    check(&[
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (down(), None, [NONE, NONE], &["+ not read: no driver"]),
        (down(), Some(2), [NONE, NONE], &[]),
        (Standing::Absent("none".into()), None, [NONE, NONE], &["+ not read: none"]),
        (Standing::Open, None, [OK, OK], &["+ is read: 2 of 2 sensors report"]),
    ]);
}

#[test]
fn a_library_that_blocks_is_one_warning_however_often_it_is_tried() {
    const BLOCKED: &str = "! has not come back within 3s: readings are withheld";
    let late: Result<f64, Failure> = Err(Failure::Timeout);
    check(&[
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[BLOCKED]),
        (Standing::Open, None, [OK, OK], &["+ back again: library"]),
        (Standing::Open, Some(5), [OK, OK], &[]),
        (Standing::Open, Some(5), [late, OK], &[]),
        (Standing::Open, Some(5), [late, late], &[]),
        (Standing::Open, Some(5), [late, late], &[BLOCKED]),
        (down(), None, [GONE, GONE], &["! does not serve: no driver"]),
        (down(), Some(7), [GONE, GONE], &[]), // blocks again while it is tried
        (down(), None, [GONE, GONE], &[]),
        (Standing::Open, None, [OK, OK], &["+ back again: library"]),
    ]);
}

#[test]
fn a_sensor_is_told_when_it_goes_when_the_reason_changes_and_when_it_is_back() {
    let io: Result<f64, Failure> = Err(Failure::Io);
    let zero: Result<f64, Failure> = Err(Failure::Zero);
    let unsupported: Result<f64, Failure> = Err(Failure::NotSupported);
    check(&[
        (Standing::Open, None, [OK, unsupported], &["+ is read: 1 of 2 sensors report"]),
        (Standing::Open, None, [io, unsupported], &["! no reading of GPU-0 (0000:01:00.0): io"]),
        (Standing::Open, None, [io, unsupported], &[]),
        (
            Standing::Open,
            None,
            [zero, unsupported],
            &["! no reading of GPU-0 (0000:01:00.0): zero"],
        ),
        (Standing::Open, None, [NONE, unsupported], &[]), // it was found elsewhere, and is being read
        (Standing::Open, None, [OK, OK], &["+ back again: GPU-0"]),
        // One that could is another matter than one that never did.
        (
            Standing::Open,
            None,
            [OK, unsupported],
            &["! no reading of GPU-1 (0001:01:00.0): not_supported"],
        ),
        (Standing::Open, None, [Err(Failure::Busy), OK], &["+ back again: GPU-1"]),
        (
            Standing::Open,
            None,
            [io, io],
            &["! no reading of GPU-0 (0000:01:00.0): io; no reading of GPU-1 (0001:01:00.0): io"],
        ),
        (down(), None, [GONE, GONE], &["! does not serve: no driver"]),
        (Standing::Open, None, [OK, io], &["+ back again: GPU-0, library"]),
    ]);
}

#[test]
fn a_module_that_no_cpu_joins_is_told_once_and_only_when_cpus_are_known() {
    let mut vigil = Vigil::default();
    let gpus = [gpu(0), gpu(1)];
    let verdicts = [OK, OK].map(verdict);
    let seen: Vec<_> = gpus.iter().zip(&verdicts).collect();
    assert_eq!(vigil.look_at_sockets(&seen, &BTreeSet::new()), []);
    let said = vigil.look_at_sockets(&seen, &BTreeSet::from([0]));
    let text = "module socket 1 has no CPU socket: a recorder has no row for it";
    assert_eq!(said, [Said::Warn(text.to_owned())]);
    assert_eq!(vigil.look_at_sockets(&seen, &BTreeSet::from([0])), []);
}
