//! `wattscribe rules eval`: a recording in, results out: as a summary, as rows, or as Parquet.

use std::error::Error;
use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use wattscribe_rules::engine::NamedWindow;
use wattscribe_rules::rule::{From, Input, Over, Rule, RuleSet};
use wattscribe_table::{DerivedRow, DerivedRows, PartError, Settled};

use super::evaluation::{Evaluation, Keep, Kept, Sink};
use super::given::Given;
use super::parts::Parts;
use super::print::{AsRows, Csv, Json};
use super::source::Source;
use super::summary::Summary;
use crate::log::{LiveLine, chain};
use crate::windows;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// A recording: the directory of a run (also one that is still running), or a samples.csv (version 1 to 4).
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// The rule file [default: the rules that the recording was made with, else the built-in ones]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// A file of named windows, for rules over `named`: CSV with the header name,start_unix,end_unix, or JSON lines.
    #[arg(long, value_name = "FILE")]
    windows: Option<PathBuf>,

    /// What to print. Without it and without --out, a summary.
    #[arg(long, value_enum)]
    format: Option<RowFormat>,

    /// Writes Parquet parts to DIR/derived, which must not be there.
    #[arg(long, value_name = "DIR", conflicts_with = "format")]
    out: Option<PathBuf>,

    /// How many threads evaluate [default: one for each processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZero<usize>>,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// A header and a line per result.
    Csv,
    /// An array of objects.
    Json,
}

/// Runs the command. Exit code 1 when something cannot be read or written, 2 when the rules are refused.
pub(crate) fn run(args: &EvalArgs) -> ExitCode {
    let line = LiveLine::default();
    line.start_log(tracing::Level::WARN);
    let given = match Given::or_of_run(args.rules.as_deref(), &args.run) {
        Ok(given) => given,
        Err(error) => {
            error.to_string().lines().for_each(|line| tracing::error!("{line}"));
            return ExitCode::from(2);
        }
    };
    let outcome = eval(args, &given, &line);
    line.clear();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Whoever closes the pipe has read enough.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io: Option<&io::Error> = error.downcast_ref();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn eval(args: &EvalArgs, given: &Given, line: &LiveLine) -> Result<(), Box<dyn Error>> {
    let named = named(args, &given.rules)?;
    let source = Source::open(&args.run, &given.rules)?;
    if source.is_csv() {
        warn_of_readings(&given.rules);
    }
    let processors = || thread::available_parallelism().map_or(1, NonZero::get);
    let evaluation = Evaluation {
        source: &source,
        rules: Arc::clone(&given.rules),
        named,
        question: None,
        threads: args.threads.map_or_else(processors, NonZero::get),
    };
    let rows = DerivedRows::of(Arc::clone(&given.rules));
    let keep: Box<dyn Keep> = match (&args.out, args.format) {
        (Some(out), _) => Box::new(Parts::new(out, rows)?),
        (None, Some(_)) => Box::new(AsRows(rows)),
        (None, None) => Box::new(Counted),
    };
    let out: Option<Box<dyn Out>> = args.format.map(|format| match format {
        RowFormat::Csv => Box::new(Csv::new(io::stdout())) as Box<dyn Out>,
        RowFormat::Json => Box::new(Json::new(io::stdout())),
    });
    let (pieces, summary) = (source.len(), Summary::default());
    let mut shown = Shown { line, pieces, at: None, summary, out };
    evaluation.run(&*keep, &mut shown)?;
    let Shown { summary, out, .. } = shown;
    line.clear();
    match out {
        Some(mut out) => out.finish()?,
        None => summary.print(&given.rules, &mut io::stdout())?,
    }
    Ok(())
}

/// The windows of `over: named`: those of the file that is given, else the commands that were recorded around.
fn named(args: &EvalArgs, rules: &RuleSet) -> Result<Vec<NamedWindow>, String> {
    let is_named = |rule: &&Rule| rule.over() == Some(&Over::Named);
    let recorded = args.run.join("windows.csv");
    let file = match &args.windows {
        Some(file) => file,
        None if !rules.rules.iter().any(|rule| is_named(&rule)) => return Ok(Vec::new()),
        None if recorded.is_file() => &recorded,
        None => {
            let names = rules.rules.iter().filter(is_named).map(|rule| rule.name.as_str());
            let names: Vec<&str> = names.collect();
            tracing::warn!(
                "{}: over named windows, of which there are none: give a file with --windows",
                names.join(", ")
            );
            return Ok(Vec::new());
        }
    };
    let named = windows::read(file)?.into_iter();
    Ok(named.map(|of| NamedWindow { name: of.name.into(), window: of.window }).collect())
}

/// Says which rules cannot have results over a CSV: those that need what it does not have, themselves or by a rule above.
fn warn_of_readings(rules: &RuleSet) {
    let mut lacks: Vec<bool> = Vec::new();
    for rule in &rules.rules {
        let is_lacking = |input: &&Input| match input.from {
            From::Page => true,
            From::Sockets => input.selector.metric == COUNTER,
            From::Rule(place) => lacks.get(place).copied().unwrap_or_default(),
        };
        let is_lacking = rule.inputs().iter().any(is_lacking);
        lacks.push(is_lacking);
    }
    let lacking = rules.rules.iter().zip(&lacks).filter(|(_, lacks)| **lacks);
    let names: Vec<&str> = lacking.map(|(rule, _)| rule.name.as_str()).collect();
    if !names.is_empty() {
        tracing::warn!(
            "a samples.csv has no readings of pages and no counters, so without all that they take are {}",
            names.join(", ")
        );
    }
}

/// The counter of sockets, which no CSV has.
const COUNTER: &str = "cpu_energy_joules_total";

/// Where rows are printed.
pub(crate) trait Out {
    /// Prints those of one piece.
    fn take(&mut self, rows: Vec<DerivedRow>) -> Result<(), Box<dyn Error>>;
    /// Ends what was begun.
    fn finish(&mut self) -> Result<(), Box<dyn Error>>;
}

/// Results are counted only.
struct Counted;

impl Keep for Counted {
    fn keep(&self, _: usize, _: usize, results: &[Settled]) -> Result<Kept, PartError> {
        Ok(Kept { summary: Summary::of(results), rows: Vec::new() })
    }
}

/// How often the line is rewritten.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Adds up counts, shows how far it is, and hands rows on.
struct Shown<'a> {
    line: &'a LiveLine,
    pieces: usize,
    at: Option<Instant>,
    summary: Summary,
    out: Option<Box<dyn Out>>,
}

