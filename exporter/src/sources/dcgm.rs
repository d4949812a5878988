//! Power of CPU sockets as NVIDIA DCGM has it: field 1130, the rail of the cores, and 1132, SysIO.
//!
//! An engine of the system is asked first, since it samples already and runs as root; where none answers, one
//! is started inside this process. The engine says when it sampled a value, and that is the reading's time: a
//! value that an engine holds on to grows old here.

use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tracing::{info, warn};
use wattscribe_rules::Averaging;

use crate::clock::Now;
use crate::dcgm_error::DcgmError;
use crate::dcgm_lib::{Dcgm as Loaded, Engine, FieldValue, Group, Sampling, Watch};
use crate::failure::Failure;
use crate::library::{Found, Library, Listener, OpenError, Reading, Session};
use crate::sensor::{CpuField, Kind, Measure, Meter, Sensor, Source};
use crate::sources::dcgm_value::watts;

/// The names that DCGM installs its library under.
pub const LIBRARY_NAMES: [&str; 3] = ["libdcgm.so.4", "libdcgm.so.3", "libdcgm.so"];

/// What is watched, best first. An engine that cannot watch SysIO refuses the pair, and gives the rail alone.
const FIELD_SETS: [&[CpuField]; 2] = [&[CpuField::CpuRail, CpuField::SysIo], &[CpuField::CpuRail]];

/// How often an engine samples at most: each sample is a call into the firmware that takes about 150 ms.
const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// What an engine keeps. We read the latest sample only.
const KEEP_S: f64 = 60.0;
const KEEP_SAMPLES: i32 = 600;

/// What an engine inside this process goes by.
const EMBEDDED: &str = "embedded";

const NO_CPU: &str = "the engine knows no CPU";

/// How far an engine's clock may be ahead of ours: it is mostly the same one, read a moment earlier.
const AHEAD_S_MAX: f64 = 1.0;

/// The pause before a set-up is tried once more whose engine went away in the middle of it: it is being restarted.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Where DCGM is, and how it is asked.
#[derive(Debug, Clone)]
pub struct Access {
    /// Libraries to try, in their order. None: DCGM is not used.
    pub libraries: Vec<PathBuf>,
    /// The address of the system's engine, with or without a port.
    pub address: String,
    /// Whether somebody named that address.
    pub is_named: bool,
    /// Whether a thread has the library, or never came back from it: only one of a process may.
    is_taken: Arc<AtomicBool>,
}

impl Access {
    /// Access that nobody has taken, to an engine at the usual address.
    pub fn new(libraries: Vec<PathBuf>, address: String) -> Self {
        Self { libraries, address, is_named: false, is_taken: Arc::default() }
    }
}

/// DCGM of this node. There is one at a time.
#[derive(Debug)]
pub struct Dcgm {
    access: Access,
    /// How often the exporter reads.
    interval: Duration,
    /// What was said of the engine.
    told_engine: Option<String>,
    /// What was said of fields that cannot be watched.
    told_refusal: Option<String>,
}

/// Why a set-up has failed.
#[derive(Debug)]
enum NoSession {
    /// The engine went away in the middle of it.
    Lost(DcgmError),
    /// Anything else.
    Failed(OpenError),
}

impl From<DcgmError> for NoSession {
    fn from(error: DcgmError) -> Self {
        if error.is_lost() { Self::Lost(error) } else { Self::Failed(failed(error)) }
    }
}

impl Dcgm {
    /// DCGM for a reader that reads every `interval`; nothing while another reader has it.
    pub fn take(access: &Access, interval: Duration) -> Option<Self> {
        let was_taken = access.is_taken.swap(true, Ordering::AcqRel);
        let access = access.clone();
        (!was_taken).then(|| Self { access, interval, told_engine: None, told_refusal: None })
    }

    /// An engine, and what it goes by on the page: its address, or that it is ours.
    fn engine(&mut self) -> Result<(Rc<Engine>, String), OpenError> {
        let dcgm = Loaded::load(&self.access.libraries).map_err(|error| match error {
            DcgmError::Absent(_) => OpenError::Absent(error.to_string()),
            error => failed(error),
        })?;
        let address = self.access.address.clone();
        let refused = match Engine::connect(&dcgm, &address) {
            Ok(engine) => {
                if self.told_engine.replace(address.clone()).is_none_or(|told| told != address) {
                    info!(source = "dcgm", "the DCGM engine at {address} answers");
                }
                return Ok((engine, address));
            }
            Err(refused) => refused,
        };
        let engine = Engine::embed(&dcgm).map_err(|error| {
            OpenError::Failed(format!("no engine at {address} ({refused}) and none here ({error})"))
        })?;
        if self.told_engine.replace(EMBEDDED.to_owned()).is_none_or(|told| told != EMBEDDED) {
            let text = format!(
                "no DCGM engine at {address} ({refused}): one is started in this process in its place"
            );
            // Somebody who named an address means the engine there and no other.
            if self.access.is_named {
                warn!(source = "dcgm", "{text}");
            } else {
                info!(source = "dcgm", "{text}");
            }
        }
        Ok((engine, EMBEDDED.to_owned()))
    }

