//! Rules while they are recorded: scrapes in, results and newly met series out.
//!
//! Pure but for the recording's own tail, which is read piece by piece when a recording goes on; scrapes that are
//! recorded meanwhile wait. Only scrapes that are in the journal come here, so that files give the same results.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use wattscribe_rules::engine::TargetId;
use wattscribe_rules::rule::{RuleSet, Timing};
use wattscribe_table::{
    DerivedRows, FleetRules, ReadError, RecordedUntil, RuleMember, RuleRecord, RunReader, RunTail,
    ScrapeRecord, TargetPiece, TargetRules,
};

/// The rules of a recording.
#[derive(Debug)]
pub struct LiveRules {
    rules: Arc<RuleSet>,
    /// The metrics that they take from pages.
    metrics: BTreeSet<String>,
    rows: DerivedRows,
    targets: BTreeMap<String, Target>,
    fleet: FleetRules,
    /// How far results of the fleet are recorded.
    fleet_recorded: RecordedUntil,
    /// The tail that is being taken in, and the next of its pieces.
    tail: Option<(Box<RunTail>, usize)>,
    waiting: VecDeque<ScrapeRecord>,
    /// Members that are met once more and are recorded: target, metric and labels.
    known: HashSet<(String, String, String)>,
    /// When the latest scrape began that was evaluated, in Unix microseconds, once the tail is taken in.
    until_us: Option<i64>,
    out: RuleRecord,
}

#[derive(Debug)]
struct Target {
    id: TargetId,
    rules: TargetRules,
    /// How far its results are recorded.
    recorded: RecordedUntil,
    is_polled: bool,
    /// Whether this recording has a scrape of it.
    is_recorded: bool,
}

impl LiveRules {
    /// Rules over these targets, each polled every `interval`. `run` is what was recorded before, if anything was, and
    /// `had_rules` says whether that was with rules.
    ///
    /// # Errors
    /// Files of the run that cannot be read.
    pub fn start(
        rules: Arc<RuleSet>,
        targets: &[&str],
        interval: Duration,
        run: &RunReader,
        had_rules: bool,
    ) -> Result<LiveRules, ReadError> {
        let tail = RunTail::read(run, &rules, targets, interval, had_rules)?;
        let metrics = rules.metrics_of_pages().into_iter().map(str::to_owned).collect();
        let mut live = LiveRules {
            metrics,
            rows: DerivedRows::of(Arc::clone(&rules)),
            fleet: FleetRules::new(Arc::clone(&rules), &[]),
            fleet_recorded: RecordedUntil::NOTHING,
            targets: BTreeMap::new(),
            tail: None,
            waiting: VecDeque::new(),
            known: HashSet::new(),
            until_us: None,
            out: RuleRecord::default(),
            rules,
        };
        for target in targets {
            live.target(target, tail.as_ref()).is_polled = true;
        }
        if let Some(mut tail) = tail {
            if tail.is_cut {
                tracing::warn!(
                    "rules were behind for too long: results are missing, and `wattscribe rules eval` makes them"
                );
            }
            live.remember(&mut tail);
            live.tail = Some((Box::new(tail), 0));
        }
        Ok(live)
    }

    /// Takes over who was there before the tail.
    fn remember(&mut self, tail: &mut RunTail) {
        for member in std::mem::take(&mut tail.members) {
            let rule = self.rules.rules.iter().position(|rule| rule.name == member.metric);
            let target = &mut self.target(&member.target, Some(tail)).rules;
            match rule {
                Some(rule) => target.remember_result(rule, &member.labels),
                None => drop(target.remember(&member)),
            }
        }
        for target in &tail.paged {
            self.target(target, Some(tail)).rules.remember_page();
        }
        let first: BTreeSet<&str> = tail.sessions.beginning_at(0).into_iter().flatten().collect();
        for (name, target) in &self.targets {
            self.fleet.remember(&target.rules);
            if !first.contains(name.as_str()) {
                self.fleet.end_target(target.id);
            }
        }
        self.fleet.given_until(tail.given_us);
        self.fleet_recorded = tail.recorded(None);
        self.known = std::mem::take(&mut tail.known);
    }

    fn target(&mut self, name: &str, tail: Option<&RunTail>) -> &mut Target {
        let LiveRules { rules, fleet, .. } = self;
        self.targets.entry(name.to_owned()).or_insert_with(|| {
            let mut target = TargetRules::new(Arc::clone(rules), name, &[]);
            if let Some(tail) = tail {
                target.given_until(tail.given_us);
            }
            Target {
                id: fleet.target(name),
                rules: target,
                recorded: tail.map_or(RecordedUntil::NOTHING, |tail| tail.recorded(Some(name))),
                is_polled: false,
                is_recorded: false,
            }
        })
    }

