//! How a reading stands in time: whether its value belongs to the moment of the read or to a stretch before it.
//!
//! The value's own time matters as much as the value: a one-second mean that is read just after a load begins still
//! describes mostly the time before it.

use std::fmt;
use std::str::FromStr;

/// How a sensor arrives at the value it reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// The value at the moment of the read. What happened between two reads is not in either.
    Instant,
    /// The mean over the `window_s` seconds that end at the read; its centre stands half a window before it.
    Mean {
        /// Length of the window in seconds, finite and above zero.
        window_s: f64,
    },
    /// The difference of an energy counter over the time between two reads: covers all of it, and ends at the later.
    Difference,
    /// The source does not say. Treated as standing at the read, and reported as unknown.
    Unknown,
}

impl Averaging {
    /// The word used in labels and columns. The window of a mean is a column of its own.
    pub const fn as_str(self) -> &'static str {
        match self {
            Averaging::Instant => "instant",
            Averaging::Mean { .. } => "mean",
            Averaging::Difference => "difference",
            Averaging::Unknown => "unknown",
        }
    }

    /// The window in seconds where it is known.
    pub const fn window_s(self) -> Option<f64> {
        match self {
            Averaging::Mean { window_s } => Some(window_s),
            Averaging::Instant | Averaging::Difference | Averaging::Unknown => None,
        }
    }

    /// How many seconds before the read the centre of the value stands, where the averaging alone tells.
    ///
    /// A difference is centred between its two reads, which only the caller knows.
    pub const fn lag_s(self) -> Option<f64> {
        match self {
            Averaging::Instant => Some(0.0),
            Averaging::Mean { window_s } => Some(window_s / 2.0),
            Averaging::Difference | Averaging::Unknown => None,
        }
    }

    /// Puts a word and, for a mean, its window in seconds together again.
    ///
    /// A window beside another word is ignored: files may carry a column of zeros there.
    ///
    /// # Errors
    /// An unknown word; a mean whose window is missing, not finite, or not above zero.
    pub fn from_word(word: &str, window_s: Option<f64>) -> Result<Averaging, AveragingError> {
        match word {
            "instant" => Ok(Averaging::Instant),
            "difference" => Ok(Averaging::Difference),
            "unknown" => Ok(Averaging::Unknown),
            "mean" => match window_s {
                Some(window_s) if window_s.is_finite() && window_s > 0.0 => {
                    Ok(Averaging::Mean { window_s })
                }
                found_s => Err(AveragingError::Window { found_s }),
            },
            _ => Err(AveragingError::Word { found: word.to_owned() }),
        }
    }
}

impl fmt::Display for Averaging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Averaging {
    type Err = AveragingError;

    /// Reads the word alone. `mean` alone is refused, as it lacks its window: use [`Averaging::from_word`].
    fn from_str(word: &str) -> Result<Averaging, AveragingError> {
        Averaging::from_word(word, None)
    }
}

/// Why a word and a window do not make an averaging.
#[derive(Clone, Debug, PartialEq)]
pub enum AveragingError {
    /// The word is none of the four.
    Word {
        /// The word as it was found.
        found: String,
    },
    /// A mean without a usable window.
    Window {
        /// The window in seconds as it was found.
        found_s: Option<f64>,
    },
}

impl fmt::Display for AveragingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AveragingError::Word { found } => {
                write!(
                    f,
                    "unknown averaging {found:?}, expected instant, mean, difference or unknown"
                )
            }
            AveragingError::Window { found_s: Some(found_s) } => {
                write!(
                    f,
                    "window of a mean is {found_s} s, expected a finite number of seconds above 0"
                )
            }
            AveragingError::Window { found_s: None } => {
                f.write_str("window of a mean is missing, expected seconds")
            }
        }
    }
}

impl std::error::Error for AveragingError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_windows_and_lags() {
        let cases = [
            (Averaging::Instant, "instant", None, Some(0.0)),
            (Averaging::Mean { window_s: 0.05 }, "mean", Some(0.05), Some(0.025)),
            (Averaging::Difference, "difference", None, None),
            (Averaging::Unknown, "unknown", None, None),
        ];
        for (averaging, word, window_s, lag_s) in cases {
            assert_eq!(averaging.to_string(), word);
            assert_eq!(averaging.window_s(), window_s, "{word}");
            assert_eq!(averaging.lag_s(), lag_s, "{word}");
            assert_eq!(Averaging::from_word(word, window_s), Ok(averaging));
        }
    }

    #[test]
    fn what_cannot_be_read() {
        for window_s in [None, Some(0.0), Some(-1.0), Some(f64::INFINITY)] {
            assert_eq!(
                Averaging::from_word("mean", window_s),
                Err(AveragingError::Window { found_s: window_s })
            );
        }
        assert!(matches!(
            Averaging::from_word("mean", Some(f64::NAN)),
            Err(AveragingError::Window { found_s: Some(_) })
        ));
        assert_eq!("mean".parse::<Averaging>(), Err(AveragingError::Window { found_s: None }));
        assert_eq!("difference".parse(), Ok(Averaging::Difference));
        assert_eq!(
            "average".parse::<Averaging>(),
            Err(AveragingError::Word { found: "average".into() })
        );
    }
}
