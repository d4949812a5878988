//! A recording: a loop per target, one writer, and an end that leaves nothing unwritten.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wattscribe_rules::rule::RuleSet;
use wattscribe_table::{CpuManifest, Recovery, RunError, RunReader, RunWriter};

use crate::clock::Clock;
use crate::digest::Digest;
use crate::fetch::Fetcher;
use crate::instances::Instances;
use crate::keep::Keep;
use crate::live_rules::LiveRules;
use crate::manifest::manifest;
use crate::newest::Newest;
use crate::poll::{Phase, Shared, poll};
use crate::schedule::Schedule;
use crate::status::Status;
use crate::target::{Target, TargetError, check_distinct};
use crate::write;

/// What is recorded, and how.
#[derive(Debug)]
pub struct Plan {
    /// Who is polled; names and addresses are distinct.
    pub targets: Vec<Target>,
    /// Time between two scrapes of a target; more than nothing.
    pub interval: Duration,
    /// The longest that one exchange may take.
    pub timeout: Duration,
    /// Which samples are kept in long form.
    pub keep: Keep,
    /// The command that is recorded around, for the manifest.
    pub command: Option<Vec<String>>,
    /// The rules that are evaluated meanwhile.
    pub rules: Option<PlannedRules>,
}

/// Rules, and where they come from.
#[derive(Debug, Clone)]
pub struct PlannedRules {
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// Their text, which is kept beside the rows.
    pub text: String,
    /// The file, or `built-in`.
    pub name: String,
}

/// Why a recording cannot begin or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Two targets are one.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// There is no grid of this interval.
    #[error("interval is {0:?}, expected more than nothing")]
    Interval(Duration),
    /// The HTTP client cannot be made.
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// The files cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The writer's thread cannot be started.
    #[error("cannot start the writer's thread")]
    Thread(#[source] io::Error),
    /// The writer's thread panicked: a defect.
    #[error("the writer's thread panicked")]
    Panicked,
    /// A target's loop panicked: a defect. What was recorded until then is whole, and the run is closed.
    #[error("the loop of a target panicked, and the target was not polled from then on")]
    LoopPanicked,
}

/// Scrapes that may wait for the disk, for each target. Behind by more, whole scrapes are dropped.
const WAITING_PER_TARGET: usize = 16;

/// The least time given to every target to show a reading after a window's end: an exporter of a
/// one-second cadence needs one, and its page up to another.
const BRACKET_MIN: Duration = Duration::from_secs(3);

/// A running recording.
#[derive(Debug)]
pub struct Recording {
    plan: Plan,
    recovery: Recovery,
    clock: Clock,
    status: Arc<Status>,
    phase: watch::Sender<Phase>,
    newest: Arc<Newest>,
    loops: JoinSet<()>,
    writer: JoinHandle<RunWriter>,
}

