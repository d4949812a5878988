//! The groups of all rules of one level, of a node or of the fleet: which there are, and what is in them.
//!
//! A series is matched once, when it is first seen: from then on its members know where they belong, and a group whose
//! results another rule takes is a member there from the beginning. `work.rs` works the rules out.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::clock::{FAR_US, Moment};
use crate::engine::derived::Derived;
use crate::engine::explain::Explanation;
use crate::engine::group::{Group, Member, Source};
use crate::engine::labels::Labels;
use crate::engine::ordered::Ordered;
use crate::engine::outcome::Given;
use crate::engine::plan::{Level, Plan};
use crate::engine::series::Feed;
use crate::engine::stream::{Arrival, Stream};
use crate::rule::From;

/// Groups, windows, and results that were not fetched yet.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) plan: Arc<Plan>,
    pub(crate) level: Level,
    /// The node of all results, of a sheet of one node.
    pub(crate) node: Option<Arc<str>>,
    /// By rule.
    pub(crate) rules: Vec<Ordered<Group>>,
    /// By kind of windows: the first that is not settled, and the last that anything may be in.
    pub(crate) settled: Vec<i64>,
    pub(crate) reached: Vec<i64>,
    /// By kind of windows: those that are settled at the instant that is worked out.
    pub(crate) due: Vec<std::ops::Range<i64>>,
    /// The members of the group that is worked out, by input: as many as the rule with the most has.
    pub(crate) members: Vec<Vec<Given>>,
    pub(crate) out: VecDeque<Derived>,
    /// The rule and the instant, or end of a window, whose results are explained.
    pub(crate) watched: Option<(usize, i64)>,
    pub(crate) explanations: Vec<Explanation>,
}

/// What a new series is taken by.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Members that gather its readings over windows.
    pub(crate) feeds: Vec<Feed>,
    /// Whether it is a member at instants.
    pub(crate) at_instants: bool,
}

impl Sheet {
    pub(crate) fn new(plan: Arc<Plan>, level: Level, node: Option<Arc<str>>) -> Sheet {
        let inputs = plan.rules.iter().map(|rule| rule.zero_is_missing.len()).max().unwrap_or(0);
        let (rules, kinds) = (plan.rules.len(), plan.stretches.len());
        Sheet {
            rules: std::iter::repeat_with(Ordered::default).take(rules).collect(),
            settled: vec![0; kinds],
            reached: vec![i64::MIN; kinds],
            due: vec![0..0; kinds],
            members: vec![Vec::new(); inputs],
            out: VecDeque::new(),
            watched: None,
            explanations: Vec::new(),
            plan,
            level,
            node,
        }
    }

    /// Makes a new series a member of the rules that take it.
    pub(crate) fn add_series(
        &mut self,
        from: From,
        metric: &str,
        labels: &Labels<'_>,
        id: usize,
    ) -> Taken {
        let plan = Arc::clone(&self.plan);
        let mut taken = Taken::default();
        for &(rule, number) in plan.takers_of_metric(from, metric) {
            let Some(input) = plan.input(rule, number) else { continue };
            let is_of_here = plan.rules[rule].level == self.level;
            if !is_of_here || !labels.are_taken_by(&input.selector, metric) {
                continue;
            }
            let key = (None, labels.text_of(&input.member));
            let feed = self.add_member(rule, number, labels, key, Source::Series(id));
            if plan.rules[rule].gathers.is_empty() {
                taken.at_instants = true;
            } else {
                taken.feeds.push(feed);
            }
        }
        taken
    }

    /// The place of a group of a rule, which is made, and made a member of the rules that take it, when it is new.
    pub(crate) fn place(&mut self, rule: usize, node: Option<&Arc<str>>, labels: &str) -> usize {
        let plan = Arc::clone(&self.plan);
        let inputs = plan.rules[rule].zero_is_missing.len();
        let key = (node.map_or("", |node| node), labels);
        let (group, is_new) =
            self.rules[rule].place(key, || Group::new(node.cloned(), labels, inputs));
        if is_new {
            self.announce(&plan, rule, group, node, labels);
        }
        group
    }

    fn announce(
        &mut self,
        plan: &Plan,
        rule: usize,
        group: usize,
        node: Option<&Arc<str>>,
        text: &str,
    ) {
        let of_node = node.cloned().or_else(|| self.node.clone());
        let Some(labels) = Labels::read(of_node.as_deref().unwrap_or_default(), text) else {
            return;
        };
        let name = plan.set.rules[rule].name.as_str();
        for (taker, number) in plan.takers_of_rule(rule, self.level) {
            let Some(input) = plan.input(taker, number) else { continue };
            if !labels.are_taken_by(&input.selector, name) {
                continue;
            }
            let key = (node.cloned(), text.to_owned());
            self.add_member(taker, number, &labels, key, Source::Results { rule, group });
        }
    }

