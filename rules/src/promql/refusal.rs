//! What PromQL cannot express.

use std::fmt;
use std::time::Duration;

use crate::rule::duration;

/// Why a rule is not in the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Windows of benchmarks and jobs.
    Named,
    /// Windows that hold fewer than two scrapes: their length, and from scrape to scrape.
    TooShort(Duration, Duration),
    /// Windows that begin more often than rules are evaluated.
    TooOften(Duration, Duration),
    /// It takes results of a rule that is not there.
    Above(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |duration: &Duration| duration::text(*duration);
        match self {
            Refusal::Named => {
                f.write_str("Prometheus does not know when benchmarks and jobs begin and end")
            }
            Refusal::TooShort(length, step) => write!(
                f,
                "windows of {} hold fewer than two readings that are {} apart",
                text(length),
                text(step)
            ),
            Refusal::TooOften(every, step) => write!(
                f,
                "windows begin every {}, and rules are evaluated every {}",
                text(every),
                text(step)
            ),
            Refusal::Above(rule) => {
                write!(f, "it takes results of {rule}, which is not here either")
            }
        }
    }
}
