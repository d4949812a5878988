//! The members of an input as series of Prometheus: which are expected, and what each of them reads.
//!
//! Inputs that take the same series for the same groups share them. `member:METRIC:expected` is when a member was seen
//! last; it carries itself on from one evaluation to the next, so that what is gone stays expected without a range over
//! all that time. `member:METRIC:reading` has a value where the member reports.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::boundary::Boundary;
use crate::promql::Options;
use crate::promql::file::{Entry, What};
use crate::promql::labels::{Labels, quoted};
use crate::promql::over_time::{Gathers, Windows};
use crate::rule::selector::{Condition, Matcher};
use crate::rule::{From, Function, Input, Rule, RuleSet, duration};

/// How long Prometheus may be away without forgetting who is expected.
const AWAY: Duration = Duration::from_secs(900);

/// From here on a number is no power of a socket, and the recorder leaves it out.
const SENTINELS_FROM_W: &str = "1e6";

/// What is known of members, and the rules that make them.
#[derive(Debug)]
pub(super) struct Members<'a> {
    set: &'a RuleSet,
    options: &'a Options,
    pub(super) labels: Labels,
    known: Vec<(Key, String)>,
    names: BTreeSet<String>,
}

/// What a helping series is of.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Expected(String, BTreeSet<String>),
    Reading(String, BTreeSet<String>),
    Over(String, BTreeSet<String>, Gathers, Duration, Duration, u64),
    Answered,
}

