//! Synthetic scrapes that hold for any rule file: a few nodes with whatever series its rules take.
//!
//! Members agree, differ, are gone and come back; counters begin anew; one node does not answer at first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{Answer, Derived, Engine, Observed, Scrape, SeriesId};
use crate::promql::Options;
use crate::promql::labels::{Labels, quoted};
use crate::rule::selector::Condition;
use crate::rule::{From, Input, Pattern, Rule, RuleSet};
use crate::state::State;

/// The nodes: one with a member of each input, one with two in groups of their own, one with two in one group, and one
/// that does not answer at first.
const NODES: [(&str, Shape); 4] =
    [("one", Shape::One), ("wide", Shape::Wide), ("deep", Shape::Deep), ("late", Shape::Late)];

/// How long `late` does not answer, in scrapes.
const SILENT: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    One,
    Wide,
    Deep,
    Late,
}

/// All scrapes.
#[derive(Debug)]
pub(super) struct Scrapes {
    pub(super) count: usize,
    /// From one to the next, in seconds.
    pub(super) interval_s: f64,
    pub(super) series: Vec<Series>,
    /// A name of the jobs of the targets; without one no target is silent.
    job: Option<String>,
}

/// One series of one node.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) node: &'static str,
    pub(super) from: From,
    pub(super) metric: String,
    pub(super) labels: BTreeMap<String, String>,
    /// By scrape; `None` where the page lacks it.
    pub(super) values: Vec<Option<f64>>,
}

/// The series of one selector and all labels that rules ask of it.
struct Asked<'a> {
    input: &'a Input,
    /// Those that a result keeps, in some rule.
    by: BTreeSet<&'a str>,
    all: BTreeSet<&'a str>,
}

impl Scrapes {
    /// Scrapes for the rules of these places.
    pub(super) fn of(set: &RuleSet, rules: &[usize], options: &Options, count: usize) -> Scrapes {
        let interval_s = options.scrape_interval.as_secs_f64();
        let job = Pattern::new(&options.jobs).ok().and_then(|pattern| {
            let condition = Condition::Matches(pattern);
            fitting(&[&condition], 0)
        });
        let mut scrapes = Scrapes { count, interval_s, series: Vec::new(), job };
        for (number, asked) in asked(set, rules).iter().enumerate() {
            for (node, shape) in NODES {
                scrapes.add(asked, number, node, shape);
            }
        }
        scrapes
    }

    fn add(&mut self, asked: &Asked<'_>, number: usize, node: &'static str, shape: Shape) {
        let members = if matches!(shape, Shape::Wide | Shape::Deep) { 2 } else { 1 };
        for member in 0..members {
            let value = |label: &str| {
                let matchers = asked.input.selector.matchers.iter();
                let conditions: Vec<&Condition> =
                    matchers.filter(|of| of.label == label).map(|of| &of.condition).collect();
                let nth = if shape == Shape::Deep && asked.by.contains(label) { 0 } else { member };
                fitting(&conditions, nth)
            };
            let labels = asked.all.iter().map(|label| Some(((*label).to_owned(), value(label)?)));
            let Some(labels) = labels.collect::<Option<BTreeMap<String, String>>>() else { return };
            let (from, metric) = (asked.input.from, asked.input.selector.metric.clone());
            let is_there =
                |of: &Series| of.node == node && of.metric == metric && of.labels == labels;
            if self.series.iter().any(is_there) {
                continue;
            }
            let is_counter = asked.input.unit == "J";
            let each = (0..self.count).map(|scrape| match is_counter {
                _ if self.is_silent(shape, scrape) => None,
                true => Some(self.joules(number, shape, member, scrape)),
                false => watts(number, member, scrape),
            });
            let values = each.collect();
            self.series.push(Series { node, from, metric, labels, values });
        }
    }

    /// A counter at a steady power within 5 % of the other series. One begins anew.
    fn joules(&self, number: usize, shape: Shape, member: usize, scrape: usize) -> f64 {
        let step = (base_w(number) * self.interval_s).round().max(1.0) + member as f64;
        let since = match (shape, member) {
            (Shape::Deep, 0) => scrape % 50,
            _ => scrape,
        };
        step * since as f64
    }

    fn is_silent(&self, shape: Shape, scrape: usize) -> bool {
        shape == Shape::Late && scrape < SILENT && self.job.is_some()
    }

