//! Working out the rules at one instant, in the order of the file.

use std::sync::Arc;

use crate::engine::clock::{Moment, seconds};
use crate::engine::derived::Derived;
use crate::engine::explain::{Explanation, Found, Part};
use crate::engine::group::{Group, Member, Source};
use crate::engine::ordered::Ordered;
use crate::engine::outcome::{Given, Outcome, Scope, outcome};
use crate::engine::plan::{Plan, Planned};
use crate::engine::series::{LeftOut, Seen, Series, number};
use crate::engine::sheet::Sheet;
use crate::engine::stream::{Arrival, Horizon, Measured};
use crate::engine::stretches::Places;
use crate::rule::Rule;
use crate::state::State;

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

/// The rule that is worked out and what stands above it.
struct Bench<'a> {
    plan: &'a Plan,
    round: Round<'a>,
    place: usize,
    rule: &'a Rule,
    planned: &'a Planned,
    above: &'a [Ordered<Group>],
}

/// Where a result stands in time.
#[derive(Clone, Copy)]
struct Span {
    at_us: i64,
    start_us: Option<i64>,
    /// Kind and place of the window.
    window: Option<(usize, i64)>,
    /// The place among the results of the round.
    nth: usize,
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
        let settled = self.due[over].start;
        let horizon = Horizon { stretches: &plan.stretches[over], limits: plan.limits, settled };
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
                    let settled = self.due[over].start;
                    let horizon =
                        Horizon { stretches: &plan.stretches[over], limits: plan.limits, settled };
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

/// The nth result of this round of a group above.
fn result(above: &[Ordered<Group>], source: Source, nth: usize) -> Option<Given> {
    let Source::Results { rule, group } = source else { return None };
    above.get(rule)?.get(group)?.results.get(nth).copied().flatten()
}

impl Bench<'_> {
    /// Works out a group whose members are readings and results of this instant, or results of one window.
    fn of_givens(&self, group: &Group, span: Span, members: &mut [Vec<Given>]) -> Option<Outcome> {
        let mut is_there = false;
        for (number, (of, into)) in group.inputs.iter().zip(&mut *members).enumerate() {
            into.clear();
            let zero_is_missing = self.planned.zero_is_missing[number];
            for member in of.iter() {
                let Some((given, counts)) = self.given(member, span.nth, zero_is_missing) else {
                    continue;
                };
                into.push(given);
                is_there |= counts && number < self.planned.leading;
            }
        }
        let scope = match span.window {
            None => Scope::Instant,
            Some(_) => Scope::Window { whole: 1.0 },
        };
        is_there.then(|| self.outcome(members, scope))
    }

    /// Works out a group whose members gather readings over a window.
    fn over_window(
        &self,
        group: &mut Group,
        horizon: Horizon<'_>,
        window: i64,
        members: &mut [Vec<Given>],
    ) -> Option<Outcome> {
        let named = horizon.stretches.are_named();
        let scraped = self.planned.over.and_then(|over| self.round.scraped.get(over));
        let mut is_touched = named || scraped.is_some_and(|scraped| scraped.contains(window));
        let mut is_expected = false;
        for (number, (of, into)) in group.inputs.iter_mut().zip(&mut *members).enumerate() {
            into.clear();
            for nth in 0..of.len() {
                let Some(member) = of.get_mut(of.nth(nth)) else { continue };
                if !self.is_expected(member) {
                    continue;
                }
                is_expected |= number < self.planned.leading;
                let Some(stream) = &mut member.stream else { continue };
                let Measured { given, .. } = stream.measure(horizon, window);
                is_touched |= given.value.is_ok() || given.restarted || stream.touches(window);
                into.push(given);
            }
        }
        let whole = horizon.stretches.window(window)?.duration_s();
        (is_expected && is_touched).then(|| self.outcome(members, Scope::Window { whole }))
    }

    fn outcome(&self, members: &mut [Vec<Given>], scope: Scope) -> Outcome {
        if let Some(first) = members.first_mut() {
            let unknown = Given::missing(State::Unavailable);
            first.extend(std::iter::repeat_n(unknown, self.round.unknown));
        }
        outcome(self.rule, members, scope)
    }

