//! What the members of a group come to: the value of a rule's function, or why there is none.
//!
//! Pure: it knows no series, no scrape and no time. At an instant a member gives a number; over a window it gives an
//! energy with its bounds, how far its counter moved, or a percentile. The functions are the same.

use crate::compensated::Compensated;
use crate::disagree::Spread;
use crate::energy::COUNTER_DISAGREEMENT_MAX;
use crate::engine::derived::Withheld;
use crate::residual::remainder;
use crate::rule::{Function, Require, Rule};
use crate::state::State;

/// What one expected member gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Given {
    /// The number, or the state of what is missing.
    pub(crate) value: Result<f64, State>,
    /// The least and the greatest that the energy can be.
    pub(crate) bounds: Option<(f64, f64)>,
    /// What it covers, in the unit of `whole` of its [`Scope`].
    pub(crate) covered: f64,
    /// Whether it is a counter that began anew: it reports, and has no number.
    pub(crate) restarted: bool,
}

impl Given {
    pub(crate) const fn missing(state: State) -> Given {
        Given { value: Err(state), bounds: None, covered: 0.0, restarted: false }
    }

    /// A number at an instant, or why there is none.
    pub(crate) const fn at_instant(value: Result<f64, State>) -> Given {
        let covered = if value.is_ok() { 1.0 } else { 0.0 };
        Given { value, bounds: None, covered, restarted: false }
    }

    const fn reports(&self) -> bool {
        self.value.is_ok() || self.restarted
    }
}

/// Of what a result is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scope {
    Instant,
    /// Of a window; `whole` is what a member covers that covers all of it.
    Window {
        whole: f64,
    },
}

/// A result without its place in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) value: Result<f64, (State, Withheld)>,
    pub(crate) bounds: Option<(f64, f64)>,
    pub(crate) counter: Option<f64>,
    pub(crate) spread: Option<f64>,
    pub(crate) coverage: f64,
    pub(crate) expected: usize,
    pub(crate) reporting: usize,
}

impl Outcome {
    /// As a rule that takes this result sees it.
    pub(crate) fn given(&self) -> Given {
        Given {
            value: self.value.map_err(|(state, _)| state),
            bounds: self.bounds.filter(|_| self.value.is_ok()),
            covered: self.coverage,
            restarted: false,
        }
    }
}

/// Works out a rule over the expected members of each of its inputs, in order.
pub(crate) fn outcome(rule: &Rule, inputs: &[Vec<Given>], scope: Scope) -> Outcome {
    let members = || inputs.iter().flatten();
    let (expected, reporting) =
        (members().count(), members().filter(|given| given.reports()).count());
    let enough = is_enough(rule, inputs, expected, reporting);
    let counter = match rule.function {
        Function::Check { .. } => match inputs.get(1).map(Vec::as_slice) {
            Some([of_one]) => of_one.value.ok(),
            _ => None,
        },
        _ => None,
    };
    let spread = spread(rule, inputs, scope);
    let coverage = match scope {
        Scope::Instant => reporting as f64 / expected as f64,
        Scope::Window { whole } => coverage(rule, inputs, whole),
    };
    let bounds = if enough { bounds(rule, inputs) } else { None };
    let outcome = Outcome {
        value: Err((shared_state(members()), Withheld::Members)),
        bounds,
        counter,
        spread: spread.and_then(|spread| spread.relative()),
        coverage,
        expected,
        reporting,
    };
    if !enough {
        return outcome;
    }
    let value = guarded(rule, inputs, spread, &outcome);
    Outcome { value, ..outcome }
}

