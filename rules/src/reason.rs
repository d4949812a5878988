//! Why the energy of a window is not complete, or not beyond doubt.
//!
//! The set is closed; its words stand in reports and in the columns of files.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::state::State;

/// Any number of reasons, each once.
pub type Reasons = BTreeSet<Reason>;

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No reading lies in the window, and none bracket it within the gap limit.
    NoReadings,
    /// The time after the start is not measured: the first reading has no neighbour before the start within the limit.
    StartNotCovered,
    /// The time before the end is not measured: the last reading has no neighbour after the end within the limit.
    EndNotCovered,
    /// Two neighbouring readings in the window are further apart than the limit.
    Gap,
    /// A reading was left out because its time, or its value at one time, contradicts the readings before it.
    OutOfOrder,
    /// The energy counter fell during the window, so its difference is not the energy.
    CounterReset,
    /// There is an energy counter, but its readings do not bracket both edges within the gap limit.
    CounterNotCovered,
    /// The energy counter and the integrated power differ by more than
    /// [`COUNTER_DISAGREEMENT_MAX`](crate::energy::COUNTER_DISAGREEMENT_MAX).
    CounterDisagrees,
    /// A reading in the window came without a number, in this state.
    Withheld(State),
}

/// The reasons that are a single word.
const PLAIN: [Reason; 8] = [
    Reason::NoReadings,
    Reason::StartNotCovered,
    Reason::EndNotCovered,
    Reason::Gap,
    Reason::OutOfOrder,
    Reason::CounterReset,
    Reason::CounterNotCovered,
    Reason::CounterDisagrees,
];

impl Reason {
    /// Every reason, [`Reason::Withheld`] once for each state that carries no number.
    pub fn all() -> impl Iterator<Item = Reason> {
        let withheld = State::ALL.into_iter().filter(|state| !state.is_ok()).map(Reason::Withheld);
        PLAIN.into_iter().chain(withheld)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoReadings => "no_readings",
            Reason::StartNotCovered => "start_not_covered",
            Reason::EndNotCovered => "end_not_covered",
            Reason::Gap => "gap",
            Reason::OutOfOrder => "out_of_order",
            Reason::CounterReset => "counter_reset",
            Reason::CounterNotCovered => "counter_not_covered",
            Reason::CounterDisagrees => "counter_disagrees",
            Reason::Withheld(state) => return write!(f, "withheld:{state}"),
        })
    }
}

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Reason, UnknownReason> {
        Reason::all()
            .find(|reason| reason.to_string() == text)
            .ok_or_else(|| UnknownReason { found: text.to_owned() })
    }
}

/// A text that names no reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownReason {
    /// The text as it was found.
    pub found: String,
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown reason {:?}, expected one of", self.found)?;
        Reason::all().try_for_each(|reason| write!(f, " {reason}"))
    }
}

impl std::error::Error for UnknownReason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_back() {
        let words: BTreeSet<String> = Reason::all().map(|reason| reason.to_string()).collect();
        assert_eq!(words.len(), 18);
        for reason in Reason::all() {
            assert_eq!(reason.to_string().parse(), Ok(reason));
        }
        assert_eq!("withheld:stale".parse(), Ok(Reason::Withheld(State::Stale)));
        for text in ["", "withheld:", "withheld:ok", "stale", "Gap"] {
            assert_eq!(text.parse::<Reason>(), Err(UnknownReason { found: text.to_owned() }));
        }
    }
}