impl Sink for Shown<'_> {
    fn take(&mut self, place: usize, kept: Kept) -> Result<(), Box<dyn Error>> {
        self.summary.add(kept.summary);
        if LiveLine::is_shown() && self.at.is_none_or(|at| at.elapsed() >= SHOW_EVERY) {
            self.line.show(&bar(place, self.pieces, self.summary.rows()));
            self.at = Some(Instant::now());
        }
        self.out.as_mut().map_or(Ok(()), |out| out.take(kept.rows))
    }
}

/// `[######--------------]  30 %  1234 results`
fn bar(done: usize, all: usize, rows: u64) -> String {
    const WIDE: usize = 30;
    let full = (WIDE * done).checked_div(all).unwrap_or(WIDE).min(WIDE);
    let percent = (100 * done).checked_div(all).unwrap_or(100).min(100);
    format!("[{}{}] {percent:3} %  {rows} results", "#".repeat(full), "-".repeat(WIDE - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let cases = [
            (0, 4, "", 30, 0),
            (1, 4, "#######", 23, 25),
            (4, 4, "#", 0, 100),
            (0, 0, "#", 0, 100),
        ];
        for (done, all, begins, empty, percent) in cases {
            let bar = bar(done, all, 7);
            assert!(bar.starts_with(&format!("[{begins}")), "{bar}");
            assert_eq!(bar.matches('-').count(), empty, "{bar}");
            assert!(bar.ends_with(&format!("{percent:3} %  7 results")), "{bar}");
        }
    }
}
