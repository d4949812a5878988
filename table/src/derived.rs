//! The table `derived`: what rules made of a recording, a row per result.

use wattscribe_rules::State;

use crate::table::{Table, table};

table! {
    /// One result of one rule for one group. What each number means is said in `docs/rules.md`.
    pub struct DerivedRow: "derived" sorted by [rule, node, labels, timestamp_us] {
        /// The instant, or the end of the window, in Unix microseconds of the recorder's clock.
        timestamp_us: i64 as Time("timestamp"),
        /// The start of the window in the same unit; `None` for an instant.
        start_us: Option<i64> as Time("start"),
        /// The name of a window that has one. `window` alone is a word of SQL, which would have to be quoted everywhere.
        window: Option<String> as Plain("window_name"),
        /// The name of the rule.
        rule: String,
        /// The node, unless the result is of the fleet.
        node: Option<String>,
        /// The other labels of the group, sorted by name, escaped as in the exposition format. Empty when there are none.
        labels: String,
        /// The value in `unit`. `None` unless the state is ok.
        value: Option<f64>,
        /// The unit of all numbers here but `spread` and `coverage`.
        unit: String,
        /// What the value covers.
        boundary: String,
        /// Whether there is a value and, if not, what stands in its way.
        #[serde(with = "crate::state_text")]
        state: State,
        /// Why there is none: the word of a rule's guard.
        reason: Option<String>,
        /// The least that the energy of a window can be by its readings.
        low: Option<f64>,
        /// The most.
        high: Option<f64>,
        /// The energy by the device's own counter, for a rule that compares.
        counter: Option<f64>,
        /// Highest less lowest member, by their mean.
        spread: Option<f64>,
        /// Covered time of a window by its length; at an instant, members that report by those expected.
        coverage: f64,
        /// Members that should report.
        members_expected: u32,
        /// Members that did.
        members_reporting: u32,
        /// The hash of the rule's text: rows that differ in it are of two definitions.
        rule_hash: String,
        /// Whether anything that went in may have been simulated.
        simulated: bool,
    }
}

impl Table for DerivedRow {}

table! {
    /// The columns of `derived` from which a resumed recorder learns how far its rules came.
    pub struct DerivedTime: "derived" sorted by [node, timestamp_us] {
        /// See [`DerivedRow::timestamp_us`].
        timestamp_us: i64 as Time("timestamp"),
        /// See [`DerivedRow::start_us`].
        start_us: Option<i64> as Time("start"),
        /// See [`DerivedRow::node`].
        node: Option<String>,
    }
}

impl From<DerivedRow> for DerivedTime {
    fn from(row: DerivedRow) -> DerivedTime {
        let DerivedRow { timestamp_us, start_us, node, .. } = row;
        DerivedTime { timestamp_us, start_us, node }
    }
}