    /// What the engine makes of them.
    pub(super) fn evaluate(&self, set: &RuleSet) -> Vec<Derived> {
        let mut engine = Engine::new(Arc::new(set.clone()), Vec::new());
        // The fleet waits for all of them.
        NODES.iter().for_each(|(node, _)| engine.expect_target(node));
        for (node, shape) in NODES {
            let series: Vec<(Option<SeriesId>, &Series)> = self
                .series
                .iter()
                .filter(|series| series.node == node)
                .map(|series| {
                    (engine.node(node).series(series.from, &series.metric, &series.text()), series)
                })
                .collect();
            for scrape in 0..self.count {
                let at_s = scrape as f64 * self.interval_s;
                let of = |from_page: bool| -> Vec<Observed> {
                    let taken =
                        series.iter().filter(|(_, of)| (of.from == From::Page) == from_page);
                    // A socket that the page lacks has a row without a number once it was there.
                    let observed = taken.filter_map(|(id, of)| {
                        let value = match of.values.get(scrape).copied().flatten() {
                            Some(value) => Ok(value),
                            None if from_page => return None,
                            None => Err(State::Unavailable),
                        };
                        Some(Observed { series: (*id)?, at_s, value, since_s: None })
                    });
                    observed.collect()
                };
                let (sockets, samples) = (of(false), of(true));
                let answer = match self.is_silent(shape, scrape) {
                    true => Answer::Failed,
                    false => Answer::Page { sockets: &sockets, samples: &samples },
                };
                let begins_session = scrape == 0;
                engine.push(
                    node,
                    &Scrape { seq: scrape as u64, start_s: at_s, begins_session, answer },
                );
            }
        }
        engine.finish();
        engine.derived().collect()
    }

    /// Every series in promtool's notation: the series, and its values.
    pub(super) fn notation(&self, labels: &Labels) -> Vec<(String, String)> {
        let node_label = labels.name(Rule::NODE);
        let mut lines = Vec::new();
        if let Some(job) = &self.job {
            for (node, shape) in NODES {
                let up = (0..self.count)
                    .map(|scrape| Some(f64::from(u8::from(!self.is_silent(shape, scrape)))));
                let labels = format!("{node_label}={},job={}", quoted(node), quoted(job));
                lines.push((format!("up{{{labels}}}"), notation(&up.collect::<Vec<_>>())));
            }
        }
        for series in &self.series {
            let mut text = format!("{node_label}={}", quoted(series.node));
            if !series.text().is_empty() {
                text += &format!(",{}", series.text());
            }
            if matches!(series.metric.as_str(), "cpu_power_rapl_watts" | "cpu_energy_joules_total")
            {
                let socket = series.labels.get("socket").map_or("", String::as_str);
                text += &format!(",zone=\"intel-rapl:{socket}\"");
            }
            lines.push((format!("{}{{{text}}}", series.metric), notation(&series.values)));
        }
        lines
    }
}

impl Series {
    /// Labels as on a page.
    fn text(&self) -> String {
        let labels = self.labels.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        labels.collect::<Vec<_>>().join(",")
    }

    /// Whether an input takes it.
    pub(super) fn is_of(&self, input: &Input) -> bool {
        let label = |name: &str| match name {
            Rule::NODE => Some(self.node),
            _ => self.labels.get(name).map(String::as_str),
        };
        input.from == self.from && input.selector.takes(&self.metric, label)
    }
}

fn base_w(number: usize) -> f64 {
    96.0 + 16.0 * number as f64
}

/// A power that climbs, stands, and climbs again. The second member is 1 W above the first, for a while a quarter, and
/// then gone.
fn watts(number: usize, member: usize, scrape: usize) -> Option<f64> {
    let steady_w = base_w(number) + member as f64;
    match scrape % 40 {
        place @ 0..20 => Some(steady_w + 0.125 * (place % 20) as f64),
        20..30 if member == 1 => Some(steady_w * 1.25),
        30..36 if member == 1 => None,
        _ => Some(steady_w),
    }
}

