//! Rules in Prometheus: what PromQL can express of a rule file as recording rules, alerts beside them, and promtool's unit
//! tests of both.
//!
//! Pure: a [`RuleSet`] and [`Options`] in, two texts out. What PromQL cannot express stands as a comment with its reason,
//! and above each rule stands by how much its answer may differ from that of the [engine](crate::engine). The expected
//! samples of the tests are the engine's own, over synthetic scrapes that the tests hold too.

use std::time::Duration;

use crate::rule::RuleSet;

mod alert;
mod expression;
mod file;
mod labels;
mod members;
mod note;
mod over_time;
mod refusal;
mod timing;
mod trial;

use expression::Writer;
pub use timing::in_prometheus;

/// What the Prometheus is like that the rules are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The label of its series that holds the name of the target.
    pub node_label: String,
    /// How often it scrapes. Where readings are further apart than the rule file's gap allows, see [`in_prometheus`].
    pub scrape_interval: Duration,
    /// How long a member that is gone is expected. A recording knows its members for good, and Prometheus has no end.
    pub remember: Duration,
    /// The jobs of the targets, a regular expression: a target that never answered may be a node with anything.
    pub jobs: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node_label: "instance".to_owned(),
            scrape_interval: Duration::from_secs(5),
            remember: Duration::from_secs(86_400),
            jobs: "cpu-power-exporter".to_owned(),
        }
    }
}

/// Why there is no export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// No label of Prometheus.
    NodeLabel(String),
    /// Not between a millisecond and an hour.
    ScrapeInterval(Duration),
    /// Shorter than an hour: members would be forgotten while they are repaired.
    Remember(Duration),
    /// No regular expression, with the reason.
    Jobs(String),
}

impl std::fmt::Display for OptionsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionsError::NodeLabel(found) => {
                write!(
                    f,
                    "the label of nodes is {found:?}, expected letters, digits and underscores"
                )
            }
            OptionsError::ScrapeInterval(found) => {
                write!(
                    f,
                    "the scrape interval is {found:?}, expected 1ms to 1h in whole milliseconds"
                )
            }
            OptionsError::Remember(found) => {
                write!(f, "members are remembered for {found:?}, expected 1h at least")
            }
            OptionsError::Jobs(reason) => write!(f, "the jobs are no regular expression: {reason}"),
        }
    }
}

impl std::error::Error for OptionsError {}

/// Two files for Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// `rules.yml`: groups of recording rules and alerts.
    pub rules: String,
    /// `rules_test.yml`: for `promtool test rules`, beside the first.
    pub tests: String,
}

/// The name under which the tests look for the rules.
pub const RULES_FILE: &str = "rules.yml";

/// The name of the tests.
pub const TESTS_FILE: &str = "rules_test.yml";

/// Writes rules for Prometheus.
///
/// # Errors
/// Options that make no sense.
pub fn export(set: &RuleSet, options: &Options) -> Result<Exported, OptionsError> {
    options.check()?;
    let set = in_prometheus(set, options.scrape_interval);
    let mut writer = Writer::new(&set, options);
    writer.write_rules();
    writer.write_alerts();
    let groups = writer.groups();
    let rules = file::text(&note::heading(&set, options), &groups);
    let tests = trial::text(&set, options, &writer.refused, &groups);
    Ok(Exported { rules, tests })
}

impl Options {
    fn check(&self) -> Result<(), OptionsError> {
        let interval = self.scrape_interval;
        let is_whole = interval.subsec_nanos().is_multiple_of(1_000_000) && !interval.is_zero();
        if !labels::is_name(&self.node_label) {
            return Err(OptionsError::NodeLabel(self.node_label.clone()));
        }
        if !is_whole || interval > Duration::from_secs(3_600) {
            return Err(OptionsError::ScrapeInterval(interval));
        }
        if self.remember < Duration::from_secs(3_600) {
            return Err(OptionsError::Remember(self.remember));
        }
        crate::rule::Pattern::new(&self.jobs).map(drop).map_err(OptionsError::Jobs)
    }
}
