//! One group of one rule: what its members give at an instant or over a window, and what it comes to.

use std::sync::Arc;

use crate::engine::derived::Derived;
use crate::engine::group::{Group, Member, Source};
use crate::engine::ordered::Ordered;
use crate::engine::outcome::{Given, Outcome, Scope, outcome};
use crate::engine::plan::{Plan, Planned};
use crate::engine::series::{LeftOut, Seen, number};
use crate::engine::stream::{Horizon, Measured};
use crate::engine::work::Round;
use crate::rule::Rule;
use crate::state::State;

/// The rule that is worked out and what stands above it.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) round: Round<'a>,
    pub(super) place: usize,
    pub(super) rule: &'a Rule,
    pub(super) planned: &'a Planned,
    pub(super) above: &'a [Ordered<Group>],
}

/// Where a result stands in time.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) at_us: i64,
    pub(super) start_us: Option<i64>,
    /// Kind and place of the window.
    pub(super) window: Option<(usize, i64)>,
    /// The place among the results of the round.
    pub(super) nth: usize,
}

impl Bench<'_> {
    /// Works out a group whose members are readings and results of this instant, or results of one window.
    pub(super) fn of_givens(
        &self,
        group: &Group,
        span: Span,
        members: &mut [Vec<Given>],
    ) -> Option<Outcome> {
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
    pub(super) fn over_window(
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

    pub(super) fn outcome(&self, members: &mut [Vec<Given>], scope: Scope) -> Outcome {
        if let Some(first) = members.first_mut() {
            let unknown = Given::missing(State::Unavailable);
            first.extend(std::iter::repeat_n(unknown, self.round.unknown));
        }
        outcome(self.rule, members, scope)
    }

    /// Whether a member was read at or before the instant.
    pub(super) fn is_expected(&self, member: &Member) -> bool {
        member.sources.iter().any(|source| self.first_us(*source) <= self.round.at_us)
    }

    pub(super) fn first_us(&self, source: Source) -> i64 {
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
    pub(super) fn given(
        &self,
        member: &Member,
        nth: usize,
        zero_is_missing: bool,
    ) -> Option<(Given, bool)> {
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

    pub(super) fn seen(&self, source: Source) -> Option<Seen> {
        let Source::Series(id) = source else { return None };
        self.round.series.get(id)?.seen
    }

    pub(super) fn derived(
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
}

/// The nth result of this round of a group above.
pub(super) fn result(above: &[Ordered<Group>], source: Source, nth: usize) -> Option<Given> {
    let Source::Results { rule, group } = source else { return None };
    above.get(rule)?.get(group)?.results.get(nth).copied().flatten()
}

/// The number that an instant sees, or why it sees none.
pub(super) fn judge(seen: Seen, zero_is_missing: bool) -> Result<f64, LeftOut> {
    seen.left_out.map_or_else(|| number(seen.value, zero_is_missing), Err)
}
