//! What the engine gives: one result of one rule for one group.

use std::fmt;
use std::sync::Arc;

use crate::state::State;

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The rule, by its place in the set.
    pub rule: usize,
    /// The instant, or the end of the window, in microseconds since the Unix epoch.
    pub at_us: i64,
    /// The start of the window in the same unit; `None` for an instant.
    pub start_us: Option<i64>,
    /// The name of a named window.
    pub window: Option<Arc<str>>,
    /// The node, for a rule of nodes.
    pub node: Option<Arc<str>>,
    /// The other labels that the result keeps, sorted by name and escaped as on a page: `socket="0"`.
    pub labels: Arc<str>,
    /// The value in the unit of the rule; there exactly when `state` is ok.
    pub value: Option<f64>,
    /// The state.
    pub state: State,
    /// Why there is no value.
    pub withheld: Option<Withheld>,
    /// The least that the energy of a window can be by its readings, in joules.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
    /// For `check`: the energy by the counter, in joules, stated whether or not it is borne out.
    pub counter: Option<f64>,
    /// For two members or more at an instant: the highest less the lowest, by their mean.
    pub spread: Option<f64>,
    /// Covered time of a window by its length; at an instant, members that report by those expected.
    pub coverage: f64,
    /// Members that should report.
    pub members_expected: u32,
    /// Members that did.
    pub members_reporting: u32,
}

/// Why a result has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Withheld {
    /// Fewer members report than the rule requires.
    Members,
    /// The members differ by more than the rule allows.
    Spread,
    /// The value is beyond what the rule allows.
    OutOfBounds,
    /// The denominator is zero.
    Denominator,
    /// Less of the window is covered than the rule requires, or nothing.
    Coverage,
    /// The energy counter contradicts the power, or began anew.
    Counter,
}

impl Withheld {
    /// Every reason.
    pub const ALL: [Withheld; 6] = [
        Withheld::Members,
        Withheld::Spread,
        Withheld::OutOfBounds,
        Withheld::Denominator,
        Withheld::Coverage,
        Withheld::Counter,
    ];

    /// The word in columns and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Withheld::Members => "members",
            Withheld::Spread => "spread",
            Withheld::OutOfBounds => "out_of_bounds",
            Withheld::Denominator => "denominator",
            Withheld::Coverage => "coverage",
            Withheld::Counter => "counter",
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