/// The value, unless something in the order of the guards withholds it.
fn guarded(
    rule: &Rule,
    inputs: &[Vec<Given>],
    spread: Option<Spread>,
    outcome: &Outcome,
) -> Result<f64, (State, Withheld)> {
    let value = value(rule, inputs)?;
    let withhold = rule.withhold;
    let is_check = matches!(rule.function, Function::Check { .. });
    let coverage_min = if is_check { Some(1.0) } else { withhold.coverage_below };
    if coverage_min.is_some_and(|least| outcome.coverage < least) {
        return Err((State::Unavailable, Withheld::Coverage));
    }
    let contradicts = || is_check && !bears_out(outcome.counter, outcome.bounds);
    if inputs.iter().flatten().any(|given| given.restarted) || contradicts() {
        return Err((State::Disagree, Withheld::Counter));
    }
    if spread.zip(withhold.spread_above).is_some_and(|(spread, most)| spread.exceeds(most)) {
        return Err((State::Disagree, Withheld::Spread));
    }
    let is_beyond = withhold.below.is_some_and(|least| value < least)
        || withhold.above.is_some_and(|most| value > most);
    if is_beyond || !value.is_finite() {
        return Err((State::Implausible, Withheld::OutOfBounds));
    }
    Ok(value)
}

/// What the function makes of members that are enough. Where a guard that comes later has to withhold the result, the
/// value is whatever is there.
fn value(rule: &Rule, inputs: &[Vec<Given>]) -> Result<f64, (State, Withheld)> {
    let all = || inputs.iter().flat_map(|input| numbers(input));
    let sum =
        |number: usize| total(inputs.get(number).into_iter().flat_map(|input| numbers(input)));
    Ok(match &rule.function {
        Function::Mean { .. } => Spread::of(all()).map_or(0.0, |spread| spread.mean),
        Function::Sum { .. } | Function::Integrate { .. } | Function::Increase { .. } => {
            total(all())
        }
        Function::Max { .. } => all().fold(f64::NEG_INFINITY, f64::max),
        Function::Min { .. } => all().fold(f64::INFINITY, f64::min),
        Function::Residual { .. } => remainder(sum(0), (1..inputs.len()).map(sum)),
        Function::Ratio { .. } if sum(1) == 0.0 => {
            return Err((State::Unavailable, Withheld::Denominator));
        }
        Function::Ratio { .. } => sum(0) / sum(1),
        Function::Quantile { .. } | Function::Check { .. } => sum(0),
    })
}

fn numbers(input: &[Given]) -> impl Iterator<Item = f64> + '_ {
    input.iter().filter_map(|given| given.value.ok())
}

fn total(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.collect::<Compensated>().total()
}

/// Whether so many report as the rule requires.
fn is_enough(rule: &Rule, inputs: &[Vec<Given>], expected: usize, reporting: usize) -> bool {
    let is_of_all = matches!(
        rule.function,
        Function::Residual { .. } | Function::Ratio { .. } | Function::Check { .. }
    );
    if is_of_all && inputs.iter().any(Vec::is_empty) {
        return false;
    }
    if is_of_one_member(&rule.function) && inputs.iter().any(|input| input.len() > 1) {
        return false;
    }
    let required = match rule.require {
        _ if is_of_all => expected,
        Require::All => expected,
        Require::Any => 1,
        Require::AtLeast(least) => least,
    };
    reporting >= required.max(1)
}

/// Whether a function takes one member of each input.
pub(super) const fn is_of_one_member(function: &Function) -> bool {
    match function {
        Function::Quantile { .. } | Function::Check { .. } => true,
        Function::Max { over, .. } | Function::Min { over, .. } => over.is_some(),
        _ => false,
    }
}

/// The state that all missing members share.
fn shared_state<'a>(members: impl Iterator<Item = &'a Given>) -> State {
    let mut missing =
        members.filter(|given| !given.reports()).filter_map(|given| given.value.err());
    match missing.next() {
        Some(state) if missing.all(|other| other == state) => state,
        Some(_) | None => State::Unavailable,
    }
}

/// How far apart the members are that make the result, where there are two or more at an instant.
fn spread(rule: &Rule, inputs: &[Vec<Given>], scope: Scope) -> Option<Spread> {
    let compared = match rule.function {
        Function::Residual { .. } | Function::Ratio { .. } => inputs.get(..1)?,
        _ => inputs,
    };
    let spread = Spread::of(compared.iter().flat_map(|input| numbers(input)))?;
    (scope == Scope::Instant && spread.members > 1).then_some(spread)
}

