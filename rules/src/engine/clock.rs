//! Times as the engine compares them: whole microseconds since the Unix epoch.
//!
//! Files carry seconds as doubles, which around the present resolve a quarter microsecond. A moment is therefore kept as
//! the two microseconds around it (one, where it is a whole number of them), and each comparison takes the one that
//! makes it exact.

use std::time::Duration;

/// Beyond any time that a file can mean: thirty-six thousand years. Sums of three of these still fit.
pub(crate) const FAR_US: i64 = 1 << 60;

/// When a recording ends: after every instant, and before what never comes.
pub(crate) const END_US: i64 = i64::MAX - 1;

/// A moment between two neighbouring microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The last microsecond at or before it.
    pub(crate) floor_us: i64,
    /// The first microsecond at or after it.
    pub(crate) ceil_us: i64,
}

impl Moment {
    /// The moment of these Unix seconds, which are finite.
    pub(crate) fn of(at_s: f64) -> Moment {
        let near_us = Moment::nearest_us(at_s);
        let near_s = seconds(near_us);
        Moment {
            floor_us: near_us - i64::from(near_s > at_s),
            ceil_us: near_us + i64::from(near_s < at_s),
        }
    }

    /// A whole microsecond.
    pub(crate) const fn at(us: i64) -> Moment {
        Moment { floor_us: us, ceil_us: us }
    }

    /// The nearest microsecond of these Unix seconds.
    pub(crate) fn nearest_us(at_s: f64) -> i64 {
        (at_s * 1e6).round().clamp(-(FAR_US as f64), FAR_US as f64) as i64
    }
}

/// Microseconds as Unix seconds.
pub(crate) fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

/// A duration in whole microseconds.
pub(crate) fn whole_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).map_or(FAR_US, |us| us.min(FAR_US))
}

/// The last multiple at or before a time.
pub(crate) const fn floor_to(us: i64, every_us: i64) -> i64 {
    us.div_euclid(every_us) * every_us
}

/// The first multiple at or after a time.
pub(crate) const fn ceil_to(us: i64, every_us: i64) -> i64 {
    -floor_to(-us, every_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let step_s = 1.0 / 4_194_304.0;
        let cases = [
            (0.0, 0, 0),
            (1.5, 1_500_000, 1_500_000),
            (1_788_310_143.461_123, 1_788_310_143_461_123, 1_788_310_143_461_123),
            (1_788_310_144.0 + step_s, 1_788_310_144_000_000, 1_788_310_144_000_001),
            (1_788_310_144.0 - step_s, 1_788_310_143_999_999, 1_788_310_144_000_000),
            (-0.000_000_5, -1, 0),
            (f64::MAX, FAR_US, FAR_US + 1),
        ];
        for (at_s, floor_us, ceil_us) in cases {
            assert_eq!(Moment::of(at_s), Moment { floor_us, ceil_us }, "{at_s}");
        }
        for us in [0, 1, 999_999, 1_788_310_143_461_123, -1_788_310_143_461_123] {
            assert_eq!(Moment::of(seconds(us)), Moment::at(us));
        }
    }

    #[test]
    fn multiples() {
        for (us, below, above) in
            [(0, 0, 0), (1, 0, 10), (10, 10, 10), (-1, -10, 0), (-10, -10, -10)]
        {
            assert_eq!((floor_to(us, 10), ceil_to(us, 10)), (below, above), "{us}");
        }
    }
}
