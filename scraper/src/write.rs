//! The writing side: one thread takes batches from all loops, appends them to the run, evaluates rules over
//! what the run took, and makes it all durable. A slow disk holds up this thread and no scrape.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, error::TryRecvError};
use wattscribe_table::{RunError, RunWriter};

use crate::digest::Batch;
use crate::live_rules::LiveRules;
use crate::newest::Newest;
use crate::results::Results;
use crate::status::Status;

/// What was written is durable after this at the latest, whatever happens to the machine.
const SYNC_EVERY: Duration = Duration::from_millis(500);

/// A segment of the journal becomes Parquet after this at the latest.
const ROTATE_EVERY: Duration = Duration::from_secs(600);

/// How long the thread rests when nothing waits. Well under [`SYNC_EVERY`].
const REST: Duration = Duration::from_millis(20);

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
            }
            // Rules come when no scrape waits: files give their results anew, and nothing gives a scrape anew.
            Err(TryRecvError::Empty) if results.are_behind() => {
                results.catch_up();
                is_dirty |= results.write_many(&mut run);
            }
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

/// Whether the disk does one thing that is asked of it: said when it begins to refuse, and when it no
/// longer does.
#[derive(Debug)]
pub(crate) struct Disk {
    trouble: &'static str,
    refuses: bool,
}

impl Disk {
    pub(crate) fn new(trouble: &'static str) -> Self {
        Self { trouble, refuses: false }
    }

    pub(crate) fn took<T>(&mut self, outcome: Result<T, RunError>) -> Option<T> {
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
