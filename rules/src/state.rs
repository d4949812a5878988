//! The state of a reading: whether it carries a number and, if not, why not.
//!
//! The set is closed. The same words stand in metric labels and in the columns of files, so they never change meaning.

use std::fmt;
use std::str::FromStr;

/// What a sensor's latest reading is worth. Only [`State::Ok`] comes with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The sensor was read and its value is believable. A real zero of a sensor that can read zero is `ok` too.
    Ok,
    /// Runtime power management holds the device asleep; it is never woken to be measured.
    Suspended,
    /// The latest value is older than its source allows; it is withheld, not held over.
    Stale,
    /// The device or driver says that it does not measure this quantity.
    Unsupported,
    /// The operating system refused the read for lack of permission.
    Denied,
    /// There is no source to read: no driver, library, service or file.
    Unavailable,
    /// The device was there and is gone, as a card that fell off its bus.
    Lost,
    /// This read failed; the next one may succeed.
    Transient,
    /// A number was read that cannot be true: a sentinel, not finite, negative, or beyond the device's limit.
    Implausible,
    /// Readings that should agree do not, so no value can be stated for them together.
    Disagree,
    /// The sensor is switched off, by its own enable file or by configuration.
    Disabled,
}

impl State {
    /// Every state, in the order of their declaration.
    pub const ALL: [State; 11] = [
        State::Ok,
        State::Suspended,
        State::Stale,
        State::Unsupported,
        State::Denied,
        State::Unavailable,
        State::Lost,
        State::Transient,
        State::Implausible,
        State::Disagree,
        State::Disabled,
    ];

    /// The word used in labels and columns.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Suspended => "suspended",
            State::Stale => "stale",
            State::Unsupported => "unsupported",
            State::Denied => "denied",
            State::Unavailable => "unavailable",
            State::Lost => "lost",
            State::Transient => "transient",
            State::Implausible => "implausible",
            State::Disagree => "disagree",
            State::Disabled => "disabled",
        }
    }

    /// Whether a reading in this state carries a number.
    pub const fn is_ok(self) -> bool {
        matches!(self, State::Ok)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    /// Reads the exact word; case and blanks count, as labels and columns are written by machines.
    fn from_str(word: &str) -> Result<State, UnknownState> {
        State::ALL
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| UnknownState { found: word.to_owned() })
    }
}

/// A word that names no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownState {
    /// The word as it was found.
    pub found: String,
}

impl fmt::Display for UnknownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown state {:?}, expected one of", self.found)?;
        State::ALL.iter().try_for_each(|state| write!(f, " {state}"))
    }
}

impl std::error::Error for UnknownState {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
            assert_eq!(state.is_ok(), state == State::Ok);
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["", "OK", "ok ", "host_suspended", "unknown"] {
            assert_eq!(word.parse::<State>(), Err(UnknownState { found: word.to_owned() }));
        }
        assert_eq!(
            UnknownState { found: "OK".into() }.to_string(),
            "unknown state \"OK\", expected one of ok suspended stale unsupported denied unavailable lost transient \
             implausible disagree disabled"
        );
    }
}