    fn set_up(&mut self) -> Result<DcgmSession, NoSession> {
        let (engine, name_of_engine) = self.engine().map_err(NoSession::Failed)?;
        let cpus = cpus(&engine)?;
        if cpus.is_empty() {
            return Err(NoSession::Failed(OpenError::Failed(NO_CPU.to_owned())));
        }
        let group = Group::of(&engine, cpus.clone(), &name("cpus"))?;
        let sampling = self.sampling();
        let mut reasons: Vec<String> = Vec::new();
        let mut is_reduced = false;
        for fields in FIELD_SETS {
            let refusal = match watch(&group, fields, sampling) {
                Ok(watch) => {
                    self.tell_refusal(reasons.join(", "));
                    let engine_name = name_of_engine;
                    return Ok(DcgmSession {
                        watch,
                        engine,
                        engine_name,
                        cpus,
                        fields,
                        sampling,
                        is_reduced,
                    });
                }
                Err(Refusal::Call(error)) if error.is_lost() => return Err(NoSession::Lost(error)),
                Err(refusal) => refusal,
            };
            is_reduced |= refusal.may_pass();
            reasons.push(format!("{}: {refusal}", numbers(fields)));
        }
        Err(NoSession::Failed(OpenError::Failed(reasons.join(", "))))
    }

    /// Says what could not be watched, once for each reason.
    fn tell_refusal(&mut self, reason: String) {
        let told = self.told_refusal.replace(reason.clone());
        if !reason.is_empty() && told.as_ref() != Some(&reason) {
            warn!(source = "dcgm", reason, "stepping down to field 1130 alone");
        }
    }

    /// Twice as often as it is read, so that what is read is new.
    fn sampling(&self) -> Sampling {
        let every = (self.interval / 2).max(SAMPLE_EVERY_MIN);
        let every_us = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
        Sampling { every_us, keep_s: KEEP_S, keep: KEEP_SAMPLES }
    }
}

impl Drop for Dcgm {
    fn drop(&mut self) {
        self.access.is_taken.store(false, Ordering::Release);
    }
}

impl Library for Dcgm {
    fn open(&mut self) -> Result<Box<dyn Session>, OpenError> {
        let session = match self.set_up() {
            Err(NoSession::Lost(_)) => {
                thread::sleep(RETRY_PAUSE);
                self.set_up()
            }
            outcome => outcome,
        };
        match session {
            Ok(session) => Ok(Box::new(session)),
            Err(NoSession::Lost(error)) => Err(failed(error)),
            Err(NoSession::Failed(error)) => Err(error),
        }
    }
}

fn failed(error: DcgmError) -> OpenError {
    OpenError::Failed(error.to_string())
}

/// The CPUs that an engine knows, by their numbers.
fn cpus(engine: &Engine) -> Result<Vec<u32>, DcgmError> {
    let mut cpus = engine.cpus()?;
    cpus.sort_unstable();
    Ok(cpus)
}

/// Why fields are not watched.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// The engine refuses.
    #[error(transparent)]
    Call(DcgmError),
    /// It takes them, and has nothing.
    #[error("no CPU rail reads above zero ({0})")]
    Dead(String),
}

impl Refusal {
    /// Whether a later attempt may come to something: not where the engine knows no such fields.
    fn may_pass(&self) -> bool {
        !matches!(self, Self::Call(error) if error.is_for_good())
    }
}

/// Watches these fields, and believes in them when one first read finds the rail of a CPU alive.
fn watch(group: &Rc<Group>, fields: &[CpuField], sampling: Sampling) -> Result<Watch, Refusal> {
    let mut watch = start_watch(group, fields, sampling).map_err(Refusal::Call)?;
    let values = watch.read().map_err(Refusal::Call)?;
    let rails = values.iter().filter(|value| value.field == CpuField::CpuRail.id());
    let outcomes: Vec<_> = rails.map(|value| (value.entity, watts(value))).collect();
    if outcomes.iter().any(|(_, outcome)| outcome.is_ok()) {
        return Ok(watch);
    }
    let failure = |(cpu, outcome): &(u32, Result<f64, Failure>)| {
        Some(format!("cpu{cpu} {}", outcome.err()?.as_str()))
    };
    let failures: Vec<String> = outcomes.iter().filter_map(failure).collect();
    Err(Refusal::Dead(failures.join(", ")))
}

fn start_watch(
    group: &Rc<Group>,
    fields: &[CpuField],
    sampling: Sampling,
) -> Result<Watch, DcgmError> {
    let ids: Vec<u16> = fields.iter().map(|field| field.id()).collect();
    Watch::start(group, &ids, &name("fields"), sampling)
}

