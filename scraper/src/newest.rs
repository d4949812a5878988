//! The newest results of rules, for whoever looks at a recording while it runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use wattscribe_table::DerivedRow;

/// The newest result of every group, by rule, node and labels.
#[derive(Debug, Default)]
pub struct Newest {
    rules: Mutex<BTreeMap<String, OfRule>>,
}

/// The newest results of one rule.
#[derive(Debug, Default)]
struct OfRule {
    /// The time of the newest of all, in Unix microseconds.
    newest_us: i64,
    groups: HashMap<Option<String>, HashMap<String, DerivedRow>>,
}

impl Newest {
    /// Takes results; those of one group come in their order.
    pub fn take(&self, rows: Vec<DerivedRow>) {
        // Rows are whole after every statement, poisoned or not.
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let of_rule = match rules.get_mut(&row.rule) {
                Some(of_rule) => of_rule,
                None => rules.entry(row.rule.clone()).or_default(),
            };
            of_rule.newest_us = of_rule.newest_us.max(row.timestamp_us);
            let of_node = match of_rule.groups.get_mut(&row.node) {
                Some(of_node) => of_node,
                None => of_rule.groups.entry(row.node.clone()).or_default(),
            };
            match of_node.get_mut(&row.labels) {
                Some(newest) => *newest = row,
                None => drop(of_node.insert(row.labels.clone(), row)),
            }
        }
    }

    /// The newest results, by rule, node and labels, with the time of the newest of the rule. One that is older than
    /// that by more than `age_max_us` is of a group that has no results any more, and is left out.
    pub fn rows(&self, age_max_us: i64) -> Vec<(i64, DerivedRow)> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Vec::new();
        for of_rule in rules.values() {
            let oldest_us = of_rule.newest_us.saturating_sub(age_max_us);
            let groups = of_rule.groups.values().flat_map(HashMap::values);
            let new = groups.filter(|row| row.timestamp_us >= oldest_us);
            rows.extend(new.map(|row| (of_rule.newest_us, row.clone())));
        }
        rows.sort_by(|(_, a), (_, b)| {
            (&a.rule, &a.node, &a.labels).cmp(&(&b.rule, &b.node, &b.labels))
        });
        rows
    }
}
