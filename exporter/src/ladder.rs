//! Which source a node is measured with: the first rung of the ladder that proves to be alive.
//!
//! Finding a sensor is not enough: a node may list channels that never report, and recording them
//! would make a run of nothing. A rung is taken only when a whole socket's power has been read.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::accelerator::hwmon::{self, Shape};
use crate::args::Config;
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::library::{LibraryThread, Standing};
use crate::probe::Probes;
use crate::sensor::{Measure, Sensor, Source};
use crate::sources::dcgm::{Access, Dcgm};
use crate::sources::{self, acpi, rapl};
use crate::sysfs::Sysfs;
use crate::worker::Schedule;

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
    /// DCGM fields 1130 and 1132, with a live 1130.
    Dcgm,
    /// DCGM field 1130 alone, live.
    Dcgm1130,
    /// Powercap zones with a package counter that moves.
    Rapl,
}

impl Rung {
    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acpi => "acpi",
            Self::Dcgm => "dcgm",
            Self::Dcgm1130 => "dcgm_1130",
            Self::Rapl => "rapl",
        }
    }

    /// Who reads on this rung.
    pub fn source(self) -> Source {
        match self {
            Self::Acpi => Source::Acpi,
            Self::Dcgm | Self::Dcgm1130 => Source::Dcgm,
            Self::Rapl => Source::Rapl,
        }
    }
}

impl SourceChoice {
    /// The sources to try, in order. DCGM has two rungs, which one opening of its library tries.
    fn sources(self) -> &'static [Source] {
        match self {
            Self::Auto => &[Source::Acpi, Source::Dcgm, Source::Rapl],
            Self::Acpi => &[Source::Acpi],
            Self::Dcgm => &[Source::Dcgm],
            Self::Rapl => &[Source::Rapl],
        }
    }
}

/// What the ladder stands on: where sensors are, and how they are read.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Which rungs to try.
    pub choice: SourceChoice,
    /// The tree to read.
    pub sysfs: Sysfs,
    /// Where DCGM is.
    pub dcgm: Access,
    /// When sensors are read.
    pub schedule: Schedule,
    /// Where reads are counted.
    pub health: Arc<Health>,
    /// How long a read of a file may take.
    pub deadline: Duration,
    /// What is asked of files besides the reads of workers.
    pub probes: Arc<Probes>,
    /// The pause before a source that reads nothing is asked once more.
    pub retry_pause: Duration,
    /// Whether accelerators that sleep are read all the same, and so woken.
    pub allow_wake: bool,
}

impl Ground {
    /// What a configuration stands for, with the schedule beginning now.
    pub fn of(config: &Config) -> Self {
        Self {
            choice: config.source,
            sysfs: config.sysfs.clone(),
            dcgm: config.dcgm.clone(),
            schedule: Schedule { origin: Instant::now(), interval: config.interval },
            health: Arc::default(),
            deadline: config.limits.read_deadline,
            probes: Arc::default(),
            retry_pause: RETRY_PAUSE,
            allow_wake: config.allow_wake,
        }
    }

    /// The sensors of a source that are files, or why there are none. None where a file has held that back
    /// for longer than `patience`: then nothing is known of any of them.
    pub fn discover(
        &self,
        source: Source,
        patience: Duration,
    ) -> Option<Result<Vec<Sensor>, String>> {
        let sysfs = self.sysfs.clone();
        let work = move || sources::discover(source, &sysfs);
        self.probes.start(discovery_of(source), work)?.recv_timeout(patience).ok()
    }

    /// The accelerators of the node. None where a file has held that back for longer than `patience`.
    pub fn discover_accelerators(&self, patience: Duration) -> Option<Result<Vec<Shape>, Failure>> {
        let sysfs = self.sysfs.clone();
        let subject = "discovery of accelerators".to_owned();
        self.probes.start(subject, move || hwmon::discover(&sysfs))?.recv_timeout(patience).ok()
    }

    /// Whether discovery of a source has been held back for longer than this.
    pub fn is_discovery_overdue(&self, source: Source, now: Now, limit: Duration) -> bool {
        self.probes.is_overdue(&discovery_of(source), now, limit)
    }
}

/// What the ladder chose.
#[derive(Debug)]
pub enum Chosen {
    /// Sensors that are files, to be read by workers: all of the source, not only the live ones.
    Files {
        /// The rung it stood on.
        rung: Rung,
        /// The sensors.
        sensors: Vec<Sensor>,
    },
    /// A library that has been read already.
    Library {
        /// The rung it stood on.
        rung: Rung,
        /// Its thread.
        thread: LibraryThread,
    },
}

impl Chosen {
    /// The rung it stood on.
    pub fn rung(&self) -> Rung {
        match self {
            Self::Files { rung, .. } | Self::Library { rung, .. } => *rung,
        }
    }
}

/// No rung held. Carries every reason, and says them on one line.
#[derive(Debug)]
pub struct NoSource {
    reasons: Vec<(Source, String)>,
}

impl fmt::Display for NoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable power source")?;
        for (place, (source, reason)) in self.reasons.iter().enumerate() {
            let before = if place == 0 { ":" } else { ";" };
            write!(f, "{before} {}: {reason}", source.as_str())?;
        }
        Ok(())
    }
}

impl std::error::Error for NoSource {}

