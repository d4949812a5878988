//! When a target is polled: an absolute grid, never a sleep after the work.
//!
//! Scrape `k` is due at `origin + phase + k * interval`, whatever earlier ones took. A scrape that is
//! not over when later ones fall due makes those missed: they are counted, and none is made up for in
//! a burst. The phase spreads targets over the interval; it comes from the target's name alone, so that
//! a restart keeps it.

use std::time::Duration;

/// The grid of one target, in time since the recorder's origin.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    interval: Duration,
    phase: Duration,
}

/// The next scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// When it is due.
    pub due: Duration,
    /// How many were due since the last one and are left out.
    pub missed: u64,
}

impl Schedule {
    /// The grid of the target called `name`. `interval` must not be zero.
    pub fn new(name: &str, interval: Duration) -> Self {
        let share = f64::from(fnv1a(name)) / f64::from(u32::MAX);
        Self { interval, phase: interval.mul_f64(share * 0.999) }
    }

    /// The first scrape.
    pub fn first(&self) -> Tick {
        Tick { due: self.phase, missed: 0 }
    }

    /// The scrape after `last`, when it is `now`.
    pub fn next(&self, last: Tick, now: Duration) -> Tick {
        let interval_ns = self.interval.as_nanos().max(1);
        let late_ns = now.saturating_sub(last.due).as_nanos();
        let missed = u64::try_from(late_ns / interval_ns).unwrap_or(u64::MAX);
        let steps = u32::try_from(missed.saturating_add(1)).unwrap_or(u32::MAX);
        Tick { due: last.due + self.interval * steps, missed }
    }
}

/// FNV-1a: small, stable over versions and machines, and not the standard library's seeded hash.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_grid_does_not_drift_and_missed_ticks_are_counted() {
        let schedule = Schedule { interval: ms(1000), phase: ms(300) };
        let first = schedule.first();
        assert_eq!(first, Tick { due: ms(300), missed: 0 });
        let cases = [
            // (it is now, next due, missed)
            (310, 1300, 0),
            (1299, 1300, 0),
            (1300, 2300, 1), // due right now: too late for it
            (4250, 4300, 3),
            (300, 1300, 0),
            (0, 1300, 0), // a clock that has not moved changes nothing
        ];
        for (now, due, missed) in cases {
            assert_eq!(schedule.next(first, ms(now)), Tick { due: ms(due), missed }, "now {now}");
        }
    }

    #[test]
    fn phases_are_stable_and_spread() {
        let phase = |name: &str| Schedule::new(name, ms(1000)).first().due;
        assert_eq!(phase("node-a"), phase("node-a"));
        let mut quarters = [0; 4];
        for node in 0..400 {
            let phase = phase(&format!("node{node:03}"));
            assert!(phase < ms(1000));
            quarters[(phase.as_millis() / 250) as usize] += 1;
        }
        assert!(quarters.iter().all(|count| *count > 60), "{quarters:?}");
    }

    proptest! {
        /// Whatever scrapes take, every one is on the grid, none is due in the past, and scrapes and
        /// missed ticks together are all the ticks that there were.
        #[test]
        fn scrapes_and_missed_ticks_are_the_grid(
            interval_ms in 1..5000_u64,
            scrapes in proptest::collection::vec(0..20_000_u64, 1..50),
        ) {
            let schedule = Schedule::new("node-a", ms(interval_ms));
            let mut tick = schedule.first();
            let mut ticks = 0;
            for scrape_ms in scrapes {
                let end = tick.due + ms(scrape_ms);
                tick = schedule.next(tick, end);
                ticks += 1 + tick.missed;
                prop_assert!(tick.due > end && tick.due <= end + ms(interval_ms));
                prop_assert_eq!(tick.due, schedule.phase + ms(interval_ms * ticks));
            }
        }
    }
}
