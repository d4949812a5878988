//! `wattscribe rules export`: rules as recording rules and alerts for Prometheus, and promtool's tests of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wattscribe_rules::promql::{self, Exported, Options};

use super::given::{Given, GivenError};

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// For Prometheus, Mimir and Thanos; there is no other form yet.
    #[arg(long, required = true)]
    prometheus: bool,
    /// The rule file; without it the built-in rules.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The directory of the two files, rules.yml and rules_test.yml.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The label that holds the name of the target.
    #[arg(long, value_name = "LABEL", default_value = "instance")]
    node_label: String,
    /// How often that Prometheus scrapes.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "5s")]
    scrape_interval: Duration,
    /// How long a member that is gone is expected.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "1d")]
    remember: Duration,
    /// The jobs of the targets, a regular expression.
    #[arg(long, value_name = "REGEX", default_value = "cpu-power-exporter")]
    jobs: String,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Rules(#[from] GivenError),
    #[error(transparent)]
    Options(#[from] promql::OptionsError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Runs the command. Exit code 1 when nothing can be written, 2 when the rules are refused or what was typed makes no
/// sense.
pub(crate) fn run(args: &ExportArgs) -> ExitCode {
    let Err(error) = write(args) else { return ExitCode::SUCCESS };
    let code = match error {
        ExportError::Rules(_) | ExportError::Options(_) => ExitCode::from(2),
        ExportError::Write { .. } => ExitCode::FAILURE,
    };
    // Whoever closes the pipe knows the answer by the exit code.
    drop(io::Write::write_all(&mut io::stderr(), format!("{error}\n").as_bytes()));
    code
}

fn write(args: &ExportArgs) -> Result<(), ExportError> {
    let given = args.rules.as_deref().map_or_else(|| Ok(Given::builtin()), Given::file)?;
    let options = Options {
        node_label: args.node_label.clone(),
        scrape_interval: args.scrape_interval,
        remember: args.remember,
        jobs: args.jobs.clone(),
    };
    let Exported { rules, tests } = promql::export(&given.rules, &options)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| ExportError::Write { path, source }
    };
    fs::create_dir_all(&args.out).map_err(failed(&args.out))?;
    for (name, text) in [(promql::RULES_FILE, rules), (promql::TESTS_FILE, tests)] {
        let path = args.out.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}
