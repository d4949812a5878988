//! The rules of one target over its recorded scrapes: the one way from rows to results, while they are recorded and after.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use wattscribe_rules::engine::{
    Answer, Derived, Explanation, NamedWindow, NodeEngine, Observed, Progress, Scrape, SeriesId,
    SocketRow, SocketSeries,
};
use wattscribe_rules::rule::{From, RuleSet};

use super::mark::{SampleMark, ScrapeMark, SocketMark};
use super::piece::TargetPiece;
use crate::RuleMember;
use crate::column::seconds;

/// The rules of one target.
#[derive(Debug)]
pub struct TargetRules {
    target: Arc<str>,
    rules: Arc<RuleSet>,
    named: Vec<NamedWindow>,
    node: NodeEngine,
    sockets: SocketSeries,
    has_ended: bool,
    before: Option<ScrapeMark>,
    /// Whether that scrape is the first of a recording, and when the first began.
    begins_session: bool,
    begun_us: i64,
    /// Series that were met, and of these the ones that nobody took out yet.
    met: HashSet<SeriesId>,
    /// Groups that had a result which the fleet takes: rule and labels.
    groups: HashSet<(usize, Arc<str>)>,
    members: Vec<RuleMember>,
    simulated_since_us: Option<i64>,
    /// See [`TargetRules::given_until`].
    given_us: i64,
    observed_sockets: Vec<Observed>,
    observed_samples: Vec<Observed>,
}

impl TargetRules {
    /// The rules of a target that was not recorded yet. `named` are the windows of `over: named`.
    pub fn new(rules: Arc<RuleSet>, target: &str, named: &[NamedWindow]) -> TargetRules {
        TargetRules {
            target: target.into(),
            node: NodeEngine::new(Arc::clone(&rules), target, named),
            rules,
            named: named.to_vec(),
            sockets: SocketSeries::new(),
            has_ended: false,
            before: None,
            begins_session: false,
            begun_us: i64::MIN,
            met: HashSet::new(),
            groups: HashSet::new(),
            members: Vec::new(),
            simulated_since_us: None,
            given_us: i64::MIN,
            observed_sockets: Vec::new(),
            observed_samples: Vec::new(),
        }
    }

    /// Takes the scrapes of a piece that began at or after a time in Unix microseconds; pieces come in their order. After
    /// its end the target begins anew: of what was before, it knows its members.
    pub fn take(&mut self, piece: &TargetPiece, from_us: i64) {
        if self.has_ended {
            self.begin_anew();
        }
        let series: Vec<Option<SeriesId>> = piece
            .sample_series
            .iter()
            .map(|of| self.node.series(From::Page, &of.metric, &of.labels))
            .collect();
        let (mut samples, mut sockets) = (piece.samples.as_slice(), piece.sockets.as_slice());
        for scrape in &piece.scrapes {
            let samples = of_scrape(&mut samples, scrape.seq, |sample| sample.seq);
            let sockets = of_scrape(&mut sockets, scrape.seq, |socket| socket.seq);
            if scrape.start_us >= from_us {
                self.begin_scrape(scrape);
                self.observe_samples(samples, &series);
                self.observe_sockets(piece, scrape, sockets);
                self.push(scrape);
            }
        }
    }

    fn begin_anew(&mut self) {
        let next = NodeEngine::new(Arc::clone(&self.rules), &self.target, &self.named);
        let before = std::mem::replace(&mut self.node, next);
        let Progress { begun_us, paged_us, .. } = before.progress();
        if let Some(begun_us) = begun_us {
            self.node.remember_scrape(seconds(begun_us));
        }
        if paged_us.is_some() {
            self.node.remember_page();
        }
        self.node.given_until(self.given_us);
        self.sockets = SocketSeries::new();
        self.before = None;
        self.has_ended = false;
        for met in std::mem::take(&mut self.met) {
            if let Some((metric, labels)) = before.name_of(met) {
                self.remember_series(metric, labels);
            }
        }
    }

    fn observe_samples(&mut self, samples: &[SampleMark], series: &[Option<SeriesId>]) {
        self.observed_samples.clear();
        let observed = samples.iter().filter_map(|sample| {
            let series = series[sample.series as usize]?;
            let (at_s, value) = (seconds(sample.at_us), Ok(sample.value));
            Some(Observed { series, at_s, value, since_s: None })
        });
        self.observed_samples.extend(observed);
    }

    fn observe_sockets(&mut self, piece: &TargetPiece, scrape: &ScrapeMark, rows: &[SocketMark]) {
        self.observed_sockets.clear();
        for row in rows {
            if row.is_simulated && self.simulated_since_us.is_none() {
                // It counts for instants from so long before it on, though not before its recording began.
                let lateness_us = whole_us(self.rules.timing.lateness);
                let since_us = scrape.start_us.saturating_sub(lateness_us).max(self.begun_us);
                self.simulated_since_us = Some(since_us);
            }
            let of = &piece.socket_series[row.series as usize];
            let row = SocketRow {
                at_s: row.at_s,
                source: &of.source,
                socket: of.socket,
                state: row.state,
                power_w: row.power_w,
                cpu_rail_w: row.cpu_rail_w,
                soc_w: row.soc_w,
                dram_w: row.dram_w,
                module_w: row.module_w,
                counter_j: row.counter_j,
                counter_at_s: row.counter_at_s,
                counter_since_s: row.counter_since_s,
            };
            self.sockets.observe(&mut self.node, &row, &mut self.observed_sockets);
        }
    }

