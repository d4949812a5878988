//! `wattscribe`: arguments in, exit codes and text out; everything else is the crates' work.
//!
//! Exit codes: 0 done; 1 it could not be done, with one line on standard error; 2 arguments that make
//! no sense; `record -- COMMAND` ends with COMMAND's own code.

mod command;
mod demo;
mod energy;
mod fleet;
mod listen;
mod log;
mod record;
mod rules;
mod time;
mod windows;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use wattscribe_exporter::args::ExporterArgs;

/// Measures what compute costs, in watts and joules.
#[derive(Debug, Parser)]
#[command(name = "wattscribe", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Publishes this node's power for Prometheus (the same as cpu-power-exporter).
    Export(ExporterArgs),
    /// Records the power of many nodes into CSV and Parquet.
    Record(record::RecordArgs),
    /// Integrates a recording into energy windows.
    Energy(energy::EnergyArgs),
    /// Checks rule files, evaluates them over recordings, and explains results.
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// Serves the accelerators of a fleet as one document, and shows it.
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Shows the whole pipeline on simulated machines, beside the truth. Needs no hardware and no root.
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Export(args) => wattscribe_exporter::program::run(args),
        Command::Record(args) => record::run(args),
        Command::Energy(args) => energy::run(args),
        Command::Rules(command) => rules::run(command),
        Command::Fleet(command) => fleet::run(command),
        Command::Demo(args) => demo::run(args),
    }
}
