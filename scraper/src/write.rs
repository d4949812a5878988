//! The writing side: one thread takes batches from all loops, appends them to the run, evaluates rules over
//! what the run took, and makes it all durable. A slow disk holds up this thread and no scrape.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, error::TryRecvError};
use wattscribe_table::{RuleRecord, RunError, RunWriter, ScrapeRecord};

use crate::digest::Batch;
use crate::live_rules::LiveRules;
use crate::newest::Newest;
use crate::status::Status;

/// What was written is durable after this at the latest, whatever happens to the machine.
const SYNC_EVERY: Duration = Duration::from_millis(500);

/// A segment of the journal becomes Parquet after this at the latest.
const ROTATE_EVERY: Duration = Duration::from_secs(600);

/// How long the thread rests when nothing waits. Well under [`SYNC_EVERY`].
const REST: Duration = Duration::from_millis(20);

/// Results that wait for one record of the journal: some megabytes of the 64 that a record holds.
const RESULTS_PER_RECORD: usize = 16 * 1024;

/// Results that may wait while the disk takes none: some hundred megabytes.
const RESULTS_WAITING_MAX: usize = 1 << 20;

/// Writes until all senders are gone. Hands the run back to be closed.
///
/// A disk that refuses ends nothing: a scrape that it does not take is dropped whole and counted, the
/// rest is tried again, and closing the run fails if the disk still refuses then. Rules see the scrapes that
/// the run took and no others.
pub fn write(
    mut run: RunWriter,
    mut batches: mpsc::Receiver<Batch>,
    status: &Arc<Status>,
    rules: Option<(LiveRules, Arc<Newest>)>,
) -> RunWriter {
    let mut results = Results::new(rules);
    let (mut synced, mut rotated) = (Instant::now(), Instant::now());
    let mut is_dirty = false;
    let mut appending = Disk::new("cannot record scrapes: they are dropped");
    let mut keeping = Disk::new("cannot make durable what was recorded: tried again");
    loop {
        match batches.try_recv() {
            Ok(batch) => {
                let rows = (batch.cpu.len() + batch.readings.len()) as u64;
                let target = batch.scrape.target.clone();
                let record = run.append(batch.scrape, batch.cpu, batch.readings);
                if let Some(record) = appending.took(record) {
                    status.take_rows(rows);
                    is_dirty = true;
                    results.take(record);
                } else {
                    status.take_dropped(&target);
                }
                if results.are_many() {
                    results.write(&mut run);
                }
            }
            Err(TryRecvError::Empty) if results.are_behind() => results.catch_up(),
            Err(TryRecvError::Empty) => {
                is_dirty |= results.write(&mut run);
                std::thread::sleep(REST);
            }
            Err(TryRecvError::Disconnected) => {
                results.finish(&mut run);
                return run;
            }
        }
        if synced.elapsed() < SYNC_EVERY {
            continue;
        }
        synced = Instant::now();
        if rotated.elapsed() >= ROTATE_EVERY || run.wants_rotation() {
            results.write_progress(&mut run);
            if let Some(sealed) = keeping.took(run.rotate()) {
                sealed.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
                (rotated, is_dirty) = (Instant::now(), false);
            }
        } else if is_dirty {
            is_dirty = keeping.took(run.sync()).is_none();
        }
    }
}

/// The rules of a recording, where it has any, on their way to the run.
struct Results {
    rules: Option<(LiveRules, Arc<Newest>)>,
    disk: Disk,
}

impl Results {
    fn new(rules: Option<(LiveRules, Arc<Newest>)>) -> Self {
        Self { rules, disk: Disk::new("cannot record results of rules: tried again") }
    }

    fn take(&mut self, record: ScrapeRecord) {
        if let Some((rules, _)) = &mut self.rules {
            rules.take(record);
        }
    }

    fn are_many(&mut self) -> bool {
        let rules = self.rules.as_mut();
        rules.is_some_and(|(rules, _)| rules.out().derived.len() >= RESULTS_PER_RECORD)
    }

    fn are_behind(&self) -> bool {
        self.rules.as_ref().is_some_and(|(rules, _)| rules.is_behind())
    }

    /// Takes in a piece of the recording that is continued.
    fn catch_up(&mut self) {
        if let Some((rules, _)) = &mut self.rules
            && let Err(error) = rules.catch_up()
        {
            tracing::warn!(%error, "rules go on without what cannot be read");
        }
    }

    /// Writes what there is. Returns whether that was anything.
    fn write(&mut self, run: &mut RunWriter) -> bool {
        let Some((rules, newest)) = &mut self.rules else { return false };
        let mut has_written = false;
        while !rules.out().is_empty() {
            rules.note_progress();
            let record = first_of(rules.out());
            if self.disk.took(run.append_rules(&record)).is_none() {
                put_back(rules.out(), record);
                break;
            }
            newest.take(record.derived);
            has_written = true;
        }
        if rules.out().derived.len() > RESULTS_WAITING_MAX {
            tracing::error!(
                "results of rules are dropped: `wattscribe rules eval` makes them anew"
            );
            *rules.out() = RuleRecord::default();
        }
        has_written
    }

    /// Writes how far the rules came, where no result said so.
    fn write_progress(&mut self, run: &mut RunWriter) {
        self.write(run);
        let Some((rules, _)) = &mut self.rules else { return };
        if rules.out().is_empty() {
            rules.note_progress();
            let record = std::mem::take(rules.out());
            // It is worth nothing but time when a recording goes on.
            let _ = self.disk.took(run.append_rules(&record));
        }
    }

    /// Takes in what is left, and writes what the last scrapes settle by being the last.
    fn finish(&mut self, run: &mut RunWriter) {
        while self.are_behind() {
            self.catch_up();
        }
        if let Some((rules, _)) = &mut self.rules {
            rules.finish();
        }
        self.write_progress(run);
    }
}

/// Takes out what fits into one record.
fn first_of(out: &mut RuleRecord) -> RuleRecord {
    let rest = out.derived.split_off(out.derived.len().min(RESULTS_PER_RECORD));
    RuleRecord {
        // Only the last says how far the rules came.
        until_us: out.until_us.take().filter(|_| rest.is_empty()),
        derived: std::mem::replace(&mut out.derived, rest),
        members: std::mem::take(&mut out.members),
    }
}

fn put_back(out: &mut RuleRecord, mut first: RuleRecord) {
    first.derived.append(&mut out.derived);
    first.members.append(&mut out.members);
    *out = first;
}

/// Whether the disk does one thing that is asked of it: said when it begins to refuse, and when it no
/// longer does.
#[derive(Debug)]
struct Disk {
    trouble: &'static str,
    refuses: bool,
}

impl Disk {
    fn new(trouble: &'static str) -> Self {
        Self { trouble, refuses: false }
    }

    fn took<T>(&mut self, outcome: Result<T, RunError>) -> Option<T> {
        match &outcome {
            Ok(_) if self.refuses => tracing::info!("no longer: {}", self.trouble),
            Err(error) if !self.refuses => {
                tracing::error!(%error, "{}", self.trouble);
            }
            Ok(_) | Err(_) => {}
        }
        self.refuses = outcome.is_err();
        outcome.ok()
    }
}