/// What is covered of a window, where a member that covers all of it covers `whole`.
fn coverage(rule: &Rule, inputs: &[Vec<Given>], whole: f64) -> f64 {
    let of = match rule.function {
        Function::Check { .. } => inputs.get(..1).unwrap_or_default(),
        _ => inputs,
    };
    let members: usize = of.iter().map(Vec::len).sum();
    if of.iter().flatten().all(|given| given.covered == whole) {
        return if members == 0 { 0.0 } else { 1.0 };
    }
    (total(of.iter().flatten().map(|given| given.covered)) / (whole * members as f64)).min(1.0)
}

/// The sums of the least and of the greatest energies, where every member that reports has them.
fn bounds(rule: &Rule, inputs: &[Vec<Given>]) -> Option<(f64, f64)> {
    let of = match rule.function {
        Function::Check { .. } => inputs.get(..1)?,
        Function::Integrate { .. } | Function::Sum { .. } => inputs,
        _ => return None,
    };
    let (mut low, mut high) = (Compensated::default(), Compensated::default());
    for given in of.iter().flatten().filter(|given| given.value.is_ok()) {
        let (least, greatest) = given.bounds?;
        low.add(least);
        high.add(greatest);
    }
    Some((low.total(), high.total()))
}

/// Whether a counter lies within the bounds of an energy, or outside by no more than 5 % of itself.
fn bears_out(counter: Option<f64>, bounds: Option<(f64, f64)>) -> bool {
    counter.zip(bounds).is_some_and(|(counter, (low, high))| {
        let outside = (low - counter).max(counter - high);
        outside <= COUNTER_DISAGREEMENT_MAX * counter
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{self, RuleSet};

    /// One rule by its function and what else it says, over metrics that can be zero.
    fn rule(text: &str) -> Rule {
        let file = format!(
            "wattscribe_rules: 1\ninputs:\n  - {{metric: a, boundary: node, unit: W, averaging: instant}}\n  \
             - {{metric: b, boundary: module, unit: W, averaging: instant}}\n  \
             - {{metric: c, boundary: node, unit: J, averaging: difference}}\n\
             rules:\n  - {{name: a:b:c, by: [node], {text}}}\n"
        );
        let RuleSet { mut rules, .. } = rule::read(&file).unwrap();
        rules.remove(0)
    }

    fn given(members: &[&[Result<f64, State>]]) -> Vec<Vec<Given>> {
        let of = |input: &&[Result<f64, State>]| -> Vec<Given> {
            input.iter().copied().map(Given::at_instant).collect()
        };
        members.iter().map(of).collect()
    }

    #[test]
    fn at_an_instant() {
        use State::{Denied, Disagree, Implausible, Stale, Unavailable};
        const W: &str = "boundary: node, unit: W";
        type Expected = Result<f64, (State, Withheld)>;
        type Case<'a> = (&'a str, &'a [&'a [Result<f64, State>]], Expected);
        let (members, beyond) = (Withheld::Members, Withheld::OutOfBounds);
        let cases: &[Case<'_>] = &[
            ("function: mean, of: a", &[&[Ok(1.0), Ok(4.0)]], Ok(2.5)),
            ("function: mean, of: a", &[&[Ok(1.0), Err(Stale)]], Ok(1.0)),
            ("function: mean, of: a", &[&[Err(Stale), Err(Stale)]], Err((Stale, members))),
            ("function: mean, of: a", &[&[Err(Denied), Err(Stale)]], Err((Unavailable, members))),
            ("function: sum, of: a", &[&[Ok(1e16), Ok(1.0), Ok(1.0)]], Ok(1e16 + 2.0)),
            ("function: sum, of: a", &[&[Ok(1.0), Err(Denied)]], Err((Denied, members))),
            ("function: sum, of: a", &[&[Ok(1e308), Ok(1e308)]], Err((Implausible, beyond))),
            (
                "function: sum, of: a, require: at least 2",
                &[&[Ok(1.0), Ok(2.0), Err(Stale)]],
                Ok(3.0),
            ),
            (
                "function: sum, of: a, require: at least 2",
                &[&[Ok(1.0)]],
                Err((Unavailable, members)),
            ),
            ("function: max, of: a", &[&[Ok(-1.0), Ok(-4.0)]], Ok(-1.0)),
            ("function: min, of: a", &[&[Ok(-1.0), Ok(-4.0)]], Ok(-4.0)),
            ("function: max, of: a, withhold: {above: 5}", &[&[Ok(5.0)]], Ok(5.0)),
            (
                "function: max, of: a, withhold: {above: 5}",
                &[&[Ok(5.1)]],
                Err((Implausible, beyond)),
            ),
            (
                "function: min, of: a, withhold: {below: 0}",
                &[&[Ok(-0.1)]],
                Err((Implausible, beyond)),
            ),
            (
                "function: mean, of: a, withhold: {spread_above: 5%}",
                &[&[Ok(487.5), Ok(512.5)]],
                Ok(500.0),
            ),
            (
                "function: mean, of: a, withhold: {spread_above: 5%}",
                &[&[Ok(487.5), Ok(512.6)]],
                Err((Disagree, Withheld::Spread)),
            ),
        ];
        for (text, inputs, expected) in cases {
            let found = outcome(&rule(&format!("{text}, {W}")), &given(inputs), Scope::Instant);
            assert_eq!(found.value, *expected, "{text} {inputs:?}");
        }
    }

    #[test]
    fn of_several_inputs() {
        let rest = rule("function: residual, of: a, less: [b], boundary: rest, unit: W");
        let share = rule("function: ratio, of: a, to: b, boundary: module, unit: '1'");
        let missing = Err((State::Unavailable, Withheld::Members));
        let zero = Err((State::Unavailable, Withheld::Denominator));
        type Expected = Result<f64, (State, Withheld)>;
        type Case<'a> = (&'a Rule, &'a [&'a [Result<f64, State>]], Expected);
        let cases: &[Case<'_>] = &[
            (&rest, &[&[Ok(10.0)], &[Ok(3.0), Ok(4.0)]], Ok(3.0)),
            (&rest, &[&[Ok(10.0)], &[]], missing),
            (
                &rest,
                &[&[Ok(10.0)], &[Ok(3.0), Err(State::Stale)]],
                Err((State::Stale, Withheld::Members)),
            ),
            (&share, &[&[Ok(10.0), Ok(2.0)], &[Ok(4.0)]], Ok(3.0)),
            (&share, &[&[Ok(10.0)], &[Ok(2.0), Ok(-2.0)]], zero),
        ];
        for (rule, inputs, expected) in cases {
            let found = outcome(rule, &given(inputs), Scope::Instant);
            assert_eq!(found.value, *expected, "{inputs:?}");
        }
    }

    #[test]
    fn a_counter_bears_out_an_energy() {
        let check =
            rule("function: check, of: a, against: c, over: {every: 1m}, boundary: node, unit: J");
        let contradicted = Err((State::Disagree, Withheld::Counter));
        let energy = |covered| Given {
            value: Ok(100.0),
            bounds: Some((90.0, 110.0)),
            covered,
            restarted: false,
        };
        let counter = |value: f64, restarted: bool| Given {
            value: if restarted { Err(State::Unavailable) } else { Ok(value) },
            bounds: None,
            covered: 60.0,
            restarted,
        };
        let uncovered = Err((State::Unavailable, Withheld::Coverage));
        let cases = [
            (60.0, counter(100.0, false), Ok(100.0)),
            // 110 J are 5 % less than 115.789 J, and 90 J 5 % more than 85.714 J.
            (60.0, counter(115.7, false), Ok(100.0)),
            (60.0, counter(115.9, false), contradicted),
            (60.0, counter(85.8, false), Ok(100.0)),
            (60.0, counter(85.6, false), contradicted),
            (60.0, counter(0.0, true), contradicted),
            (59.0, counter(500.0, false), uncovered),
        ];
        for (covered, against, expected) in cases {
            let inputs = [vec![energy(covered)], vec![against]];
            let found = outcome(&check, &inputs, Scope::Window { whole: 60.0 });
            assert_eq!(found.value, expected, "{against:?}");
            assert_eq!(found.bounds, Some((90.0, 110.0)));
            assert_eq!((found.expected, found.reporting), (2, 2));
        }
    }
}
