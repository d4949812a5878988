//! A second evaluation of rules, written from `docs/rules.md` and `docs/energy.md` alone, as slowly as they read.
//!
//! It keeps every scrape and makes every instant anew from all of them. It shares the types of a rule with the engine,
//! and of a result, and no step of the evaluation.

mod fleet;
mod integral;
mod member;
mod node;
mod number;
mod result;
mod stretch;
mod sum;

use std::sync::Arc;

use wattscribe_rules::engine::Derived;
use wattscribe_rules::rule::RuleSet;

use crate::history::{History, text};
use node::{Evaluation, Recorded};
use result::Row;

/// Every result of a history, by settlement, rule, node, labels and time.
pub(crate) fn evaluate(rules: &RuleSet, history: &History) -> Vec<Derived> {
    let nodes: Vec<Recorded> = history.targets.iter().map(|t| Recorded::new(rules, t)).collect();
    let mut rows: Vec<Row> = Vec::new();
    for node in &nodes {
        let mut evaluation = Evaluation::new(rules, node, &history.named);
        evaluation.run();
        rows.extend(evaluation.rows);
    }
    let fleet = fleet::evaluate(rules, &nodes, &rows);
    rows.extend(fleet);
    rows.sort_by_key(|row| {
        (row.settled_us, row.rule, row.node.clone(), text(&row.labels), row.end_us())
    });
    rows.into_iter().map(derived).collect()
}

fn derived(row: Row) -> Derived {
    let (at_us, start_us, window) = (row.end_us(), row.start_us(), row.window_name());
    let outcome = row.outcome;
    Derived {
        rule: row.rule,
        at_us,
        start_us,
        window: window.map(Arc::from),
        node: row.node.map(Arc::from),
        labels: text(&row.labels).into(),
        value: outcome.value.ok(),
        state: outcome.value.map_or_else(|(_, state)| state, |_| wattscribe_rules::State::Ok),
        withheld: outcome.value.err().map(|(reason, _)| reason),
        low: outcome.low,
        high: outcome.high,
        counter: outcome.counter,
        spread: outcome.spread,
        coverage: outcome.coverage,
        members_expected: outcome.expected,
        members_reporting: outcome.reporting,
    }
}