    fn begin_scrape(&mut self, scrape: &ScrapeMark) {
        let before = self.before.replace(*scrape);
        self.begins_session = before.is_some_and(|before| scrape.begins_session_after(&before));
        if self.begins_session || before.is_none() {
            self.begun_us = scrape.start_us;
        }
        // One that never gives a page has no series to be known by, and is expected all the same.
        if !scrape.is_ok && self.node.progress().begun_us.is_none() {
            self.members.push(RuleMember {
                timestamp_us: scrape.start_us,
                target: (*self.target).to_owned(),
                metric: String::new(),
                labels: String::new(),
                simulated: self.simulated_since_us.is_some(),
            });
        }
    }

    fn push(&mut self, scrape: &ScrapeMark) {
        let begins_session = self.begins_session;
        let (sockets, samples) = (&self.observed_sockets, &self.observed_samples);
        let answer = match scrape.is_ok {
            true => Answer::Page { sockets, samples },
            false => Answer::Failed,
        };
        let start_s = seconds(scrape.start_us);
        self.node.push(&Scrape { seq: scrape.seq, start_s, begins_session, answer });
        for observed in sockets.iter().chain(samples) {
            if self.met.insert(observed.series)
                && let Some((metric, labels)) = self.node.name_of(observed.series)
            {
                self.members.push(RuleMember {
                    timestamp_us: scrape.start_us,
                    target: (*self.target).to_owned(),
                    metric: metric.to_owned(),
                    labels: labels.to_owned(),
                    simulated: self.simulated_since_us.is_some(),
                });
            }
        }
    }

    /// Says that a series, or the target itself, was met before all scrapes that come. Returns whether a rule takes it.
    pub fn remember(&mut self, member: &RuleMember) -> bool {
        if member.simulated {
            let since_us = self.simulated_since_us.get_or_insert(member.timestamp_us);
            *since_us = member.timestamp_us.min(*since_us);
        }
        if member.is_target() {
            self.node.remember_scrape(seconds(member.timestamp_us));
            return false;
        }
        self.remember_series(&member.metric, &member.labels)
    }

    fn remember_series(&mut self, metric: &str, labels: &str) -> bool {
        let of_socket = self.node.series(From::Sockets, metric, labels);
        let Some(series) = of_socket.or_else(|| self.node.series(From::Page, metric, labels))
        else {
            return false;
        };
        self.met.insert(series);
        self.sockets.remember(series);
        self.node.remember(series);
        true
    }

    /// Notes a result that the fleet takes, of this rule and settled at this instant, in Unix microseconds.
    pub(super) fn note_result(&mut self, rule: &str, result: &Derived, settled_us: i64) {
        let group = (result.rule, Arc::clone(&result.labels));
        if self.groups.insert(group) {
            self.members.push(RuleMember {
                timestamp_us: settled_us,
                target: (*self.target).to_owned(),
                metric: rule.to_owned(),
                labels: (*result.labels).to_owned(),
                simulated: self.simulated_since_us.is_some(),
            });
        }
    }

    /// Says that a group had a result before all scrapes that come.
    pub fn remember_result(&mut self, rule: usize, labels: &str) {
        self.groups.insert((rule, labels.into()));
    }

    /// Takes out the members that were met for the first time.
    pub fn members(&mut self) -> impl Iterator<Item = RuleMember> + '_ {
        self.members.drain(..)
    }

    /// The name of the target.
    pub fn target(&self) -> &Arc<str> {
        &self.target
    }

    /// Since which instant results may be made of simulated readings, in Unix microseconds.
    pub fn simulated_since_us(&self) -> Option<i64> {
        self.simulated_since_us
    }

    /// Says that the target is simulated, where its rows cannot.
    pub fn simulated(&mut self) {
        self.simulated_since_us = Some(i64::MIN);
    }

    /// See [`NodeEngine::remember_page`].
    pub fn remember_page(&mut self) {
        self.node.remember_page();
    }

    /// See [`NodeEngine::given_until`].
    pub fn given_until(&mut self, instant_us: i64) {
        self.given_us = instant_us;
        self.node.given_until(instant_us);
    }

    /// Ends the recording of the target.
    pub fn finish(&mut self) {
        self.has_ended = true;
        self.node.finish();
    }

    /// See [`NodeEngine::derived`].
    pub fn derived(&mut self) -> impl Iterator<Item = Derived> + '_ {
        self.node.derived()
    }

    /// See [`NodeEngine::explain`].
    pub fn explain(&mut self, rule: usize, at_us: i64) {
        self.node.explain(rule, at_us);
    }

    /// See [`NodeEngine::explanations`].
    pub fn explanations(&mut self) -> impl Iterator<Item = Explanation> + '_ {
        self.node.explanations()
    }

    /// See [`NodeEngine::progress`].
    pub fn progress(&self) -> Progress {
        self.node.progress()
    }

    /// Groups that had a result which the fleet takes: rule and labels.
    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, &str)> + '_ {
        self.groups.iter().map(|(rule, labels)| (*rule, &**labels))
    }
}

fn whole_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Cuts off what belongs to a scrape, and what comes before it and belongs to none.
fn of_scrape<'a, T>(rest: &mut &'a [T], seq: u64, seq_of: impl Fn(&T) -> u64) -> &'a [T] {
    let begin = rest.iter().take_while(|row| seq_of(row) < seq).count();
    let length = rest[begin..].iter().take_while(|row| seq_of(row) == seq).count();
    let (before, after) = rest.split_at(begin + length);
    *rest = after;
    &before[begin..]
}
