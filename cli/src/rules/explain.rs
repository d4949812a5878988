//! `wattscribe rules explain`: one result with all that went into it, and all that did not and why.

use std::error::Error;
use std::io::{self, Write as _};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Args;
use wattscribe_rules::engine::{Derived, NamedWindow};
use wattscribe_rules::rule::{Over, Rule, RuleSet};
use wattscribe_table::{PartError, Settled};

use super::evaluation::{Evaluation, Keep, Kept, Question, Sink};
use super::given::Given;
use super::report;
use super::source::Source;
use crate::log::{LiveLine, chain};
use crate::time::{parse_time, utc};
use crate::windows;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The name of the rule.
    #[arg(value_name = "RULE")]
    rule: String,

    /// A recording: the directory of a run, or a samples.csv.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// When: the instant, or a time in the window, in Unix seconds or RFC 3339.
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    at: f64,

    /// Only the results of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// The rule file [default: the rules that the recording was made with, else the built-in ones]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// A file of named windows, for a rule over `named`.
    #[arg(long, value_name = "FILE")]
    windows: Option<PathBuf>,
}

/// Runs the command. Exit code 1 when there is no such result or nothing can be read, 2 when the rules are refused.
pub(crate) fn run(args: &ExplainArgs) -> ExitCode {
    LiveLine::default().start_log(tracing::Level::WARN);
    let given = match Given::or_of_run(args.rules.as_deref(), &args.run) {
        Ok(given) => given,
        Err(error) => {
            error.to_string().lines().for_each(|line| tracing::error!("{line}"));
            return ExitCode::from(2);
        }
    };
    match explain(args, &given.rules) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Results are not what is asked for.
struct Nothing;

impl Keep for Nothing {
    fn keep(&self, _: usize, _: usize, _: &[Settled]) -> Result<Kept, PartError> {
        Ok(Kept::default())
    }
}

impl Sink for Nothing {
    fn take(&mut self, _: usize, _: Kept) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
}

fn explain(args: &ExplainArgs, rules: &Arc<RuleSet>) -> Result<(), Box<dyn Error>> {
    let place = rules.rules.iter().position(|rule| rule.name == args.rule).ok_or_else(|| {
        let names: Vec<&str> = rules.rules.iter().map(|rule| rule.name.as_str()).collect();
        format!("no rule is called {:?}, expected one of {}", args.rule, names.join(", "))
    })?;
    let rule = &rules.rules[place];
    let named: Vec<NamedWindow> = match &args.windows {
        Some(file) => windows::read(file)?
            .into_iter()
            .map(|named| NamedWindow { name: named.name.into(), window: named.window })
            .collect(),
        None => Vec::new(),
    };
    let at_us = time_of_result(rule, rules, &named, args.at)?;
    let reach_us = i64::try_from(rules.reach().as_micros())?;
    let source = Source::open(&args.run, rules)?;
    if let Some(node) = &args.node
        && !source.targets().any(|target| target == node)
    {
        let targets: Vec<&str> = source.targets().collect();
        let expected = targets.join(", ");
        return Err(format!("no target is called {node:?}, expected one of {expected}").into());
    }
    let is_named = rule.over() == Some(&Over::Named);
    // A window that is named is settled when the recording ends, and by nothing before.
    let source = if is_named { source } else { source.until(at_us.saturating_add(reach_us))? };
    let node = args.node.clone().filter(|_| rule.is_of_node());
    let evaluation = Evaluation {
        source: &source,
        rules: Arc::clone(rules),
        named,
        question: Some(Question { rule: place, at_us, node }),
        threads: thread::available_parallelism().map_or(1, NonZero::get),
    };
    let mut explanations = evaluation.run(&Nothing, &mut Nothing)?;
    explanations.sort_by(|a, b| {
        let key = |of: &Derived| (of.node.clone(), Arc::clone(&of.labels), of.start_us);
        key(&a.result).cmp(&key(&b.result))
    });
    if explanations.is_empty() {
        let (at, asked) = (utc(at_us as f64 / 1e6), utc(args.at));
        let what = if rule.over().is_some() { "the window that ends at" } else { "the instant" };
        return Err(
            format!("{} has no result for {what} {at}, asked for {asked}", args.rule).into()
        );
    }
    let mut text = String::new();
    for explanation in &explanations {
        report::push(&mut text, rule, explanation);
    }
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The instant at or before a time, or the end of the window that it lies in, in Unix microseconds.
fn time_of_result(
    rule: &Rule,
    rules: &RuleSet,
    named: &[NamedWindow],
    at_s: f64,
) -> Result<i64, String> {
    let at_us = (at_s * 1e6).round() as i64;
    let whole =
        |duration: std::time::Duration| i64::try_from(duration.as_micros()).unwrap_or(1).max(1);
    match rule.over() {
        None => {
            let every_us = whole(rules.timing.every);
            Ok(at_us.div_euclid(every_us) * every_us)
        }
        Some(Over::Aligned { every, length }) => {
            Ok(at_us.div_euclid(whole(*every)) * whole(*every) + whole(*length))
        }
        Some(Over::Named) => {
            let window = named.iter().find(|named| named.window.contains(at_s));
            let window = window.ok_or_else(|| {
                format!(
                    "{} is over named windows: expected --windows with one at that time",
                    rule.name
                )
            })?;
            Ok((window.window.end_s() * 1e6).round() as i64)
        }
    }
}