/// A name that no other user of an engine has at this moment.
fn name(what: &str) -> CString {
    let since_boot_ns = Now::read().boot.as_nanos();
    let name = format!("wattscribe_{what}_{}_{since_boot_ns}", std::process::id());
    CString::new(name).unwrap_or_default() // letters and digits: there is no NUL in it
}

/// `1130+1132`.
fn numbers(fields: &[CpuField]) -> String {
    let numbers: Vec<String> = fields.iter().map(|field| field.id().to_string()).collect();
    numbers.join("+")
}

struct DcgmSession {
    watch: Watch,
    engine: Rc<Engine>,
    /// What the engine goes by.
    engine_name: String,
    cpus: Vec<u32>,
    fields: &'static [CpuField],
    sampling: Sampling,
    /// Whether it has fewer fields than it may have another time.
    is_reduced: bool,
}

impl Session for DcgmSession {
    /// Asks the engine, too: a CPU that it gains later is watched from then on.
    fn discover(&mut self) -> Result<Found, String> {
        self.follow_cpus().map_err(|error| error.to_string())?;
        let of_cpu = |cpu: &u32| {
            let cpu = *cpu;
            self.fields.iter().map(move |field| sensor(cpu, *field))
        };
        let sensors = self.cpus.iter().flat_map(of_cpu).collect();
        Ok(Found { sensors, refused: Vec::new() })
    }

    fn read(&mut self, sensors: &[&Sensor], listener: &mut dyn Listener) -> Result<(), String> {
        (0..sensors.len()).for_each(|place| listener.begins(place));
        let started = Now::read();
        let values = self.watch.read().map_err(|error| error.to_string())?;
        let ended = Now::read();
        for (place, sensor) in sensors.iter().enumerate() {
            let value = values.iter().find(|value| is_of(value, sensor));
            let outcome = value.ok_or(Failure::NotFound).and_then(|value| {
                let watts = watts(value)?;
                Ok((watts, sampled_at(value.ts_us, ended)?))
            });
            let reading =
                Reading::new(outcome.map(|(watts, _)| Measure::Watts(watts)), started, ended);
            let (at, before_boot) = outcome.map_or((ended, Duration::ZERO), |(_, dated)| dated);
            listener.ends(place, Reading { at, before_boot, ..reading });
        }
        Ok(())
    }

    fn is_reduced(&self) -> bool {
        self.is_reduced
    }

    fn engine(&self) -> Option<String> {
        Some(self.engine_name.clone())
    }
}

impl DcgmSession {
    fn follow_cpus(&mut self) -> Result<(), DcgmError> {
        let cpus = cpus(&self.engine)?;
        // An engine that says that there is none any more is asked for those that there were, and has no value.
        if cpus.is_empty() || cpus == self.cpus {
            return Ok(());
        }
        let group = Group::of(&self.engine, cpus.clone(), &name("cpus"))?;
        self.watch = start_watch(&group, self.fields, self.sampling)?;
        self.cpus = cpus;
        Ok(())
    }
}

fn sensor(cpu: u32, field: CpuField) -> Sensor {
    let id = format!("cpu{cpu}/{}", field.id());
    Sensor {
        source: Source::Dcgm,
        channel: id.clone(),
        id,
        kind: Kind::CpuField(field),
        socket: Some(cpu),
        label: format!("DCGM field {}", field.id()),
        // DCGM passes on what the firmware shows, and not over how long that is an average.
        averaging: Averaging::Unknown,
        meter: Meter::Entity(cpu),
    }
}

/// Whether a value is stamped with a sensor's CPU and field. An engine may answer in an order of its own.
fn is_of(value: &FieldValue, sensor: &Sensor) -> bool {
    let Kind::CpuField(field) = sensor.kind else { return false };
    value.field == field.id() && sensor.meter == Meter::Entity(value.entity)
}

/// When the engine sampled a value, on our clocks, and how long before the host was booted that was. A sample that an
/// engine has from then is as old as it says, however young the clocks are.
fn sampled_at(ts_us: i64, now: Now) -> Result<(Now, Duration), Failure> {
    if ts_us <= 0 {
        return Err(Failure::Blank);
    }
    let wall_s = ts_us as f64 / 1e6;
    let age_s = now.wall_s - wall_s;
    if age_s < -AHEAD_S_MAX {
        return Err(Failure::Ahead);
    }
    let age = Duration::try_from_secs_f64(age_s.max(0.0)).unwrap_or(Duration::MAX);
    let at = Now {
        wall_s,
        monotonic: now.monotonic.saturating_sub(age),
        boot: now.boot.saturating_sub(age),
    };
    Ok((at, age.saturating_sub(now.boot)))
}
