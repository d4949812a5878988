//! A rule as an expression of PromQL: the value, and the conditions without which there is none.

use std::time::Duration;

use crate::energy::COUNTER_DISAGREEMENT_MAX;
use crate::promql::file::{Entry, Group, What};
use crate::promql::members::Members;
use crate::promql::note;
use crate::promql::over_time::{Gathers, Windows};
use crate::promql::refusal::Refusal;
use crate::promql::{Options, alert};
use crate::rule::{From, Function, Over, Require, Rule, RuleSet, duration};

/// What rounding may add to a spread that is exactly at its limit, as the engine has it.
const ROUNDING: &str = "1.000000000001";

/// Tells the inputs of a sum apart, whose members may have equal labels.
const INPUT: &str = "wattscribe_input";

/// Writes the rules of a file, in its order.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) set: &'a RuleSet,
    pub(super) options: &'a Options,
    pub(super) members: Members<'a>,
    /// For each rule why it cannot be expressed.
    pub(super) refused: Vec<Option<Refusal>>,
    pub(super) instants: Vec<Entry>,
    windows: Vec<(Duration, Vec<Entry>)>,
    pub(super) alerts: Vec<Entry>,
}

/// The series that go into a rule.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) by: String,
    /// Of each input: members that report.
    pub(super) reading: Vec<String>,
    /// Of each input: members that are expected.
    pub(super) expected: Vec<String>,
    /// Of a rule of the fleet: targets that never answered.
    silent: Option<String>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(set: &'a RuleSet, options: &'a Options) -> Writer<'a> {
        Writer {
            set,
            options,
            members: Members::new(set, options),
            refused: Vec::new(),
            instants: Vec::new(),
            windows: Vec::new(),
            alerts: Vec::new(),
        }
    }

    pub(super) fn groups(&self) -> Vec<Group> {
        let group = |name: String, interval, entries: &Vec<Entry>| Group {
            name,
            interval,
            entries: entries.clone(),
        };
        let every = self.set.timing.every;
        let mut groups = vec![group("wattscribe".to_owned(), every, &self.instants)];
        for (every, entries) in &self.windows {
            groups.push(group(format!("wattscribe-{}", duration::text(*every)), *every, entries));
        }
        if !self.alerts.is_empty() {
            groups.push(group("wattscribe-alerts".to_owned(), every, &self.alerts));
        }
        groups
    }

    pub(super) fn write_rules(&mut self) {
        let set = self.set;
        for rule in &set.rules {
            let refusal = self.refusal(rule);
            let comment = note::of_rule(rule, set, self.options, refusal.as_ref());
            let what = match refusal {
                Some(_) => What::Nothing,
                None => {
                    let parts = self.parts(rule);
                    What::Record(rule.name.clone(), expression(rule, &parts))
                }
            };
            self.refused.push(refusal);
            self.entries_of(rule).push(Entry { comment, what });
        }
    }

    pub(super) fn write_alerts(&mut self) {
        let set = self.set;
        for (place, rule) in set.rules.iter().enumerate() {
            if self.refused.get(place).is_some_and(Option::is_none) {
                let parts = self.parts(rule);
                let groups = self.members.groups(rule, &mut self.instants);
                let labels = self.members.labels.clone();
                let alerts = alert::of_rule(rule, set, &parts, &groups, &labels, self.options);
                // Between two windows their results are not seen for ever: what is said of them is said with them.
                match rule.over() {
                    Some(_) => self.entries_of(rule).extend(alerts),
                    None => self.alerts.extend(alerts),
                }
            }
        }
    }

    fn refusal(&self, rule: &Rule) -> Option<Refusal> {
        let every = self.set.timing.every;
        for input in rule.inputs() {
            if let From::Rule(above) = input.from
                && self.refused.get(above).is_none_or(Option::is_some)
            {
                return Some(Refusal::Above(input.selector.metric.clone()));
            }
        }
        match rule.over()? {
            Over::Named => Some(Refusal::Named),
            Over::Aligned { every: of, .. } if *of < every => Some(Refusal::TooOften(*of, every)),
            Over::Aligned { length, .. } if *length < every * 2 => {
                Some(Refusal::TooShort(*length, every))
            }
            Over::Aligned { .. } => None,
        }
    }

    fn entries_of(&mut self, rule: &Rule) -> &mut Vec<Entry> {
        let Some(Over::Aligned { every, .. }) = rule.over().copied() else {
            return &mut self.instants;
        };
        let place = self.windows.iter().position(|(of, _)| *of == every).unwrap_or_else(|| {
            self.windows.push((every, Vec::new()));
            self.windows.len() - 1
        });
        &mut self.windows[place].1
    }

    fn parts(&mut self, rule: &Rule) -> Parts {
        let mut parts = Parts {
            by: self.members.labels.by(&rule.by),
            reading: Vec::new(),
            expected: Vec::new(),
            silent: None,
        };
        for (number, input) in rule.inputs().into_iter().enumerate() {
            let expected = self.members.expected(rule, input, &mut self.instants);
            let step = match input.from {
                From::Rule(_) => self.set.timing.every,
                From::Sockets | From::Page => self.options.scrape_interval,
            };
            let over = Gathers::of(rule, number).zip(Windows::of(rule, step, self.set.timing.gap));
            let reading = match over {
                Some(over) => {
                    let mut entries = std::mem::take(self.entries_of(rule));
                    let instants = &mut self.instants;
                    let name = self.members.over_time(rule, input, over, (instants, &mut entries));
                    *self.entries_of(rule) = entries;
                    name
                }
                None => self.members.reading(rule, input, &mut self.instants),
            };
            parts.reading.push(reading);
            parts.expected.push(expected);
        }
        if !rule.is_of_node() && rule.require == Require::All {
            parts.silent = Some(self.members.silent(&mut self.instants));
        }
        parts
    }
}

