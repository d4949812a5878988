//! How far a result of a window may be from the engine's, by the very readings that went into it.

use crate::energy::COUNTER_DISAGREEMENT_MAX;
use crate::engine::{Derived, Withheld};
use crate::promql::over_time::{Gathers, Windows};
use crate::rule::{From, Input, Require, Rule};

use super::{Trial, adds_windows};

/// What a test says of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compared {
    /// It is this, or so far from it at most.
    Within(f64, f64),
    /// It is not there.
    Absent,
    /// Nothing: the rule's comment says that the two differ here.
    Not,
}

/// Readings of one series: seconds and values, rising in time.
type Readings = Vec<(f64, f64)>;

impl Trial<'_> {
    /// Compares a result of windows.
    pub(super) fn compared(&self, place: usize, result: &Derived) -> Compared {
        let Some(rule) = self.set.rules.get(place) else { return Compared::Not };
        if adds_windows(self.set, rule) {
            return self.of_sum(rule, result);
        }
        let mut most = 0.0;
        for (number, input) in rule.inputs().into_iter().enumerate() {
            let step = match input.from {
                From::Rule(_) => self.set.timing.every,
                From::Sockets | From::Page => {
                    std::time::Duration::from_secs_f64(self.scrapes.interval_s)
                }
            };
            let windows = Windows::of(rule, step, self.set.timing.gap);
            let Some((windows, gathers)) = windows.zip(Gathers::of(rule, number)) else {
                return Compared::Not;
            };
            let members = self.readings(rule, input, result);
            for readings in &members {
                match part(readings, &windows, gathers, result) {
                    Part::Most(of_member) => most += of_member,
                    Part::Few if rule.require == Require::All => return Compared::Absent,
                    Part::Few | Part::Open => return Compared::Not,
                }
            }
        }
        match result.value {
            // Energies that a counter nearly contradicts are judged by bounds that Prometheus does not have.
            Some(_) if result.counter.is_some() && !self.is_confirmed(rule, result) => {
                Compared::Not
            }
            Some(value) => Compared::Within(value, most + value.abs() * super::ROUNDING),
            None if result.counter.is_some() => Compared::Not,
            // What is covered is known there to a reading.
            None if result.withheld == Some(Withheld::Coverage) => Compared::Not,
            None => Compared::Absent,
        }
    }

    /// Whether power and counter of a check agree as Prometheus has them: the mean of the readings, with that on the first
    /// edge or without it, and the counter at the last scrapes before the edges.
    fn is_confirmed(&self, rule: &Rule, result: &Derived) -> bool {
        let [power, counter] = rule.inputs()[..] else { return false };
        let start_s = result.start_us.unwrap_or_default() as f64 / 1e6;
        let end_s = result.at_us as f64 / 1e6;
        let before = |readings: &Readings, edge_s: f64| {
            readings
                .iter()
                .rfind(|(at_s, _)| *at_s <= edge_s)
                .map_or(f64::NAN, |(_, joules)| *joules)
        };
        let gains = self.readings(rule, counter, result);
        let gain_j: f64 = gains.iter().map(|of| before(of, end_s) - before(of, start_s)).sum();
        let powers = self.readings(rule, power, result);
        [true, false].into_iter().all(|is_closed| {
            let is_here =
                |at_s: f64| at_s <= end_s && (at_s > start_s || is_closed && at_s == start_s);
            let mean_w = |readings: &Readings| {
                let each =
                    readings.iter().filter(|(at_s, _)| is_here(*at_s)).map(|(_, watts)| *watts);
                each.clone().sum::<f64>() / each.count() as f64
            };
            let energy_j = powers.iter().map(mean_w).sum::<f64>() * (end_s - start_s);
            (energy_j - gain_j).abs() <= COUNTER_DISAGREEMENT_MAX * (1.0 - super::ROUNDING) * gain_j
        })
    }

    /// A sum of results of windows: as far off as they are together.
    fn of_sum(&self, rule: &Rule, result: &Derived) -> Compared {
        let mut most = 0.0;
        for input in rule.inputs() {
            let From::Rule(above) = input.from else { return Compared::Not };
            let is_member = |of: &&Derived| {
                of.rule == above
                    && of.at_us == result.at_us
                    && of.start_us == result.start_us
                    && is_of_group(rule, of, result)
                    && takes(input, of)
            };
            for member in self.results.iter().filter(is_member) {
                match self.compared(above, member) {
                    Compared::Within(_, of_member) => most += of_member,
                    Compared::Absent if rule.require == Require::All => return Compared::Absent,
                    Compared::Absent | Compared::Not => return Compared::Not,
                }
            }
        }
        match result.value {
            Some(value) => Compared::Within(value, most + value.abs() * super::ROUNDING),
            None => Compared::Absent,
        }
    }

    /// The readings of each member of a result's group.
    fn readings(&self, rule: &Rule, input: &Input, result: &Derived) -> Vec<Readings> {
        if let From::Rule(above) = input.from {
            let mut members: Vec<(String, Readings)> = Vec::new();
            let of = |of: &&Derived| {
                of.rule == above && is_of_group(rule, of, result) && takes(input, of)
            };
            for found in self.results.iter().filter(of) {
                let key = format!("{:?} {}", found.node, found.labels);
                let place = members.iter().position(|(of, _)| *of == key).unwrap_or_else(|| {
                    members.push((key, Vec::new()));
                    members.len() - 1
                });
                members[place].1.extend(found.value.map(|value| (found.at_us as f64 / 1e6, value)));
            }
            return members.into_iter().map(|(_, readings)| readings).collect();
        }
        let in_group = |series: &&super::scrapes::Series| {
            series.is_of(input)
                && rule.by.iter().all(|name| match name.as_str() {
                    Rule::NODE => result.node.as_deref() == Some(series.node),
                    name => {
                        label(&result.labels, name).unwrap_or_default()
                            == series.labels.get(name).cloned().unwrap_or_default()
                    }
                })
        };
        let of_series = |series: &super::scrapes::Series| {
            let each = series.values.iter().enumerate();
            each.filter_map(|(scrape, value)| {
                Some((scrape as f64 * self.scrapes.interval_s, (*value)?))
            })
            .collect()
        };
        self.scrapes.series.iter().filter(in_group).map(of_series).collect()
    }
}

