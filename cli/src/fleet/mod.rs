//! `wattscribe fleet`: the accelerators of many nodes as one document, served and shown.

mod at;
mod serve;
mod status;
mod wire;
mod yaml;

use std::process::ExitCode;

use clap::Subcommand;

/// What is done.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Asks the exporters of a fleet, and serves what they tell as one document and one page.
    Serve(serve::ServeArgs),
    /// Shows the document of a fleet.
    Status(status::StatusArgs),
    /// Makes the document of a past instant from a recording.
    At(at::AtArgs),
}

/// Runs the command.
pub(crate) fn run(command: FleetCommand) -> ExitCode {
    match command {
        FleetCommand::Serve(args) => serve::run(args),
        FleetCommand::Status(args) => status::run(args),
        FleetCommand::At(args) => at::run(args),
    }
}
