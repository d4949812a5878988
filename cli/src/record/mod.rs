//! `wattscribe record`: polls targets into a run directory, alone or around a command.

mod instant;
mod signals;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::time::{interval, sleep};
use wattscribe_scraper::keep::Keep;
use wattscribe_scraper::record::{Plan, PlannedRules, RecordError, Recording};
use wattscribe_scraper::target::{Target, check_distinct};
use wattscribe_table::{CpuManifest, CsvVersion, Options, RunWriter};

use self::instant::{instant_s, until};
use crate::listen::{self, Listening, Shown};
use crate::log::{LiveLine, chain};
use crate::rules::{Given, too_tight};
use crate::{command, windows};

pub(crate) use self::signals::{Asked, Signals};

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// An exporter to poll, as NAME=URL; the name stands in the rows, and is host:port where it is left
    /// out. May be given many times.
    #[arg(long = "target", value_name = "NAME=URL", required = true)]
    targets: Vec<Target>,

    /// Time between two scrapes of a target, 10ms to 1h.
    #[arg(long, default_value = "1s", value_parser = parse_interval, value_name = "DURATION")]
    interval: Duration,

    /// The longest that one scrape may take [default: the interval, but at least 1s]
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,

    /// Directory of the recording. One that was recorded to before is continued.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Ends the recording after this time, as 90s or 1h30m.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION", conflicts_with = "command")]
    duration: Option<Duration>,

    /// Also records every sample whose metric name matches, in long form.
    #[arg(long, value_name = "REGEX")]
    keep: Option<String>,

    /// The rules that are evaluated meanwhile [default: the built-in ones]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Evaluates no rules.
    #[arg(long, conflicts_with = "rules")]
    no_rules: bool,

    /// Serves the newest results and how the recording stands on this address, for Prometheus.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Version of samples.csv: 3, or 2 for readers that know no module power.
    #[arg(long, default_value = "3", value_parser = ["2", "3"], value_name = "VERSION")]
    csv_version: String,

    /// A command to record around: it starts once every target has been asked, and its end ends the
    /// recording, with its exit code.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Intervals that make sense: no exporter refreshes faster, and slower belongs to a database.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// The least timeout: a page may wait for nothing, but a network may lose a packet.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// How often the live line is rewritten.
const LIVE_EVERY: Duration = Duration::from_millis(500);