/// What one member adds to how far a result may be off.
enum Part {
    Most(f64),
    /// It has so few readings that it does not count.
    Few,
    /// It counts or not by what only one of the two sees: where a counter began anew, or a reading on the first edge.
    Open,
}

fn part(readings: &Readings, windows: &Windows, gathers: Gathers, result: &Derived) -> Part {
    let start_s = result.start_us.unwrap_or_default() as f64 / 1e6;
    let (end_s, step_s) = (result.at_us as f64 / 1e6, windows.step.as_secs_f64());
    let within = |from_s: f64, to_s: f64| -> Vec<f64> {
        let each = readings.iter().filter(|(at_s, _)| *at_s >= from_s && *at_s <= to_s);
        each.map(|(_, value)| *value).collect()
    };
    let here = within(start_s, end_s);
    if gathers == Gathers::Gain {
        let around = within(start_s - step_s, end_s + step_s);
        let (gap_s, age_s) = (windows.gap.as_secs_f64(), windows.edge.as_secs_f64());
        let edges = [start_s, end_s].map(|edge_s| within(edge_s - age_s, edge_s));
        let restarts = |of: &[f64]| of.windows(2).filter(|pair| pair[1] < pair[0]).count();
        let most = around.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        let near = within(start_s - gap_s, end_s + gap_s);
        return match () {
            () if edges.iter().any(Vec::is_empty) => Part::Few,
            () if restarts(&near) > restarts(&here) => Part::Open,
            () => Part::Most(2.0 * most * (age_s / step_s)),
        };
    }
    // Ranges are closed up to Prometheus 2, and open at their beginning from 3 on.
    let at_start = usize::from(readings.iter().any(|(at_s, _)| *at_s == start_s));
    if (here.len() as u64) < windows.readings_min {
        return Part::Few;
    }
    if ((here.len() - at_start) as u64) < windows.readings_min {
        return Part::Open;
    }
    // With the readings that bracket the window, be they further away than a step: the line through them goes there.
    let gap_s = windows.gap.as_secs_f64();
    let before = readings.iter().rfind(|(at_s, _)| *at_s < start_s && start_s - *at_s <= gap_s);
    let after = readings.iter().find(|(at_s, _)| *at_s > end_s && *at_s - end_s <= gap_s);
    let from_s = before.map_or(start_s, |(at_s, _)| *at_s);
    let to_s = after.map_or(end_s, |(at_s, _)| *at_s);
    let around = within(from_s, to_s);
    let missing = ((to_s - from_s) / step_s).floor() + 1.0 - around.len() as f64;
    let widest = |of: &[f64]| {
        let (least, most) =
            of.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (value.min(least), value.max(most))
            });
        most - least
    };
    Part::Most(match gathers {
        // What is not covered is there too, at the mean of the others.
        Gathers::Energy => {
            let greatest = around.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let uncovered_s = (1.0 - result.coverage) * (end_s - start_s);
            let members = f64::from(result.members_expected);
            widest(&around) * (1.0 + missing) * step_s + greatest * uncovered_s * members
        }
        // A reading more or less at either edge.
        _ => {
            let mut sorted = here.clone();
            sorted.sort_by(f64::total_cmp);
            2.0 * sorted.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
        }
    })
}

/// Whether a result of one rule belongs to the group of a result of another.
fn is_of_group(rule: &Rule, member: &Derived, result: &Derived) -> bool {
    rule.by.iter().all(|name| match name.as_str() {
        Rule::NODE => member.node == result.node,
        name => label(&member.labels, name) == label(&result.labels, name),
    })
}

fn takes(input: &Input, of: &Derived) -> bool {
    input.selector.matchers.iter().all(|matcher| {
        let value = match matcher.label.as_str() {
            Rule::NODE => of.node.as_deref().unwrap_or_default().to_owned(),
            name => label(&of.labels, name).unwrap_or_default(),
        };
        matcher.condition.holds(&value)
    })
}

/// The value of one label in the text of a result's labels. Synthetic values have no quotes.
pub(super) fn label(labels: &str, name: &str) -> Option<String> {
    let mut pairs = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    Some(value.trim_end_matches('"').to_owned())
}