/// The pause before a source that reads nothing is asked once more: a firmware average can be zero
/// on the first poll after a boot.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long DCGM's set-up may take: an engine that starts inside this process loads its modules first.
pub(crate) const DCGM_DEADLINE: Duration = Duration::from_secs(10);

/// Climbs the ladder, past the rungs of one source if that is known to be dead. Takes at most two probes of
/// the deadline each and the pause between them for files, and `DCGM_DEADLINE`.
pub fn climb(ground: &Ground, dead: Option<Source>) -> Result<Chosen, NoSource> {
    let mut reasons = Vec::new();
    for source in ground.choice.sources().iter().filter(|source| Some(**source) != dead) {
        let tried = match source {
            Source::Acpi => try_acpi(ground),
            Source::Dcgm => try_dcgm(ground),
            Source::Rapl => try_rapl(ground),
            _ => continue, // of accelerators, and on no rung
        };
        match tried {
            Ok(chosen) => return Ok(chosen),
            Err(reason) => {
                if ground.choice == SourceChoice::Auto {
                    warn!(source = source.as_str(), reason, "not usable, stepping down");
                }
                reasons.push((*source, reason));
            }
        }
    }
    Err(NoSource { reasons })
}

/// Opens the library on the thread that will go on reading it.
fn try_dcgm(ground: &Ground) -> Result<Chosen, String> {
    if ground.dcgm.libraries.is_empty() {
        return Err("no library of it is to be used".to_owned());
    }
    let Some(library) = Dcgm::take(&ground.dcgm, ground.schedule.interval) else {
        return Err("an earlier call of its library has not come back".to_owned());
    };
    let health = Arc::clone(&ground.health);
    let thread = LibraryThread::start(Source::Dcgm, library, health, ground.schedule)
        .map_err(|error| format!("cannot start its thread: {error}"))?;
    match thread.first_attempt(DCGM_DEADLINE) {
        Standing::Open => Ok(Chosen::Library { rung: Rung::Dcgm, thread }),
        Standing::Absent(reason) | Standing::Missing(reason) | Standing::Down(reason) => {
            Err(reason)
        }
        Standing::Opening => Err(format!("has not come back within {DCGM_DEADLINE:?}")),
    }
}

fn try_acpi(ground: &Ground) -> Result<Chosen, String> {
    let sensors = discover(Source::Acpi, ground)?;
    let totals = socket_power(&sensors);
    if totals.is_empty() {
        return Err(format!("no socket total among the channels {}", acpi::labels(&sensors)));
    }
    let mut outcomes = read_all(ground, &totals);
    if outcomes.iter().all(Result::is_err) {
        thread::sleep(ground.retry_pause);
        outcomes = read_all(ground, &totals);
    }
    if outcomes.iter().any(Result::is_ok) {
        return Ok(Chosen::Files { rung: Rung::Acpi, sensors });
    }
    Err(format!("no socket total reads above zero, asked twice: {}", failures(&totals, &outcomes)))
}

fn try_rapl(ground: &Ground) -> Result<Chosen, String> {
    let sensors = discover(Source::Rapl, ground)?;
    let packages = socket_power(&sensors);
    if packages.is_empty() {
        return Err("no package zone among the RAPL zones".to_owned());
    }
    let before = read_all(ground, &packages);
    if before.iter().all(|outcome| *outcome == Err(Failure::Denied)) {
        return Err(rapl::DENIED_FIX.to_owned());
    }
    if before.iter().all(Result::is_err) {
        return Err(format!("no package counter reads: {}", failures(&packages, &before)));
    }
    // A live package counts about every millisecond; one that stands still for so long is dead.
    thread::sleep(ground.retry_pause);
    let after = read_all(ground, &packages);
    let moved = |(before, after): (&Outcome, &Outcome)| match (before, after) {
        (Ok(before), Ok(after)) => before != after,
        _ => false,
    };
    if before.iter().zip(&after).any(moved) {
        return Ok(Chosen::Files { rung: Rung::Rapl, sensors });
    }
    Err(format!("no package counter moved within {:?}", ground.retry_pause))
}

type Outcome = Result<Measure, Failure>;

/// Discovery with a deadline: wedged firmware holds even a label back, and must not hold up the start.
fn discover(source: Source, ground: &Ground) -> Result<Vec<Sensor>, String> {
    let deadline = ground.deadline;
    ground
        .discover(source, deadline)
        .unwrap_or_else(|| Err(format!("discovery has not come back within {deadline:?}")))
}

/// What discovery of a source is known as among the probes.
fn discovery_of(source: Source) -> String {
    format!("discovery of {}", source.as_str())
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

/// Reads sensors side by side, and waits no longer than the deadline for all of them together. One whose
/// earlier read still hangs is not asked again.
fn read_all(ground: &Ground, sensors: &[Sensor]) -> Vec<Outcome> {
    let until = Instant::now() + ground.deadline;
    let start = |sensor: &Sensor| {
        let (subject, sensor, sysfs) =
            (format!("read of {}", sensor.id), sensor.clone(), ground.sysfs.clone());
        ground.probes.start(subject, move || sensor.measure(&sysfs))
    };
    let started: Vec<_> = sensors.iter().map(start).collect();
    let outcome = |receiver: Option<Receiver<Outcome>>| {
        let left = until.saturating_duration_since(Instant::now());
        receiver.and_then(|receiver| receiver.recv_timeout(left).ok())
    };
    started.into_iter().map(|receiver| outcome(receiver).unwrap_or(Err(Failure::Timeout))).collect()
}