/// How often the line is logged where there is no terminal.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// Runs the command.
pub(crate) fn run(args: RecordArgs) -> ExitCode {
    let line = LiveLine::default();
    line.start_log(tracing::Level::INFO);
    let (out, address) = (args.out.clone(), args.listen);
    let (plan, options, duration) = match plan(args) {
        Ok(planned) => planned,
        Err(reason) => {
            reason.lines().for_each(|line| tracing::error!("{line}"));
            return ExitCode::from(2);
        }
    };
    let listener = match address.map(listen::bind).transpose() {
        Ok(listener) => listener,
        Err(reason) => {
            tracing::error!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(record(plan, options, duration, listener, &out, &line));
    // A name server that never answers keeps its thread; nothing is left that would wait for it.
    runtime.shutdown_background();
    line.clear();
    match outcome {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if INTERVALS.contains(&interval) {
        return Ok(interval);
    }
    Err(format!("expected {:?} to {:?}", INTERVALS.start(), INTERVALS.end()))
}

fn plan(args: RecordArgs) -> Result<(Plan, Options, Option<Duration>), String> {
    check_distinct(&args.targets).map_err(|error| error.to_string())?;
    let timeout = args.timeout.unwrap_or(args.interval.max(TIMEOUT_MIN));
    if timeout.is_zero() {
        return Err("--timeout 0s: expected more than nothing".to_owned());
    }
    let keep = match &args.keep {
        Some(pattern) => Keep::matching(pattern).map_err(|error| format!("--keep: {error}"))?,
        None => Keep::nothing(),
    };
    let rules = match &args.rules {
        _ if args.no_rules => None,
        Some(file) => Some(Given::file(file).map_err(|error| error.to_string())?.planned()),
        None => Some(Given::builtin_for(args.interval).planned()),
    };
    if let Some(planned) = &rules
        && let Some(reason) = too_tight(planned.rules.timing, args.interval)
    {
        tracing::warn!("{}: {reason}", planned.name);
    }
    let csv_version = if args.csv_version == "2" { CsvVersion::V2 } else { CsvVersion::V3 };
    let plan = Plan {
        targets: args.targets,
        interval: args.interval,
        timeout,
        keep,
        command: (!args.command.is_empty()).then_some(args.command),
        rules,
    };
    Ok((plan, Options { csv_version, ..Options::default() }, args.duration))
}

/// Why a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// SIGINT, SIGTERM or the duration.
    Asked,
    /// The command ended.
    Command(u8),
}

async fn record(
    plan: Plan,
    options: Options,
    duration: Option<Duration>,
    listener: Option<TcpListener>,
    out: &Path,
    line: &LiveLine,
) -> Result<ExitCode, RecordError> {
    let mut signals = Signals::listen();
    let (run, recovery) = RunWriter::open(out, options)?;
    if recovery.resumed {
        tracing::info!(
            records = recovery.sealed.records,
            csv_rows_added = recovery.csv_rows_added,
            "continuing the recording in {}",
            out.display()
        );
    }
    recovery.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    plan.rules.as_ref().inspect(|planned| warn_of_other_rules(out, planned));
    let argv = plan.command.clone();
    let every = plan.rules.as_ref().map(|planned| planned.rules.timing.every);
    let rules = plan.rules.as_ref().map(|planned| Arc::clone(&planned.rules));
    let recording = Recording::start(plan, run, recovery)?;
    let listening = listener.and_then(|listener| {
        let (newest, status) = (Arc::clone(recording.newest()), Arc::clone(recording.status()));
        Listening::start(listener, Shown { rules, newest, status })
            .inspect_err(|error| tracing::error!(%error, "cannot serve the page"))
            .ok()
    });
    let (end, command_s) = {
        let work = async {
            match &argv {
                Some(argv) => around(&recording, argv, every, &mut signals).await,
                None => (until_asked(duration, &mut signals).await, None),
            }
        };
        tokio::pin!(work);
        tokio::select! {
            ended = &mut work => ended,
            () = show(&recording, line) => {
                line.clear();
                tracing::error!("the recording has failed");
                // The command is somebody's work: it is not ended because it can no longer be recorded.
                if argv.is_some() { work.await } else { (End::Asked, None) }
            }
        }
    };
    // A command that has ended wants a reading from after its end; whoever asks to stop wants to stop.
    let stopped = match command_s {
        Some((_, end_s)) if !recording.has_failed() => {
            let after_s = every.map_or(end_s, |every| instant_s(end_s, every));
            tokio::select! {
                () = until(&recording, after_s) => recording.stop_after(after_s).await,
                _ = signals.any() => recording.stop_after(end_s).await,
            }
        }
        _ => recording.stop().await,
    };
    if let Some(listening) = listening {
        listening.stop();
    }
    let manifest = match (stopped, end) {
        (Ok(manifest), _) => manifest,
        (Err(error), End::Command(code)) if code != 0 => {
            tracing::error!("{}", chain(&error));
            return Ok(ExitCode::from(code));
        }
        (Err(error), _) => return Err(error),
    };
    line.clear();
    if let (Some(argv), Some((start_s, end_s))) = (&argv, command_s) {
        let file = out.join("windows.csv");
        match windows::append(&file, &argv.join(" "), start_s, end_s) {
            Ok(0) => {}
            Ok(torn) => {
                tracing::warn!("{}: {torn} bytes of a torn last line were cut", file.display())
            }
            Err(error) => tracing::warn!("{error}"),
        }
    }
    Ok(sum_up(&manifest, out, end))
}

/// Says so when a recording goes on with other rules than it had.
fn warn_of_other_rules(out: &Path, planned: &PlannedRules) {
    let path = out.join("rules.yaml");
    if fs::read_to_string(&path).is_ok_and(|text| text != planned.text) {
        tracing::warn!(
            "{}: the recording goes on with other rules ({}) than it had; results so far keep their hashes",
            path.display(),
            planned.name
        );
    }
}

/// Runs the command, and says when it began and ended, in the seconds of the rows. It begins after an instant of the
/// rules that every target's first page counts for, so that results too bracket its window.
async fn around(
    recording: &Recording,
    argv: &[String],
    every: Option<Duration>,
    signals: &mut Signals,
) -> (End, Option<(f64, f64)>) {
    let ready = async {
        recording.all_tried().await;
        if let Some(every) = every {
            until(recording, instant_s(recording.now_s(), every)).await;
        }
    };
    tokio::select! {
        () = ready => {}
        // The command was never run: nobody may take that for its success.
        asked = signals.any() => return (End::Command(asked.exit_code()), None),
    }
    let start_s = recording.now_s();
    match command::run(argv, signals).await {
        Ok(code) => (End::Command(code), Some((start_s, recording.now_s()))),
        Err((code, reason)) => {
            tracing::error!("{reason}");
            (End::Command(code), None)
        }
    }
}

async fn until_asked(duration: Option<Duration>, signals: &mut Signals) -> End {
    let over = async {
        match duration {
            Some(duration) => sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => End::Asked,
        _ = signals.any() => End::Asked,
    }
}

/// Shows how the recording stands; ends only when the recording has failed.
async fn show(recording: &Recording, line: &LiveLine) {
    let mut ticks = interval(LIVE_EVERY);
    let log_after = LOG_EVERY.as_millis() / LIVE_EVERY.as_millis();
    let mut shown = 0;
    while !recording.has_failed() {
        ticks.tick().await;
        if LiveLine::is_shown() {
            line.show(&recording.status().to_string());
        } else if shown % log_after == log_after - 1 {
            tracing::info!("{}", recording.status());
        }
        shown += 1;
    }
}

/// Says what was recorded. A recording without one good scrape is a failure, whatever it ran around.
fn sum_up(manifest: &CpuManifest, out: &Path, end: End) -> ExitCode {
    let mut succeeded = 0;
    for (name, target) in &manifest.wattscribe.targets {
        let failed: u64 = target.errors_by_class.values().sum();
        succeeded += target.scrapes.saturating_sub(failed);
        if failed > 0 {
            let last = target.last_error.as_deref().unwrap_or_default();
            tracing::warn!(target = name, failed, scrapes = target.scrapes, last, "scrapes failed");
        }
    }
    if manifest.nodes.values().all(|node| node.error_count == node.scrape_count) {
        tracing::warn!("no page had power of any socket: there is no energy in this recording");
    }
    let is_simulated = manifest.wattscribe.simulated.as_deref().is_some_and(|word| word != "false");
    let what = if is_simulated { "SIMULATED HARDWARE recorded to" } else { "recorded to" };
    tracing::info!(scrapes = succeeded, "{what} {}", out.display());
    match end {
        End::Command(code) if code != 0 => ExitCode::from(code),
        _ if succeeded == 0 => {
            tracing::error!("no target gave a page");
            ExitCode::FAILURE
        }
        End::Asked | End::Command(_) => ExitCode::SUCCESS,
    }
}