impl Parts {
    /// All members that report.
    pub(super) fn readings(&self) -> String {
        union(&self.reading)
    }

    pub(super) fn total(&self, number: usize) -> String {
        let of = self.reading.get(number).map_or("", String::as_str);
        format!("sum {} ({of})", self.by)
    }

    /// The highest member less the lowest is more than this part of the mean.
    pub(super) fn spread(&self, rule: &Rule, above: f64) -> String {
        let by = &self.by;
        let of = match rule.function {
            Function::Residual { .. } | Function::Ratio { .. } => union(&self.reading[..1]),
            _ => self.readings(),
        };
        format!("max {by} ({of}) - min {by} ({of}) > {above} * {ROUNDING} * avg {by} ({of})")
    }

    /// Power and counter of a check contradict each other.
    pub(super) fn contradiction(&self) -> String {
        let (energy, counter) = (self.total(0), self.total(1));
        format!("abs({energy} - {counter}) > {COUNTER_DISAGREEMENT_MAX} * {counter}")
    }
}

/// The whole expression of a rule.
fn expression(rule: &Rule, parts: &Parts) -> String {
    let mut lines = vec![value(rule, parts)];
    let (by, readings) = (&parts.by, parts.readings());
    let is_of_one = match rule.function {
        Function::Quantile { .. } | Function::Check { .. } => true,
        Function::Max { .. } | Function::Min { .. } => rule.over().is_some(),
        _ => false,
    };
    let is_of_all = matches!(
        rule.function,
        Function::Residual { .. } | Function::Ratio { .. } | Function::Check { .. }
    );
    if is_of_one {
        lines.extend(parts.expected.iter().map(|of| format!("unless count {by} ({of}) > 1")));
    }
    if let Function::Check { .. } = rule.function {
        lines.push(format!("unless {}", parts.contradiction()));
    }
    let whole = |reading: &str, expected: &str| {
        format!("and count {by} ({reading}) == count {by} ({expected})")
    };
    match rule.require {
        _ if is_of_all => {
            let inputs = parts.reading.iter().zip(&parts.expected);
            lines.extend(inputs.map(|(reading, expected)| whole(reading, expected)));
        }
        Require::All => lines.push(whole(&readings, &union(&parts.expected))),
        Require::AtLeast(least) if least > 1 => {
            lines.push(format!("and count {by} ({readings}) >= {least}"));
        }
        Require::Any | Require::AtLeast(_) => {}
    }
    if let Some(above) = rule.withhold.spread_above {
        lines.push(format!("unless {}", parts.spread(rule, above)));
    }
    if let Some(silent) = &parts.silent {
        lines.push(format!("unless on () count({silent}) > 0"));
    }
    lines.join("\n")
}

/// The value, within its bounds.
fn value(rule: &Rule, parts: &Parts) -> String {
    let (by, readings) = (&parts.by, parts.readings());
    let value = match &rule.function {
        Function::Mean { .. } => format!("sum {by} ({readings}) / count {by} ({readings})"),
        Function::Sum { .. } | Function::Integrate { .. } | Function::Increase { .. } => {
            format!("sum {by} ({readings})")
        }
        Function::Max { .. } => format!("max {by} ({readings})"),
        Function::Min { .. } => format!("min {by} ({readings})"),
        Function::Quantile { .. } | Function::Check { .. } => parts.total(0),
        Function::Residual { less, .. } => {
            let totals: Vec<String> = (0..=less.len()).map(|number| parts.total(number)).collect();
            totals.join("\n- ")
        }
        Function::Ratio { .. } => format!("{} / ({} != 0)", parts.total(0), parts.total(1)),
    };
    let bounds: String = [(">=", rule.withhold.below), ("<=", rule.withhold.above)]
        .into_iter()
        .filter_map(|(sign, bound)| Some(format!(" {sign} {}", bound?)))
        .collect();
    if bounds.is_empty() { value } else { format!("({value}){bounds}") }
}

/// All series of several inputs. Those of different inputs are told apart.
fn union(of: &[String]) -> String {
    if let [one] = of {
        return one.clone();
    }
    let tagged = of.iter().enumerate().map(|(number, series)| {
        format!(r#"label_replace({series}, "{INPUT}", "{number}", "", "")"#)
    });
    tagged.collect::<Vec<_>>().join(" or ")
}
