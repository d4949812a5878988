//! One thread a sensor: reads on a drift-free schedule and stores what it read.
//!
//! Firmware reads of 150 ms each run side by side and do not add up, and one that hangs holds up only
//! its own thread. All workers share one schedule, so that the sensors of a node are read together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::cell::Cell;
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::sensor::Source;
use crate::sources::rapl::DENIED_FIX;
use crate::sysfs::Sysfs;

/// A worker reads one small file: a small stack keeps a node with many sensors cheap.
const STACK_BYTES: usize = 128 << 10;

/// The longest pause of a sensor that keeps failing: each failed ACPI call may write to the kernel's log.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How often a driver is asked what it averages over: an administrator may change it, but rarely does.
const ASK_AVERAGING_EVERY: Duration = Duration::from_secs(60);

/// When to read: at `origin + k * interval`, whatever a read took. Missed times are skipped.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The first read.
    pub origin: Instant,
    /// The time between reads.
    pub interval: Duration,
}

impl Schedule {
    /// The first scheduled time that is at least `pause` after `now`, with no pause the very next one.
    pub fn next(&self, now: Instant, pause: Duration) -> Instant {
        let elapsed = (now + pause).saturating_duration_since(self.origin);
        let ticks = elapsed.as_nanos() / self.interval.as_nanos().max(1);
        let at_ns = (ticks + 1) * self.interval.as_nanos().max(1);
        self.origin + Duration::from_nanos(u64::try_from(at_ns).unwrap_or(u64::MAX))
    }
}

/// What a thread that reads is asked for, from outside.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// To end.
    pub(crate) stop: AtomicBool,
    /// To read at once, whatever pause there is.
    pub(crate) read_now: AtomicBool,
}

impl Wishes {
    /// Waits until then, or until something is wished. Says whether it is to read at once.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        while !self.stop.load(Ordering::Acquire) {
            if self.read_now.swap(false, Ordering::AcqRel) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        false
    }
}

/// A running worker. Dropping it asks the thread to end after the read in flight; a read that hangs
/// keeps its thread, and only that one.
#[derive(Debug)]
pub struct Worker {
    wishes: Arc<Wishes>,
    thread: Thread,
}

impl Worker {
    /// Starts reading `cell`'s sensor.
    pub fn start(
        cell: Arc<Cell>,
        sysfs: Sysfs,
        health: Arc<Health>,
        schedule: Schedule,
    ) -> io::Result<Self> {
        let wishes = Arc::<Wishes>::default();
        let wished = Arc::clone(&wishes);
        let handle = thread::Builder::new()
            .name(cell.sensor.channel.clone())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&cell, &sysfs, &health, schedule, &wished))?;
        Ok(Self { wishes, thread: handle.thread().clone() })
    }

    /// Ends the pause of a sensor that has failed for long.
    pub fn read_now(&self) {
        self.wishes.read_now.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.wishes.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn run(cell: &Cell, sysfs: &Sysfs, health: &Health, schedule: Schedule, wishes: &Wishes) {
    let mut failures_in_a_row = 0_u32;
    let mut said = None;
    let mut averaging_asked: Option<Instant> = None;
    while !wishes.stop.load(Ordering::Acquire) {
        if averaging_asked.is_none_or(|at| at.elapsed() >= ASK_AVERAGING_EVERY) {
            averaging_asked = Some(Instant::now());
            cell.begin(Now::read()); // It may hang like a read, and is overdue like one.
            cell.set_averaging(cell.sensor.ask_averaging(sysfs));
        }
        let started = Now::read();
        cell.begin(started);
        let measured = cell.sensor.measure(sysfs);
        let ended = Now::read();
        let outcome = cell.finish_read(measured, started, ended);
        health.record(cell.sensor.source, ended.awake_since(&started), outcome);
        say_changes(cell, outcome, &mut said);
        failures_in_a_row = match outcome {
            Err(failure) if failure.is_of_the_sensor() => failures_in_a_row.saturating_add(1),
            _ => 0,
        };
        let pause = backoff(schedule.interval, failures_in_a_row);
        wishes.wait_until(schedule.next(Instant::now(), pause));
    }
}

/// No extra pause after a first failure, then one interval, two, four, up to the longest.
pub(crate) fn backoff(interval: Duration, failures_in_a_row: u32) -> Duration {
    match failures_in_a_row {
        0 | 1 => Duration::ZERO,
        // 2^16 intervals of a millisecond pass the longest pause already.
        n => interval.saturating_mul(1 << (n - 2).min(16)).min(BACKOFF_MAX),
    }
}

/// Logs a failure when it begins or becomes another one, and the recovery.
pub(crate) fn say_changes(cell: &Cell, outcome: Result<(), Failure>, said: &mut Option<Failure>) {
    let sensor = &cell.sensor;
    let failure = outcome.err().filter(|failure| failure.is_error());
    if failure == *said {
        return;
    }
    *said = failure;
    match failure {
        Some(failure) => warn!(
            source = sensor.source.as_str(),
            sensor = sensor.id,
            reason = failure.as_str(),
            "no reading: withheld as {}{}",
            failure.state().as_str(),
            remedy(sensor.source, failure)
        ),
        None => info!(source = sensor.source.as_str(), sensor = sensor.id, "readings are back"),
    }
}

/// What an operator can do about it, where there is something.
fn remedy(source: Source, failure: Failure) -> String {
    match (source, failure) {
        (Source::Rapl, Failure::Denied) => format!(": {DENIED_FIX}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_its_grid_and_skips_what_was_missed() {
        let origin = Instant::now();
        let schedule = Schedule { origin, interval: Duration::from_millis(100) };
        let cases = [
            // (now, pause, next), in ms since the origin
            (0, 0, 100),
            (1, 0, 100),
            (99, 0, 100),
            (100, 0, 200),
            (250, 0, 300), // 100 and 200 were missed: neither is made up for
            (1050, 400, 1500),
        ];
        for (now, pause, next) in cases {
            let at = schedule.next(origin + ms(now), ms(pause));
            assert_eq!(at - origin, ms(next), "now {now}, pause {pause}");
        }
    }

    #[test]
    fn a_failing_sensor_is_asked_less_and_less_often() {
        let pauses: Vec<u64> =
            (0..12).map(|n| backoff(Duration::from_secs(1), n).as_secs()).collect();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(backoff(Duration::from_secs(1), u32::MAX), BACKOFF_MAX);
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
}
