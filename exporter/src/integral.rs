//! The energy of a gauge of power, added up as it is read: for a device that counts none itself. Pure.
//!
//! The trapezoid between neighbouring readings, as long as they are no further apart than the gap limit. What lies in a
//! longer gap is not known: the count begins anew behind it, so that nobody takes the difference across it for all that
//! was used.

use std::time::Duration;

use crate::cell::ASLEEP_MAX;
use crate::clock::Now;

/// The gap limit, unless the readings come less often.
const GAP: Duration = Duration::from_secs(3);

/// The longest time between two readings that is taken for their interval: the longest that can be asked for.
const INTERVAL_MAX: Duration = Duration::from_secs(15);

/// A count in joules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Integral {
    last: Option<(Now, f64)>,
    /// The shortest time between two neighbours: three of them are the gap limit, if that is longer.
    interval: Option<Duration>,
    joules: f64,
    /// When the count began, in Unix seconds.
    since_s: Option<f64>,
}

impl Integral {
    /// Takes a reading.
    pub(crate) fn push(&mut self, at: Now, watts: f64) {
        let Some((before, before_watts)) = self.last.replace((at, watts)) else {
            return self.begin(at);
        };
        let elapsed = at.awake_since(&before);
        // By the neighbours before these: a first distance may be a gap.
        let gap = GAP.max(3 * self.interval.unwrap_or_default());
        let interval = self.interval.map_or(elapsed, |shortest| shortest.min(elapsed));
        self.interval = Some(interval.min(INTERVAL_MAX));
        if elapsed > gap || at.asleep_since(&before) > ASLEEP_MAX {
            return self.begin(at);
        }
        self.joules += (before_watts + watts) / 2.0 * elapsed.as_secs_f64();
    }

    /// What follows is not of one piece with what was: the device slept.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }

    /// Joules, and since when they are counted in Unix seconds; nothing before the first reading.
    pub(crate) fn count(&self) -> Option<(f64, f64)> {
        Some((self.joules, self.since_s?))
    }

    fn begin(&mut self, at: Now) {
        self.joules = 0.0;
        self.since_s = Some(at.wall_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(awake_s: f64, slept_s: f64) -> Now {
        let monotonic = Duration::from_secs_f64(awake_s);
        let boot = monotonic + Duration::from_secs_f64(slept_s);
        Now { wall_s: 1_000.0 + boot.as_secs_f64(), monotonic, boot }
    }

    /// Readings of (second, watts), or nothing where the device slept; then joules and the second they are counted from.
    fn check(what: &str, readings: &[Option<(f64, f64)>], expected: Option<(f64, f64)>) {
        let mut integral = Integral::default();
        for reading in readings {
            match reading {
                Some((second, watts)) => integral.push(at(*second, 0.0), *watts),
                None => integral.interrupt(),
            }
        }
        let found = integral.count().map(|(joules, since_s)| (joules, since_s - 1_000.0));
        assert_eq!(found, expected, "{what}");
    }

    #[test]
    fn power_between_neighbours_is_energy_and_across_a_gap_it_is_not() {
        let r = |second, watts| Some((second, watts));
        check("none", &[], None);
        check("one", &[r(5.0, 100.0)], Some((0.0, 5.0)));
        check("a ramp", &[r(0.0, 100.0), r(1.0, 200.0), r(2.0, 100.0)], Some((300.0, 0.0)));
        check("at the limit", &[r(0.0, 100.0), r(1.0, 100.0), r(4.0, 100.0)], Some((400.0, 0.0)));
        check("beyond it", &[r(0.0, 100.0), r(1.0, 100.0), r(4.125, 100.0)], Some((0.0, 4.125)));
        check(
            "rare readings",
            &[r(0.0, 50.0), r(10.0, 50.0), r(40.0, 50.0)],
            Some((1_500.0, 10.0)),
        );
        check("a gap at first", &[r(0.0, 50.0), r(20.0, 50.0)], Some((0.0, 20.0)));
        check(
            "and what follows it",
            &[r(0.0, 50.0), r(20.0, 50.0), r(21.0, 50.0), r(25.0, 50.0)],
            Some((0.0, 25.0)),
        );
        check(
            "a device that slept",
            &[r(0.0, 50.0), r(1.0, 50.0), None, r(2.0, 50.0), r(3.0, 50.0)],
            Some((50.0, 2.0)),
        );
    }

    #[test]
    fn the_sleep_of_the_host_is_a_gap() {
        let mut integral = Integral::default();
        integral.push(at(0.0, 0.0), 100.0);
        integral.push(at(1.0, 0.0), 100.0);
        integral.push(at(2.0, 600.0), 100.0);
        assert_eq!(integral.count(), Some((0.0, 1_602.0)));
    }
}
