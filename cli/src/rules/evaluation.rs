//! Rules over a whole recording: threads that read, threads that evaluate nodes, and the fleet behind them.
//!
//! Every piece goes to every thread of nodes, and each takes the targets of its share. The fleet takes what they give
//! piece by piece, so what comes out does not depend on who was faster. Bounded queues hold two pieces a thread.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use wattscribe_rules::engine::{Explanation, NamedWindow, TargetId};
use wattscribe_rules::rule::RuleSet;
use wattscribe_table::{DerivedRow, FleetRules, PartError, Piece, ReadError, Settled};

use super::shard::{Shard, TargetYield, Yield};
use super::source::Source;
use super::summary::Summary;

/// Pieces that may wait for a thread.
const WAITING_MAX: usize = 1;

/// How many threads evaluate for each that reads: reading takes about a quarter of the time.
const SHARDS_PER_READER: usize = 4;

/// One result that is to be explained.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The rule, by its place.
    pub rule: usize,
    /// The instant or the end of the window, in Unix microseconds.
    pub at_us: i64,
    /// The only node that is needed, for a rule of nodes.
    pub node: Option<String>,
}

/// An evaluation.
#[derive(Debug)]
pub(crate) struct Evaluation<'a> {
    /// Over what.
    pub source: &'a Source,
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// The windows of `over: named`.
    pub named: Vec<NamedWindow>,
    /// What is to be explained.
    pub question: Option<Question>,
    /// How many threads evaluate.
    pub threads: usize,
}

/// What becomes of results on the thread that made them, so that threads write side by side.
pub(crate) trait Keep: Sync {
    /// Keeps what a share made of the piece at a place; the last comes after all pieces. The fleet is the share behind
    /// those of the threads.
    ///
    /// # Errors
    /// A part that cannot be written.
    fn keep(&self, place: usize, share: usize, results: &[Settled]) -> Result<Kept, PartError>;
}

/// What is known of results that were kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Counts of them.
    pub summary: Summary,
    /// Their rows, where they are to be put in one order.
    pub rows: Vec<DerivedRow>,
}

impl Kept {
    fn add(&mut self, other: Kept) {
        self.summary.add(other.summary);
        self.rows.extend(other.rows);
    }
}

/// Who hears of it: of one piece at a time, all shares together.
pub(crate) trait Sink {
    /// Takes what was kept of the piece at this place; the last comes after all pieces.
    fn take(&mut self, place: usize, kept: Kept) -> Result<(), Box<dyn Error>>;
}

/// What a thread gives of a piece.
struct Given {
    kept: Result<Kept, PartError>,
    made: Yield,
    /// What could not be read of it.
    warnings: Vec<String>,
}

