//! The last reading of one sensor: written by its worker, judged by whoever publishes it.
//!
//! A worker only ever stores what it read. Whether that may still be published is decided at the
//! moment of publishing, from the reading's age: a wedged worker cannot keep an old number alive.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wattscribe_rules::counter::{CounterRead, Epochs, Step};
use wattscribe_rules::{Averaging, State};

use crate::accelerator::quantity::Quantity;
use crate::clock::Now;
use crate::failure::Failure;
use crate::integral::Integral;
use crate::plausible::{ZONE_WATTS_MAX, is_zero};
use crate::sensor::{Kind, Measure, Sensor};

/// How long a reading lives and a read may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A reading older than this is withheld as stale.
    pub stale_after: Duration,
    /// A read that takes longer than this is overdue.
    pub read_deadline: Duration,
}

/// What may be published of a sensor at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The state; only [`State::Ok`] comes with numbers.
    pub state: State,
    /// Why there is no number.
    pub reason: Option<&'static str>,
    /// Power in watts.
    pub watts: Option<f64>,
    /// Joules since the count began or last broke: by the sensor's own counter, corrected for wraps, or by adding up the
    /// power of an accelerator that is read as a gauge.
    pub joules: Option<f64>,
    /// Since when those joules are counted, in Unix seconds.
    pub joules_since_s: Option<f64>,
    /// How often the counter passed its range since it is read.
    pub wraps: Option<u64>,
    /// When the sensor was read.
    pub read_at: Option<Now>,
    /// The seconds that the power is a mean over, where they are known.
    pub window_s: Option<f64>,
    /// What one value is an average over.
    pub averaging: Averaging,
}

/// A read that has not come back in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// The read before it was in time: this is news.
    First,
    /// The read before it was overdue, too: the sensor is slow.
    Again,
}

/// One sensor and its last reading.
#[derive(Debug)]
pub struct Cell {
    /// The sensor.
    pub sensor: Sensor,
    latest: Mutex<Latest>,
}

/// A counter that a driver extends as it is read may have wrapped in a longer time: at 1 kW it does in four minutes
/// (kernel: drivers/gpu/drm/xe/xe_hwmon.c, counters of 32 bits in units of 2^-14 J).
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Counters of accelerators are brought up to date at least as often.
const STANDS_MAX: Duration = Duration::from_secs(1);

/// A counter step or a read across a longer sleep of the host than this is no power.
pub(crate) const ASLEEP_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
struct Latest {
    /// Since when discovery no longer finds it.
    lost_since: Option<Now>,
    in_flight: Option<Now>,
    overdue_counted: bool,
    /// Whether the read before the one in flight was overdue.
    overdue_before: bool,
    averaging: Averaging,
    outcome: Option<Outcome>,
    energy: Option<Epochs>,
    baseline_at: Option<Now>,
    /// Whether nothing is known of the counter since its last read: its device slept.
    is_interrupted: bool,
    integral: Option<Integral>,
    /// The counter's total, in microjoules, as its epoch began: what is published counts from there.
    epoch_from_uj: u64,
    /// When that was, in Unix seconds.
    epoch_since_s: Option<f64>,
}

/// What the last completed read gave.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    at: Now,
    /// How long before the host was booted that was: no clock of its own reaches there.
    before_boot: Duration,
    watts: Result<f64, Failure>,
    window_s: Option<f64>,
}

impl Cell {
    /// A sensor that has not been read yet.
    pub fn new(sensor: Sensor) -> Self {
        let counts = sensor.counts();
        let energy = counts.then(|| Epochs::new(sensor.meter.range_uj(), ZONE_WATTS_MAX * 1e6));
        let is_whole = sensor.kind == Kind::Accelerator(Quantity::Power);
        let integral = (is_whole && !counts).then(Integral::default);
        let latest = Latest {
            lost_since: None,
            in_flight: None,
            overdue_counted: false,
            overdue_before: false,
            averaging: sensor.averaging,
            outcome: None,
            energy,
            baseline_at: None,
            is_interrupted: false,
            integral,
            epoch_from_uj: 0,
            epoch_since_s: None,
        };
        Self { sensor, latest: Mutex::new(latest) }
    }

    /// The same sensor at another place ([`Sensor::is_same`]): what it has counted goes on.
    pub fn moved_to(&self, sensor: Sensor) -> Self {
        let mut latest = self.lock().clone();
        latest.lost_since = None;
        latest.in_flight = None;
        latest.overdue_counted = false;
        latest.outcome = None;
        latest.averaging = sensor.averaging;
        Self { sensor, latest: Mutex::new(latest) }
    }

