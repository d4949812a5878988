//! The table `rule_members`: the series that rules have met, and the results of nodes that rules of the fleet have met, a
//! row for each, so that a recorder which continues a recording knows who is missing.

use crate::table::{Table, table};

table! {
    /// A series at the first scrape in which some rule takes it, a group at its first result, or a target at its first
    /// scrape, where that failed.
    pub struct RuleMember: "rule_members" sorted by [target, metric, labels, timestamp_us] {
        /// When that scrape began, or the instant of that result, in Unix microseconds of the recorder's clock.
        timestamp_us: i64 as Time("timestamp"),
        /// Name of the target.
        target: String,
        /// Name of the metric, or of the rule; empty for a target as such.
        metric: String,
        /// Labels sorted by name, escaped as in the exposition format. Empty when there are none.
        labels: String,
        /// Whether the target was simulated by then.
        simulated: bool,
    }
}

impl Table for RuleMember {}

impl RuleMember {
    /// Whether it is a target as such, of which nothing was known as it was scraped first.
    pub fn is_target(&self) -> bool {
        self.metric.is_empty()
    }
}