/// Selectors of metrics that the rules take, with the labels that they ask for.
fn asked<'a>(set: &'a RuleSet, rules: &[usize]) -> Vec<Asked<'a>> {
    let mut all: Vec<Asked<'a>> = Vec::new();
    let of_page = |input: &&Input| !matches!(input.from, From::Rule(_));
    for rule in rules.iter().filter_map(|place| set.rules.get(*place)) {
        for input in rule.inputs().into_iter().filter(of_page) {
            let is_same = |of: &Asked<'_>| of.input.selector == input.selector;
            let place = all.iter().position(is_same).unwrap_or_else(|| {
                all.push(Asked { input, by: BTreeSet::new(), all: BTreeSet::new() });
                all.len() - 1
            });
            let matched = input.selector.matchers.iter().map(|matcher| &matcher.label);
            let labels = rule.by.iter().chain(&input.member).chain(matched);
            all[place].by.extend(rule.by.iter().map(String::as_str));
            all[place].all.extend(labels.map(String::as_str).filter(|label| *label != Rule::NODE));
        }
    }
    all
}

/// The nth text that conditions allow, or the last before it; `None` where none of a few likely ones is allowed.
fn fitting(conditions: &[&Condition], nth: usize) -> Option<String> {
    let mut likely: Vec<String> = Vec::new();
    for condition in conditions {
        match condition {
            Condition::Is(text) => likely.push(text.clone()),
            Condition::Matches(pattern) => {
                let pieces = pattern.as_str().split(['|', '(', ')']);
                likely.extend(pieces.map(|piece| piece.replace(".*", "").replace(".+", "x")));
                likely.push(pattern.as_str().to_owned());
            }
            Condition::IsNot(_) | Condition::MatchesNot(_) => {}
        }
    }
    likely.extend(["0", "1", "2", "a", "b"].map(str::to_owned));
    likely.retain(|text| {
        !text.is_empty() && conditions.iter().all(|condition| condition.holds(text))
    });
    likely.dedup();
    likely.get(nth).or(likely.last()).cloned()
}

/// Values in promtool's notation, evenly spaced runs as one.
fn notation(values: &[Option<f64>]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(value) = values.get(at) {
        let Some(value) = value else {
            let missing = values[at..].iter().take_while(|value| value.is_none()).count();
            let after_value = usize::from(at > 0);
            words.extend((after_value > 0).then(|| "stale".to_owned()));
            words.extend((missing > after_value).then(|| format!("_x{}", missing - after_value)));
            at += missing;
            continue;
        };
        let step = values.get(at + 1).copied().flatten().map_or(0.0, |next| next - value);
        let follows = |(place, next): &(usize, &Option<f64>)| {
            **next == Some(value + step * (*place as f64 + 1.0))
        };
        let more = values[at + 1..].iter().enumerate().take_while(follows).count();
        words.push(match more {
            0 => value.to_string(),
            _ if step < 0.0 => format!("{value}-{}x{more}", -step),
            _ => format!("{value}+{step}x{more}"),
        });
        at += more + 1;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_notation() {
        let cases: [(&[Option<f64>], &str); 6] = [
            (&[], ""),
            (&[Some(1.0)], "1"),
            (&[Some(1.0), Some(1.0), Some(1.0)], "1+0x2"),
            (&[Some(1.0), Some(1.5), Some(2.0), Some(2.0)], "1+0.5x2 2"),
            (&[Some(3.0), Some(2.0), None, None, Some(1.0)], "3-1x1 stale _x1 1"),
            (&[None, None, Some(7.0), None], "_x2 7 stale"),
        ];
        for (values, expected) in cases {
            assert_eq!(notation(values), expected, "{values:?}");
        }
    }

    #[test]
    fn texts_that_conditions_allow() {
        let pattern = |text: &str| Condition::Matches(Pattern::new(text).unwrap());
        let cases = [
            (vec![], 0, Some("0")),
            (vec![], 1, Some("1")),
            (vec![Condition::Is("total".into())], 1, Some("total")),
            (vec![pattern("a|b")], 1, Some("b")),
            (vec![pattern("gpu.*")], 0, Some("gpu")),
            (vec![Condition::IsNot("0".into())], 0, Some("1")),
            (vec![pattern("[^0-9a-b]{7}")], 0, None),
        ];
        for (conditions, nth, expected) in cases {
            let of: Vec<&Condition> = conditions.iter().collect();
            assert_eq!(fitting(&of, nth).as_deref(), expected, "{conditions:?}");
        }
    }
}
