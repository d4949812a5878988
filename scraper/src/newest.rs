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

    /// The newest results of a rule, by node and labels, and the time of the newest of all in Unix microseconds. One that
    /// is older than that by more than `age_max_us` is of a group that has no results any more, and is left out.
    pub fn of(&self, rule: &str, age_max_us: i64) -> Option<(i64, Vec<DerivedRow>)> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let of_rule = rules.get(rule)?;
        let oldest_us = of_rule.newest_us.saturating_sub(age_max_us);
        let groups = of_rule.groups.values().flat_map(HashMap::values);
        let mut rows: Vec<DerivedRow> =
            groups.filter(|row| row.timestamp_us >= oldest_us).cloned().collect();
        rows.sort_by(|a, b| (&a.node, &a.labels).cmp(&(&b.node, &b.labels)));
        Some((of_rule.newest_us, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattscribe_rules::State;

    fn row(timestamp_us: i64, node: Option<&str>, labels: &str) -> DerivedRow {
        DerivedRow {
            timestamp_us,
            start_us: None,
            window: None,
            rule: "node:watts:sum".to_owned(),
            node: node.map(str::to_owned),
            labels: labels.to_owned(),
            value: Some(timestamp_us as f64),
            unit: "W".to_owned(),
            boundary: "node".to_owned(),
            state: State::Ok,
            reason: None,
            low: None,
            high: None,
            counter: None,
            spread: None,
            coverage: 1.0,
            members_expected: 1,
            members_reporting: 1,
            rule_hash: String::new(),
            simulated: false,
        }
    }

    #[test]
    fn the_newest_of_each_group_that_goes_on() {
        let newest = Newest::default();
        newest.take(vec![row(1, Some("b"), ""), row(1, Some("a"), "s=\"1\""), row(1, None, "")]);
        newest.take(vec![row(4, Some("b"), ""), row(2, Some("a"), "s=\"1\"")]);
        let times = |age_max_us| {
            let (newest_us, rows) = newest.of("node:watts:sum", age_max_us).unwrap();
            assert_eq!(newest_us, 4);
            rows.into_iter().map(|row| (row.node, row.timestamp_us)).collect::<Vec<_>>()
        };
        let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
        assert_eq!(times(3), [(None, 1), (a.clone(), 2), (b.clone(), 4)]);
        assert_eq!(times(2), [(a, 2), (b.clone(), 4)]);
        assert_eq!(times(0), [(b, 4)]);
        assert!(newest.of("another", 9).is_none());
    }
}
