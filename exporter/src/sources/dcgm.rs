//! Power of CPU sockets as NVIDIA DCGM has it: field 1130, the rail of the cores, and 1132, SysIO.
//!
//! An engine of the system is asked first, since it samples already and runs as root; where none answers, one
//! is started inside this process. The engine says when it sampled a value, and that is the reading's time: a
//! value that an engine holds on to grows old here. DCGM writes a blank where it has no value, and each kind
//! of blank is told as what it is.

use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::warn;
use wattscribe_rules::Averaging;

use crate::clock::Now;
use crate::dcgm_error::DcgmError;
use crate::dcgm_lib::{Dcgm as Loaded, Engine, FieldValue, Group, Sampling, Watch};
use crate::failure::Failure;
use crate::library::{Library, OpenError, Reading, Session};
use crate::plausible::power;
use crate::sensor::{CpuField, Kind, Meter, Sensor, Source};

/// The names that DCGM installs its library under.
pub const LIBRARY_NAMES: [&str; 3] = ["libdcgm.so.4", "libdcgm.so.3", "libdcgm.so"];

/// What is watched, best first. An engine that cannot watch SysIO refuses the pair, and gives the rail alone.
const FIELD_SETS: [&[CpuField]; 2] = [&[CpuField::CpuRail, CpuField::SysIo], &[CpuField::CpuRail]];

/// How often an engine samples at most: each sample is a call into the firmware that takes about 150 ms.
const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// What an engine keeps. We read the latest sample only.
const KEEP_S: f64 = 60.0;
const KEEP_SAMPLES: i32 = 600;

/// How far an engine's clock may be ahead of ours: it is mostly the same one, read a moment earlier.
const AHEAD_S_MAX: f64 = 1.0;

/// Where DCGM is, and how it is asked.
#[derive(Debug, Clone)]
pub struct Access {
    /// Libraries to try, in their order. None: DCGM is not used.
    pub libraries: Vec<PathBuf>,
    /// The address of the system's engine, with or without a port.
    pub address: String,
    /// Whether a thread has the library, or never came back from it: only one of a process may.
    is_taken: Arc<AtomicBool>,
}

impl Access {
    /// Access that nobody has taken.
    pub fn new(libraries: Vec<PathBuf>, address: String) -> Self {
        Self { libraries, address, is_taken: Arc::default() }
    }
}

/// DCGM of this node. There is one at a time.
#[derive(Debug)]
pub struct Dcgm {
    access: Access,
    /// How often the exporter reads.
    interval: Duration,
}

impl Dcgm {
    /// DCGM for a reader that reads every `interval`; nothing while another reader has it.
    pub fn take(access: &Access, interval: Duration) -> Option<Self> {
        let was_taken = access.is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Self { access: access.clone(), interval })
    }

    fn engine(&self) -> Result<Rc<Engine>, OpenError> {
        let dcgm = Loaded::load(&self.access.libraries).map_err(|error| match error {
            DcgmError::Absent(_) => OpenError::Absent(error.to_string()),
            error => failed(error),
        })?;
        let address = &self.access.address;
        Engine::connect(&dcgm, address).or_else(|refused| {
            Engine::embed(&dcgm).map_err(|error| {
                OpenError::Failed(format!(
                    "no engine at {address} ({refused}) and none here ({error})"
                ))
            })
        })
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
        let engine = self.engine()?;
        let cpus = engine.cpus().map_err(failed)?;
        if cpus.is_empty() {
            return Err(OpenError::Failed("the engine knows no CPU".to_owned()));
        }
        let group = Group::of(&engine, cpus.clone(), &name("cpus")).map_err(failed)?;
        let mut reasons = Vec::new();
        for fields in FIELD_SETS {
            match watch(&group, fields, self.sampling()) {
                Ok(watch) => {
                    for reason in reasons {
                        warn!(source = "dcgm", reason, "stepping down to field 1130 alone");
                    }
                    return Ok(Box::new(DcgmSession { watch, cpus, fields }));
                }
                Err(reason) => reasons.push(format!("{}: {reason}", numbers(fields))),
            }
        }
        Err(OpenError::Failed(reasons.join(", ")))
    }
}

fn failed(error: DcgmError) -> OpenError {
    OpenError::Failed(error.to_string())
}

/// Watches these fields, and believes in them when one first read finds the rail of a CPU alive.
fn watch(group: &Rc<Group>, fields: &[CpuField], sampling: Sampling) -> Result<Watch, String> {
    let ids: Vec<u16> = fields.iter().map(|field| field.id()).collect();
    let mut watch =
        Watch::start(group, &ids, &name("fields"), sampling).map_err(|error| error.to_string())?;
    let values = watch.read().map_err(|error| error.to_string())?;
    let rails = values.iter().filter(|value| value.field == CpuField::CpuRail.id());
    let outcomes: Vec<_> = rails.map(|value| (value.entity, watts(value))).collect();
    if outcomes.iter().any(|(_, outcome)| outcome.is_ok()) {
        return Ok(watch);
    }
    let failure = |(cpu, outcome): &(u32, Result<f64, Failure>)| {
        Some(format!("cpu{cpu} {}", outcome.err()?.as_str()))
    };
    let failures: Vec<String> = outcomes.iter().filter_map(failure).collect();
    Err(format!("no CPU rail reads above zero ({})", failures.join(", ")))
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
    cpus: Vec<u32>,
    fields: &'static [CpuField],
}

