//! The rules of the fleet over the results of nodes.
//!
//! Results of nodes wait here, instant by instant, until every target has settled the instant; nothing else does. Whoever
//! hands over a node's results says afterwards how far it is, so that the order among nodes means nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::engine::clock::{END_US, FAR_US};
use crate::engine::derived::Derived;
use crate::engine::explain::{Explanation, Found};
use crate::engine::node::Progress;
use crate::engine::outcome::Given;
use crate::engine::plan::{Level, NamedWindow, Plan};
use crate::engine::sheet::Sheet;
use crate::engine::work::Round;
use crate::rule::RuleSet;

/// The rules of the fleet.
#[derive(Debug)]
pub struct FleetEngine {
    sheet: Sheet,
    targets: Vec<Target>,
    by_name: HashMap<Arc<str>, TargetId>,
    /// Results of nodes by the instant at which they are settled.
    waiting: BTreeMap<i64, Vec<Waiting>>,
    /// Every instant before this is settled for every target.
    settled_us: i64,
    /// How many targets are no further than that.
    last_ones: usize,
    /// Results up to this instant were given before.
    given_us: i64,
    has_ended: bool,
}

/// A target of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetId(usize);

#[derive(Clone, Debug)]
struct Target {
    name: Arc<str>,
    progress: Progress,
    /// Whether it holds up nothing any more.
    has_ended: bool,
}

impl Target {
    const fn holds(&self, settled_us: i64) -> bool {
        !self.has_ended && self.progress.settled_us <= settled_us
    }

    /// Whether it may be a node with anything: it was asked, and gave no page yet.
    fn is_unknown(&self, at_us: i64) -> bool {
        let Progress { begun_us, paged_us, .. } = self.progress;
        begun_us.is_some_and(|begun_us| begun_us <= at_us)
            && paged_us.is_none_or(|paged_us| paged_us > at_us)
    }
}

/// A result of a node.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    rule: usize,
    group: usize,
    /// Kind and place of its window.
    window: Option<(usize, i64)>,
    given: Given,
}

impl FleetEngine {
    /// Rules of a fleet without targets. `named` are the windows of `over: named`.
    pub fn new(rules: Arc<RuleSet>, named: &[NamedWindow]) -> FleetEngine {
        FleetEngine::of(Arc::new(Plan::new(rules, named)))
    }

    pub(crate) fn of(plan: Arc<Plan>) -> FleetEngine {
        let mut sheet = Sheet::new(plan, Level::Fleet, None);
        sheet.settled.fill(i64::MIN);
        FleetEngine {
            sheet,
            targets: Vec::new(),
            by_name: HashMap::new(),
            waiting: BTreeMap::new(),
            settled_us: i64::MIN,
            last_ones: 0,
            given_us: i64::MIN,
            has_ended: false,
        }
    }

    /// The target of a name. From now on every instant waits for it, until it has ended.
    pub fn target(&mut self, node: &str) -> TargetId {
        if let Some(id) = self.by_name.get(node) {
            return *id;
        }
        let id = TargetId(self.targets.len());
        let progress = Progress { settled_us: i64::MIN, begun_us: None, paged_us: None };
        let name: Arc<str> = node.into();
        self.by_name.insert(Arc::clone(&name), id);
        self.targets.push(Target { name, progress, has_ended: false });
        self.find_last_ones();
        id
    }

    /// Takes a result of a rule of nodes; one that no rule of the fleet takes is left. Results that a node had settled
    /// come before its [`FleetEngine::progress`] says so.
    pub fn take(&mut self, result: &Derived) {
        let plan = &self.sheet.plan;
        if plan.takers_of_rule(result.rule, Level::Fleet).next().is_none() {
            return;
        }
        let over = plan.rules[result.rule].over;
        let window = over.and_then(|over| Some((over, plan.stretches[over].place_of(result)?)));
        let settled_us = match (over, window) {
            (None, _) => result.at_us,
            (Some(_), Some((over, place))) => plan.due_us(over, place).unwrap_or(END_US),
            // A window that the plan does not have is of another plan.
            (Some(_), None) => return,
        };
        let group = self.sheet.place(result.rule, result.node.as_ref(), &result.labels);
        if let Some(of) = self.sheet.rules[result.rule].get_mut(group) {
            of.first_us = of.first_us.min(settled_us);
        }
        let given = Given {
            value: result.value.ok_or(result.state),
            bounds: result.low.zip(result.high).filter(|_| result.value.is_some()),
            covered: result.coverage,
            restarted: false,
        };
        let waiting = Waiting { rule: result.rule, group, window, given };
        self.waiting.entry(settled_us).or_default().push(waiting);
    }

    /// Says how far a target is, and settles what is settled by that.
    pub fn progress(&mut self, target: TargetId, progress: Progress) {
        let Some(of) = self.targets.get_mut(target.0) else { return };
        let held = of.holds(self.settled_us);
        of.progress = progress;
        let holds = of.holds(self.settled_us);
        self.go_on(held, holds);
    }