    /// Discovery no longer finds the sensor.
    pub fn lose(&self, now: Now) {
        self.lock().lost_since.get_or_insert(now);
    }

    /// Whether that was longer ago than this.
    pub fn is_lost_for(&self, now: Now, limit: Duration) -> bool {
        self.lock().lost_since.is_some_and(|since| now.since(&since) > limit)
    }

    /// Whether discovery found it the last time.
    pub fn is_present(&self) -> bool {
        self.lock().lost_since.is_none()
    }

    /// What the driver says that one value is an average over.
    pub fn set_averaging(&self, averaging: Averaging) {
        self.lock().averaging = averaging;
    }

    /// A read begins.
    pub fn begin(&self, now: Now) {
        let mut latest = self.lock();
        latest.in_flight = Some(now);
        latest.overdue_counted = false;
    }

    /// A read is back that began and ended at these times. One during which the host slept was made on either
    /// side of the sleep, nobody knows which: its middle would be neither.
    pub fn finish_read(
        &self,
        measured: Result<Measure, Failure>,
        started: Now,
        ended: Now,
    ) -> Result<(), Failure> {
        if ended.asleep_since(&started) > ASLEEP_MAX {
            return self.finish(Err(Failure::HostSuspended), ended);
        }
        self.finish(measured, started.midpoint(&ended))
    }

    /// A reading that was true at a time. Returns what it means.
    pub fn finish(&self, measured: Result<Measure, Failure>, at: Now) -> Result<(), Failure> {
        self.finish_dated(measured, at, Duration::ZERO)
    }

    /// A reading that may be from before the host was booted, by this much.
    pub fn finish_dated(
        &self,
        measured: Result<Measure, Failure>,
        at: Now,
        before_boot: Duration,
    ) -> Result<(), Failure> {
        let mut latest = self.lock();
        latest.in_flight = None;
        latest.overdue_before = latest.overdue_counted;
        let (watts, window_s) = match measured {
            Err(failure) => {
                if failure == Failure::Asleep {
                    latest.interrupt();
                }
                (Err(failure), None)
            }
            Ok(Measure::Watts(watts)) => {
                latest.integral.iter_mut().for_each(|integral| integral.push(at, watts));
                (Ok(watts), latest.averaging.window_s())
            }
            Ok(Measure::MicroJoules(value)) => {
                let Some(power) = latest.mean_power(&self.sensor, value, at) else { return Ok(()) };
                power
            }
        };
        latest.outcome = Some(Outcome { at, before_boot, watts, window_s });
        watts.map(|_| ())
    }

    /// The device slept since the last read: nothing that was counted goes on.
    pub fn interrupt(&self) {
        self.lock().interrupt();
    }

    /// Whether a read has just become overdue: told once for each read that hangs.
    pub fn becomes_overdue(&self, now: Now, limits: Limits) -> Option<Overdue> {
        let mut latest = self.lock();
        if latest.overdue_counted || !latest.is_overdue(now, limits) {
            return None;
        }
        latest.overdue_counted = true;
        Some(if latest.overdue_before { Overdue::Again } else { Overdue::First })
    }

    /// Whether the last read said that the device is gone, although discovery finds it.
    pub fn is_gone(&self) -> bool {
        self.lock().outcome.is_some_and(|outcome| outcome.watts == Err(Failure::Gone))
    }

    /// Whether any read has come back.
    pub fn has_been_read(&self) -> bool {
        self.lock().outcome.is_some()
    }

