//! What went into one result, and what was left out and why.

use std::sync::Arc;

use crate::engine::derived::Derived;
use crate::engine::series::LeftOut;
use crate::state::State;

/// A result with all members of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The result.
    pub result: Derived,
    /// Every series and every result of another rule that is a member, input by input and in the order of members.
    pub parts: Vec<Part>,
}

/// One series, or the results of another rule for one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The input of the rule, by its number.
    pub input: usize,
    /// The metric, or the name of the rule.
    pub metric: Arc<str>,
    /// The node, where the rule is of the fleet.
    pub node: Option<Arc<str>>,
    /// The labels of the series, or of the group.
    pub labels: Arc<str>,
    /// What it gave.
    pub found: Found,
}

/// What a part gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// It had not been read yet, so that it is not expected.
    NotYet,
    /// A reading of a series at an instant.
    Reading {
        /// Its time in microseconds since the Unix epoch, rounded up; before all times for a reading from before the
        /// recording's tail.
        at_us: i64,
        /// The number of its scrape.
        scrape: u64,
        /// The number, or the state in which it came.
        value: Result<f64, State>,
        /// Why it does not count; `None` when it does.
        left_out: Option<LeftOut>,
    },
    /// The result of another rule, or the state that it is missing in.
    Result(Result<f64, State>),
    /// What a member gave over a window. A member of several series gives it for all of them together.
    Window {
        /// The energy, the gain of the counter, the percentile; or the state that it is missing in.
        value: Result<f64, State>,
        /// The least and the greatest that the energy can be, in joules.
        bounds: Option<(f64, f64)>,
        /// The covered time in seconds.
        covered_s: f64,
        /// Readings with a number in the window.
        readings: u64,
    },
    /// A target that never gave a page: it may be a node with anything.
    Unknown,
}
