//! Whether the energy that an accelerator counts is the energy that its power adds up to. Pure.
//!
//! Counters froze on some cards and were in another unit on others (ROCm/amdsmi#38, ROCm/rocm_smi_lib#180). One that
//! disagrees once is not believed again by this process: a series that goes back and forth between two counts is worth
//! less than one that is a sum of what was read.

use std::time::Duration;

use crate::clock::Now;

/// How far the two may be apart: the mean of a second against the true course of a load.
const TOLERANCE: f64 = 0.05;

/// How long is compared at first, so that a frozen counter is known soon.
const FIRST_WINDOW: Duration = Duration::from_secs(10);

/// How long is compared later.
const WINDOW: Duration = Duration::from_secs(60);

/// How many intervals these are at the least: each edge of a window may be an interval off.
const FIRST_INTERVALS: u32 = 10;
const INTERVALS: u32 = 40;

/// The power beside a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Power {
    /// Watts as they were read last, and what they add up to.
    Is(f64, Count),
    /// There is none now.
    Missing,
    /// The device measures none.
    Unmeasured,
}

/// A count of joules, and since when in Unix seconds.
pub type Count = (f64, f64);

/// What is known of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// It was not compared for long enough.
    #[default]
    Undecided,
    /// It agrees.
    Agrees,
    /// It does not.
    Disagrees,
}

/// The comparison of one device's counter.
#[derive(Debug, Default)]
pub struct EnergyCheck {
    window: Option<Window>,
    trust: Trust,
}

#[derive(Debug)]
struct Window {
    began: Now,
    counter: Count,
    integral: Count,
    most_watts: f64,
}

impl EnergyCheck {
    /// What is known so far.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Looks at both counts, and at the power as it was read last. `interval` is the time between two reads. A device that
    /// measures no power has nothing that could contradict its counter.
    pub fn look(&mut self, now: Now, interval: Duration, counter: Option<Count>, power: Power) {
        if self.trust == Trust::Disagrees {
            return;
        }
        let (counter, watts, integral) = match (counter, power) {
            (Some(counter), Power::Is(watts, integral)) => (counter, watts, integral),
            (Some(_), Power::Unmeasured) => {
                self.trust = Trust::Agrees;
                return;
            }
            _ => {
                self.window = None;
                return;
            }
        };
        let goes_on =
            |window: &Window| window.counter.1 == counter.1 && window.integral.1 == integral.1;
        let Some(window) = self.window.as_mut().filter(|window| goes_on(window)) else {
            self.window = Some(Window { began: now, counter, integral, most_watts: watts });
            return;
        };
        window.most_watts = window.most_watts.max(watts);
        let length = now.since(&window.began);
        let enough = match self.trust {
            Trust::Undecided => FIRST_WINDOW.max(interval * FIRST_INTERVALS),
            Trust::Agrees | Trust::Disagrees => WINDOW.max(interval * INTERVALS),
        };
        if length < enough {
            return;
        }
        let (counted, added) = (counter.0 - window.counter.0, integral.0 - window.integral.0);
        // Each count ends with its own last read: at either edge they may be an interval apart.
        let edges = window.most_watts * 2.0 * interval.as_secs_f64();
        let is_apart = (counted - added).abs() > TOLERANCE * counted.max(added) + edges;
        self.trust = if is_apart { Trust::Disagrees } else { Trust::Agrees };
        self.window = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Now {
        let since = Duration::from_secs(second);
        Now { wall_s: second as f64, monotonic: since, boot: since }
    }

    /// A device at 100 W whose counter counts `factor` times that, looked at every second.
    fn after(seconds: u64, factor: impl Fn(u64) -> f64) -> Trust {
        let (mut check, mut counted) = (EnergyCheck::default(), 0.0);
        for second in 0..=seconds {
            if second > 0 {
                counted += 100.0 * factor(second);
            }
            let power = Power::Is(100.0, (100.0 * second as f64, 0.0));
            check.look(at(second), Duration::from_secs(1), Some((counted, 0.0)), power);
        }
        check.trust()
    }

    #[test]
    fn a_counter_is_believed_when_it_counts_what_power_adds_up_to() {
        type Case = (&'static str, u64, fn(u64) -> f64, Trust);
        let cases: [Case; 8] = [
            ("too soon", 9, |_| 1.0, Trust::Undecided),
            ("the same", 10, |_| 1.0, Trust::Agrees),
            ("frozen", 10, |_| 0.0, Trust::Disagrees),
            ("in another unit", 10, |_| 1_000.0, Trust::Disagrees),
            ("6 % more, and the edges", 80, |_| 1.06, Trust::Agrees),
            ("10 % more", 80, |_| 1.10, Trust::Disagrees),
            ("10 % less", 80, |_| 0.90, Trust::Disagrees),
            ("frozen later", 140, |second| f64::from(u8::from(second < 40)), Trust::Disagrees),
        ];
        for (name, seconds, factor, expected) in cases {
            assert_eq!(after(seconds, factor), expected, "{name}");
        }
        let back = after(300, |second| if second < 70 { 0.0 } else { 1.0 });
        assert_eq!(back, Trust::Disagrees, "what it lost once it has lost");
    }

    #[test]
    fn counts_that_begin_anew_are_compared_anew() {
        let mut check = EnergyCheck::default();
        let interval = Duration::from_secs(1);
        check.look(at(0), interval, Some((0.0, 0.0)), Power::Is(100.0, (0.0, 0.0)));
        // The integral has begun anew behind a gap.
        check.look(at(20), interval, Some((2_000.0, 0.0)), Power::Is(100.0, (0.0, 20.0)));
        assert_eq!(check.trust(), Trust::Undecided);
        check.look(at(30), interval, Some((3_000.0, 0.0)), Power::Is(100.0, (1_000.0, 20.0)));
        assert_eq!(check.trust(), Trust::Agrees);
    }

    #[test]
    fn a_counter_beside_no_power_is_believed() {
        let mut check = EnergyCheck::default();
        check.look(at(0), Duration::from_secs(1), None, Power::Unmeasured);
        assert_eq!(check.trust(), Trust::Undecided);
        check.look(at(1), Duration::from_secs(1), Some((5.0, 0.0)), Power::Missing);
        assert_eq!(check.trust(), Trust::Undecided, "its power may come");
        check.look(at(2), Duration::from_secs(1), Some((5.0, 0.0)), Power::Unmeasured);
        assert_eq!(check.trust(), Trust::Agrees);
    }
}
