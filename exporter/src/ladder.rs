//! Which source a node is measured with: the first rung of the ladder that proves to be alive.
//!
//! Finding a sensor is not enough: a node may list channels that never report, and recording them
//! would make a run of nothing. A rung is taken only when a whole socket's power has been read.

use std::fmt;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::failure::Failure;
use crate::sensor::{Measure, Sensor, Source};
use crate::sources::{self, acpi, rapl};
use crate::sysfs::Sysfs;

/// What the operator asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SourceChoice {
    /// The first rung that is alive: ACPI, DCGM, RAPL.
    Auto,
    /// ACPI power_meter or nothing.
    Acpi,
    /// DCGM or nothing.
    Dcgm,
    /// RAPL or nothing.
    Rapl,
}

/// A step of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// ACPI power_meter with a live socket total.
    Acpi,
    /// DCGM CPU entities. Its place is kept; this version does not read DCGM.
    Dcgm,
    /// Powercap zones with a package counter that moves.
    Rapl,
}

impl Rung {
    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acpi => "acpi",
            Self::Dcgm => "dcgm",
            Self::Rapl => "rapl",
        }
    }
}

impl SourceChoice {
    /// The rungs to try, in order.
    fn rungs(self) -> &'static [Rung] {
        match self {
            Self::Auto => &[Rung::Acpi, Rung::Dcgm, Rung::Rapl],
            Self::Acpi => &[Rung::Acpi],
            Self::Dcgm => &[Rung::Dcgm],
            Self::Rapl => &[Rung::Rapl],
        }
    }
}

/// What the ladder chose.
#[derive(Debug)]
pub struct Chosen {
    /// Who reads.
    pub source: Source,
    /// The rung it stood on.
    pub rung: Rung,
    /// All sensors of that source, not only the live ones.
    pub sensors: Vec<Sensor>,
}

/// No rung held. Carries every reason, and says them on one line.
#[derive(Debug)]
pub struct NoSource {
    reasons: Vec<(Rung, String)>,
}

impl fmt::Display for NoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable power source")?;
        for (place, (rung, reason)) in self.reasons.iter().enumerate() {
            let before = if place == 0 { ":" } else { ";" };
            write!(f, "{before} {}: {reason}", rung.as_str())?;
        }
        Ok(())
    }
}

impl std::error::Error for NoSource {}

/// The pause before a source that reads nothing is asked once more: a firmware average can be zero
/// on the first poll after a boot.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Climbs the ladder. Takes at most two probes of `deadline` each and the pause between them per rung.
pub fn climb(
    choice: SourceChoice,
    sysfs: &Sysfs,
    deadline: Duration,
    retry_pause: Duration,
) -> Result<Chosen, NoSource> {
    let mut reasons = Vec::new();
    for rung in choice.rungs() {
        let tried = match rung {
            Rung::Acpi => try_acpi(sysfs, deadline, retry_pause),
            Rung::Dcgm => Err("this version does not read DCGM".to_owned()),
            Rung::Rapl => try_rapl(sysfs, deadline, retry_pause),
        };
        match tried {
            Ok((source, sensors)) => return Ok(Chosen { source, rung: *rung, sensors }),
            Err(reason) => {
                if choice == SourceChoice::Auto {
                    warn!(rung = rung.as_str(), reason, "not usable, stepping down");
                }
                reasons.push((*rung, reason));
            }
        }
    }
    Err(NoSource { reasons })
}

fn try_acpi(
    sysfs: &Sysfs,
    deadline: Duration,
    retry_pause: Duration,
) -> Result<(Source, Vec<Sensor>), String> {
    let sensors = discover(Source::Acpi, sysfs, deadline)?;
    let totals = socket_power(&sensors);
    if totals.is_empty() {
        return Err(format!("no socket total among the channels {}", acpi::labels(&sensors)));
    }
    let mut outcomes = read_all(sysfs, &totals, deadline);
    if outcomes.iter().all(Result::is_err) {
        thread::sleep(retry_pause);
        outcomes = read_all(sysfs, &totals, deadline);
    }
    if outcomes.iter().any(Result::is_ok) {
        return Ok((Source::Acpi, sensors));
    }
    Err(format!("no socket total reads above zero, asked twice: {}", failures(&totals, &outcomes)))
}

fn try_rapl(
    sysfs: &Sysfs,
    deadline: Duration,
    retry_pause: Duration,
) -> Result<(Source, Vec<Sensor>), String> {
    let sensors = discover(Source::Rapl, sysfs, deadline)?;
    let packages = socket_power(&sensors);
    if packages.is_empty() {
        return Err("no package zone among the RAPL zones".to_owned());
    }
    let before = read_all(sysfs, &packages, deadline);
    if before.iter().all(|outcome| *outcome == Err(Failure::Denied)) {
        return Err(rapl::DENIED_FIX.to_owned());
    }
    if before.iter().all(Result::is_err) {
        return Err(format!("no package counter reads: {}", failures(&packages, &before)));
    }
    // A live package counts about every millisecond; one that stands still for so long is dead.
    thread::sleep(retry_pause);
    let after = read_all(sysfs, &packages, deadline);
    let moved = |(before, after): (&Outcome, &Outcome)| match (before, after) {
        (Ok(before), Ok(after)) => before != after,
        _ => false,
    };
    if before.iter().zip(&after).any(moved) {
        return Ok((Source::Rapl, sensors));
    }
    Err(format!("no package counter moved within {retry_pause:?}"))
}

type Outcome = Result<Measure, Failure>;

/// Discovery with a deadline: wedged firmware holds even a label back, and must not hold up the start.
fn discover(source: Source, sysfs: &Sysfs, deadline: Duration) -> Result<Vec<Sensor>, String> {
    let (sender, receiver) = mpsc::channel();
    let sysfs = sysfs.clone();
    thread::spawn(move || sender.send(sources::discover(source, &sysfs)).ok());
    receiver
        .recv_timeout(deadline)
        .unwrap_or_else(|_| Err(format!("discovery has not come back within {deadline:?}")))
}

fn socket_power(sensors: &[Sensor]) -> Vec<Sensor> {
    sensors.iter().filter(|sensor| sensor.kind.is_socket_power()).cloned().collect()
}

fn failures(sensors: &[Sensor], outcomes: &[Outcome]) -> String {
    let one = |(sensor, outcome): (&Sensor, &Outcome)| {
        let failure = outcome.err()?;
        Some(format!("{} {}", sensor.channel, failure.as_str()))
    };
    sensors.iter().zip(outcomes).filter_map(one).collect::<Vec<_>>().join(", ")
}

/// Reads sensors side by side, and waits no longer than `deadline` for all of them together. A read
/// that hangs keeps its thread.
fn read_all(sysfs: &Sysfs, sensors: &[Sensor], deadline: Duration) -> Vec<Outcome> {
    let (sender, receiver) = mpsc::channel();
    for (place, sensor) in sensors.iter().cloned().enumerate() {
        let (sender, sysfs) = (sender.clone(), sysfs.clone());
        // A send fails only when nobody waits any more.
        thread::spawn(move || sender.send((place, sensor.measure(&sysfs))).ok());
    }
    drop(sender);
    let mut outcomes = vec![Err(Failure::Timeout); sensors.len()];
    let until = Instant::now() + deadline;
    while let Ok((place, outcome)) =
        receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        outcomes[place] = outcome;
    }
    outcomes
}
