//! What recorders scraped of some targets, whole and in memory, as tests make it and hand it to engines.

use std::collections::BTreeMap;

use wattscribe_rules::{State, Window, rule::From};

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// All targets of a recording, and the windows that were named.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub targets: Vec<Target>,
    pub named: Vec<(String, Window)>,
}

/// Every scrape of one target, in the order in which they arrived.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub node: String,
    pub scrapes: Vec<Told>,
    /// Whether it is recorded no more while others are.
    pub ended: bool,
}

/// One scrape and what it told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub seq: u64,
    pub start_s: f64,
    pub begins_session: bool,
    /// `None` for a scrape that failed.
    pub page: Option<Vec<Reading>>,
}

/// One series at one scrape.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub from: From,
    pub metric: String,
    pub labels: Labels,
    pub at_s: f64,
    pub value: Result<f64, State>,
    pub since_s: Option<f64>,
}

/// Labels as they stand in files: sorted, quoted, separated by commas.
pub(crate) fn text(labels: &Labels) -> String {
    let written = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    written.collect::<Vec<_>>().join(",")
}
