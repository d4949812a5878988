//! `wattscribe fleet at`: the fleet's document as of a past instant, from a recording.
//!
//! The pages that were recorded are put together again and read as live ones are; what is made of them is the same code.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wattscribe_rules::fleet::{Fleet, FleetLimits, Found};
use wattscribe_scraper::fleet::agent_page;
use wattscribe_table::{Pieces, RunReader, TargetPiece};

use super::status::{Shape, show};
use super::wire::Document;
use crate::log::{LiveLine, chain};
use crate::time::parse_time;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    /// The recording.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// The instant, as Unix seconds or RFC 3339.
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    time: f64,

    /// How it is shown.
    #[arg(long, short, value_enum, default_value_t = Shape::Json, value_name = "SHAPE")]
    output: Shape,

    /// Age at which a reading is stale.
    #[arg(long, default_value = "15s", value_parser = humantime::parse_duration, value_name = "DURATION")]
    stale_after: Duration,

    /// How long a device that nobody tells of any more is listed, as stale.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "DURATION")]
    forget_after: Duration,
}

/// Runs the command.
pub(crate) fn run(args: AtArgs) -> ExitCode {
    LiveLine::default().start_log(tracing::Level::WARN);
    let limits = FleetLimits {
        stale_after_s: args.stale_after.as_secs_f64(),
        forget_after_s: args.forget_after.as_secs_f64(),
    };
    let shown = document(&args.run, args.time, limits)
        .and_then(|document| show(&document.bytes(), args.output));
    match shown {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(reason) => {
            tracing::error!("{reason}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "the document is what this command is for")]
fn print(text: &str) {
    print!("{text}");
}

/// Whether a metric is of what a page says of accelerators.
fn is_wanted(metric: &str) -> bool {
    metric.starts_with("accelerator_")
        || metric.starts_with("ergoz_accel_")
        || matches!(
            metric,
            "power_exposition_timestamp_seconds"
                | "power_reading_timestamp_seconds"
                | "power_sensor_state"
                | "power_withheld"
        )
}

fn document(run: &std::path::Path, at_s: f64, limits: FleetLimits) -> Result<Document, String> {
    let run = RunReader::open(run).map_err(|error| chain(&error))?;
    let pieces = run.pieces().map_err(|error| chain(&error))?;
    let pages = pages(&pieces, at_s, limits)?;
    if pages.iter().all(|(_, _, page)| page.as_ref().is_none_or(String::is_empty)) {
        return Err(
            "the recording has no accelerators up to that time: record them with --keep, as docs/fleet.md says"
                .to_owned(),
        );
    }
    let mut fleet = Fleet::new(limits);
    let mut found: Vec<Found> = Vec::new();
    for (start_us, target, page) in pages {
        if found.iter().all(|known| known.address != target) {
            found.push(Found { address: target.clone(), node: Some(target.clone()) });
            fleet.found(&found);
        }
        match page.map(|page| agent_page::read(page.as_bytes())) {
            Some(Ok(devices)) => fleet.answered(&target, start_us as f64 / 1e6, devices),
            // What was recorded was read once already; a label that cannot be read again is a fault of its page.
            Some(Err(_)) | None => fleet.failed(&target),
        }
    }
    Ok(Document::of(&fleet.snapshot(at_s)))
}

/// When a scrape began, of which target, and its page; none where it failed.
type Page = (i64, String, Option<String>);

/// All pages up to an instant that still count for something, in the order of their times.
fn pages(pieces: &Pieces, at_s: f64, limits: FleetLimits) -> Result<Vec<Page>, String> {
    let until_us = (at_s * 1e6) as i64;
    let from_us = ((at_s - limits.forget_after_s) * 1e6) as i64;
    let mut pages = Vec::new();
    for place in 0..pieces.len() {
        let piece = pieces.read(place, &is_wanted).map_err(|error| chain(&error))?;
        for of in &piece.targets {
            let counts = |start_us: i64| (from_us..=until_us).contains(&start_us);
            pages.extend(pages_of(of).into_iter().filter(|(start_us, ..)| counts(*start_us)));
        }
    }
    pages.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    Ok(pages)
}

fn pages_of(of: &TargetPiece) -> Vec<Page> {
    let mut texts: BTreeMap<u64, String> = BTreeMap::new();
    for sample in &of.samples {
        let Some(series) = of.sample_series.get(sample.series as usize) else { continue };
        let text = texts.entry(sample.seq).or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{{{}}} {}", series.metric, series.labels, sample.value);
    }
    let page = |scrape: &wattscribe_table::ScrapeMark| {
        let text = scrape.is_ok.then(|| texts.remove(&scrape.seq).unwrap_or_default());
        (scrape.start_us, (*of.target).to_owned(), text)
    };
    of.scrapes.iter().map(page).collect()
}