impl Evaluation<'_> {
    /// Evaluates; `keep` has the results and `sink` what is known of them, piece by piece. Returns what was to be
    /// explained.
    pub(crate) fn run(
        &self,
        keep: &dyn Keep,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Explanation>, Box<dyn Error>> {
        self.source.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let metrics = self.rules.metrics_of_pages();
        let wants = |metric: &str| metrics.contains(metric);
        let readers = (self.threads / SHARDS_PER_READER).clamp(1, self.source.readers_max());
        thread::scope(|scope| {
            let mut given = Vec::new();
            let mut to_shards: Vec<Vec<SyncSender<Arc<Piece>>>> = vec![Vec::new(); readers];
            for number in 0..self.threads {
                let mut pieces = Vec::new();
                for to_shards in &mut to_shards {
                    let (sender, receiver) = sync_channel(WAITING_MAX);
                    to_shards.push(sender);
                    pieces.push(receiver);
                }
                given.push(self.shard(scope, number, pieces, keep));
            }
            let (failed, failures) = sync_channel(readers);
            for (number, to_shards) in to_shards.into_iter().enumerate() {
                let (failed, wants) = (failed.clone(), &wants);
                scope.spawn(move || {
                    let pieces = self.source.read(number, readers, wants);
                    if let Err(error) = hand_out(pieces, &to_shards) {
                        // There is room for one of each reader.
                        let _ = failed.send(error);
                    }
                });
            }
            let explained = self.collect(&given, keep, sink);
            // The threads end when nobody takes what they give.
            drop(given);
            match failures.try_recv() {
                Ok(error) => Err(error.into()),
                Err(_) => explained,
            }
        })
    }

    /// Starts a thread of nodes; what it gives comes piece by piece, and once more at the end.
    fn shard<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        pieces: Vec<Receiver<Arc<Piece>>>,
        keep: &'scope dyn Keep,
    ) -> Receiver<Given> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        scope.spawn(move || {
            let mut shard = Shard::new(self, number);
            // Its room is used again, piece after piece.
            let mut results = Vec::new();
            let give = |place, made: Yield, results: &mut Vec<Settled>, warnings| {
                let kept = keep.keep(place, number, results);
                results.clear();
                // Nobody is left to hear it when the evaluation has failed.
                sender.send(Given { kept, made, warnings }).is_ok()
            };
            for place in 0..self.source.len() {
                // A reader that is gone has failed, and says so.
                let Ok(piece) = pieces[place % pieces.len()].recv() else { return };
                // Said once, and not by every thread.
                let warnings = if number == 0 { piece.warnings.clone() } else { Vec::new() };
                let made = shard.take(place, &piece, &mut results);
                drop(piece);
                if !give(place, made, &mut results, warnings) {
                    return;
                }
            }
            let made = shard.finish(&mut results);
            give(self.source.len(), made, &mut results, Vec::new());
        });
        receiver
    }

    fn collect(
        &self,
        given: &[Receiver<Given>],
        keep: &dyn Keep,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Explanation>, Box<dyn Error>> {
        let mut fleet = Fleet::new(self);
        let mut explanations = Vec::new();
        for place in 0..=self.source.len() {
            fleet.begin(place);
            let mut kept = Kept::default();
            for shard in given {
                let given = shard.recv().map_err(|_| "the evaluation stopped")?;
                given.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                kept.add(given.kept?);
                explanations.extend(given.made.explanations);
                fleet.take(place, &given.made.targets);
            }
            if place == self.source.len() {
                fleet.rules.finish();
            }
            let of_fleet: Vec<Settled> = fleet.rules.settled().collect();
            kept.add(keep.keep(place, self.threads, &of_fleet)?);
            explanations.extend(fleet.rules.explanations());
            sink.take(place, kept)?;
        }
        Ok(explanations)
    }
}

/// Gives each piece to every thread of nodes, until one of them is gone, which has ended with the evaluation.
fn hand_out(
    pieces: impl Iterator<Item = Result<Piece, ReadError>>,
    to_shards: &[SyncSender<Arc<Piece>>],
) -> Result<(), ReadError> {
    for piece in pieces {
        let piece = Arc::new(piece?);
        if to_shards.iter().any(|to| to.send(Arc::clone(&piece)).is_err()) {
            break;
        }
    }
    Ok(())
}

/// The fleet and its targets.
struct Fleet<'a> {
    source: &'a Source,
    rules: FleetRules,
    targets: BTreeMap<Arc<str>, TargetId>,
}

impl<'a> Fleet<'a> {
    fn new(evaluation: &'a Evaluation<'_>) -> Fleet<'a> {
        let Evaluation { source, rules, named, question, .. } = evaluation;
        let mut fleet = FleetRules::new(Arc::clone(rules), named);
        if let Some(question) = question {
            fleet.explain(question.rule, question.at_us);
        }
        // None of them holds anything up before the recording that has it begins.
        let mut targets = BTreeMap::new();
        for target in source.targets() {
            let id = fleet.target(target);
            fleet.end_target(id);
            targets.insert(target.into(), id);
        }
        Fleet { source, rules: fleet, targets }
    }

    /// Has it wait for the targets of a recording that begins with a piece.
    fn begin(&mut self, place: usize) {
        for target in self.source.beginning_at(place) {
            if let Some(id) = self.targets.get(target) {
                self.rules.begin_target(*id);
            }
        }
    }

    /// Takes what targets gave of a piece. Those that end with it hold nothing up any more.
    fn take(&mut self, place: usize, targets: &[TargetYield]) {
        for of in targets {
            let Some(id) = self.targets.get(&of.target) else { continue };
            self.rules.take(*id, &of.results, of.progress, of.simulated_since_us);
            if self.source.ends_at(place, &of.target) {
                self.rules.end_target(*id);
            }
        }
    }
}
