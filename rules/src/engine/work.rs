//! Working out the rules at one instant, in the order of the file.

use std::sync::Arc;

use crate::engine::bench::{Bench, Span, result};
use crate::engine::clock::{Moment, seconds};
use crate::engine::explain::Explanation;
use crate::engine::ordered::Ordered;
use crate::engine::plan::Plan;
use crate::engine::series::Series;
use crate::engine::sheet::Sheet;
use crate::engine::stream::Arrival;
use crate::engine::stretches::Places;
use crate::rule::Rule;

/// What an instant is worked out from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    /// The instant. At the end of a recording it is after all times, and named windows are due.
    pub(crate) at_us: i64,
    pub(crate) is_end: bool,
    /// Whether there are results of the instant itself, or of windows alone.
    pub(crate) has_instant: bool,
    pub(crate) series: &'a [Series],
    /// By kind of windows: those in which a scrape began.
    pub(crate) scraped: &'a [Places],
    /// Targets that may be nodes with anything.
    pub(crate) unknown: usize,
    /// Whether the results were given before.
    pub(crate) is_quiet: bool,
}

impl Sheet {
    /// Works out every rule of this level. Windows that are due by the instant are settled with it.
    pub(crate) fn work(&mut self, round: Round<'_>) {
        let plan = Arc::clone(&self.plan);
        self.find_due(&plan, round);
        for (place, rule) in plan.set.rules.iter().enumerate() {
            let planned = &plan.rules[place];
            if planned.level != self.level {
                continue;
            }
            self.rules[place].all_mut().for_each(|group| group.results.clear());
            match planned.over {
                None if round.has_instant => {
                    let at_us = round.at_us;
                    let span = Span { at_us, start_us: None, window: None, nth: 0 };
                    self.work_groups(&plan, round, place, rule, span);
                }
                None => {}
                Some(over) => {
                    if round.has_instant && !planned.gathers.is_empty() {
                        self.pull(&plan, place, over, round.at_us);
                    }
                    for (nth, window) in self.due[over].clone().enumerate() {
                        if let Some(span) = span(&plan, over, window, nth) {
                            self.work_groups(&plan, round, place, rule, span);
                        }
                    }
                }
            }
        }
        self.release(&plan);
    }

    fn find_due(&mut self, plan: &Plan, round: Round<'_>) {
        for over in 0..self.due.len() {
            let stretches = &plan.stretches[over];
            self.due[over] = if stretches.are_named() {
                // The last begins before all times end.
                let places = stretches.last(Moment::at(i64::MAX)) + 1;
                0..if round.is_end { places } else { 0 }
            } else {
                let first = self.settled[over];
                let settled =
                    if round.is_end { first } else { plan.first_after(over, round.at_us) };
                let last = settled.min(self.reached[over].saturating_add(1));
                self.settled[over] = settled.max(first);
                first..last.max(first)
            };
        }
    }

    /// Hands results of rules above to the members that gather them over windows.
    fn pull(&mut self, plan: &Plan, rule: usize, over: usize, at_us: i64) {
        self.reach(over, Moment::at(at_us));
        let horizon = plan.horizon(over, self.due[over].start);
        let (above, here) = self.rules.split_at_mut(rule);
        for group in here.iter_mut().take(1).flat_map(Ordered::all_mut) {
            for member in group.inputs.iter_mut().flat_map(Ordered::all_mut) {
                let Some(given) =
                    member.sources.iter().find_map(|source| result(above, *source, 0))
                else {
                    continue;
                };
                let (turn, at_s) = (at_us as u64, seconds(at_us));
                let arrival = Arrival { turn, at_s, value: given.value, since_s: None };
                if let Some(stream) = &mut member.stream {
                    stream.take(horizon, arrival);
                }
            }
        }
    }

    fn work_groups(
        &mut self,
        plan: &Plan,
        round: Round<'_>,
        place: usize,
        rule: &Rule,
        span: Span,
    ) {
        let (above, here) = self.rules.split_at_mut(place);
        let Some(groups) = here.first_mut() else { return };
        let planned = &plan.rules[place];
        let bench = Bench { plan, round, place, rule, planned, above };
        let members = &mut self.members[..planned.zero_is_missing.len()];
        for nth in 0..groups.len() {
            let at = groups.nth(nth);
            let Some(group) = groups.get_mut(at) else { continue };
            group.results.resize(span.nth, None);
            let worked = match span.window {
                Some((over, window)) if !planned.gathers.is_empty() => {
                    let horizon = plan.horizon(over, self.due[over].start);
                    bench.over_window(group, horizon, window, members)
                }
                _ => bench.of_givens(group, span, members),
            };
            group.results.push(worked.map(|outcome| outcome.given()));
            let Some(outcome) = worked else { continue };
            group.first_us = group.first_us.min(round.at_us);
            let result = bench.derived(&self.node, group, span, outcome);
            if self.watched == Some((place, span.at_us)) {
                let parts = bench.parts(group, span, self.due.as_slice());
                self.explanations.push(Explanation { result: result.clone(), parts });
            }
            if !round.is_quiet {
                self.out.push_back(result);
            }
        }
    }

    fn release(&mut self, plan: &Plan) {
        for (rule, planned) in self.rules.iter_mut().zip(&plan.rules) {
            let Some(over) = planned.over.filter(|over| !self.due[*over].is_empty()) else {
                continue;
            };
            if planned.gathers.is_empty() || plan.stretches[over].are_named() {
                continue;
            }
            let members =
                rule.all_mut().flat_map(|group| &mut group.inputs).flat_map(Ordered::all_mut);
            for stream in members.filter_map(|member| member.stream.as_mut()) {
                stream.release(self.settled[over]);
            }
        }
    }
}

/// Where a window stands.
fn span(plan: &Plan, over: usize, place: i64, nth: usize) -> Option<Span> {
    let window = plan.stretches[over].window(place)?;
    let (start_us, at_us) =
        (Moment::nearest_us(window.start_s()), Moment::nearest_us(window.end_s()));
    Some(Span { at_us, start_us: Some(start_us), window: Some((over, place)), nth })
}
