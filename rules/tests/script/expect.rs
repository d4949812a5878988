//! Rows that are expected.

use std::fmt::Write;

use wattscribe_rules::engine::Derived;
use wattscribe_rules::rule::RuleSet;

use super::number;
use super::series::parse_labels;
use crate::history::text;

/// One line of a case: `PLACE: RESULT`.
///
/// `PLACE` is `at T` or `at T..U` (every whole second) for instants, `[S,E]` for windows; behind it may stand the place of
/// the rule as `ruleN` (the only one, or the last), the node as `on NODE`, the labels as `{socket="0"}` and a name of a
/// window as `window NAME`. What is left out is not looked at, but one row alone must fit.
/// `RESULT` is a value, or `- REASON STATE`, or `none` where there is no row. Behind it may stand `spread`, `low`, `high`,
/// `counter` and `coverage` with a number or `none`, and members that report by those expected, `1/2`.
pub(crate) struct Expected {
    line: String,
    start_s: Option<f64>,
    at_s: Vec<f64>,
    rule: Option<usize>,
    node: Option<String>,
    window: Option<String>,
    labels: Option<String>,
    fields: Vec<(String, String)>,
}

impl Expected {
    pub(crate) fn new(line: &str) -> Expected {
        let place_end = line.find(": ").unwrap_or_else(|| panic!("{line:?} has no result"));
        let (place, result) = (&line[..place_end], &line[place_end + 2..]);
        let (place, labels) = match place.split_once('{') {
            Some((place, labels)) => (place, Some(text(&parse_labels(labels)))),
            None => (place, None),
        };
        let mut expected = Expected {
            line: line.to_owned(),
            start_s: None,
            at_s: Vec::new(),
            rule: None,
            node: None,
            window: None,
            labels,
            fields: fields(result),
        };
        let mut words = place.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "at" => expected.at_s = instants(words.next().unwrap()),
                "on" => expected.node = words.next().map(str::to_owned),
                "window" => expected.window = words.next().map(str::to_owned),
                rule if rule.starts_with("rule") => {
                    expected.rule = Some(rule[4..].parse::<usize>().unwrap() - 1);
                }
                window => {
                    let edges = window.trim_matches(['[', ']']).split_once(',');
                    let (start, end) = edges.unwrap_or_else(|| panic!("{line:?}: {word:?}"));
                    expected.start_s = Some(number(start));
                    expected.at_s = vec![number(end)];
                }
            }
        }
        expected
    }

    /// What is wrong with these rows.
    pub(crate) fn miss(&self, rules: &RuleSet, rows: &[Derived]) -> Option<String> {
        self.at_s.iter().find_map(|at_s| self.miss_at(*at_s, rules, rows))
    }

    fn miss_at(&self, at_s: f64, rules: &RuleSet, rows: &[Derived]) -> Option<String> {
        let micros = |s: f64| (s * 1e6).round() as i64;
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let rule = self.rule.unwrap_or(rules.rules.len() - 1);
        let fits = |row: &&Derived| {
            row.rule == rule
                && row.at_us == micros(at_s)
                && row.start_us == self.start_s.map(micros)
                && same(&self.node, row.node.as_deref())
                && same(&self.window, row.window.as_deref())
                && same(&self.labels, Some(&row.labels))
        };
        let found: Vec<&Derived> = rows.iter().filter(fits).collect();
        let wanted: Vec<String> = self.fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
        if wanted == ["value=none"] {
            let first = found.first()?;
            return Some(format!("{}\n  found {}", self.line, written(first)));
        }
        let [row] = found[..] else {
            return Some(format!("{}\n  at {at_s} are {} rows that fit", self.line, found.len()));
        };
        let has = |(key, value): &(String, String)| field(row, key) == *value;
        let all = self.fields.iter().all(has);
        (!all).then(|| format!("{}\n  at {at_s} found {}", self.line, written(row)))
    }
}

fn instants(text: &str) -> Vec<f64> {
    let Some((first, last)) = text.split_once("..") else { return vec![number(text)] };
    let (first, last) = (number(first) as i64, number(last) as i64);
    (first..=last).map(|at| at as f64).collect()
}

/// What is said of the result, by field.
fn fields(result: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = result.split_whitespace().collect();
    let plain = |text: &str| match text {
        "none" => "none".to_owned(),
        text => number(text).to_string(),
    };
    let mut fields = Vec::new();
    let mut rest = &words[1..];
    if words[0] == "-" {
        fields.push(("reason".to_owned(), words[1].to_owned()));
        fields.push(("state".to_owned(), words[2].to_owned()));
        rest = &words[3..];
    } else {
        fields.push(("value".to_owned(), plain(words[0])));
    }
    while let Some(word) = rest.first() {
        if word.contains('/') {
            fields.push(("members".to_owned(), (*word).to_owned()));
            rest = &rest[1..];
        } else {
            fields.push(((*word).to_owned(), plain(rest[1])));
            rest = &rest[2..];
        }
    }
    fields
}

fn field(row: &Derived, key: &str) -> String {
    let optional = |value: Option<f64>| value.map_or("none".to_owned(), |v| v.to_string());
    match key {
        "value" => optional(row.value),
        "reason" => row.withheld.map_or("none".to_owned(), |reason| reason.to_string()),
        "state" => row.state.to_string(),
        "spread" => optional(row.spread),
        "low" => optional(row.low),
        "high" => optional(row.high),
        "counter" => optional(row.counter),
        "coverage" => row.coverage.to_string(),
        "members" => format!("{}/{}", row.members_reporting, row.members_expected),
        unknown => panic!("no field {unknown:?}"),
    }
}

/// A row as a case would have it.
pub(crate) fn written(row: &Derived) -> String {
    let mut line = String::new();
    let at_s = row.at_us as f64 / 1e6;
    let _ = match row.start_us {
        Some(start_us) => write!(line, "[{},{at_s}]", start_us as f64 / 1e6),
        None => write!(line, "at {at_s}"),
    };
    let _ = write!(line, " rule{}", row.rule + 1);
    if let Some(window) = &row.window {
        let _ = write!(line, " window {window}");
    }
    if let Some(node) = &row.node {
        let _ = write!(line, " on {node}");
    }
    let _ = write!(line, " {{{}}}: ", row.labels);
    let _ = match row.withheld {
        Some(reason) => write!(line, "- {reason} {}", row.state),
        None => write!(line, "{}", field(row, "value")),
    };
    for key in ["spread", "low", "high", "counter"] {
        if field(row, key) != "none" {
            let _ = write!(line, " {key} {}", field(row, key));
        }
    }
    let _ = write!(line, " coverage {} {}", row.coverage, field(row, "members"));
    line
}
