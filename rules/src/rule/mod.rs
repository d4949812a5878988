//! A rule file in memory: what is derived from which series, when it is withheld, and what the result covers.
//!
//! Pure data. [`read`] makes it from text and refuses what has no meaning, so whoever holds a
//! [`RuleSet`] holds one that can be evaluated.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::averaging::Averaging;
use crate::boundary::Boundary;
use crate::engine::clock::{ceil_to, whole_us};

pub mod breach;
pub mod fault;
pub mod pattern;
pub mod selector;

mod catalogue;
mod draft;
pub(crate) mod duration;
mod fields;
mod hash;
mod input;
mod kind;
mod meaning;
mod read;
mod scalar;
#[cfg(test)]
mod schema;
mod selector_text;
mod unit;
mod yaml;

pub use breach::Breach;
pub use fault::{Fault, Place, RuleError};
pub use pattern::Pattern;
pub use read::read;
pub use selector::Selector;
pub use yaml::BYTES_MAX;

/// The rules that are built in, as a file that anyone may copy and change.
pub const BUILTIN: &str = include_str!("builtin.yaml");

/// The rules that are built in.
#[expect(clippy::expect_used, reason = "the text is a constant, and a test reads it")]
pub fn builtin() -> RuleSet {
    read(BUILTIN).expect("the rules that are built in can be read")
}

/// The rules of a file, in its order, and what they have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// When rules are evaluated.
    pub timing: Timing,
    /// The rules. One that takes the results of another stands below it.
    pub rules: Vec<Rule>,
}

impl RuleSet {
    /// The metrics of pages that some rule takes: they are recorded as they stand there.
    pub fn metrics_of_pages(&self) -> BTreeSet<&str> {
        let inputs = self.rules.iter().flat_map(Rule::inputs);
        let of_pages = inputs.filter(|input| input.from == From::Page);
        of_pages.map(|input| input.selector.metric.as_str()).collect()
    }

    /// How long before the instant of a result a reading may lie on which it depends, named windows aside.
    pub fn reach(&self) -> Duration {
        let length = |rule: &Rule| match rule.over() {
            Some(Over::Aligned { length, .. }) => *length,
            Some(Over::Named) | None => Duration::ZERO,
        };
        let longest = self.rules.iter().map(length).max().unwrap_or_default();
        let Timing { every, look_back, lateness, gap } = self.timing;
        // A window is settled up to an instant after its end and the gap, and a neighbour before it may be a gap away.
        longest + gap * 2 + every * 2 + look_back + lateness
    }
}

/// When a rule is evaluated, and what it sees then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Instants are whole multiples of this since the Unix epoch; whole microseconds.
    pub every: Duration,
    /// A reading this old at an instant, or older, is not seen there.
    pub look_back: Duration,
    /// A scrape that begins later than this after an instant does not count for it.
    pub lateness: Duration,
    /// Readings further apart than this do not cover the time between them.
    pub gap: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let seconds = Duration::from_secs;
        Timing { every: seconds(1), look_back: seconds(5), lateness: seconds(2), gap: seconds(3) }
    }
}

impl Timing {
    /// The instant at which a result is settled, in Unix microseconds, by its time and whether it is of a window.
    pub fn settled_us(&self, at_us: i64, is_of_window: bool) -> i64 {
        if !is_of_window {
            return at_us;
        }
        ceil_to(at_us.saturating_add(whole_us(self.gap)), whole_us(self.every).max(1))
    }
}

/// One derived value.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// `level:metric:operations`.
    pub name: String,
    /// What it is for, in words; empty where nothing is said.
    pub about: String,
    /// How a result is made of the members of a group.
    pub function: Function,
    /// The labels that a result keeps, sorted. With `node` among them the rule is of a node, else of the fleet.
    pub by: Vec<String>,
    /// Which members must report.
    pub require: Require,
    /// When a result that can be computed is withheld.
    pub withhold: Withhold,
    /// What the result covers.
    pub boundary: Boundary,
    /// The unit of the result as the file gives it: `W`, `J`, `1`, `tokens/J`.
    pub unit: String,
    /// 16 hexadecimal digits of a SHA-256 of all that decides a value: `docs/rules.md` says of which text.
    pub hash: String,
}

impl Rule {
    /// The label that holds the name of the target.
    pub const NODE: &'static str = "node";

    /// Whether its results are of one node each. Those of the fleet are made of results of nodes.
    pub fn is_of_node(&self) -> bool {
        self.by.iter().any(|label| label == Rule::NODE)
    }

