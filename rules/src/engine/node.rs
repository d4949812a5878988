//! The rules of one node over the scrapes of one target, as they come.
//!
//! An instant is worked out when it is settled: when the next scrape is too late for it. Until then a scrape only leaves
//! its readings; what it costs does not depend on how many there were before.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::engine::clock::{END_US, FAR_US, Moment, ceil_to, floor_to, seconds};
use crate::engine::derived::Derived;
use crate::engine::explain::Explanation;
use crate::engine::labels::Labels;
use crate::engine::plan::{Level, NamedWindow, Plan};
use crate::engine::scrape::{Answer, Observed, Scrape, SeriesId};
use crate::engine::series::Series;
use crate::engine::sheet::Sheet;
use crate::engine::stream::Arrival;
use crate::engine::stretches::Places;
use crate::engine::work::Round;
use crate::rule::{From, RuleSet};
use crate::state::State;

/// How long after the beginning of its scrape a reading may lie, in microseconds: far more than a scrape takes. What is
/// later has a time that cannot be, and would have to be kept until that time comes.
const AHEAD_MAX_US: i64 = 60_000_000;

/// The rules of one node.
#[derive(Debug)]
pub struct NodeEngine {
    sheet: Sheet,
    node: Arc<str>,
    /// By metric and labels: series of sockets, and series of pages.
    known: [HashMap<String, HashMap<String, SeriesId>>; 2],
    series: Vec<Series>,
    /// The next instant that is not settled; `None` before the first scrape.
    next_us: Option<i64>,
    /// The scrape that came last, counted from 1.
    scrape: u64,
    /// The latest time at which a scrape began.
    reached_us: i64,
    /// The latest beginning of a scrape at or before the next instant, and those after it.
    begun_us: i64,
    begun_later: VecDeque<i64>,
    /// The latest failed scrape that began at or before the next instant, and those that began after it.
    failed: u64,
    failed_later: VecDeque<(u64, i64)>,
    /// By kind of windows: those in which a scrape began.
    scraped: Vec<Places>,
    /// When the first scrape began, and when the first page and all readings on it are past.
    first_us: Option<i64>,
    paged_us: Option<i64>,
    /// Results up to this instant were given before.
    given_us: i64,
    has_ended: bool,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Every instant before this is settled, in microseconds since the Unix epoch.
    pub settled_us: i64,
    /// When its first scrape began; `None` before it.
    pub begun_us: Option<i64>,
    /// When its first page and all readings on it are past; `None` when there is no page.
    pub paged_us: Option<i64>,
}

impl NodeEngine {
    /// Rules of a node that has no series yet. `named` are the windows of `over: named`.
    pub fn new(rules: Arc<RuleSet>, node: &str, named: &[NamedWindow]) -> NodeEngine {
        NodeEngine::of(Arc::new(Plan::new(rules, named)), node.into())
    }

    pub(crate) fn of(plan: Arc<Plan>, node: Arc<str>) -> NodeEngine {
        let scraped = plan.stretches.iter().map(|_| Places::default()).collect();
        NodeEngine {
            sheet: Sheet::new(plan, Level::Node, Some(Arc::clone(&node))),
            node,
            known: [HashMap::new(), HashMap::new()],
            series: Vec::new(),
            next_us: None,
            scrape: 0,
            reached_us: i64::MIN,
            begun_us: i64::MIN,
            begun_later: VecDeque::new(),
            failed: 0,
            failed_later: VecDeque::new(),
            scraped,
            first_us: None,
            paged_us: None,
            given_us: i64::MIN,
            has_ended: false,
        }
    }

    /// The place of a series, by its metric and the text of its labels (sorted by name and escaped, as in the table
    /// `readings`; see [`SocketSeries`](crate::engine::SocketSeries) for those of sockets). `None` when no rule takes it,
    /// or the text is no such text. It is worth keeping: this is slower than a scrape.
    pub fn series(&mut self, from: From, metric: &str, labels: &str) -> Option<SeriesId> {
        let kind = usize::from(from == From::Page);
        let known = self.known[kind].get(metric).and_then(|known| known.get(labels));
        if let Some(id) = known {
            return Some(*id);
        }
        if self.sheet.plan.takers_of_metric(from, metric).is_empty() {
            return None;
        }
        let id = self.series.len();
        let node = Arc::clone(&self.node);
        let taken = self.sheet.add_series(from, metric, &Labels::read(&node, labels)?, id);
        if taken.feeds.is_empty() && !taken.at_instants {
            return None;
        }
        let mut series = Series::new(metric, labels, from == From::Page);
        series.feeds = taken.feeds;
        series.is_seen = taken.at_instants;
        self.series.push(series);
        // More series than 2^32 do not fit into memory.
        let place = SeriesId(u32::try_from(id).ok()?);
        self.known[kind].entry(metric.to_owned()).or_default().insert(labels.to_owned(), place);
        Some(place)
    }

