//! Alerts on what the rules withhold: a module whose GPUs disagree, a sum that is not there, energy that its counter
//! contradicts.

use std::time::Duration;

use crate::promql::Options;
use crate::promql::expression::Parts;
use crate::promql::file::{Alert, Entry, What};
use crate::promql::labels::{Labels, quoted};
use crate::rule::{Function, Over, Rule, RuleSet};

/// Shorter troubles are not worth a message: a load that changes is seen by two sensors one after the other.
const SPREAD_FOR: Duration = Duration::from_secs(60);

/// A member that misses a scrape or two is back by then.
const WITHHELD_FOR: Duration = Duration::from_secs(120);

pub(super) fn of_rule(
    rule: &Rule,
    set: &RuleSet,
    parts: &Parts,
    groups: &str,
    labels: &Labels,
    options: &Options,
) -> Vec<Entry> {
    let place = place(rule, labels);
    let alert = |name, expression, hold, summary: &str, description: &str| Entry {
        comment: Vec::new(),
        what: What::Alert(Alert {
            name,
            expression,
            hold,
            severity: "warning",
            rule: rule.name.clone(),
            summary: format!("{place}{summary}"),
            description: description.to_owned(),
        }),
    };
    let mut alerts = Vec::new();
    if let Some(above) = rule.withhold.spread_above {
        alerts.push(alert(
            "PowerMembersDisagree",
            parts.spread(rule, above),
            SPREAD_FOR,
            &format!("members of {} differ by more than {} % of their mean", rule.name, percent(above)),
            "What should be one number several times is not, so there is no value. A load that changes does this for a \
             moment; a minute of it does not come from a load.",
        ));
    }
    if let Function::Sum { .. } = rule.function {
        let by = labels.on(&rule.by);
        let mut expression = format!("{groups}\nunless {by} {}", rule.name);
        if rule.is_of_node() {
            // Of a target that is no longer scraped nobody expects a sum.
            let (up, on) = (
                format!("up{{job=~{}}}", quoted(&options.jobs)),
                labels.on(&[Rule::NODE.to_owned()]),
            );
            expression += &format!("\nand {on} {up}");
        }
        alerts.push(alert(
            "PowerSumWithheld",
            expression,
            withheld_for(rule, set),
            &format!("{} is withheld", rule.name),
            "A member does not report, or a target never answered. A sum over the others would look like one over all.",
        ));
    }
    if let Function::Check { .. } = rule.function {
        alerts.push(alert(
            "PowerCounterDisagrees",
            parts.contradiction(),
            contradiction_for(rule),
            &format!("{}: the energy counter and the power differ by more than 5 %", rule.name),
            "One of the two is wrong, or the power moved between scrapes as no scrape shows.",
        ));
    }
    alerts
}

/// A part as it was written, without what a double has behind.
fn percent(part: f64) -> f64 {
    (part * 1e8).round() / 1e6
}

/// Two windows in a row.
fn contradiction_for(rule: &Rule) -> Duration {
    match rule.over() {
        Some(Over::Aligned { every, .. }) => *every,
        _ => Duration::ZERO,
    }
}

/// Windows are there once in their interval only.
fn withheld_for(rule: &Rule, set: &RuleSet) -> Duration {
    match rule.over() {
        Some(Over::Aligned { every, .. }) => WITHHELD_FOR + *every * 2 + set.timing.gap,
        _ => WITHHELD_FOR,
    }
}

/// Which group an alert is about, in words.
fn place(rule: &Rule, labels: &Labels) -> String {
    let names = rule.by.iter().map(|label| {
        let name = labels.name(label);
        match label == Rule::NODE {
            true => format!("{{{{ $labels.{name} }}}}"),
            false => format!("{label} {{{{ $labels.{name} }}}}"),
        }
    });
    let mut names: Vec<String> = names.collect();
    names.sort_by_key(|name| !name.starts_with('{'));
    match names.is_empty() {
        true => String::new(),
        false => format!("{}: ", names.join(", ")),
    }
}
