//! One result, and how the members at an instant make one.

use wattscribe_rules::engine::Withheld;
use wattscribe_rules::rule::{Function, Require, Rule};
use wattscribe_rules::{State, Window};

use super::number::{highest, lowest, sum};
use crate::history::Labels;

/// When a result is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum When {
    Instant,
    Aligned { start_us: i64, end_us: i64 },
    Named { name: String, window: Window },
}

/// A result and its place.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub settled_us: i64,
    pub when: When,
    pub rule: usize,
    pub node: Option<String>,
    pub labels: Labels,
    pub outcome: Outcome,
}

impl Row {
    pub(crate) fn end_us(&self) -> i64 {
        match &self.when {
            When::Instant => self.settled_us,
            When::Aligned { end_us, .. } => *end_us,
            When::Named { window, .. } => (window.end_s() * 1e6).round() as i64,
        }
    }

    pub(crate) fn start_us(&self) -> Option<i64> {
        match &self.when {
            When::Instant => None,
            When::Aligned { start_us, .. } => Some(*start_us),
            When::Named { window, .. } => Some((window.start_s() * 1e6).round() as i64),
        }
    }

    pub(crate) fn window_name(&self) -> Option<String> {
        match &self.when {
            When::Named { name, .. } => Some(name.clone()),
            When::Instant | When::Aligned { .. } => None,
        }
    }
}

/// What a result says.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub value: Result<f64, (Withheld, State)>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub counter: Option<f64>,
    pub spread: Option<f64>,
    pub coverage: f64,
    pub expected: u32,
    pub reporting: u32,
}

/// One expected member, and its number at the instant or the state it is in instead.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The input that it belongs to, by its place; `of` comes before what is taken from it or divided by.
    pub input: usize,
    pub number: Result<f64, State>,
}

/// How many of a rule's inputs are `of`.
pub(crate) fn wholes(rule: &Rule) -> usize {
    match &rule.function {
        Function::Sum { of, .. } | Function::Max { of, .. } | Function::Min { of, .. } => of.len(),
        _ => 1,
    }
}

/// Whether members are missing: the state of the result then.
pub(crate) fn missing(
    rule: &Rule,
    expected: usize,
    states: &[State],
    inputs: impl IntoIterator<Item = usize>,
) -> Option<State> {
    let reporting = expected - states.len();
    let mut inputs: Vec<usize> = inputs.into_iter().collect();
    inputs.sort_unstable();
    inputs.dedup();
    let all_inputs = match rule.function {
        Function::Residual { .. } | Function::Ratio { .. } | Function::Check { .. } => {
            inputs.len() < rule.inputs().len()
        }
        _ => false,
    };
    let several_inputs = rule.inputs().len() > 1 && wholes(rule) == 1;
    let enough = match rule.require {
        _ if several_inputs => reporting == expected,
        Require::Any => true,
        Require::All => reporting == expected,
        Require::AtLeast(least) => reporting >= least,
    };
    if enough && reporting > 0 && !all_inputs {
        return None;
    }
    let first = states.first().copied().unwrap_or(State::Unavailable);
    Some(if states.iter().all(|state| *state == first) { first } else { State::Unavailable })
}

/// The result of the members at an instant, which stand in the order of their inputs and labels.
pub(crate) fn of_instant(rule: &Rule, members: &[Member]) -> Outcome {
    let numbers = |input: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let of = members.iter().filter(|member| input(member.input));
        of.filter_map(|member| member.number.ok()).collect()
    };
    let whole = numbers(&|input| input < wholes(rule));
    let states: Vec<State> = members.iter().filter_map(|member| member.number.err()).collect();
    let (expected, reporting) = (members.len(), members.len() - states.len());
    let mean = whole.iter().sum::<f64>() / whole.len() as f64;
    let span = highest(&whole) - lowest(&whole);
    let has_spread = whole.len() >= 2 && mean > 0.0;
    let value = match missing(rule, expected, &states, members.iter().map(|m| m.input)) {
        Some(state) => Err((Withheld::Members, state)),
        None => match &rule.function {
            Function::Mean { .. } => Ok(mean),
            Function::Sum { .. } => Ok(sum(&whole)),
            Function::Max { .. } => Ok(highest(&whole)),
            Function::Min { .. } => Ok(lowest(&whole)),
            Function::Residual { less, .. } => {
                let mut terms = vec![sum(&whole)];
                terms.extend((1..=less.len()).map(|part| -sum(&numbers(&|input| input == part))));
                Ok(sum(&terms))
            }
            Function::Ratio { .. } => match sum(&numbers(&|input| input == 1)) {
                0.0 => Err((Withheld::Denominator, State::Unavailable)),
                denominator => Ok(sum(&whole) / denominator),
            },
            Function::Quantile { .. }
            | Function::Integrate { .. }
            | Function::Increase { .. }
            | Function::Check { .. } => panic!("{} has windows", rule.name),
        },
    };
    let value = value.and_then(|value| {
        let limit = rule.withhold.spread_above;
        let beyond = limit.is_some_and(|limit| span > limit * mean * (1.0 + 1e-12));
        if has_spread && beyond { Err((Withheld::Spread, State::Disagree)) } else { Ok(value) }
    });
    Outcome {
        value: value.and_then(|value| in_bounds(rule, value)),
        low: None,
        high: None,
        counter: None,
        spread: has_spread.then(|| span / mean),
        coverage: reporting as f64 / expected as f64,
        expected: expected as u32,
        reporting: reporting as u32,
    }
}

/// A value, unless it cannot be.
pub(crate) fn in_bounds(rule: &Rule, value: f64) -> Result<f64, (Withheld, State)> {
    let below = rule.withhold.below.is_some_and(|least| value < least);
    let above = rule.withhold.above.is_some_and(|most| value > most);
    if below || above || !value.is_finite() {
        Err((Withheld::OutOfBounds, State::Implausible))
    } else {
        Ok(value)
    }
}
