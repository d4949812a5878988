//! `wattscribe energy`: a recording in, energy windows out.

mod print;
mod select;
mod state;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::log::{LiveLine, chain};
use crate::time::parse_time;

pub(crate) use select::{Selection, manifest};
pub(crate) use state::state_energy;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct EnergyArgs {
    /// A recording: the directory of a run, a samples.csv (version 1 to 4), a Parquet file or a
    /// directory of Parquet files.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Start of the window, in Unix seconds or RFC 3339 [default: when every series had begun].
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    from: Option<f64>,

    /// End of the window [default: when the first series ends].
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    to: Option<f64>,

    /// Cuts the time into windows of this length, aligned to multiples of it.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION")]
    every: Option<std::time::Duration>,

    /// A file of named windows: CSV with the header name,start_unix,end_unix, or JSON lines.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "every"])]
    windows: Option<PathBuf>,

    /// The longest time between two readings that is still integrated over
    /// [default: three intervals of the recording, but at least 3s].
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION")]
    gap: Option<std::time::Duration>,

    /// What to print. Parquet goes to RUN/energy_windows, or to --output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Writes to this file and not to standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How windows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// An array of objects.
    Json,
    /// A header and a line per window.
    Csv,
    /// A Parquet file.
    Parquet,
}

/// Runs the command. Exit code 1 when the recording cannot be read or holds no reading.
pub(crate) fn run(args: EnergyArgs) -> ExitCode {
    LiveLine::default().start_log(tracing::Level::WARN);
    let outcome = select::windows(&args).and_then(|selection| {
        let windows = state_energy(&args.run, &selection)?;
        print::print(&args, windows)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
