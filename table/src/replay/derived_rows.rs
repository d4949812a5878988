//! Results as rows of `derived`, and many of them as one part.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use wattscribe_rules::engine::{Derived, Withheld};
use wattscribe_rules::rule::{From, Rule, RuleSet};

use super::recorded_until::RecordedUntil;
use super::target_rules::TargetRules;
use crate::column::Store;
use crate::{DerivedRow, PartError, PartWriter, Simulated};

/// A result, once nothing can change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The result.
    pub result: Derived,
    /// Whether what went in may have been simulated, at the instant that settled it.
    pub simulated: bool,
}

/// Makes rows of results.
#[derive(Clone, Debug)]
pub struct DerivedRows {
    rules: Arc<RuleSet>,
    /// Whether a rule of the fleet takes the results of each.
    is_taken: Vec<bool>,
    /// The place of each among the names.
    rank: Vec<usize>,
}

/// Rows that are encoded at a time.
const BATCH_ROWS: usize = 8192;

impl DerivedRows {
    /// Of the results of these rules.
    pub fn of(rules: Arc<RuleSet>) -> DerivedRows {
        let mut is_taken = vec![false; rules.rules.len()];
        for rule in rules.rules.iter().filter(|rule| !rule.is_of_node()) {
            for input in rule.inputs() {
                if let From::Rule(above) = input.from {
                    is_taken[above] = true;
                }
            }
        }
        let names = || rules.rules.iter().map(|rule| &rule.name);
        let rank = names().map(|name| names().filter(|other| *other < name).count()).collect();
        DerivedRows { rules, is_taken, rank }
    }

    /// Takes out the results of a target: as rows those that are not recorded, and as they are all that rules of the fleet
    /// take.
    pub fn take(
        &self,
        target: &mut TargetRules,
        recorded: RecordedUntil,
        rows: &mut Vec<DerivedRow>,
        for_fleet: &mut Vec<Derived>,
    ) {
        let mut settled = Vec::new();
        self.settled(target, &mut settled, for_fleet);
        let new = settled.iter().filter(|settled| !recorded.has(&settled.result));
        rows.extend(new.map(|settled| self.row(settled)));
    }

    /// Takes out the results of a target, and those that rules of the fleet take once more.
    pub fn settled(
        &self,
        target: &mut TargetRules,
        settled: &mut Vec<Settled>,
        for_fleet: &mut Vec<Derived>,
    ) {
        let since_us = target.simulated_since_us();
        let first = settled.len();
        settled.extend(target.derived().map(|result| self.settle(result, since_us)));
        for Settled { result, .. } in &settled[first..] {
            if self.is_taken[result.rule] {
                let name = &self.rules.rules[result.rule].name;
                target.note_result(name, result, self.settled_us(result));
                for_fleet.push(result.clone());
            }
        }
    }

    /// A result, simulated when its instant is not before that one.
    pub(super) fn settle(&self, result: Derived, simulated_since_us: Option<i64>) -> Settled {
        let settled_us = self.settled_us(&result);
        let simulated = simulated_since_us.is_some_and(|since_us| since_us <= settled_us);
        Settled { result, simulated }
    }

    fn settled_us(&self, result: &Derived) -> i64 {
        self.rules.timing.settled_us(result.at_us, result.start_us.is_some())
    }

    /// A result as a row.
    pub fn row(&self, Settled { result, simulated }: &Settled) -> DerivedRow {
        let rule: &Rule = &self.rules.rules[result.rule];
        DerivedRow {
            timestamp_us: result.at_us,
            start_us: result.start_us,
            window: result.window.as_deref().map(str::to_owned),
            rule: rule.name.clone(),
            node: result.node.as_deref().map(str::to_owned),
            labels: (*result.labels).to_owned(),
            value: result.value,
            unit: rule.unit.clone(),
            boundary: rule.boundary.as_str().to_owned(),
            state: result.state,
            reason: result.withheld.map(|withheld| withheld.as_str().to_owned()),
            low: result.low,
            high: result.high,
            counter: result.counter,
            spread: result.spread,
            coverage: result.coverage,
            members_expected: result.members_expected,
            members_reporting: result.members_reporting,
            rule_hash: rule.hash.clone(),
            simulated: *simulated,
        }
    }

    /// Writes results as one part of `derived`, unless there are none. Returns how many there were.
    ///
    /// # Errors
    /// As those of [`PartWriter`].
    pub fn write(&self, path: &Path, results: &[Settled]) -> Result<u64, PartError> {
        if results.is_empty() {
            return Ok(0);
        }
        let mut writer = PartWriter::<DerivedRow>::create(path)?;
        for mut of_rule in self.by_rule(results) {
            // They come node by node: all of them are in order already, and few are left to sort within each.
            of_rule.sort_by(|a, b| order_of_nodes(&a.result, &b.result));
            for of_node in of_rule.chunk_by_mut(|a, b| order_of_nodes(&a.result, &b.result).is_eq())
            {
                of_node.sort_by(|a, b| order_of_groups(&a.result, &b.result));
            }
            for batch in of_rule.chunks(BATCH_ROWS) {
                writer.write_columns(self.columns(batch))?;
            }
        }
        writer.finish(Simulated::of(results.iter().map(|settled| settled.simulated)))
    }

