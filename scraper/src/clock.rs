//! The recorder's one door to time.
//!
//! Rows carry wall time, but intervals must not: the wall clock is read once, and every later label is
//! that reading plus what the boot-time clock has run since. A step of the wall clock (NTP, an
//! operator) therefore moves no interval; it is measured and recorded beside the scrape.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Wall time carried forward on a clock that does not step.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin_boot: Duration,
    origin_wall: Duration,
}

impl Clock {
    /// Starts from the wall clock as it stands.
    pub fn start() -> Self {
        Self { origin_boot: boot(), origin_wall: wall() }
    }

    /// Time since the start, sleep of the host included.
    pub fn elapsed(&self) -> Duration {
        boot().saturating_sub(self.origin_boot)
    }

    /// How long it is from now until `due` since the start. To be asked anew for each wait: timers stand
    /// still while the host sleeps, and this clock does not.
    pub fn until(&self, due: Duration) -> Duration {
        due.saturating_sub(self.elapsed())
    }

    /// Unix seconds at `elapsed` since the start.
    pub fn unix_s(&self, elapsed: Duration) -> f64 {
        (self.origin_wall + elapsed).as_secs_f64()
    }

    /// Unix microseconds at `elapsed` since the start.
    pub fn unix_us(&self, elapsed: Duration) -> i64 {
        i64::try_from((self.origin_wall + elapsed).as_micros()).unwrap_or(i64::MAX)
    }

    /// How far the wall clock stands ahead of the carried time now, in microseconds: its steps since
    /// the start.
    pub fn wall_ahead_us(&self) -> i64 {
        let carried = self.unix_us(self.elapsed());
        i64::try_from(wall().as_micros()).unwrap_or(i64::MAX).saturating_sub(carried)
    }
}

fn boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // The kernel gives both fields non-negative for this clock.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