    fn add_member(
        &mut self,
        rule: usize,
        number: usize,
        labels: &Labels<'_>,
        (node, text): (Option<Arc<str>>, String),
        source: Source,
    ) -> Feed {
        let plan = Arc::clone(&self.plan);
        let group = self.place(rule, None, &labels.text_of(&plan.set.rules[rule].by));
        let zero_is_missing = plan.rules[rule].zero_is_missing.get(number) == Some(&true);
        let gathers = plan.rules[rule].gathers.get(number).copied();
        let mut feed = Feed { rule, group, input: number, member: 0 };
        let inputs = self.rules[rule].get_mut(group).map(|group| &mut group.inputs);
        if let Some(members) = inputs.and_then(|inputs| inputs.get_mut(number)) {
            let key = (node.as_deref().unwrap_or_default(), text.as_str());
            let stream = || gathers.map(|gathers| Stream::new(gathers, zero_is_missing));
            let (member, _) = members.place(key, || Member::new(node.clone(), &text, stream()));
            feed.member = member;
            if let Some(member) = members.get_mut(member) {
                member.add(source, labels.text());
            }
        }
        feed
    }

    /// Hands a reading to a member that gathers it over windows.
    pub(crate) fn feed(&mut self, feed: Feed, arrival: Arrival) {
        let Some(over) = self.plan.rules[feed.rule].over else { return };
        self.reach(over, Moment::of(arrival.at_s));
        let horizon = self.plan.horizon(over, self.settled[over]);
        let group = self.rules[feed.rule].get_mut(feed.group);
        let members = group.and_then(|group| group.inputs.get_mut(feed.input));
        let member = members.and_then(|members| members.get_mut(feed.member));
        if let Some(stream) = member.and_then(|member| member.stream.as_mut()) {
            stream.take(horizon, arrival);
        }
    }

    /// Notes that something is in the windows that begin by a moment.
    pub(crate) fn reach(&mut self, over: usize, moment: Moment) {
        self.reached[over] = self.reached[over].max(self.plan.stretches[over].last(moment));
    }

    /// The next instant at which a window is due that anything may be in.
    pub(crate) fn next_due_us(&self) -> Option<i64> {
        let kinds = 0..self.settled.len();
        let open = kinds.filter(|&over| self.settled[over] <= self.reached[over]);
        open.filter_map(|over| self.plan.due_us(over, self.settled[over])).min()
    }

    /// Leaves out the windows that are due by an instant, as nothing is in them.
    pub(crate) fn settle_windows(&mut self, instant_us: i64) {
        for over in 0..self.settled.len() {
            let first = self.plan.first_after(over, instant_us);
            self.settled[over] = self.settled[over].max(first);
        }
    }

    /// Begins: windows that are due before an instant are none.
    pub(crate) fn begin_at(&mut self, instant_us: i64) {
        self.settled.fill(i64::MIN);
        for over in 0..self.settled.len() {
            self.settled[over] = self.plan.first_after(over, instant_us - self.plan.every_us);
        }
    }

    /// Has the groups that a series leads give results since ever.
    pub(crate) fn remember_series(&mut self, id: usize) {
        for rule in 0..self.rules.len() {
            self.remember_led_by(rule, Source::Series(id));
        }
    }

    fn remember_led_by(&mut self, rule: usize, source: Source) {
        let leading = self.plan.rules[rule].leading;
        let is_led = |group: &Group| {
            let mut members = group.inputs.iter().take(leading).flat_map(|members| members.iter());
            members.any(|member| member.sources.contains(&source))
        };
        let groups = 0..self.rules[rule].len();
        let led: Vec<usize> =
            groups.filter(|&group| self.rules[rule].get(group).is_some_and(is_led)).collect();
        led.into_iter().for_each(|group| self.remember(rule, group));
    }

    /// Has a group, and those that it leads, give results since ever.
    pub(crate) fn remember(&mut self, rule: usize, group: usize) {
        let Some(of) = self.rules[rule].get_mut(group) else { return };
        if of.first_us == -FAR_US {
            return;
        }
        of.first_us = -FAR_US;
        let source = Source::Results { rule, group };
        let plan = Arc::clone(&self.plan);
        for (taker, _) in plan.takers_of_rule(rule, self.level) {
            self.remember_led_by(taker, source);
        }
    }
}