    /// Every input, in the order of the file.
    pub fn inputs(&self) -> Vec<&Input> {
        match &self.function {
            Function::Mean { of }
            | Function::Integrate { of, .. }
            | Function::Increase { of, .. }
            | Function::Quantile { of, .. } => vec![of],
            Function::Sum { of, .. } | Function::Max { of, .. } | Function::Min { of, .. } => {
                of.iter().collect()
            }
            Function::Residual { of, less } => std::iter::once(of).chain(less).collect(),
            Function::Ratio { of, to } => vec![of, to],
            Function::Check { of, against, .. } => vec![of, against],
        }
    }

    /// The windows of a rule over time; `None` for a rule of instants.
    pub fn over(&self) -> Option<&Over> {
        match &self.function {
            Function::Integrate { over, .. }
            | Function::Increase { over, .. }
            | Function::Quantile { over, .. }
            | Function::Check { over, .. } => Some(over),
            Function::Sum { over, .. }
            | Function::Max { over, .. }
            | Function::Min { over, .. } => over.as_ref(),
            Function::Mean { .. } | Function::Residual { .. } | Function::Ratio { .. } => None,
        }
    }
}

/// How a result is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// The mean of the members at an instant.
    Mean {
        /// The members.
        of: Input,
    },
    /// The sum of the members at an instant; over results of windows, the sum of their energies.
    Sum {
        /// The members.
        of: Vec<Input>,
        /// The windows of the results that it adds; `None` at an instant.
        over: Option<Over>,
    },
    /// A whole less its parts at an instant. Whole and parts are sums of their members.
    Residual {
        /// The whole.
        of: Input,
        /// The parts.
        less: Vec<Input>,
    },
    /// A quotient at an instant, of two sums of members.
    Ratio {
        /// The numerator.
        of: Input,
        /// The denominator.
        to: Input,
    },
    /// The greatest member at an instant; with windows, the greatest reading of one member in each.
    Max {
        /// The members.
        of: Vec<Input>,
        /// The windows.
        over: Option<Over>,
    },
    /// The least member at an instant; with windows, the least reading of one member in each.
    Min {
        /// The members.
        of: Vec<Input>,
        /// The windows.
        over: Option<Over>,
    },
    /// A percentile of one member's readings in each window.
    Quantile {
        /// The member.
        of: Input,
        /// 0 to 1.
        quantile: f64,
        /// The windows.
        over: Over,
    },
    /// The energy of the members' power in each window.
    Integrate {
        /// The members.
        of: Input,
        /// The windows.
        over: Over,
    },
    /// By how much the members' energy counters moved in each window.
    Increase {
        /// The members.
        of: Input,
        /// The windows.
        over: Over,
    },
    /// The energy of one member's power, when its counter bears it out.
    Check {
        /// The power.
        of: Input,
        /// The counter.
        against: Input,
        /// The windows.
        over: Over,
    },
}

impl Function {
    /// The word in the file.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Function::Mean { .. } => "mean",
            Function::Sum { .. } => "sum",
            Function::Residual { .. } => "residual",
            Function::Ratio { .. } => "ratio",
            Function::Max { .. } => "max",
            Function::Min { .. } => "min",
            Function::Quantile { .. } => "quantile",
            Function::Integrate { .. } => "integrate",
            Function::Increase { .. } => "increase",
            Function::Check { .. } => "check",
        }
    }
}

/// Series that go into a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Where they come from.
    pub from: From,
    /// Metric, or name of the rule, and matchers.
    pub selector: Selector,
    /// The labels that tell members of one group apart, sorted; `node` always among them.
    pub member: Vec<String>,
    /// Whether a zero means that there is no reading, as for whatever is powered on.
    pub zero_is_missing: bool,
    /// What a reading covers.
    pub boundary: Boundary,
    /// The unit of a reading.
    pub unit: String,
    /// How a reading stands in time; unknown for results of rules.
    pub averaging: Averaging,
}

/// Where the readings of an input are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// In `cpu_samples`: power and counters of sockets.
    Sockets,
    /// In `readings`: samples as they stand on the page.
    Page,
    /// In the results of the rule at this place of the set.
    Rule(usize),
}

/// Stretches of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Windows of `length` that begin at whole multiples of `every` since the Unix epoch.
    Aligned {
        /// From one start to the next.
        every: Duration,
        /// The length; equal to `every` unless windows overlap.
        length: Duration,
    },
    /// Windows that a file names: of benchmarks, jobs, commands. There are none while it is recorded.
    Named,
}

/// Which members must report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    /// One.
    Any,
    /// Every member that was ever seen.
    All,
    /// So many.
    AtLeast(usize),
}

/// When a result that can be computed is withheld.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Withhold {
    /// When the highest member less the lowest is more than this fraction of their mean.
    pub spread_above: Option<f64>,
    /// When it is below this.
    pub below: Option<f64>,
    /// When it is above this.
    pub above: Option<f64>,
    /// When less than this fraction of a window is covered.
    pub coverage_below: Option<f64>,
}