    /// What may be published now.
    pub fn judge(&self, now: Now, limits: Limits) -> Verdict {
        let latest = self.lock();
        let withheld = |state, reason| Verdict {
            state,
            reason: Some(reason),
            watts: None,
            joules: None,
            joules_since_s: None,
            wraps: None,
            read_at: latest.outcome.map(|outcome| outcome.at),
            window_s: None,
            averaging: latest.averaging,
        };
        if latest.lost_since.is_some() {
            return withheld(State::Lost, Failure::Gone.as_str());
        }
        let overdue = latest.is_overdue(now, limits);
        let Some(outcome) = latest.outcome else {
            let first = if overdue { Failure::Timeout } else { Failure::FirstRead };
            return withheld(first.state(), first.as_str());
        };
        let age = now.since(&outcome.at).saturating_add(outcome.before_boot);
        let is_old = age > limits.stale_after;
        match outcome.watts {
            _ if is_old && overdue => withheld(State::Stale, Failure::Timeout.as_str()),
            Err(failure) => withheld(failure.state(), failure.as_str()),
            Ok(_) if is_old => withheld(State::Stale, State::Stale.as_str()),
            Ok(watts) => Verdict {
                state: State::Ok,
                reason: None,
                watts: Some(watts),
                joules: latest.joules().map(|(joules, _)| joules),
                joules_since_s: latest.joules().and_then(|(_, since_s)| since_s),
                wraps: latest.energy.as_ref().map(Epochs::wraps),
                read_at: Some(outcome.at),
                window_s: outcome.window_s,
                averaging: latest.averaging,
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        // Every write under the lock is complete in itself, so a poisoned one is still whole.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Latest {
    fn is_overdue(&self, now: Now, limits: Limits) -> bool {
        self.in_flight.is_some_and(|started| now.since(&started) > limits.read_deadline)
    }

    fn interrupt(&mut self) {
        self.is_interrupted = true;
        self.integral.iter_mut().for_each(Integral::interrupt);
    }

    /// What was counted since the epoch began. It starts from zero, never from the hardware's own value:
    /// a wrap is corrected here and not there, so after a break that value would stand anywhere below or
    /// above what was published, and whoever takes increases would find energy that nobody used.
    fn joules(&self) -> Option<(f64, Option<f64>)> {
        if let Some(energy) = &self.energy {
            let counted = (energy.total() - self.epoch_from_uj) as f64 / 1e6;
            return Some((counted, self.epoch_since_s));
        }
        let (joules, since_s) = self.integral.as_ref()?.count()?;
        Some((joules, Some(since_s)))
    }

    /// Mean power between the last two reads of a counter, and the seconds between them. None when they
    /// are so close that the last reading still stands.
    fn mean_power(
        &mut self,
        sensor: &Sensor,
        value: u64,
        at: Now,
    ) -> Option<(Result<f64, Failure>, Option<f64>)> {
        let Some(energy) = &mut self.energy else { return Some((Err(Failure::Malformed), None)) };
        let read = CounterRead { at_s: at.monotonic.as_secs_f64(), value };
        let baseline_at = self.baseline_at;
        let asleep = baseline_at.is_some_and(|baseline| at.asleep_since(&baseline) > ASLEEP_MAX);
        // What is brought up to date now and then stands still in between, and has not moved by nothing.
        let is_of_device = matches!(sensor.kind, Kind::Accelerator(_));
        let stands = energy.baseline().is_some_and(|baseline| baseline.value == value)
            && baseline_at.is_some_and(|baseline| at.awake_since(&baseline) < STANDS_MAX);
        if is_of_device && stands && !self.is_interrupted {
            return None;
        }
        // Drivers of accelerators follow a counter of 32 bits by being read.
        let is_unread = is_of_device
            && baseline_at.is_some_and(|baseline| at.awake_since(&baseline) > UNREAD_MAX);
        let epoch = energy.epochs();
        let watts = if std::mem::take(&mut self.is_interrupted) || asleep || is_unread {
            // The counter may have stopped, wrapped or started anew: nothing across that is known.
            energy.rearm(read);
            Err(if asleep { Failure::HostSuspended } else { Failure::FirstRead })
        } else {
            energy_step(energy.push(read))?
        };
        if energy.epochs() != epoch {
            self.epoch_from_uj = energy.total();
            self.epoch_since_s = Some(at.wall_s);
        }
        if energy.baseline() == Some(read) {
            self.baseline_at = Some(at);
        }
        // A step counts from the last read that was believed, which a wild one leaves where it was.
        let elapsed_s = baseline_at.map_or(0.0, |baseline| at.awake_since(&baseline).as_secs_f64());
        let watts = watts.map(|joules| joules / elapsed_s);
        Some(match watts {
            Ok(watts) if is_zero(watts) && !sensor.kind.can_read_zero() => {
                (Err(Failure::Zero), None)
            }
            watts => (watts, Some(elapsed_s)),
        })
    }
}

/// The joules of a counter's step, or why it has none; nothing where there is no step.
fn energy_step(step: Step) -> Option<Result<f64, Failure>> {
    match step {
        Step::Increase(microjoules) | Step::Wrapped(microjoules) => {
            Some(Ok(microjoules as f64 / 1e6))
        }
        Step::First => Some(Err(Failure::FirstRead)),
        Step::Backward(_) | Step::Implausible => Some(Err(Failure::ImplausibleStep)),
        Step::Reset | Step::Ambiguous => Some(Err(Failure::CounterReset)),
        Step::TooShort => None,
    }
}
