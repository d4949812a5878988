//! How much time between two readings may be taken as measured.

use std::fmt;

use crate::window::TIME_RESOLUTION_S;

/// How far apart two readings may be and still have a line drawn between them, in seconds, where the interval of the
/// readings is not known: three readings at the usual one per second.
pub const GAP_DEFAULT_S: f64 = 3.0;

/// How many intervals may lie between two neighbouring readings: two may go missing in a row, as one slow scrape and
/// its successor do; three are an outage.
const GAP_INTERVALS: f64 = 3.0;

/// The limit on what may be taken as measured between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    gap_s: f64,
}

impl Limits {
    /// A gap limit in seconds.
    ///
    /// # Errors
    /// When it is not finite or not above zero.
    pub fn new(gap_s: f64) -> Result<Limits, GapError> {
        if gap_s.is_finite() && gap_s > 0.0 {
            Ok(Limits { gap_s })
        } else {
            Err(GapError { gap_s })
        }
    }

    /// The limit for readings every `interval_s` seconds: three intervals, which is the default at one per second.
    ///
    /// # Errors
    /// As [`Limits::new`].
    pub fn from_interval(interval_s: f64) -> Result<Limits, GapError> {
        Limits::new(interval_s * GAP_INTERVALS)
    }

    /// The limit in seconds.
    pub const fn gap_s(self) -> f64 {
        self.gap_s
    }

    /// Whether two readings this far apart count as neighbours. Exactly the limit still does, and as the two times were
    /// rounded to doubles, so does one step of their resolution more.
    pub fn bridges(self, distance_s: f64) -> bool {
        distance_s <= self.gap_s + TIME_RESOLUTION_S
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { gap_s: GAP_DEFAULT_S }
    }
}

/// A gap limit that limits nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapError {
    /// The limit as given, in seconds.
    pub gap_s: f64,
}

impl fmt::Display for GapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gap limit {} s, expected a finite time above 0", self.gap_s)
    }
}

impl std::error::Error for GapError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(Limits::default(), Limits { gap_s: 3.0 });
        let cases = [(1.0, Some(3.0)), (15.0, Some(45.0)), (0.5, Some(1.5))];
        let refused = [0.0, -1.0, f64::INFINITY, f64::NAN].map(|interval_s| (interval_s, None));
        for (interval_s, expected) in cases.into_iter().chain(refused) {
            let found = Limits::from_interval(interval_s).ok().map(Limits::gap_s);
            assert_eq!(found, expected, "every {interval_s} s");
        }
        for (distance_s, expected) in [(0.0, true), (3.0, true), (3.000001, false)] {
            assert_eq!(Limits::default().bridges(distance_s), expected, "{distance_s} s");
        }
        assert_eq!(
            Limits::new(-1.0).map_err(|error| error.to_string()),
            Err("gap limit -1 s, expected a finite time above 0".to_owned())
        );
    }
}
