//! The writing side: one thread takes batches from all loops, appends them to the run, and makes them
//! durable. A slow disk holds up this thread and no scrape.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, error::TryRecvError};
use wattscribe_table::{RunError, RunWriter};

use crate::digest::Batch;
use crate::status::Status;

/// What was written is durable after this at the latest, whatever happens to the machine.
const SYNC_EVERY: Duration = Duration::from_millis(500);

/// A segment of the journal becomes Parquet after this at the latest.
const ROTATE_EVERY: Duration = Duration::from_secs(600);

/// How long the thread rests when nothing waits. Well under [`SYNC_EVERY`].
const REST: Duration = Duration::from_millis(20);

/// Writes until all senders are gone. Hands the run back to be closed.
pub fn write(
    mut run: RunWriter,
    mut batches: mpsc::Receiver<Batch>,
    status: &Arc<Status>,
) -> Result<RunWriter, RunError> {
    let (mut synced, mut rotated) = (Instant::now(), Instant::now());
    let mut is_dirty = false;
    loop {
        match batches.try_recv() {
            Ok(batch) => {
                let rows = (batch.cpu.len() + batch.readings.len()) as u64;
                run.append(batch.scrape, batch.cpu, batch.readings)?;
                status.take_rows(rows);
                is_dirty = true;
            }
            Err(TryRecvError::Empty) => std::thread::sleep(REST),
            Err(TryRecvError::Disconnected) => return Ok(run),
        }
        if is_dirty && synced.elapsed() >= SYNC_EVERY {
            run.sync()?;
            (synced, is_dirty) = (Instant::now(), false);
        }
        if rotated.elapsed() >= ROTATE_EVERY || run.wants_rotation() {
            run.rotate()?;
            rotated = Instant::now();
        }
    }
}