    /// Takes a scrape that is recorded. While the tail is taken in, it waits.
    pub fn take(&mut self, record: ScrapeRecord) {
        if self.tail.is_some() {
            self.waiting.push_back(record);
        } else {
            self.evaluate(&record);
        }
    }

    fn evaluate(&mut self, record: &ScrapeRecord) {
        self.until_us = self.until_us.max(Some(record.scrape.timestamp_us));
        let piece = TargetPiece::of_record(record, &|metric| self.metrics.contains(metric));
        self.take_piece(&piece, None);
        if let Some(target) = self.targets.get_mut(&*piece.target) {
            target.is_recorded = true;
        }
    }

    fn take_piece(&mut self, piece: &TargetPiece, tail: Option<&RunTail>) {
        let from_us = tail.map_or(i64::MIN, |tail| tail.from_us);
        let target = self.target(&piece.target, tail);
        target.rules.take(piece, from_us);
        self.collect(&piece.target);
    }

    /// Takes out what a target gave, and what that gave to the fleet.
    fn collect(&mut self, name: &str) {
        let LiveRules { rows, targets, fleet, out, fleet_recorded, known, .. } = self;
        let Some(target) = targets.get_mut(name) else { return };
        let mut results = Vec::new();
        rows.take(&mut target.rules, target.recorded, &mut out.derived, &mut results);
        for member in target.rules.members() {
            // Each is met once more at most, and the set is empty soon.
            let key = (member.target, member.metric, member.labels);
            if known.is_empty() || !known.remove(&key) {
                let (target, metric, labels) = key;
                out.members.push(RuleMember { target, metric, labels, ..member });
            }
        }
        let (progress, since_us) = (target.rules.progress(), target.rules.simulated_since_us());
        fleet.take(target.id, &results, progress, since_us);
        out.derived.extend(fleet.derived(*fleet_recorded));
    }

    /// When rules are evaluated.
    pub fn timing(&self) -> Timing {
        self.rules.timing
    }

    /// Whether the tail is still being taken in.
    pub fn is_behind(&self) -> bool {
        self.tail.is_some()
    }

    /// Takes in the next piece of the tail, and behind the last one the scrapes that waited.
    ///
    /// # Errors
    /// A piece that cannot be read; it is left out.
    pub fn catch_up(&mut self) -> Result<(), ReadError> {
        let Some((tail, place)) = self.tail.take() else { return Ok(()) };
        if place < tail.pieces.len() {
            let piece = tail.pieces.read(place, &|metric| self.metrics.contains(metric));
            self.begin_targets(&tail, place);
            if let Ok(piece) = &piece {
                for of in &piece.targets {
                    self.take_piece(of, Some(&tail));
                    if tail.sessions.ends_at(place, &of.target) {
                        self.end_target(&of.target);
                    }
                }
            }
            self.tail = Some((tail, place + 1));
            return piece.map(drop);
        }
        self.begin_targets(&tail, place);
        while let Some(record) = self.waiting.pop_front() {
            self.evaluate(&record);
        }
        Ok(())
    }

    /// Has the fleet wait for the targets of a recording that begins with a piece.
    fn begin_targets(&mut self, tail: &RunTail, place: usize) {
        for name in tail.sessions.beginning_at(place).into_iter().flatten() {
            let id = self.target(name, Some(tail)).id;
            self.fleet.begin_target(id);
        }
    }

    /// Ends a target that is not polled any more: nothing waits for it.
    fn end_target(&mut self, name: &str) {
        let Some(target) = self.targets.get_mut(name) else { return };
        target.rules.finish();
        self.collect(name);
        if let Some(target) = self.targets.get(name) {
            self.fleet.end_target(target.id);
        }
        self.out.derived.extend(self.fleet.derived(self.fleet_recorded));
    }

    /// Ends the recording: what the last scrapes settle by being the last.
    pub fn finish(&mut self) {
        let polled = self.targets.iter().filter(|(_, target)| target.is_polled);
        let names: Vec<String> = polled.map(|(name, _)| name.clone()).collect();
        let has_scrapes = self.targets.values().any(|target| target.is_recorded);
        for name in &names {
            if let Some(target) = self.targets.get_mut(name) {
                target.rules.finish();
            }
            self.collect(name);
            // Files do not know that it was polled: nothing waits for it there. Nor do they know of a recording without
            // any scrape.
            let target = self.targets.get(name).filter(|of| has_scrapes && !of.is_recorded);
            if let Some(target) = target {
                self.fleet.end_target(target.id);
            }
        }
        self.fleet.finish();
        self.out.derived.extend(self.fleet.derived(self.fleet_recorded));
    }

    /// What came of the scrapes so far and was not taken out yet.
    pub fn out(&mut self) -> &mut RuleRecord {
        &mut self.out
    }

    /// Says in what is not taken out yet how far the rules came: to be said when all of it goes into one record.
    pub fn note_progress(&mut self) {
        self.out.until_us = self.until_us;
    }
}
