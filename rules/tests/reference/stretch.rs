//! The result of one group for one window.

use wattscribe_rules::State;
use wattscribe_rules::engine::Withheld;
use wattscribe_rules::rule::{Function, Rule};

use super::integral::{Energy, Gain, Point, Stretch, energy, gain, in_order};
use super::number::{highest, lowest, percentile, sum};
use super::result::{Outcome, in_bounds, missing};
use crate::history::Reading;

/// One member with its readings in the order of their scrapes.
pub(crate) struct Side {
    pub input: usize,
    pub counter: bool,
    pub read: Vec<Reading>,
}

impl Side {
    fn points(&self) -> Vec<Point> {
        let point = |reading: &Reading| {
            let value = reading.value.ok().filter(|value| *value >= 0.0 || !self.counter)?;
            Some(Point { at_s: reading.at_s, value, since_s: reading.since_s })
        };
        in_order(&self.read.iter().filter_map(point).collect::<Vec<_>>())
    }
}

/// What one member comes to.
enum Part {
    Power { energy: Option<Energy>, within: Vec<f64> },
    Counter(Gain),
}

pub(crate) fn of_window(rule: &Rule, sides: &[Side], window: Stretch) -> Outcome {
    let parts: Vec<Part> = sides
        .iter()
        .map(|side| {
            let points = side.points();
            if side.counter {
                return Part::Counter(gain(&points, window));
            }
            let within = points.iter().filter(|point| window.holds(point.at_s));
            let within = within.map(|point| point.value).collect();
            Part::Power { energy: energy(&points, window), within }
        })
        .collect();
    let distribution = matches!(
        rule.function,
        Function::Quantile { .. } | Function::Max { .. } | Function::Min { .. }
    );
    let reports = |part: &Part| match part {
        Part::Power { within, .. } if distribution => !within.is_empty(),
        Part::Power { energy, .. } => energy.is_some(),
        Part::Counter(gain) => *gain != Gain::Unknown,
    };
    let reporting = parts.iter().filter(|part| reports(part)).count();
    let silent = vec![State::Unavailable; parts.len() - reporting];
    let missing = missing(rule, parts.len(), &silent, sides.iter().map(|side| side.input));
    let single = distribution || matches!(rule.function, Function::Check { .. });
    let crowded = single
        && (0..rule.inputs().len())
            .any(|input| sides.iter().filter(|side| side.input == input).count() > 1);
    let missing = missing.or(crowded.then_some(State::Unavailable));
    let (coverage, whole) = coverage(rule, &parts, window);
    let enough = missing.is_none();
    let energies: Vec<Energy> = parts.iter().filter_map(energy_of).collect();
    let bounded =
        enough && matches!(rule.function, Function::Integrate { .. } | Function::Check { .. });
    let bound =
        |of: fn(&Energy) -> f64| bounded.then(|| sum(&energies.iter().map(of).collect::<Vec<_>>()));
    let check = matches!(rule.function, Function::Check { .. });
    let mut counters = parts.iter().filter_map(|part| match part {
        Part::Counter(gain) if check => Some(*gain),
        _ => None,
    });
    let counter = match (counters.next(), counters.next()) {
        (Some(Gain::Joules(joules)), None) => Some(joules),
        _ => None,
    };
    let (low, high) = (bound(|energy| energy.low), bound(|energy| energy.high));
    let anew = parts.iter().any(|part| matches!(part, Part::Counter(Gain::BeganAnew)));
    let contradicts = check
        && counter.zip(low.zip(high)).is_some_and(|(counter, (low, high))| {
            (low - counter).max(counter - high) > 0.05 * counter
        });
    let uncovered = rule.withhold.coverage_below.is_some_and(|least| coverage < least);
    let value = if let Some(state) = missing {
        Err((Withheld::Members, state))
    } else if uncovered || (check && !whole) {
        Err((Withheld::Coverage, State::Unavailable))
    } else if anew || contradicts {
        Err((Withheld::Counter, State::Disagree))
    } else {
        in_bounds(rule, value(rule, &parts))
    };
    Outcome {
        value,
        low,
        high,
        counter,
        spread: None,
        coverage,
        expected: parts.len() as u32,
        reporting: reporting as u32,
    }
}

fn energy_of(part: &Part) -> Option<Energy> {
    match part {
        Part::Power { energy, .. } => *energy,
        Part::Counter(_) => None,
    }
}

/// The covered share of all members, and whether each is covered from edge to edge.
fn coverage(rule: &Rule, parts: &[Part], window: Stretch) -> (f64, bool) {
    let of_power = matches!(rule.function, Function::Check { .. });
    let counted: Vec<(f64, bool)> = parts
        .iter()
        .filter(|part| !of_power || matches!(part, Part::Power { .. }))
        .map(|part| match part {
            Part::Power { energy: Some(energy), .. } => (energy.covered_s, energy.whole),
            Part::Counter(Gain::Joules(_) | Gain::BeganAnew) => (window.length_s(), true),
            Part::Power { energy: None, .. } | Part::Counter(Gain::Unknown) => (0.0, false),
        })
        .collect();
    if counted.iter().all(|(_, whole)| *whole) {
        return (1.0, true);
    }
    let covered = sum(&counted.iter().map(|(covered_s, _)| *covered_s).collect::<Vec<_>>());
    ((covered / (window.length_s() * counted.len() as f64)).min(1.0), false)
}

/// The value, when enough members report.
fn value(rule: &Rule, parts: &[Part]) -> f64 {
    let within = parts.iter().find_map(|part| match part {
        Part::Power { within, .. } => Some(within.as_slice()),
        Part::Counter(_) => None,
    });
    let within = within.unwrap_or_default();
    match &rule.function {
        Function::Quantile { quantile, .. } => percentile(within, *quantile),
        Function::Max { .. } => highest(within),
        Function::Min { .. } => lowest(within),
        Function::Increase { .. } => {
            let gains = parts.iter().filter_map(|part| match part {
                Part::Counter(Gain::Joules(joules)) => Some(*joules),
                _ => None,
            });
            sum(&gains.collect::<Vec<_>>())
        }
        Function::Integrate { .. } | Function::Check { .. } => {
            let energies = parts.iter().filter_map(energy_of).map(|energy| energy.joules);
            sum(&energies.collect::<Vec<_>>())
        }
        other => panic!("{} has no windows", other.as_str()),
    }
}
