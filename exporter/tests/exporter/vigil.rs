//! What is said of a library, look by look, on clocks of the test's own making.

use std::collections::BTreeSet;
use std::time::Duration;

use wattscribe_exporter::cell::{Cell, Limits, Verdict};
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure;
use wattscribe_exporter::library::{Refused, Standing, Status};
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
        meter: Meter::Gpu(Gpu { index, uuid: id, pci: String::new(), mig: None }),
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
        let said = vigil.look(Source::Nvml, &status, &seen, &[], at(second as u64), LIMITS);
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
        (down(), None, [NONE, NONE], &["+ NVML is not read: no driver"]),
        (down(), Some(2), [NONE, NONE], &[]),
        (Standing::Absent("none".into()), None, [NONE, NONE], &["+ NVML is not read: none"]),
        (Standing::Open, None, [OK, OK], &["+ NVML: 2 of 2 sensors report"]),
    ]);
}

#[test]
fn a_library_that_was_named_and_is_not_there_is_a_warning() {
    check(&[
        (Standing::Missing("none".into()), None, [NONE, NONE], &["! NVML is not read: none"]),
        (Standing::Missing("none".into()), None, [NONE, NONE], &[]),
        (Standing::Open, None, [OK, OK], &["+ NVML: 2 of 2 sensors report"]),
    ]);
}

#[test]
fn a_library_that_blocks_is_one_warning_however_often_it_is_tried() {
    const BLOCKED: &str = "! NVML has not come back within 3s: readings are withheld";
    let late: Result<f64, Failure> = Err(Failure::Timeout);
    check(&[
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[]),
        (Standing::Opening, Some(0), [NONE, NONE], &[BLOCKED]),
        (Standing::Open, None, [OK, OK], &["+ back again: NVML"]),
        (Standing::Open, Some(5), [OK, OK], &[]),
        (Standing::Open, Some(5), [late, OK], &[]),
        (Standing::Open, Some(5), [late, late], &[]),
        (Standing::Open, Some(5), [late, late], &[BLOCKED]),
        (down(), None, [GONE, GONE], &["! NVML does not serve: no driver"]),
        (down(), Some(7), [GONE, GONE], &[]), // blocks again while it is tried
        (down(), None, [GONE, GONE], &[]),
        (Standing::Open, None, [OK, OK], &["+ back again: NVML"]),
    ]);
}

#[test]
fn a_sensor_is_told_when_it_goes_when_the_reason_changes_and_when_it_is_back() {
    let io: Result<f64, Failure> = Err(Failure::Io);
    let zero: Result<f64, Failure> = Err(Failure::Zero);
    let unsupported: Result<f64, Failure> = Err(Failure::NotSupported);
    check(&[
        (Standing::Open, None, [OK, unsupported], &["+ NVML: 1 of 2 sensors report"]),
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
        (down(), None, [GONE, GONE], &["! NVML does not serve: no driver"]),
        (Standing::Open, None, [OK, io], &["+ back again: GPU-0, NVML"]),
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

#[test]
fn gpus_in_no_module_are_one_line() {
    let mut vigil = Vigil::default();
    let gpus = [0, 1].map(|index| Sensor { socket: None, ..gpu(index) });
    let verdicts = [OK, OK].map(verdict);
    let seen: Vec<_> = gpus.iter().zip(&verdicts).collect();
    let text = "sysfs tells no NUMA node of the GPUs at 0000:01:00.0, 0001:01:00.0: they are in no module's mean";
    let said = vigil.look_at_sockets(&seen, &BTreeSet::from([0]));
    assert_eq!(said, [Said::Warn(text.to_owned())]);
    assert_eq!(vigil.look_at_sockets(&seen, &BTreeSet::from([0])), []);
}

/// Looks at an open library with these GPUs and a number of refused ones, and gives what is said.
fn look(vigil: &mut Vigil, gpus: &[(u32, Result<f64, Failure>)], refused: &[u32]) -> Vec<Said> {
    let refused = refused
        .iter()
        .map(|index| Refused { place: format!("gpu{index}"), reason: Failure::NotPermitted });
    let status =
        Status { standing: Standing::Open, refused: refused.collect(), ..Status::default() };
    let sensors: Vec<Sensor> = gpus.iter().map(|(index, _)| gpu(*index)).collect();
    let verdicts: Vec<Verdict> = gpus.iter().map(|(_, outcome)| verdict(*outcome)).collect();
    let seen: Vec<_> = sensors.iter().zip(&verdicts).collect();
    vigil.look(Source::Nvml, &status, &seen, &[], at(0), LIMITS)
}

#[test]
fn a_gpu_that_is_counted_and_not_named_is_a_trouble_like_any_other() {
    let mut vigil = Vigil::default();
    let said = look(&mut vigil, &[(0, OK)], &[1]);
    let expected = [
        Said::Info("NVML: 1 of 2 sensors report".to_owned()),
        Said::Warn("no reading of gpu1, which NVML does not name: not_permitted".to_owned()),
    ];
    assert_eq!(said, expected);
    assert_eq!(look(&mut vigil, &[(0, OK)], &[1]), []);
    assert_eq!(look(&mut vigil, &[(0, OK)], &[]), [Said::Info("back again: gpu1".to_owned())]);
}

#[test]
fn a_sensor_that_is_forgotten_is_not_said_to_be_back() {
    let mut vigil = Vigil::default();
    look(&mut vigil, &[(0, OK), (1, OK)], &[]);
    look(&mut vigil, &[(0, OK), (1, Err(Failure::Gone))], &[]);
    let said = look(&mut vigil, &[(0, OK)], &[]);
    assert_eq!(said, [Said::Info("gone for long, and forgotten: GPU-1".to_owned())]);
}
