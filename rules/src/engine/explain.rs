//! What went into one result, and what was left out and why.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::bench::{Bench, Span, judge, result};
use crate::engine::derived::Derived;
use crate::engine::group::{Group, Member, Source};
use crate::engine::outcome::{Given, is_of_one_member};
use crate::engine::series::LeftOut;
use crate::engine::stream::Measured;
use crate::state::State;

/// A result with all members of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The result.
    pub result: Derived,
    /// Every series and every result of another rule that is a member, input by input and in the order of members; behind
    /// those of an input, what is wrong with their number.
    pub parts: Vec<Part>,
}

/// One series, or the results of another rule for one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The input of the rule, by its number.
    pub input: usize,
    /// The metric, or the name of the rule.
    pub metric: Arc<str>,
    /// The node, where the rule is of the fleet.
    pub node: Option<Arc<str>>,
    /// The labels of the series, or of the group.
    pub labels: Arc<str>,
    /// What it gave.
    pub found: Found,
}

/// What a part gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// It had not been read yet, so that it is not expected.
    NotYet,
    /// A reading of a series at an instant.
    Reading {
        /// Its time in microseconds since the Unix epoch, rounded up; before all times for a reading from before the
        /// recording's tail.
        at_us: i64,
        /// The number of its scrape.
        scrape: u64,
        /// The number, or the state in which it came.
        value: Result<f64, State>,
        /// Why it does not count; `None` when it does.
        left_out: Option<LeftOut>,
    },
    /// The result of another rule, or the state that it is missing in.
    Result(Result<f64, State>),
    /// What a member gave over a window. A member of several series gives it for all of them together.
    Window {
        /// The energy, the gain of the counter, the percentile; or the state that it is missing in.
        value: Result<f64, State>,
        /// The least and the greatest that the energy can be, in joules.
        bounds: Option<(f64, f64)>,
        /// The covered time in seconds.
        covered_s: f64,
        /// Readings with a number in the window.
        readings: u64,
        /// Whether a counter began anew in it.
        restarted: bool,
    },
    /// The input has no member in this group that is expected.
    NoMember,
    /// The input has several, and the function takes one.
    TooMany {
        /// How many are expected.
        members: usize,
    },
    /// A target that never gave a page: it may be a node with anything.
    Unknown,
}

impl Bench<'_> {
    /// Every part of a group, for an explanation.
    pub(super) fn parts(&self, group: &mut Group, span: Span, due: &[Range<i64>]) -> Vec<Part> {
        let unknown = Part {
            input: 0,
            metric: "".into(),
            node: None,
            labels: "".into(),
            found: Found::Unknown,
        };
        let mut parts = vec![unknown; self.round.unknown];
        let inputs = self.rule.inputs();
        for (input, (of, taken)) in group.inputs.iter_mut().zip(inputs).enumerate() {
            for nth in 0..of.len() {
                let Some(member) = of.get_mut(of.nth(nth)) else { continue };
                let measured = match (span.window, &mut member.stream) {
                    (Some((over, window)), Some(stream)) => {
                        let horizon = self.plan.horizon(over, due[over].start);
                        Some(stream.measure(horizon, window))
                    }
                    _ => None,
                };
                for source in &member.sources {
                    let (metric, labels) = match source {
                        Source::Results { .. } => {
                            (taken.selector.metric.as_str().into(), Arc::clone(&member.labels))
                        }
                        Source::Series(id) => match self.round.series.get(*id) {
                            Some(series) => {
                                (Arc::clone(&series.metric), Arc::clone(&series.labels))
                            }
                            None => continue,
                        },
                    };
                    let found =
                        self.found(member, *source, measured, span.nth, taken.zero_is_missing);
                    parts.push(Part { input, metric, node: member.node.clone(), labels, found });
                }
            }
            let expected = of.iter().filter(|member| self.is_expected(member)).count();
            let found = match expected {
                // A target that may have one stands there already.
                0 if input > 0 || self.round.unknown == 0 => Found::NoMember,
                members @ 2.. if is_of_one_member(&self.rule.function) => {
                    Found::TooMany { members }
                }
                _ => continue,
            };
            let metric = taken.selector.metric.as_str().into();
            parts.push(Part { input, metric, node: None, labels: "".into(), found });
        }
        parts
    }

    fn found(
        &self,
        member: &Member,
        source: Source,
        measured: Option<Measured>,
        nth: usize,
        zero_is_missing: bool,
    ) -> Found {
        if self.first_us(source) > self.round.at_us {
            return Found::NotYet;
        }
        if let Some(Measured { given, readings }) = measured {
            let Given { value, bounds, covered: covered_s, restarted } = given;
            return Found::Window { value, bounds, covered_s, readings, restarted };
        }
        let Some(seen) = self.seen(source) else {
            let given = result(self.above, source, nth);
            return Found::Result(given.map_or(Err(State::Unavailable), |given| given.value));
        };
        let others =
            || member.sources.iter().filter(|of| **of != source).filter_map(|of| self.seen(*of));
        let is_superseded = others().any(|other| other.scrape > seen.scrape);
        let is_twice = others().any(|other| other.scrape == seen.scrape);
        let left_out = match judge(seen, zero_is_missing) {
            _ if is_superseded => Some(LeftOut::Superseded),
            Ok(_) if is_twice => Some(LeftOut::Twice),
            judged => judged.err(),
        };
        // Scrapes are counted from 1 here, so that nothing comes before the first.
        Found::Reading {
            at_us: seen.at_us,
            scrape: seen.scrape.saturating_sub(1),
            value: seen.value,
            left_out,
        }
    }
}