    /// Whether a member was read at or before the instant.
    fn is_expected(&self, member: &Member) -> bool {
        member.sources.iter().any(|source| self.first_us(*source) <= self.round.at_us)
    }

    fn first_us(&self, source: Source) -> i64 {
        match source {
            Source::Series(id) => {
                self.round.series.get(id).map_or(i64::MAX, |series| series.first_us)
            }
            Source::Results { rule, group } => {
                let groups = self.above.get(rule);
                groups.and_then(|groups| groups.get(group)).map_or(i64::MAX, |group| group.first_us)
            }
        }
    }

    /// What an expected member gives, and whether it gives its group a result.
    fn given(&self, member: &Member, nth: usize, zero_is_missing: bool) -> Option<(Given, bool)> {
        if let [source @ Source::Results { .. }] = member.sources[..] {
            if self.first_us(source) > self.round.at_us {
                return None;
            }
            let Some(given) = result(self.above, source, nth) else {
                return Some((Given::missing(State::Unavailable), false));
            };
            let value = number(given.value, zero_is_missing).map_err(LeftOut::state);
            // A result covers what it covers of its window; of an instant it is there or not.
            let given = match self.planned.over {
                None => Given::at_instant(value),
                Some(_) => Given { value, ..given },
            };
            return Some((given, true));
        }
        let (mut latest, mut value, mut is_twice, mut is_any_seen) = (0, None, false, false);
        for source in &member.sources {
            let Some(seen) = self.seen(*source) else { continue };
            let judged = judge(seen, zero_is_missing);
            if value.is_none() || seen.scrape > latest {
                (latest, value, is_twice, is_any_seen) =
                    (seen.scrape, Some(judged), false, judged.is_ok());
            } else if seen.scrape == latest {
                is_twice = true;
                is_any_seen |= judged.is_ok();
            }
        }
        let value = match value? {
            _ if is_twice && is_any_seen => Err(LeftOut::Twice),
            value => value,
        };
        Some((Given::at_instant(value.map_err(LeftOut::state)), true))
    }

    fn seen(&self, source: Source) -> Option<Seen> {
        let Source::Series(id) = source else { return None };
        self.round.series.get(id)?.seen
    }

    fn derived(
        &self,
        node: &Option<Arc<str>>,
        group: &Group,
        span: Span,
        outcome: Outcome,
    ) -> Derived {
        let window = span.window.and_then(|(over, place)| self.plan.stretches[over].name(place));
        let (state, withheld) = match outcome.value {
            Ok(_) => (State::Ok, None),
            Err((state, withheld)) => (state, Some(withheld)),
        };
        Derived {
            rule: self.place,
            at_us: span.at_us,
            start_us: span.start_us,
            window: window.cloned(),
            node: node.clone(),
            labels: Arc::clone(&group.labels),
            value: outcome.value.ok(),
            state,
            withheld,
            low: outcome.bounds.map(|(low, _)| low),
            high: outcome.bounds.map(|(_, high)| high),
            counter: outcome.counter,
            spread: outcome.spread,
            coverage: outcome.coverage,
            members_expected: outcome.expected.try_into().unwrap_or(u32::MAX),
            members_reporting: outcome.reporting.try_into().unwrap_or(u32::MAX),
        }
    }

    /// Every part of a group, for an explanation.
    fn parts(&self, group: &mut Group, span: Span, due: &[std::ops::Range<i64>]) -> Vec<Part> {
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
                        let settled = due[over].start;
                        let stretches = &self.plan.stretches[over];
                        let horizon = Horizon { stretches, limits: self.plan.limits, settled };
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
            let Given { value, bounds, covered: covered_s, .. } = given;
            return Found::Window { value, bounds, covered_s, readings };
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

/// The number that an instant sees, or why it sees none.
fn judge(seen: Seen, zero_is_missing: bool) -> Result<f64, LeftOut> {
    seen.left_out.map_or_else(|| number(seen.value, zero_is_missing), Err)
}
