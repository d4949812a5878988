//! The exporter's one door to time: the wall clock to label, the monotonic clock for intervals, the
//! boot-time clock to notice that the host slept (it runs on through a suspend; the monotonic one stops).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// One instant on all three clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    /// Unix time in seconds. A label only: it may step.
    pub wall_s: f64,
    /// Time awake since boot.
    pub monotonic: Duration,
    /// Time since boot, sleep included.
    pub boot: Duration,
}

impl Now {
    /// The clocks as they stand.
    pub fn read() -> Self {
        let since_boot = |clock| {
            let time = clock_gettime(clock);
            // The kernel gives both fields non-negative for these clocks.
            Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            wall_s: wall.as_secs_f64(),
            monotonic: since_boot(ClockId::Monotonic),
            boot: since_boot(ClockId::Boottime),
        }
    }

    /// How long ago `earlier` was, sleep included: a reading from before a suspend is old.
    pub fn since(&self, earlier: &Self) -> Duration {
        self.boot.saturating_sub(earlier.boot)
    }

    /// How long the host was awake since `earlier`: what a read took of the firmware's time.
    pub fn awake_since(&self, earlier: &Self) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }

    /// The instant halfway to `later`: where a read that took a while is placed.
    pub fn midpoint(&self, later: &Self) -> Self {
        let half = later.since(self) / 2;
        Self {
            wall_s: self.wall_s + half.as_secs_f64(),
            monotonic: self.monotonic + later.awake_since(self) / 2,
            boot: self.boot + half,
        }
    }

    /// How long the host slept between `earlier` and now.
    pub fn asleep_since(&self, earlier: &Self) -> Duration {
        self.since(earlier).saturating_sub(self.awake_since(earlier))
    }
}