    /// Results as columns in the order of [`DerivedRow::columns`]: what [`DerivedRows::row`] makes one by one, without texts
    /// for each.
    fn columns(&self, results: &[&Settled]) -> Vec<ArrayRef> {
        let texts = |of: fn(&Rule) -> &str| {
            let rule = |settled: &&Settled| of(&self.rules.rules[settled.result.rule]);
            column::<StringArray>(results.iter().map(rule).map(Some))
        };
        let perhaps = |of: fn(&Derived) -> Option<&str>| {
            column::<StringArray>(results.iter().map(|settled| of(&settled.result)))
        };
        let times = |of: fn(&Derived) -> Option<i64>| {
            column::<TimestampMicrosecondArray>(results.iter().map(|settled| of(&settled.result)))
        };
        let doubles = |of: fn(&Derived) -> Option<f64>| {
            column::<Float64Array>(results.iter().map(|settled| of(&settled.result)))
        };
        let counts = |of: fn(&Derived) -> u32| {
            let count = |settled: &&Settled| Some(i64::from(of(&settled.result)));
            column::<Int64Array>(results.iter().map(count))
        };
        vec![
            times(|result| Some(result.at_us)),
            times(|result| result.start_us),
            perhaps(|result| result.window.as_deref()),
            texts(|rule| &rule.name),
            perhaps(|result| result.node.as_deref()),
            perhaps(|result| Some(&result.labels)),
            doubles(|result| result.value),
            texts(|rule| &rule.unit),
            texts(|rule| rule.boundary.as_str()),
            perhaps(|result| Some(result.state.as_str())),
            perhaps(|result| result.withheld.map(Withheld::as_str)),
            doubles(|result| result.low),
            doubles(|result| result.high),
            doubles(|result| result.counter),
            doubles(|result| result.spread),
            doubles(|result| Some(result.coverage)),
            counts(|result| result.members_expected),
            counts(|result| result.members_reporting),
            texts(|rule| &rule.hash),
            column::<BooleanArray>(results.iter().map(|settled| Some(settled.simulated))),
        ]
    }

    /// Those of each rule, by the names of the rules.
    fn by_rule<'a>(&self, results: &'a [Settled]) -> Vec<Vec<&'a Settled>> {
        let mut by_rule = vec![Vec::new(); self.rank.len()];
        for settled in results {
            by_rule[self.rank[settled.result.rule]].push(settled);
        }
        by_rule
    }
}

fn column<'a, S: Store>(cells: impl Iterator<Item = Option<S::Item<'a>>>) -> ArrayRef {
    Arc::new(S::collect(cells))
}

fn order_of_nodes(a: &Derived, b: &Derived) -> Ordering {
    match (&a.node, &b.node) {
        (Some(a), Some(b)) => order_of_texts(a, b),
        (a, b) => a.cmp(b),
    }
}

/// By labels and time.
fn order_of_groups(a: &Derived, b: &Derived) -> Ordering {
    order_of_texts(&a.labels, &b.labels).then(a.at_us.cmp(&b.at_us))
}

/// Most texts that are equal are one text.
fn order_of_texts(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

#[cfg(test)]
mod tests {
    use wattscribe_rules::State;
    use wattscribe_rules::rule::builtin;

    use super::*;
    use crate::{PartReader, Row};

    /// Results of several rules, nodes and groups, each number its own, in an order that is none.
    fn results(rules: &RuleSet) -> Vec<Settled> {
        let places = 0..rules.rules.len() as u32 * 12;
        let mut results: Vec<Settled> = places
            .map(|place| {
                let nth = place / rules.rules.len() as u32;
                let number = f64::from(place);
                let has_window = place % 3 == 0;
                let result = Derived {
                    rule: place as usize % rules.rules.len(),
                    at_us: i64::from(nth / 4) * 1_000_000,
                    start_us: has_window.then_some(-i64::from(place)),
                    window: has_window.then(|| format!("window {place}").into()),
                    node: (place % 5 > 0).then(|| format!("node-{}", nth % 2).into()),
                    labels: format!("socket=\"{}\"", nth / 2 % 2).into(),
                    value: (place % 2 == 0).then_some(number),
                    state: if place % 2 == 0 { State::Ok } else { State::Disagree },
                    withheld: (place % 2 == 1).then_some(Withheld::ALL[place as usize % 6]),
                    low: (place % 4 == 0).then_some(number + 0.1),
                    high: (place % 4 == 1).then_some(number + 0.2),
                    counter: (place % 4 == 2).then_some(number + 0.3),
                    spread: (place % 4 == 3).then_some(number + 0.4),
                    coverage: number / 1e3,
                    members_expected: place + 1,
                    members_reporting: place,
                };
                Settled { result, simulated: place % 7 == 0 }
            })
            .collect();
        results.reverse();
        results
    }

    #[test]
    fn a_part_holds_the_rows_in_the_order_of_the_table() {
        let rules = Arc::new(builtin());
        let (rows, results) = (DerivedRows::of(Arc::clone(&rules)), results(&rules));
        let mut expected: Vec<DerivedRow> = results.iter().map(|of| rows.row(of)).collect();
        expected.sort_by(DerivedRow::order);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part.parquet");
        assert_eq!(rows.write(&path, &results).unwrap(), expected.len() as u64);
        let found: Result<Vec<DerivedRow>, _> = PartReader::open(&path).unwrap().collect();
        assert_eq!(found.unwrap(), expected);
        let nothing = folder.path().join("nothing.parquet");
        assert_eq!((rows.write(&nothing, &[]).unwrap(), nothing.exists()), (0, false));
    }
}