impl<'a> Members<'a> {
    pub(super) fn new(set: &'a RuleSet, options: &'a Options) -> Members<'a> {
        Members {
            set,
            options,
            labels: Labels::new(&options.node_label),
            known: Vec::new(),
            names: set.rules.iter().map(|rule| rule.name.clone()).collect(),
        }
    }

    /// One series for each member of an input that reports, for a rule of instants or one that takes results of windows.
    pub(super) fn reading(
        &mut self,
        rule: &Rule,
        input: &Input,
        entries: &mut Vec<Entry>,
    ) -> String {
        let selector = self.selector(input);
        if let From::Rule(_) = input.from {
            return selector;
        }
        let labels = told_apart(rule, input);
        let key = Key::Reading(selector.clone(), labels.clone());
        if let Some(name) = self.find(&key) {
            return name;
        }
        let by = self.labels.by(&labels);
        let sound = format!("{selector} {}", bounds(input));
        let expression = match zone(input) {
            // The zones of a package count together or not at all.
            true => {
                let expected = self.expected_series(rule, input, entries);
                format!("sum {by} ({sound})\nand count {by} ({sound}) == count {by} ({expected})")
            }
            false => format!("sum {by} ({sound})\nunless count {by} ({selector}) > 1"),
        };
        let name = self.name(key, "member", &input.selector.metric, "reading");
        entries.push(helper(&name, expression));
        name
    }

    /// One series for each member of an input that reports over a window.
    pub(super) fn over_time(
        &mut self,
        rule: &Rule,
        input: &Input,
        (gathers, windows): (Gathers, Windows),
        (instants, entries): (&mut Vec<Entry>, &mut Vec<Entry>),
    ) -> String {
        let selector = self.selector(input);
        let labels = told_apart(rule, input);
        let Windows { every, length, .. } = windows;
        let readings_min = if gathers == Gathers::Gain { 0 } else { windows.readings_min };
        let key = Key::Over(selector.clone(), labels.clone(), gathers, every, length, readings_min);
        if let Some(name) = self.find(&key) {
            return name;
        }
        let (metric, operation) =
            (input.selector.metric.replace(':', "_"), gathers.operation(&windows));
        let by_series = windows.expression(&selector, input, gathers);
        if let From::Rule(_) = input.from {
            let name = self.name(key, "member", &metric, &operation);
            entries.push(helper(&name, by_series));
            return name;
        }
        let name = self.name(key, "member", &metric, &operation);
        let series = name.replacen("member", "series", 1);
        entries.push(helper(&series, by_series));
        let by = self.labels.by(&labels);
        let whole = match zone(input) {
            true => {
                let expected = self.expected_series(rule, input, instants);
                format!("and count {by} ({series}) == count {by} ({expected})")
            }
            false => format!("unless count {by} ({series}) > 1"),
        };
        entries.push(helper(&name, format!("sum {by} ({series})\n{whole}")));
        name
    }

    /// One series for each member of an input that is expected.
    pub(super) fn expected(
        &mut self,
        rule: &Rule,
        input: &Input,
        entries: &mut Vec<Entry>,
    ) -> String {
        self.expected_where(rule, input, &[], entries)
    }

    /// One series for each group of a rule that has results.
    pub(super) fn groups(&mut self, rule: &Rule, entries: &mut Vec<Entry>) -> String {
        self.groups_where(rule, &[], entries)
    }

    fn groups_where(
        &mut self,
        rule: &Rule,
        matchers: &[Matcher],
        entries: &mut Vec<Entry>,
    ) -> String {
        let leading = match rule.function {
            Function::Residual { .. } | Function::Ratio { .. } | Function::Check { .. } => 1,
            _ => rule.inputs().len(),
        };
        let inputs = rule.inputs().into_iter().take(leading);
        let expected: Vec<String> =
            inputs.map(|input| self.expected_where(rule, input, matchers, entries)).collect();
        format!("group {} ({})", self.labels.by(&rule.by), expected.join(" or "))
    }

    fn expected_where(
        &mut self,
        rule: &Rule,
        input: &Input,
        matchers: &[Matcher],
        entries: &mut Vec<Entry>,
    ) -> String {
        let From::Rule(above) = input.from else {
            let name = self.expected_series(rule, input, entries);
            let series = self.labels.selector(&name, matchers);
            return match zone(input) {
                true => format!("group {} ({series})", self.labels.by(&told_apart(rule, input))),
                false => series,
            };
        };
        let set = self.set;
        let all: Vec<Matcher> = input.selector.matchers.iter().chain(matchers).cloned().collect();
        match set.rules.get(above) {
            Some(above) => self.groups_where(above, &all, entries),
            None => String::new(),
        }
    }

    /// The series that knows the members, or their zones.
    fn expected_series(&mut self, rule: &Rule, input: &Input, entries: &mut Vec<Entry>) -> String {
        let selector = self.selector(input);
        let mut labels = told_apart(rule, input);
        if zone(input) {
            labels.insert("zone".to_owned());
        }
        let key = Key::Expected(selector.clone(), labels.clone());
        if let Some(name) = self.find(&key) {
            return name;
        }
        let name = self.name(key, "member", &input.selector.metric, "expected");
        let by = self.labels.by(&labels);
        let seen = [Some(selector), self.described(input)].into_iter().flatten();
        let mut lines: Vec<String> = seen.map(|of| format!("time() * group {by} ({of})")).collect();
        lines.push(self.carried(&name));
        entries.push(helper(&name, lines.join("\nor ")));
        name
    }

    /// Targets that never answered, as far as is remembered.
    pub(super) fn silent(&mut self, entries: &mut Vec<Entry>) -> String {
        let node = [Rule::NODE.to_owned()];
        let up = format!("up{{job=~{}}}", quoted(&self.options.jobs));
        let name = self.find(&Key::Answered).unwrap_or_else(|| {
            let name = self.name(Key::Answered, "member", "up", "answered");
            let seen = format!("time() * group {} ({up} == 1)", self.labels.by(&node));
            entries.push(helper(&name, format!("{seen}\nor {}", self.carried(&name))));
            name
        });
        format!("{up} unless {} {name}", self.labels.on(&node))
    }

    fn carried(&self, name: &str) -> String {
        let remember_s = self.options.remember.as_secs();
        format!("last_over_time({name}[{}]) > time() - {remember_s}", duration::text(AWAY))
    }

    /// The members that our exporter describes, whether or not it can read them.
    fn described(&self, input: &Input) -> Option<String> {
        let metric = input.selector.metric.as_str();
        let describes = |source: &str, matchers: &[Matcher]| {
            let source =
                Matcher { label: "source".to_owned(), condition: Condition::Is(source.to_owned()) };
            let matchers: Vec<Matcher> =
                std::iter::once(source).chain(matchers.iter().cloned()).collect();
            self.labels.selector("power_sensor_info", &matchers)
        };
        let renamed = |info: String, from: &str, to: &str| {
            format!(r#"label_replace({info}, "{to}", "$1", "{from}", "(.*)")"#)
        };
        match (metric, input.boundary) {
            ("cpu_power_acpi_watts", Boundary::SocketTotal) => {
                Some(describes("acpi", &input.selector.matchers))
            }
            ("cpu_power_rapl_watts", Boundary::Package) => {
                Some(renamed(describes("rapl", &input.selector.matchers), "channel", "zone"))
            }
            ("cpu_power_dcgm_watts", Boundary::CpuRail) => {
                // The field that reads the rail of the cores; the description has no number of it.
                let others = input.selector.matchers.iter().filter(|of| of.label != "field_id");
                let rail = Matcher {
                    label: "type".to_owned(),
                    condition: Condition::Is("cpu_rail".to_owned()),
                };
                let matchers: Vec<Matcher> = std::iter::once(rail).chain(others.cloned()).collect();
                let info = describes("dcgm", &matchers);
                Some(format!(r#"label_replace({info}, "field_id", "1130", "", "")"#))
            }
            _ => None,
        }
    }

    fn selector(&self, input: &Input) -> String {
        self.labels.selector(&input.selector.metric, &input.selector.matchers)
    }

    fn find(&self, key: &Key) -> Option<String> {
        self.known.iter().find(|(known, _)| known == key).map(|(_, name)| name.clone())
    }

    /// A name that nothing else has.
    fn name(&mut self, key: Key, level: &str, metric: &str, operation: &str) -> String {
        let first = format!("{level}:{metric}:{operation}");
        let others = (2..).map(|number| format!("{first}_{number}"));
        let free = |name: &String| !self.names.contains(name);
        let name = std::iter::once(first.clone()).chain(others).find(free).unwrap_or(first);
        self.names.insert(name.clone());
        self.known.push((key, name.clone()));
        name
    }
}

/// The labels that tell the members of all groups apart.
fn told_apart(rule: &Rule, input: &Input) -> BTreeSet<String> {
    rule.by.iter().chain(&input.member).cloned().collect()
}

/// Whether a member is one or several powercap zones: a package of several dies has a zone for each.
fn zone(input: &Input) -> bool {
    matches!(input.selector.metric.as_str(), "cpu_power_rapl_watts" | "cpu_energy_joules_total")
}

/// What a number must be.
fn bounds(input: &Input) -> String {
    let least = if input.zero_is_missing { "0" } else { "-Inf" };
    let is_of_socket = input.from == From::Sockets && input.zero_is_missing;
    format!("> {least} < {}", if is_of_socket { SENTINELS_FROM_W } else { "Inf" })
}

fn helper(name: &str, expression: String) -> Entry {
    Entry { comment: Vec::new(), what: What::Record(name.to_owned(), expression) }
}