impl Session for DcgmSession {
    fn discover(&mut self) -> Result<Vec<Sensor>, String> {
        let of_cpu = |cpu: &u32| {
            let cpu = *cpu;
            self.fields.iter().map(move |field| sensor(cpu, *field))
        };
        Ok(self.cpus.iter().flat_map(of_cpu).collect())
    }

    fn read(&mut self, sensors: &[&Sensor]) -> Result<Vec<Reading>, String> {
        let started = Now::read();
        let values = self.watch.read().map_err(|error| error.to_string())?;
        let ended = Now::read();
        let reading = |sensor: &&Sensor| {
            let value = values.iter().find(|value| is_of(value, sensor));
            let outcome = value.ok_or(Failure::NotFound).and_then(|value| {
                let watts = watts(value)?;
                Ok((watts, sampled_at(value.ts_us, ended)?))
            });
            Reading {
                watts: outcome.map(|(watts, _)| watts),
                at: outcome.map_or(ended, |(_, at)| at),
                took: ended.since(&started),
            }
        };
        Ok(sensors.iter().map(reading).collect())
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

/// When the engine sampled a value, on our clocks.
fn sampled_at(ts_us: i64, now: Now) -> Result<Now, Failure> {
    if ts_us <= 0 {
        return Err(Failure::Blank);
    }
    let wall_s = ts_us as f64 / 1e6;
    let age_s = now.wall_s - wall_s;
    if age_s < -AHEAD_S_MAX {
        return Err(Failure::Ahead);
    }
    let age = Duration::try_from_secs_f64(age_s.max(0.0)).unwrap_or(Duration::MAX);
    Ok(Now {
        wall_s,
        monotonic: now.monotonic.saturating_sub(age),
        boot: now.boot.saturating_sub(age),
    })
}

/// What one value is in watts, or why it is none.
fn watts(value: &FieldValue) -> Result<f64, Failure> {
    of_status(value.status)?;
    let [a, b, c, d, e, f, g, h, ..] = value.bytes;
    let eight = [a, b, c, d, e, f, g, h];
    // `DCGM_FT_*`: the type is a letter. Power is a double; what is blank may come as any type.
    let number = match u8::try_from(value.kind) {
        Ok(b'd') => f64::from_ne_bytes(eight),
        Ok(b'i') => return Err(blank_of_integer(i64::from_ne_bytes(eight))),
        Ok(b's') => return Err(blank_of_text(&value.bytes)),
        _ => return Err(Failure::Malformed),
    };
    match number {
        number if number.is_finite() && number >= BLANK_DOUBLE => {
            Err(blank((number - BLANK_DOUBLE).min(4.0) as u64))
        }
        // A blank integer that somebody has made a double of.
        number if number.is_finite() && number >= BLANK_INT32 as f64 => {
            Err(blank((number - BLANK_INT32 as f64) as u64))
        }
        number => power(number, false),
    }
}

/// `DCGM_FP64_BLANK`, `DCGM_INT64_BLANK`, `DCGM_INT32_BLANK` (dcgm_structs.h). Not found, not supported and
/// not permitted follow each by one.
const BLANK_DOUBLE: f64 = 140_737_488_355_328.0;
const BLANK_INT64: i64 = 0x7fff_ffff_ffff_fff0;
const BLANK_INT32: i64 = 0x7fff_fff0;

/// Which blank it is, by its distance from the first of its type.
fn blank(distance: u64) -> Failure {
    match distance {
        1 => Failure::NotFound,
        2 => Failure::NotSupported,
        3 => Failure::NotPermitted,
        _ => Failure::Blank,
    }
}

fn blank_of_integer(value: i64) -> Failure {
    match value {
        BLANK_INT64.. => blank(value.abs_diff(BLANK_INT64)),
        BLANK_INT32..=0x7fff_ffff => blank(value.abs_diff(BLANK_INT32)),
        _ => Failure::Malformed,
    }
}

fn blank_of_text(bytes: &[u8]) -> Failure {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    match &bytes[..end] {
        b"<<<NULL>>>" => Failure::Blank,
        b"<<<NOT_FOUND>>>" => Failure::NotFound,
        b"<<<NOT_SUPPORTED>>>" => Failure::NotSupported,
        b"<<<NOT_PERM>>>" => Failure::NotPermitted,
        _ => Failure::Malformed,
    }
}

/// What the status beside a value says (`dcgmReturn_t`, dcgm_structs.h).
fn of_status(status: i32) -> Result<(), Failure> {
    Err(match status {
        0 => return Ok(()),
        -6 | -22 | -32 => Failure::NotSupported,
        -13 => Failure::NotFound,
        -9 | -14 | -15 | -16 => Failure::Blank, // pending, no data, stale data, not watched
        -11 => Failure::Timeout,
        -17 | -29 => Failure::NotPermitted,
        -18 => Failure::Gone,
        _ => Failure::Io,
    })
}
