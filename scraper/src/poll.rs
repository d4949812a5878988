//! One target's loop: waits for its tick, asks, digests, hands over. Nobody waits for another's target.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::clock::Clock;
use crate::digest::{Batch, Digest, Exchange};
use crate::failure::FailureClass;
use crate::fetch::Fetcher;
use crate::keep::Keep;
use crate::schedule::{Schedule, Tick};
use crate::status::Status;

/// How far a recording is to go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// On.
    Running,
    /// Until every target has a row at or after this time (so that a window that ends there is
    /// bracketed by readings), but no longer than until `give_up` since the recorder's start.
    Bracketing {
        /// Unix seconds.
        after_s: f64,
        /// Time since the recorder's start.
        give_up: Duration,
    },
    /// No further scrape.
    Stopping,
}

/// What all loops share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Asks targets.
    pub fetcher: Fetcher,
    /// Time.
    pub clock: Clock,
    /// Which samples are kept.
    pub keep: Arc<Keep>,
    /// How the recording stands.
    pub status: Arc<Status>,
    /// To the writer.
    pub batches: mpsc::Sender<Batch>,
    /// How far to go on.
    pub phase: watch::Receiver<Phase>,
}

/// Polls one target until the phase ends it.
pub async fn poll(mut digest: Digest, schedule: Schedule, mut shared: Shared) {
    let origin = Instant::now() - shared.clock.elapsed();
    let mut tick = schedule.first();
    loop {
        tokio::select! {
            () = sleep_until(origin + tick.due) => {}
            () = given_up(&mut shared.phase, origin) => return,
        }
        let last_row_s = scrape(&mut digest, tick, &shared).await;
        let is_over = match *shared.phase.borrow() {
            Phase::Running => false,
            Phase::Bracketing { after_s, give_up } => {
                last_row_s.is_some_and(|last| last >= after_s) || shared.clock.elapsed() >= give_up
            }
            Phase::Stopping => true,
        };
        if is_over {
            return;
        }
        tick = schedule.next(tick, shared.clock.elapsed());
    }
}

/// One scrape; returns the time of its rows.
async fn scrape(digest: &mut Digest, tick: Tick, shared: &Shared) -> Option<f64> {
    let clock = shared.clock;
    let start = clock.elapsed();
    let outcome = shared.fetcher.fetch(&digest.target().url).await;
    let end = clock.elapsed();
    let exchange = Exchange {
        start,
        start_s: clock.unix_s(start),
        end_s: clock.unix_s(end),
        wall_ahead_us: clock.wall_ahead_us(),
        missed: tick.missed,
        outcome,
    };
    let batch = digest.digest(exchange, &shared.keep);
    shared.status.take(&batch, start.saturating_sub(tick.due));
    let last_row_s = batch.cpu.first().map(|row| row.timestamp_unix);
    let target = digest.target().name.as_str();
    // A writer that is behind must not hold up the schedule: the scrape is dropped whole, and counted.
    if shared.batches.try_send(batch).is_err() {
        shared.status.take_dropped(target);
        tracing::warn!(target, reason = FailureClass::Dropped.as_str(), "the disk is behind");
    }
    last_row_s
}

/// Resolves when no further scrape is to begin.
async fn given_up(phase: &mut watch::Receiver<Phase>, origin: Instant) {
    loop {
        let now = *phase.borrow_and_update();
        let changed = phase.changed();
        let ended = match now {
            Phase::Stopping => return,
            Phase::Running => changed.await.is_err(),
            Phase::Bracketing { give_up, .. } => tokio::select! {
                () = sleep_until(origin + give_up) => return,
                changed = changed => changed.is_err(),
            },
        };
        // The recorder itself is gone.
        if ended {
            return;
        }
    }
}
