//! Results of windows, within what the export says of each.

use std::collections::BTreeSet;

use wattscribe_rules::engine::{Derived, Withheld};
use wattscribe_rules::rule::{From, Function, Input, Over, Rule, RuleSet};

use super::pages::NODES;
use super::stored::{Series, Stored, group_of};

/// Results that must have been compared over all rules.
const COMPARED_MIN: usize = 60;

/// Readings of one series: seconds and values.
type Readings = Vec<(f64, f64)>;

/// Compares every recorded result of a window with that of the engine for the last window that was over.
pub(crate) fn compare(rules: &RuleSet, stored: &Stored, scrape_interval_s: f64) {
    let results = stored.evaluate(rules, &NODES.map(|node| (node, 0)), 0);
    let gap_s = rules.timing.gap.as_secs_f64();
    let (mut faults, mut compared, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for (place, rule) in rules.rules.iter().enumerate() {
        let Some(Over::Aligned { every, .. }) = rule.over() else { continue };
        let every_s = every.as_secs_f64();
        for series in stored.named(&rule.name) {
            for (at_ms, found) in &series.values {
                let end_s = ((*at_ms as f64 / 1e3 - gap_s) / every_s).floor() * every_s;
                let is_it = |result: &&Derived| {
                    result.rule == place
                        && result.at_us == (end_s * 1e6).round() as i64
                        && group_of(result) == series.group()
                };
                let Some(result) = results.iter().find(is_it) else {
                    faults.push(format!(
                        "{} {:?} at {end_s}: {found}, and no window",
                        rule.name, series.labels
                    ));
                    continue;
                };
                let stated = Stated { rules, stored, results: &results, scrape_interval_s };
                let Some(value) = result.value else {
                    if !stated.may_be_there(rule, result) {
                        faults.push(format!(
                            "{} {:?} at {end_s}: {found}, expected none: {result:?}",
                            rule.name, series.labels
                        ));
                    }
                    continue;
                };
                let most = stated.most(rule, result);
                compared += 1;
                seen.insert(&rule.name);
                if (value - found).abs() > most + 1e-9 * value.abs() {
                    faults.push(format!(
                        "{} {:?} at {end_s}: {found}, expected {value} within {most}",
                        rule.name, series.labels
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {:#?}", faults.len(), &faults[..faults.len().min(40)]);
    assert!(compared >= COMPARED_MIN, "{compared} windows compared");
    let aligned = |rule: &&Rule| matches!(rule.over(), Some(Over::Aligned { .. }));
    // A check wants every scrape of its window, and a busy machine scrapes late: promtool's tests hold it.
    let needs_all = |rule: &&Rule| matches!(rule.function, Function::Check { .. });
    let silent = |rule: &&Rule| {
        !seen.contains(&rule.name) && !rule.name.contains("dcgm") && !needs_all(rule)
    };
    let silent: Vec<&String> =
        rules.rules.iter().filter(aligned).filter(silent).map(|rule| &rule.name).collect();
    assert_eq!(silent, Vec::<&String>::new(), "rules of windows without any result");
}

/// What the comments say.
struct Stated<'a> {
    rules: &'a RuleSet,
    stored: &'a Stored,
    results: &'a [Derived],
    scrape_interval_s: f64,
}

impl Stated<'_> {
    /// How far a result may differ.
    fn most(&self, rule: &Rule, result: &Derived) -> f64 {
        let of_members: f64 =
            self.members(rule, result).map(|(of, member)| self.most(of, member)).sum();
        let mut most = of_members;
        if most == 0.0
            && let Some(input) = rule.inputs().into_iter().next()
        {
            let is_counter = matches!(rule.function, Function::Increase { .. });
            let step_s = match input.from {
                From::Rule(_) => self.rules.timing.every.as_secs_f64(),
                From::Sockets | From::Page => self.scrape_interval_s,
            };
            for readings in self.readings(rule, input, result) {
                most += self.of_member(rule, &readings, result, step_s, is_counter);
            }
        }
        most
    }

    /// Whether Prometheus may have a value where the engine has none: it does not know to a reading what is covered, nor
    /// the bounds of an energy, nor how far the readings around an edge are apart.
    fn may_be_there(&self, rule: &Rule, result: &Derived) -> bool {
        let gap_s = self.rules.timing.gap.as_secs_f64();
        let edges_s = [result.start_us.unwrap() as f64 / 1e6, result.at_us as f64 / 1e6];
        let is_apart = |readings: &Readings| {
            let apart = |pair: &[(f64, f64)]| {
                let is_around = |edge_s: &f64| pair[0].0 <= *edge_s && *edge_s <= pair[1].0;
                pair[1].0 - pair[0].0 > gap_s && edges_s.iter().any(is_around)
            };
            readings.windows(2).any(apart)
        };
        let counter = match &rule.function {
            Function::Increase { of, .. } => Some(of),
            Function::Check { against, .. } => Some(against),
            _ => None,
        };
        match result.withheld {
            Some(Withheld::Coverage | Withheld::Counter) => true,
            Some(Withheld::Members) => {
                counter.is_some_and(|of| self.readings(rule, of, result).iter().any(is_apart))
                    || self.members(rule, result).any(|(of, member)| self.may_be_there(of, member))
            }
            _ => false,
        }
    }

    /// The results of windows that a sum takes, each with its rule.
    fn members(&self, rule: &Rule, result: &Derived) -> impl Iterator<Item = (&Rule, &Derived)> {
        let above: Vec<usize> = rule
            .inputs()
            .into_iter()
            .filter_map(|input| match input.from {
                From::Rule(above) => self.rules.rules[above].over().map(|_| above),
                From::Sockets | From::Page => None,
            })
            .collect();
        let (at_us, start_us) = (result.at_us, result.start_us);
        let is_it = move |of: &&Derived| {
            above.contains(&of.rule) && of.at_us == at_us && of.start_us == start_us
        };
        self.results.iter().filter(is_it).map(|of| (&self.rules.rules[of.rule], of))
    }

    fn of_member(
        &self,
        rule: &Rule,
        readings: &Readings,
        result: &Derived,
        step_s: f64,
        is_counter: bool,
    ) -> f64 {
        let (start_s, end_s) = (result.start_us.unwrap() as f64 / 1e6, result.at_us as f64 / 1e6);
        let within = |from_s: f64, to_s: f64| -> Vec<f64> {
            let each = readings.iter().filter(|(at_s, _)| *at_s >= from_s && *at_s <= to_s);
            each.map(|(_, value)| *value).collect()
        };
        if is_counter {
            // What it moves in a scrape interval and a tenth.
            let moved = |edge_s: f64| {
                let near = within(edge_s - 2.0 * step_s, edge_s + step_s);
                let steps = near.windows(2).map(|pair| pair[1] - pair[0]);
                1.1 * steps.fold(0.0, f64::max)
            };
            return moved(start_s) + moved(end_s);
        }
        // The readings that bracket the window belong to the line through it.
        let gap_s = self.rules.timing.gap.as_secs_f64();
        let before = readings.iter().rfind(|(at_s, _)| *at_s < start_s && start_s - *at_s <= gap_s);
        let after = readings.iter().find(|(at_s, _)| *at_s > end_s && *at_s - end_s <= gap_s);
        let around = within(
            before.map_or(start_s, |(at_s, _)| *at_s).min(start_s - step_s),
            after.map_or(end_s, |(at_s, _)| *at_s).max(end_s + step_s),
        );
        let (least, greatest) =
            around.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (value.min(least), value.max(most))
            });
        match rule.function {
            Function::Integrate { .. } | Function::Check { .. } => {
                let expected = ((end_s - start_s) / step_s).ceil();
                let missing = (expected - within(start_s, end_s).len() as f64).max(0.0);
                let uncovered_s = (1.0 - result.coverage) * (end_s - start_s);
                let members = f64::from(result.members_expected);
                (greatest - least) * (1.0 + missing) * step_s + greatest * uncovered_s * members
            }
            _ if matches!(rule.inputs()[0].from, From::Rule(_)) => greatest - least,
            // The very readings of the window.
            _ => 0.0,
        }
    }

    /// The readings that a group's members had.
    fn readings(&self, rule: &Rule, input: &Input, result: &Derived) -> Vec<Readings> {
        let of_group = |series: &&Series| {
            let label = |name: &str| series.labels.get(name).map_or("", String::as_str);
            rule.by.iter().all(|name| match name.as_str() {
                Rule::NODE => result.node.as_deref() == Some(label("instance")),
                name => {
                    result.labels.contains(&format!("{name}={:?}", label(name)))
                        || label(name).is_empty()
                }
            }) && input.selector.takes(&series.name, |name| match name {
                Rule::NODE => series.labels.get("instance").map(String::as_str),
                _ => series.labels.get(name).map(String::as_str),
            })
        };
        let of = self.stored.0.iter().filter(of_group);
        of.map(|series| {
            series.values.iter().map(|(at_ms, value)| (*at_ms as f64 / 1e3, *value)).collect()
        })
        .collect()
    }
}
