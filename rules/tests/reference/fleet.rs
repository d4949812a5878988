//! The rules of the fleet over the results of all nodes.

use std::collections::BTreeMap;

use wattscribe_rules::State;
use wattscribe_rules::rule::{From, Over, Rule, RuleSet};

use super::integral::Stretch;
use super::member::{Selected, of_results, seen, takes};
use super::node::{Recorded, adds_windows, micros};
use super::number::seconds;
use super::result::{Member, Outcome, Row, When, of_instant};
use super::stretch::{Side, of_window};
use super::sum::sums;
use crate::history::{Labels, Reading};

pub(crate) fn evaluate(rules: &RuleSet, nodes: &[Recorded], of_nodes: &[Row]) -> Vec<Row> {
    let mut made = Vec::new();
    let mut instants: Vec<i64> = nodes.iter().flat_map(Recorded::instants).collect();
    instants.sort_unstable();
    instants.dedup();
    let recorded = || nodes.iter().filter(|node| !node.ended);
    instants.retain(|at_us| recorded().all(|node| node.is_settled(*at_us)));
    for at_us in instants {
        let blank = nodes.iter().filter(|node| is_blank(rules, node, at_us)).count();
        for (index, rule) in rules.rules.iter().enumerate() {
            if rule.is_of_node() {
                continue;
            }
            if adds_windows(rules, rule) {
                made.extend(sums(index, rule, of_nodes, at_us, None, blank));
                continue;
            }
            let results = match rule.over() {
                None => instant(rule, of_nodes, at_us, blank),
                Some(Over::Aligned { every, length }) => {
                    let (every_us, length_us) = (micros(*every), micros(*length));
                    windows(rules, rule, of_nodes, at_us, (every_us, length_us), blank)
                }
                Some(Over::Named) => Vec::new(),
            };
            made.extend(results.into_iter().map(|(when, labels, outcome)| Row {
                settled_us: at_us,
                when,
                rule: index,
                node: None,
                labels,
                outcome,
            }));
        }
    }
    let blank = nodes.iter().filter(|node| is_blank(rules, node, i64::MAX / 2)).count();
    for (index, rule) in rules.rules.iter().enumerate() {
        if !rule.is_of_node() && adds_windows(rules, rule) {
            made.extend(sums(index, rule, of_nodes, i64::MAX, None, blank));
        }
    }
    made
}

/// Whether nothing is known yet of a target that is scraped.
fn is_blank(rules: &RuleSet, node: &Recorded, at_us: i64) -> bool {
    let counting = node.counting(at_us);
    let is_past = |at_s: f64| at_s <= seconds(at_us);
    let inputs = || rules.rules.iter().flat_map(Rule::inputs);
    let is_taken = |reading: &&Reading| inputs().any(|input| takes(input, &node.node, reading));
    let first = counting.iter().find_map(|told| Some((told.start_s, told.page.as_ref()?)));
    let is_known = first.is_some_and(|(start_s, page)| {
        is_past(start_s) && page.iter().filter(is_taken).all(|reading| is_past(reading.at_s))
    });
    counting.iter().any(|told| is_past(told.start_s)) && !is_known
}

fn groups(rule: &Rule, rows: &[Row], until_us: i64) -> Vec<(Labels, Vec<Selected>)> {
    let mut groups: BTreeMap<String, (Labels, Vec<Selected>)> = BTreeMap::new();
    for (place, input) in rule.inputs().into_iter().enumerate() {
        let From::Rule(of) = input.from else { panic!("{} takes readings", rule.name) };
        let results = rows.iter().filter(|row| row.rule == of && row.settled_us <= until_us);
        for member in of_results(place, input, &rule.by, results) {
            let group = groups.entry(member.group_text());
            group.or_insert((member.group.clone(), Vec::new())).1.push(member);
        }
    }
    groups.into_values().collect()
}

type Made = Vec<(When, Labels, Outcome)>;

fn instant(rule: &Rule, rows: &[Row], at_us: i64, blank: usize) -> Made {
    let mut made = Vec::new();
    for (labels, selected) in groups(rule, rows, at_us) {
        let here = |member: &Selected| {
            let is_of = member.input < super::result::wholes(rule);
            is_of && member.found.iter().any(|found| found.reading.at_s == seconds(at_us))
        };
        if !selected.iter().any(here) {
            continue;
        }
        let number = |member: &Selected| seen(member, &[], at_us, 0);
        let members = selected.iter().filter_map(|member| {
            number(member).map(|number| Member { input: member.input, number })
        });
        let mut members: Vec<Member> = members.collect();
        let silent = Member { input: 0, number: Err(State::Unavailable) };
        members.extend(std::iter::repeat_n(silent, blank));
        made.push((When::Instant, labels, of_instant(rule, &members)));
    }
    made
}

fn windows(
    rules: &RuleSet,
    rule: &Rule,
    rows: &[Row],
    at_us: i64,
    (every_us, length_us): (i64, i64),
    blank: usize,
) -> Made {
    let (gap_us, step_us) = (micros(rules.timing.gap), micros(rules.timing.every));
    let mut made = Vec::new();
    let mut start_us = (at_us - gap_us - length_us).div_euclid(every_us) * every_us;
    while start_us + length_us > at_us - gap_us - step_us {
        let end_us = start_us + length_us;
        let gap_s = rules.timing.gap.as_secs_f64();
        let window = Stretch { start_s: seconds(start_us), end_s: seconds(end_us), gap_s };
        for (labels, selected) in groups(rule, rows, at_us) {
            let mut sides: Vec<Side> = selected.iter().map(side).collect();
            sides.extend((0..blank).map(|_| Side { input: 0, counter: false, read: Vec::new() }));
            let read = sides.iter().any(|side| side.read.iter().any(|r| window.holds(r.at_s)));
            let outcome = of_window(rule, &sides, window);
            if read || outcome.reporting > 0 {
                made.push((When::Aligned { start_us, end_us }, labels, outcome));
            }
        }
        start_us -= every_us;
    }
    made
}

fn side(member: &Selected) -> Side {
    let read: Vec<Reading> = member.found.iter().map(|found| found.reading.clone()).collect();
    Side { input: member.input, counter: false, read }
}
