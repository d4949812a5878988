//! Unit tests for promtool: synthetic scrapes, and what the engine makes of them.
//!
//! Results of instants are compared as they are, those of windows within what the comment above the rule says. A window that
//! is covered in part is left out: there the two do not say the same, and the comment says so.

use std::fmt::Write as _;
use std::time::Duration;

use crate::engine::Derived;
use crate::promql::Options;
use crate::promql::file::Group;
use crate::promql::labels::{Labels, quoted};
use crate::promql::refusal::Refusal;
use crate::rule::{From, Function, Over, Rule, RuleSet, duration};

mod scrapes;
mod window;

use scrapes::Scrapes;

/// Longer windows are not tested: their scrapes would be most of the file.
const LENGTH_MAX: Duration = Duration::from_secs(900);

/// Instants that are compared, in scrapes: members agree, differ, are gone, are back; a node answers.
const INSTANTS: [usize; 8] = [1, 9, 12, 24, 33, 38, 52, 74];

/// Beside a sum whose last digits depend on its order.
const ROUNDING: f64 = 1e-9;

/// The file of tests.
pub(super) fn text(
    set: &RuleSet,
    options: &Options,
    refused: &[Option<Refusal>],
    groups: &[Group],
) -> String {
    let places: Vec<usize> = (0..set.rules.len())
        .filter(|place| refused.get(*place).is_some_and(Option::is_none))
        .filter(|place| length(&set.rules[*place]) <= LENGTH_MAX)
        .collect();
    let longest = places.iter().map(|place| length(&set.rules[*place])).max().unwrap_or_default();
    let span = longest * 3 + set.timing.gap * 2 + set.timing.every * 2;
    let scrapes_needed = span.as_secs_f64() / options.scrape_interval.as_secs_f64();
    let count = (scrapes_needed.ceil() as usize).max(80);
    let scrapes = Scrapes::of(set, &places, options, count);
    let results = scrapes.evaluate(set);
    let labels = Labels::new(&options.node_label);
    let trial = Trial { set, scrapes: &scrapes, results: &results, labels: &labels };

    let mut text = heading(set, options, groups, &places);
    for (series, values) in scrapes.notation(&labels) {
        let _ = writeln!(text, "      - series: {}\n        values: {values}", single(&series));
    }
    text += "    promql_expr_test:\n";
    for place in places {
        let rule = &set.rules[place];
        if rule.over().is_some() {
            trial.of_windows(place, rule, &mut text);
        } else {
            trial.of_instants(place, rule, &mut text);
        }
    }
    text
}

fn heading(set: &RuleSet, options: &Options, groups: &[Group], places: &[usize]) -> String {
    let mut text = String::from(
        "# Written by `wattscribe rules export`, for `promtool test rules`: what Wattscribe makes of these scrapes, and\n\
         # Prometheus within what the comment above each rule says.\n",
    );
    for (place, rule) in set.rules.iter().enumerate().filter(|(place, _)| !places.contains(place)) {
        let _ = writeln!(text, "# Not tested: {} (rule {} of the file).", rule.name, place + 1);
    }
    let order: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    let _ = write!(
        text,
        "\nrule_files: [{}]\nevaluation_interval: {}\ngroup_eval_order: [{}]\n\ntests:\n  \
         - name: what Wattscribe makes of the same scrapes\n    interval: {}\n    input_series:\n",
        super::RULES_FILE,
        duration::text(set.timing.every),
        order.join(", "),
        duration::text(options.scrape_interval)
    );
    text
}

/// What the tests are made of.
struct Trial<'a> {
    set: &'a RuleSet,
    scrapes: &'a Scrapes,
    results: &'a [Derived],
    labels: &'a Labels,
}

