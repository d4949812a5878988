//! One result in words: its value, its members with their readings, and why one does not count.

use std::fmt::Write as _;

use wattscribe_rules::State;
use wattscribe_rules::engine::{Explanation, Found, LeftOut, Part};
use wattscribe_rules::rule::{Function, Rule};

use crate::time::utc;

/// One result and its parts.
pub(super) fn push(text: &mut String, rule: &Rule, explanation: &Explanation) {
    let Explanation { result, parts } = explanation;
    let node = result.node.as_deref().map(|node| format!("node=\"{node}\""));
    let labels = Some(&*result.labels).filter(|labels| !labels.is_empty()).map(str::to_owned);
    let labels: Vec<String> = node.into_iter().chain(labels).collect();
    let seconds = |us: i64| utc(us as f64 / 1e6);
    let when = match result.start_us {
        Some(start_us) => format!("from {} to {}", seconds(start_us), seconds(result.at_us)),
        None => format!("at {}", seconds(result.at_us)),
    };
    let value = match (result.value, result.withheld) {
        (Some(value), _) => format!("{value} {}", rule.unit),
        (None, Some(reason)) => format!("withheld: {reason} ({})", result.state),
        (None, None) => format!("withheld ({})", result.state),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}{{{}}} {when}\n  {value}", rule.name, labels.join(","));
    let _ = write!(
        text,
        "  {} of {} members, coverage {:.1} %",
        result.members_reporting,
        result.members_expected,
        result.coverage * 100.0
    );
    if let Some(spread) = result.spread {
        let _ = write!(text, ", spread {:.3} %", spread * 100.0);
    }
    if let (Some(low), Some(high)) = (result.low, result.high) {
        let _ = write!(text, ", between {low} and {high}");
    }
    if let Some(counter) = result.counter {
        let _ = write!(text, ", counter {counter}");
    }
    text.push('\n');
    for part in parts {
        let _ = writeln!(text, "    {}", line(rule, part, result.at_us));
    }
}

/// What a part gave, and why it does not count where it does not.
fn line(rule: &Rule, part: &Part, at_us: i64) -> String {
    let inputs = rule.inputs();
    let input = inputs.get(part.input).copied();
    let unit = input.map_or("", |input| &input.unit);
    let selector = input.map(|input| input.selector.to_string()).unwrap_or_default();
    let found = match part.found {
        Found::NoMember => return format!("no member of {selector} in this group"),
        Found::TooMany { members } => {
            return format!(
                "{members} members of {selector}, {} takes one",
                rule.function.as_str()
            );
        }
        Found::NotYet => "not read yet: not expected".to_owned(),
        Found::Reading { at_us: read_us, scrape, value, left_out } => {
            let before_s = at_us.saturating_sub(read_us) as f64 / 1e6;
            let because = left_out.map(|reason| format!(", left out: {}", words(reason)));
            let because = because.unwrap_or_default();
            if scrape == 0 && before_s > 1e9 {
                format!("read before the tail of the recording{because}")
            } else {
                let value = number(value, unit);
                format!("{value}, {before_s:.3} s before, scrape {scrape}{because}")
            }
        }
        Found::Result(value) => number(value, unit),
        window @ Found::Window { .. } => over_window(rule, part.input, unit, window),
        Found::Unknown => "never gave a page: it may be a node with anything".to_owned(),
    };
    let node = part.node.as_deref().map(|node| format!("node=\"{node}\""));
    let labels = Some(&*part.labels).filter(|labels| !labels.is_empty()).map(str::to_owned);
    let labels: Vec<String> = node.into_iter().chain(labels).collect();
    format!("{}{{{}}}  {found}", part.metric, labels.join(","))
}

/// What a member gave over a window.
fn over_window(rule: &Rule, input: usize, unit: &str, found: Found) -> String {
    let Found::Window { value, bounds, covered_s, readings, restarted } = found else {
        return String::new();
    };
    let unit = match rule.function {
        Function::Integrate { .. } => rule.unit.as_str(),
        Function::Check { .. } if input == 0 => rule.unit.as_str(),
        _ => unit,
    };
    let is_counter = match rule.function {
        Function::Increase { .. } => true,
        Function::Check { .. } => input > 0,
        _ => false,
    };
    let because = match value {
        _ if restarted => ", the counter began anew in the window",
        Err(_) if is_counter => ", no readings within gap on both sides of each edge of the window",
        _ => "",
    };
    let value = number(value, unit);
    let bounds = bounds.map(|(low, high)| format!(", between {low} and {high} {unit}"));
    let bounds = bounds.unwrap_or_default();
    format!("{value}{bounds}, {covered_s:.3} s covered, {readings} readings{because}")
}

fn number(value: Result<f64, State>, unit: &str) -> String {
    match value {
        Ok(number) if unit == "1" => format!("{number}"),
        Ok(number) => format!("{number} {unit}"),
        Err(state) => format!("no number ({state})"),
    }
}

fn words(reason: LeftOut) -> String {
    match reason {
        LeftOut::Stale => "older than look_back".to_owned(),
        LeftOut::ScrapeFailed => "a later scrape failed".to_owned(),
        LeftOut::NotOnPage => "a later page lacks it".to_owned(),
        LeftOut::Twice => "its page has two readings of this member".to_owned(),
        LeftOut::Withheld(state) => format!("it came as {state}"),
        LeftOut::NoNumber => "no number that can be".to_owned(),
        LeftOut::Superseded => "a later scrape has the member's reading".to_owned(),
    }
}
