//! Sums of results of windows.

use std::collections::BTreeMap;

use wattscribe_rules::State;
use wattscribe_rules::engine::Withheld;
use wattscribe_rules::rule::{From, Rule};

use super::member::keep;
use super::number::sum;
use super::result::{Outcome, Row, When, in_bounds, missing};
use crate::history::{Labels, text};

/// The input that a member belongs to, and its name.
type Member = (usize, Option<String>, String);

/// The sums of the windows that are settled at an instant; `blank` members are expected besides and never report.
pub(crate) fn sums(
    index: usize,
    rule: &Rule,
    rows: &[Row],
    settled_us: i64,
    node: Option<&str>,
    blank: usize,
) -> Vec<Row> {
    let mut groups: BTreeMap<String, (Labels, BTreeMap<Member, Vec<&Row>>)> = BTreeMap::new();
    for (place, input) in rule.inputs().into_iter().enumerate() {
        let From::Rule(of) = input.from else { panic!("{} adds windows and readings", rule.name) };
        for row in rows.iter().filter(|row| row.rule == of && row.settled_us <= settled_us) {
            let label = |name: &str| match name {
                Rule::NODE => row.node.as_deref(),
                name => row.labels.get(name).map(String::as_str),
            };
            if input.selector.takes(&input.selector.metric, label) {
                let group = keep(&row.labels, &rule.by);
                let group = groups.entry(text(&group)).or_insert((group, BTreeMap::new()));
                let member = (place, row.node.clone(), text(&row.labels));
                group.1.entry(member).or_default().push(row);
            }
        }
    }
    let mut made = Vec::new();
    for (labels, members) in groups.into_values() {
        let mut windows: Vec<&When> = Vec::new();
        for row in members.values().flatten().filter(|row| row.settled_us == settled_us) {
            if !windows.contains(&&row.when) {
                windows.push(&row.when);
            }
        }
        for when in windows {
            let of = |rows: &Vec<&'_ Row>| -> Option<Outcome> {
                rows.iter().find(|row| row.when == *when).map(|row| row.outcome.clone())
            };
            let mut parts: Vec<(usize, Option<Outcome>)> =
                members.iter().map(|((input, ..), rows)| (*input, of(rows))).collect();
            parts.extend(std::iter::repeat_n((0, None), blank));
            made.push(Row {
                settled_us,
                when: when.clone(),
                rule: index,
                node: node.map(str::to_owned),
                labels: labels.clone(),
                outcome: of_results(rule, &parts),
            });
        }
    }
    made
}

fn of_results(rule: &Rule, parts: &[(usize, Option<Outcome>)]) -> Outcome {
    let state = |outcome: &Option<Outcome>| match outcome {
        None => Some(State::Unavailable),
        Some(outcome) => outcome.value.err().map(|(_, state)| state),
    };
    let states: Vec<State> = parts.iter().filter_map(|(_, outcome)| state(outcome)).collect();
    let missing = missing(rule, parts.len(), &states, parts.iter().map(|(input, _)| *input));
    let whole: Vec<&Outcome> =
        parts.iter().filter_map(|(_, o)| o.as_ref()).filter(|o| o.value.is_ok()).collect();
    let bound = |of: fn(&Outcome) -> Option<f64>| {
        let bounds: Option<Vec<f64>> = whole.iter().map(|outcome| of(outcome)).collect();
        bounds.filter(|_| missing.is_none()).map(|bounds| sum(&bounds))
    };
    let covered = parts.iter().map(|(_, o)| o.as_ref().map_or(0.0, |outcome| outcome.coverage));
    let coverage = sum(&covered.collect::<Vec<_>>()) / parts.len() as f64;
    let uncovered = rule.withhold.coverage_below.is_some_and(|least| coverage < least);
    let value = match missing {
        Some(state) => Err((Withheld::Members, state)),
        None if uncovered => Err((Withheld::Coverage, State::Unavailable)),
        None => {
            let values: Vec<f64> = whole.iter().filter_map(|outcome| outcome.value.ok()).collect();
            in_bounds(rule, sum(&values))
        }
    };
    Outcome {
        value,
        low: bound(|outcome| outcome.low),
        high: bound(|outcome| outcome.high),
        counter: None,
        spread: None,
        coverage,
        expected: parts.len() as u32,
        reporting: whole.len() as u32,
    }
}