impl Trial<'_> {
    fn of_instants(&self, place: usize, rule: &Rule, text: &mut String) {
        let every_us = us(self.set.timing.every);
        for scrape in INSTANTS {
            let at_us = (scrape as f64 * self.scrapes.interval_s * 1e6).round() as i64 / every_us
                * every_us;
            let of = |result: &&Derived| result.rule == place && result.at_us == at_us;
            let there: Vec<(String, f64)> = self
                .results
                .iter()
                .filter(of)
                .filter_map(|result| Some((self.labels_of(rule, result), result.value?)))
                .collect();
            if there.iter().all(|(_, value)| is_exact(*value)) {
                let samples: Vec<(String, f64)> = there
                    .into_iter()
                    .map(|(labels, value)| (format!("{}{labels}", rule.name), value))
                    .collect();
                write_test(text, &rule.name, at_us, &samples);
                continue;
            }
            let labels: Vec<(String, f64)> =
                there.iter().map(|(labels, _)| (labels.clone(), 1.0)).collect();
            write_test(text, &format!("group without () ({})", rule.name), at_us, &labels);
            for (labels, value) in there {
                write_within(text, &rule.name, at_us, &labels, (value, value.abs() * ROUNDING));
            }
        }
    }

    fn of_windows(&self, place: usize, rule: &Rule, text: &mut String) {
        let Some(Over::Aligned { .. }) = rule.over() else { return };
        let last_us = ((self.scrapes.count - 1) as f64 * self.scrapes.interval_s * 1e6) as i64;
        for result in self.results.iter().filter(|result| result.rule == place) {
            // The evaluation that has this window as its last.
            let at_us = self.set.timing.settled_us(result.at_us, true);
            if at_us > last_us || result.start_us.is_none_or(|start_us| start_us < 0) {
                continue;
            }
            let labels = self.labels_of(rule, result);
            match self.compared(place, result) {
                window::Compared::Within(value, most) => {
                    write_within(text, &rule.name, at_us, &labels, (value, most));
                }
                window::Compared::Absent => {
                    write_test(
                        text,
                        &format!("group ({}{})", rule.name, self.exactly(rule, result)),
                        at_us,
                        &[],
                    );
                }
                window::Compared::Not => {}
            }
        }
    }

    /// The labels of a result as promtool prints them.
    fn labels_of(&self, rule: &Rule, result: &Derived) -> String {
        let labels = self.pairs(rule, result).into_iter().filter(|(_, value)| !value.is_empty());
        braces(labels)
    }

    /// A selector that takes this result and no other.
    fn exactly(&self, rule: &Rule, result: &Derived) -> String {
        braces(self.pairs(rule, result).into_iter())
    }

    fn pairs(&self, rule: &Rule, result: &Derived) -> Vec<(String, String)> {
        let value = |label: &String| match label.as_str() {
            Rule::NODE => result.node.as_deref().unwrap_or_default().to_owned(),
            label => window::label(&result.labels, label).unwrap_or_default(),
        };
        rule.by.iter().map(|label| (self.labels.name(label).to_owned(), value(label))).collect()
    }
}

fn braces(labels: impl Iterator<Item = (String, String)>) -> String {
    let labels: Vec<String> =
        labels.map(|(name, value)| format!("{name}={}", quoted(&value))).collect();
    format!("{{{}}}", labels.join(","))
}

/// One expression at one time, and all its samples.
fn write_test(text: &mut String, expression: &str, at_us: i64, samples: &[(String, f64)]) {
    let at = duration::text(Duration::from_micros(at_us.unsigned_abs()));
    let _ = write!(
        text,
        "      - expr: {}\n        eval_time: {at}\n        exp_samples:",
        single(expression)
    );
    text.push_str(if samples.is_empty() { " []\n" } else { "\n" });
    for (labels, value) in samples {
        let _ =
            writeln!(text, "          - labels: {}\n            value: {value}", single(labels));
    }
}

/// One result that is this far from a value at most.
fn write_within(
    text: &mut String,
    rule: &str,
    at_us: i64,
    labels: &str,
    (value, most): (f64, f64),
) {
    let expression = format!("abs({rule}{labels} - {value}) <= bool {most}");
    write_test(text, &expression, at_us, &[(labels.to_owned(), 1.0)]);
}

/// Text in YAML.
fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether sums and quotients that lead to a value have no digits to lose.
fn is_exact(value: f64) -> bool {
    (value * 65_536.0).fract() == 0.0
}

fn us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn length(rule: &Rule) -> Duration {
    match rule.over() {
        Some(Over::Aligned { length, every }) => (*length).max(*every),
        Some(Over::Named) | None => Duration::ZERO,
    }
}

/// Whether a rule takes results of windows.
fn adds_windows(set: &RuleSet, rule: &Rule) -> bool {
    let Function::Sum { of, over: Some(_) } = &rule.function else { return false };
    of.iter().any(|input| match input.from {
        From::Rule(above) => set.rules.get(above).is_some_and(|above| above.over().is_some()),
        From::Sockets | From::Page => false,
    })
}