    /// Says that a target that had ended is recorded again: from now on every instant waits for it. It begins anew.
    pub fn begin_target(&mut self, target: TargetId) {
        let Some(of) = self.targets.get_mut(target.0).filter(|of| of.has_ended) else { return };
        of.has_ended = false;
        of.progress.settled_us = i64::MIN;
        self.find_last_ones();
    }

    /// Says that a target is not recorded any more: no instant waits for it.
    pub fn end_target(&mut self, target: TargetId) {
        let Some(of) = self.targets.get_mut(target.0) else { return };
        let held = of.holds(self.settled_us);
        of.has_ended = true;
        self.go_on(held, false);
    }

    /// Settles what nothing holds up any more.
    fn go_on(&mut self, held: bool, holds: bool) {
        self.last_ones = self.last_ones.saturating_sub(usize::from(held)) + usize::from(holds);
        if self.last_ones == 0 {
            self.find_last_ones();
            self.settle_before(self.settled_us);
        }
    }

    /// Says that a node had a result before all that come: a recorder that goes on knows its members, though it takes in
    /// the recording's tail alone.
    pub fn remember(&mut self, rule: usize, node: &str, labels: &str) {
        if self.sheet.plan.takers_of_rule(rule, Level::Fleet).next().is_some() {
            let group = self.sheet.place(rule, Some(&node.into()), labels);
            if let Some(of) = self.sheet.rules[rule].get_mut(group) {
                of.first_us = -FAR_US;
            }
        }
    }

    /// Says that what is settled up to this instant, in microseconds since the Unix epoch, was given before.
    pub fn given_until(&mut self, instant_us: i64) {
        self.given_us = instant_us;
    }

    /// Ends the recording, of which every target has said how far it came: settles the named windows.
    pub fn finish(&mut self) {
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        self.work(END_US);
    }

    /// Takes out the results that are settled: instants rising, rules in the order of the file, windows, groups.
    pub fn derived(&mut self) -> impl Iterator<Item = Derived> + '_ {
        self.sheet.out.drain(..)
    }

    /// See [`NodeEngine::explain`](crate::engine::NodeEngine::explain).
    pub fn explain(&mut self, rule: usize, at_us: i64) {
        self.sheet.watched = Some((rule, at_us));
    }

    /// Takes out the explanations.
    pub fn explanations(&mut self) -> impl Iterator<Item = Explanation> + '_ {
        self.sheet.explanations.drain(..)
    }

    /// Finds how far every target is: those that have ended hold nothing up, and where all have, all is settled.
    fn find_last_ones(&mut self) {
        let going = self.targets.iter().filter(|target| !target.has_ended);
        let furthest_us = self.targets.iter().map(|target| target.progress.settled_us).max();
        let settled_us = going.map(|target| target.progress.settled_us).min().or(furthest_us);
        self.settled_us = settled_us.unwrap_or(i64::MIN);
        let holds = |target: &&Target| target.holds(self.settled_us);
        self.last_ones = self.targets.iter().filter(holds).count();
    }

    fn settle_before(&mut self, limit_us: i64) {
        loop {
            let waiting_us = self.waiting.first_key_value().map(|(instant_us, _)| *instant_us);
            let next_us = waiting_us.into_iter().chain(self.sheet.next_due_us()).min();
            match next_us.filter(|next_us| *next_us < limit_us) {
                Some(next_us) => self.work(next_us),
                None => return,
            }
        }
    }

    fn work(&mut self, at_us: i64) {
        let waiting = self.waiting.remove(&at_us).unwrap_or_default();
        if !self.has_ended {
            self.sheet.settle_windows(at_us - self.sheet.plan.every_us);
        }
        for waiting in &waiting {
            self.load(waiting);
        }
        let explained = self.sheet.explanations.len();
        self.sheet.work(Round {
            at_us,
            is_end: self.has_ended,
            has_instant: waiting.iter().any(|waiting| waiting.window.is_none()),
            series: &[],
            scraped: &[],
            unknown: self.targets.iter().filter(|target| target.is_unknown(at_us)).count(),
            is_quiet: at_us <= self.given_us,
        });
        for waiting in &waiting {
            if let Some(group) = self.sheet.rules[waiting.rule].get_mut(waiting.group) {
                group.results.clear();
            }
        }
        for explanation in &mut self.sheet.explanations[explained..] {
            let unknown = self.targets.iter().filter(|target| target.is_unknown(at_us));
            let parts = explanation.parts.iter_mut().filter(|part| part.found == Found::Unknown);
            for (part, target) in parts.zip(unknown) {
                part.node = Some(Arc::clone(&target.name));
            }
        }
    }

    /// Puts a result where the rules that take it look for it.
    fn load(&mut self, waiting: &Waiting) {
        let nth = match waiting.window {
            None => 0,
            Some((over, place)) => {
                self.sheet.reached[over] = self.sheet.reached[over].max(place);
                let first = if self.has_ended { 0 } else { self.sheet.settled[over] };
                usize::try_from(place - first).unwrap_or(0)
            }
        };
        if let Some(group) = self.sheet.rules[waiting.rule].get_mut(waiting.group) {
            let length = group.results.len().max(nth + 1);
            group.results.resize(length, None);
            group.results[nth] = Some(waiting.given);
        }
    }
}
