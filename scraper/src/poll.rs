//! One target's loop: waits for its tick, asks, digests, hands over. Nobody waits for another's target.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::watch;
use tokio::time::sleep;

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
    /// Until every target has a row at or after this time, by a scrape that began then or later (so that a window
    /// that ends there is bracketed by readings, and by an instant of rules); no scrape begins later than `give_up` since the recorder's start.
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
    let clock = shared.clock;
    let mut tick = schedule.first();
    loop {
        tokio::select! {
            () = sleep(clock.until(tick.due)) => {}
            () = given_up(&mut shared.phase, clock) => return,
        }
        let start_s = clock.unix_s(clock.elapsed());
        let recorded_until_s = scrape(&mut digest, tick, &shared).await;
        let is_over = match *shared.phase.borrow() {
            Phase::Running => false,
            Phase::Bracketing { after_s, give_up } => {
                let is_bracketed = recorded_until_s.is_some_and(|until| until >= after_s);
                is_bracketed && start_s >= after_s || clock.elapsed() >= give_up
            }
            Phase::Stopping => true,
        };
        if is_over {
            return;
        }
        tick = schedule.next(tick, clock.elapsed());
    }
}

/// One scrape; returns the time up to which the target is recorded with it, nothing when it was dropped.
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
    let target = digest.target().name.as_str();
    // A writer that is behind must not hold up the schedule: the scrape is dropped whole, and counted.
    if let Err(error) = shared.batches.try_send(batch) {
        shared.status.take_dropped(target);
        let reason = FailureClass::Dropped.as_str();
        match error {
            TrySendError::Full(_) => tracing::warn!(target, reason, "the disk is behind"),
            TrySendError::Closed(_) => tracing::debug!(target, reason, "the writer has failed"),
        }
        return None;
    }
    digest.recorded_until_s()
}

/// Resolves when no further scrape is to begin.
async fn given_up(phase: &mut watch::Receiver<Phase>, clock: Clock) {
    loop {
        let now = *phase.borrow_and_update();
        let changed = phase.changed();
        let ended = match now {
            Phase::Stopping => return,
            Phase::Running => changed.await.is_err(),
            Phase::Bracketing { give_up, .. } => tokio::select! {
                () = sleep(clock.until(give_up)) => return,
                changed = changed => changed.is_err(),
            },
        };
        // The recorder itself is gone.
        if ended {
            return;
        }
    }
}
