//! What goes into the energy of a window: readings of power and of an energy counter, and why one is refused.

use std::fmt;

use crate::state::State;

/// A reading of power in state `ok`, with the reading of the same device's energy counter where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When the power was read, in Unix seconds.
    pub at_s: f64,
    /// The power in watts. Zero is allowed: whether a sensor can read zero is for the caller to know.
    pub watts: f64,
    /// The energy counter, which may have been read at another time.
    pub counter: Option<CounterSample>,
}

/// More than any one thing that is metered draws, in watts: a gigawatt. What is above is no power, and products with it
/// would leave the range of doubles.
pub const WATTS_MAX: f64 = 1e9;

/// A reading of an energy counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterSample {
    /// When the counter was read, in Unix seconds.
    pub at_s: f64,
    /// The counter in joules, corrected for wraps; only differences matter.
    pub joules: f64,
    /// Since when it counts, where its source says so. Two readings that differ in it are of two counts, even where
    /// the later has climbed past the earlier and no fall gives the restart away.
    pub since_s: Option<f64>,
}

impl CounterSample {
    pub(crate) fn check(&self) -> Result<(), PushError> {
        let CounterSample { at_s, joules, .. } = *self;
        if at_s.is_finite() && joules.is_finite() && joules >= 0.0 {
            Ok(())
        } else {
            Err(PushError::Counter { at_s, joules })
        }
    }

    /// Whether the counter began anew between `self` and a `later` reading: it fell, or counts since another time.
    pub(crate) fn restarted_before(&self, later: &CounterSample) -> bool {
        let since_changed = self.since_s.zip(later.since_s).is_some_and(|(was, is)| was != is);
        later.joules < self.joules || since_changed
    }
}

impl Sample {
    /// A reading of power alone.
    pub const fn power(at_s: f64, watts: f64) -> Sample {
        Sample { at_s, watts, counter: None }
    }

    pub(crate) fn check(&self) -> Result<(), PushError> {
        let Sample { at_s, watts, .. } = *self;
        if !at_s.is_finite() {
            return Err(PushError::Time { at_s });
        }
        if !(0.0..=WATTS_MAX).contains(&watts) {
            return Err(PushError::Power { at_s, watts });
        }
        Ok(())
    }
}

/// Why a reading was not taken, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PushError {
    /// A time is not finite; nothing was taken.
    Time {
        /// The time as found, in Unix seconds.
        at_s: f64,
    },
    /// The power is negative, not a number, or above [`WATTS_MAX`]; nothing was taken.
    Power {
        /// When it was read, in Unix seconds.
        at_s: f64,
        /// The power as found, in watts.
        watts: f64,
    },
    /// The counter is negative, or it or its time is not finite. The power was taken, the counter was not.
    Counter {
        /// When it was read, in Unix seconds.
        at_s: f64,
        /// The counter as found, in joules.
        joules: f64,
    },
    /// The reading is older than the latest, or has its time and another value; nothing was taken, and the windows that
    /// it falls in say so.
    OutOfOrder {
        /// When it was read, in Unix seconds.
        at_s: f64,
        /// When the latest reading was read, in Unix seconds.
        latest_s: f64,
    },
    /// The counter's reading is older than its latest, or has its time and another value. The power was taken, the
    /// counter was not, and the windows that it falls in say so.
    CounterOutOfOrder {
        /// When it was read, in Unix seconds.
        at_s: f64,
        /// When the latest reading of the counter was read, in Unix seconds.
        latest_s: f64,
    },
    /// A reading was said to be withheld in a state that carries a number; nothing was noted.
    NotWithheld {
        /// When it was read, in Unix seconds.
        at_s: f64,
        /// The state as given.
        state: State,
    },
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Time { at_s } => write!(f, "reading at {at_s} s, expected a finite time"),
            PushError::Power { at_s, watts } => {
                write!(f, "power of {watts} W at {at_s} s, expected a number from 0 to {WATTS_MAX}")
            }
            PushError::Counter { at_s, joules } => {
                write!(
                    f,
                    "counter of {joules} J at {at_s} s, expected finite numbers, joules from 0"
                )
            }
            PushError::OutOfOrder { at_s, latest_s } => write!(
                f,
                "reading at {at_s} s contradicts the one at {latest_s} s, expected a later time or a repeat"
            ),
            PushError::CounterOutOfOrder { at_s, latest_s } => write!(
                f,
                "counter at {at_s} s contradicts the one at {latest_s} s, expected a later time or a repeat"
            ),
            PushError::NotWithheld { at_s, state } => {
                write!(f, "withheld reading at {at_s} s in state {state}, expected another state")
            }
        }
    }
}

impl std::error::Error for PushError {}