impl Recording {
    /// Begins to poll. Must be called on a tokio runtime.
    pub fn start(plan: Plan, run: RunWriter, recovery: Recovery) -> Result<Self, RecordError> {
        check_distinct(&plan.targets)?;
        if plan.interval.is_zero() {
            return Err(RecordError::Interval(plan.interval));
        }
        let with_tls = plan.targets.iter().any(|target| target.url.scheme() == "https");
        let fetcher = Fetcher::new(plan.timeout, with_tls).map_err(RecordError::Client)?;
        let newest = Arc::<Newest>::default();
        let rules = match &plan.rules {
            Some(planned) => start_rules(&plan, planned, &run)?,
            None => None,
        };
        let rules = rules.map(|rules| (rules, Arc::clone(&newest)));
        let clock = Clock::start();
        let status = Arc::new(Status::new(plan.targets.iter().map(|target| target.name.as_str())));
        let (batches, waiting) = mpsc::channel(WAITING_PER_TARGET * plan.targets.len().max(1));
        let (phase, phase_seen) = watch::channel(Phase::Running);
        let shared = Shared {
            fetcher,
            clock,
            keep: Arc::new(keep(&plan)),
            status: Arc::clone(&status),
            batches,
            phase: phase_seen,
        };
        let instances = Arc::<Instances>::default();
        let mut loops = JoinSet::new();
        for target in &plan.targets {
            let digest = Digest::new(target.clone(), &recovery).among(Arc::clone(&instances));
            let schedule = Schedule::new(&target.name, plan.interval);
            loops.spawn(poll(digest, schedule, shared.clone()));
        }
        drop(shared);
        let of_writer = Arc::clone(&status);
        let writer = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write::write(run, waiting, &of_writer, rules))
            .map_err(RecordError::Thread)?;
        Ok(Self { plan, recovery, clock, status, phase, newest, loops, writer })
    }

    /// How it stands.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// The newest results of rules.
    pub fn newest(&self) -> &Arc<Newest> {
        &self.newest
    }

    /// Now, in the Unix seconds of the rows.
    pub fn now_s(&self) -> f64 {
        self.clock.unix_s(self.clock.elapsed())
    }

    /// Whether the writer has ended before it was asked to, which is a defect. A disk that refuses does
    /// not end it.
    pub fn has_failed(&self) -> bool {
        self.writer.is_finished()
    }

    /// Waits until every target has been scraped once, or one timeout and two intervals have passed.
    pub async fn all_tried(&self) {
        let enough = self.plan.interval * 2 + self.plan.timeout;
        let until = tokio::time::Instant::now() + enough;
        while !self.status.all_tried() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the recording as soon as scrapes in flight are over.
    pub async fn stop(self) -> Result<CpuManifest, RecordError> {
        self.end(Phase::Stopping).await
    }

    /// Ends the recording when every target has shown a reading from after `after_s` (Unix seconds), or
    /// has had the time to: three intervals and a timeout, and as long as its last scrape takes.
    pub async fn stop_after(self, after_s: f64) -> Result<CpuManifest, RecordError> {
        let patience = (self.plan.interval * 3).max(BRACKET_MIN) + self.plan.timeout;
        let give_up = self.clock.elapsed() + patience;
        self.end(Phase::Bracketing { after_s, give_up }).await
    }

    async fn end(mut self, phase: Phase) -> Result<CpuManifest, RecordError> {
        // The loops hold receivers until they end; a send fails only when all have.
        let _ = self.phase.send(phase);
        let mut has_panicked = false;
        while let Some(ended) = self.loops.join_next().await {
            has_panicked |= ended.is_err();
        }
        // With the loops the last senders are gone, and the writer comes to its end.
        let joined = tokio::task::spawn_blocking(move || self.writer.join()).await;
        let run = joined.map_err(|_| RecordError::Panicked)?.map_err(|_| RecordError::Panicked)?;
        let stopped_s = self.clock.unix_s(self.clock.elapsed());
        let started_s = self.clock.unix_s(Duration::ZERO);
        let manifest = manifest(&self.plan, &self.recovery, &self.status, started_s, stopped_s);
        run.close(&manifest)?.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        if has_panicked { Err(RecordError::LoopPanicked) } else { Ok(manifest) }
    }
}

/// What is kept: what was asked for, and what rules take.
fn keep(plan: &Plan) -> Keep {
    let rules = plan.rules.as_ref();
    let metrics = rules.map(|planned| planned.rules.metrics_of_pages()).unwrap_or_default();
    plan.keep.clone().and_metrics(metrics)
}

/// The rules of a plan. Without what was recorded before, they would not know who is missing: where that cannot be read
/// there are none, and scrapes are recorded all the same.
fn start_rules(
    plan: &Plan,
    planned: &PlannedRules,
    run: &RunWriter,
) -> Result<Option<LiveRules>, RunError> {
    let had_rules = run.keep_rules(&planned.text)?;
    let targets: Vec<&str> = plan.targets.iter().map(|target| target.name.as_str()).collect();
    let rules = Arc::clone(&planned.rules);
    let live = RunReader::open(run.directory())
        .and_then(|before| LiveRules::start(rules, &targets, plan.interval, &before, had_rules));
    Ok(live
        .inspect_err(|error| {
            tracing::error!(%error, "no rules are evaluated: what was recorded before cannot be read");
        })
        .ok())
}