    /// The metric and the labels of a series.
    pub fn name_of(&self, series: SeriesId) -> Option<(&str, &str)> {
        let of = self.series.get(series.0 as usize)?;
        Some((&of.metric, &of.labels))
    }

    /// Says that a series was read before all scrapes that come: a recorder that goes on knows its members, though it
    /// takes in the recording's tail alone.
    pub fn remember(&mut self, series: SeriesId) {
        let Some(of) = self.series.get_mut(series.0 as usize) else { return };
        of.remember();
        self.paged_us = Some(-FAR_US);
        self.sheet.remember_series(series.0 as usize);
    }

    /// Says that the target gave a page before all scrapes that come, with or without series that a rule takes.
    pub fn remember_page(&mut self) {
        self.paged_us = Some(-FAR_US);
    }

    /// Says that the target was scraped before all scrapes that come, first at this time in Unix seconds. Without a page
    /// since ever it may be a node with anything.
    pub fn remember_scrape(&mut self, start_s: f64) {
        self.first_us.get_or_insert(Moment::of(start_s).ceil_us);
    }

    /// Says that what is settled up to this instant, in microseconds since the Unix epoch, was given before: it is
    /// worked out again, as windows need it, and not given again.
    pub fn given_until(&mut self, instant_us: i64) {
        self.given_us = instant_us;
    }

    /// Takes a scrape. One whose number is not above that of the one before is as if it were not there.
    pub fn push(&mut self, scrape: &Scrape<'_>) {
        let turn = scrape.seq.saturating_add(1);
        if turn <= self.scrape || !scrape.start_s.is_finite() || self.has_ended {
            return;
        }
        self.scrape = turn;
        let begun = Moment::of(scrape.start_s);
        self.settle_before(begun.ceil_us, scrape.begins_session);
        self.note_beginning(begun);
        match scrape.answer {
            Answer::Failed => self.note_failure(begun.ceil_us),
            Answer::Page { sockets, samples } => self.take_page(begun.ceil_us, sockets, samples),
        }
    }

    /// Ends the recording: settles the instants up to the beginning of the last scrape, and the named windows.
    pub fn finish(&mut self) {
        if self.has_ended {
            return;
        }
        self.settle(self.reached_us);
        self.has_ended = true;
        self.work(END_US, false);
    }

    /// Takes out the results that are settled: instants rising, rules in the order of the file, windows, groups.
    pub fn derived(&mut self) -> impl Iterator<Item = Derived> + '_ {
        self.sheet.out.drain(..)
    }

    /// Has the results of one rule explained: those of an instant, or of the window that ends then, in microseconds
    /// since the Unix epoch. To be said before that is settled.
    pub fn explain(&mut self, rule: usize, at_us: i64) {
        self.sheet.watched = Some((rule, at_us));
    }

    /// Takes out the explanations.
    pub fn explanations(&mut self) -> impl Iterator<Item = Explanation> + '_ {
        self.sheet.explanations.drain(..)
    }

    /// How far it is, for [`FleetEngine::progress`](crate::engine::FleetEngine::progress).
    pub fn progress(&self) -> Progress {
        let settled_us = self.next_us.unwrap_or(i64::MIN);
        Progress { settled_us, begun_us: self.first_us, paged_us: self.paged_us }
    }

    /// Groups that have results since ever: rule and labels.
    pub fn remembered(&self) -> impl Iterator<Item = (usize, &str)> + '_ {
        let rules = self.sheet.rules.iter().enumerate();
        rules.flat_map(|(rule, groups)| {
            let groups = groups.iter().filter(|group| group.first_us == -FAR_US);
            groups.map(move |group| (rule, &*group.labels))
        })
    }

    /// Settles what a scrape settles that begins then.
    fn settle_before(&mut self, begun_us: i64, begins_session: bool) {
        let plan = &self.sheet.plan;
        if self.next_us.is_none() {
            let first_us = ceil_to(begun_us, plan.every_us);
            self.next_us = Some(first_us);
            self.sheet.begin_at(first_us);
            return;
        }
        // A new recording settles what the end of the one before would have, and counts from its own beginning.
        let limit_us = match begins_session {
            true => self.reached_us.max(begun_us - 1),
            false => begun_us - 1 - plan.lateness_us,
        };
        self.settle(limit_us);
    }

    /// Settles the instants up to a time. Those at which nothing can be are passed over.
    fn settle(&mut self, limit_us: i64) {
        let every_us = self.sheet.plan.every_us;
        let Some(mut next_us) = self.next_us.filter(|next_us| *next_us <= limit_us) else { return };
        while next_us <= limit_us {
            self.pass(next_us);
            let has_instant = self.begun_us > next_us - self.sheet.plan.look_back_us;
            let due_us = self.sheet.next_due_us();
            if has_instant || due_us.is_some_and(|due_us| due_us <= next_us) {
                self.work(next_us, has_instant);
                next_us += every_us;
                continue;
            }
            let begun_us =
                self.begun_later.iter().min().map(|begun_us| ceil_to(*begun_us, every_us));
            let then_us = begun_us.into_iter().chain(due_us).min().unwrap_or(i64::MAX);
            next_us = then_us.max(next_us + every_us).min(floor_to(limit_us, every_us) + every_us);
        }
        self.sheet.settle_windows(next_us - every_us);
        self.pass(next_us);
        self.next_us = Some(next_us);
    }

    /// Takes over what was later than the instants before and is not later than this one.
    fn pass(&mut self, instant_us: i64) {
        self.begun_later.retain(|begun_us| {
            let is_past = *begun_us <= instant_us;
            if is_past {
                self.begun_us = self.begun_us.max(*begun_us);
            }
            !is_past
        });
        self.failed_later.retain(|&(scrape, begun_us)| {
            let is_past = begun_us <= instant_us;
            if is_past {
                self.failed = self.failed.max(scrape);
            }
            !is_past
        });
    }

    fn work(&mut self, at_us: i64, has_instant: bool) {
        let is_end = self.has_ended;
        if has_instant {
            let look_back_us = self.sheet.plan.look_back_us;
            for series in self.series.iter_mut().filter(|series| series.is_seen) {
                series.see(at_us, look_back_us, self.failed);
            }
        }
        self.sheet.work(Round {
            at_us,
            is_end,
            has_instant,
            series: &self.series,
            scraped: &self.scraped,
            unknown: 0,
            is_quiet: at_us <= self.given_us,
        });
        for (scraped, settled) in self.scraped.iter_mut().zip(&self.sheet.settled) {
            scraped.begin_at(*settled);
        }
    }

    fn note_beginning(&mut self, begun: Moment) {
        self.first_us.get_or_insert(begun.ceil_us);
        self.reached_us = self.reached_us.max(begun.ceil_us);
        if self.next_us.is_some_and(|next_us| begun.ceil_us <= next_us) {
            self.begun_us = self.begun_us.max(begun.ceil_us);
        } else {
            self.begun_later.push_back(begun.ceil_us);
        }
        for (over, stretches) in self.sheet.plan.stretches.iter().enumerate() {
            if !stretches.are_named() {
                let first = stretches.first(begun).max(self.sheet.settled[over]);
                self.scraped[over].insert(first, stretches.last(begun));
            }
        }
        for over in 0..self.scraped.len() {
            self.sheet.reach(over, begun);
        }
    }

    fn note_failure(&mut self, begun_us: i64) {
        if self.next_us.is_some_and(|next_us| begun_us <= next_us) {
            self.failed = self.scrape;
        } else {
            self.failed_later.push_back((self.scrape, begun_us));
        }
    }

    fn take_page(&mut self, begun_us: i64, sockets: &[Observed], samples: &[Observed]) {
        let mut latest_us = begun_us;
        for observed in sockets.iter().chain(samples) {
            latest_us = latest_us.max(self.take(begun_us, observed));
        }
        // After a clock was set back it counts for the instants that are not settled yet.
        self.paged_us.get_or_insert(latest_us.max(self.next_us.unwrap_or(i64::MIN)));
        for series in &mut self.series {
            series.note_page(self.scrape, begun_us);
        }
    }

    /// Takes a reading, and says when it is.
    fn take(&mut self, begun_us: i64, observed: &Observed) -> i64 {
        let NodeEngine { series, sheet, scrape, next_us, .. } = self;
        let Some(of) = series.get_mut(observed.series.0 as usize) else { return begun_us };
        let is_sound = observed.at_s.is_finite()
            && Moment::of(observed.at_s).ceil_us <= begun_us + AHEAD_MAX_US;
        let (at_s, value) = match is_sound {
            true => (observed.at_s, observed.value),
            false => (seconds(begun_us), Err(State::Implausible)),
        };
        let at_us = Moment::of(at_s).ceil_us;
        of.push(*scrape, at_us, value, next_us.unwrap_or(i64::MIN));
        let arrival = Arrival { turn: *scrape, at_s, value, since_s: observed.since_s };
        for feed in &of.feeds {
            sheet.feed(*feed, arrival);
        }
        at_us
    }
}
