//! `wattscribe rules`: rule files checked, evaluated over recordings, and their results explained.
//!
//! Nothing is worked out here: rules are read and evaluated by `wattscribe_rules`, rows come from `wattscribe_table`.

mod check;
mod eval;
mod evaluation;
mod explain;
mod export;
mod given;
mod pace;
mod parts;
mod print;
mod report;
mod shard;
mod source;
mod summary;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use given::Given;
pub(crate) use pace::too_tight;

/// What the operator typed.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Reads a rule file and says everything that is wrong in it.
    Check(check::CheckArgs),
    /// Evaluates rules over a recording: the same rows as while it was recorded.
    Eval(eval::EvalArgs),
    /// Shows for one result of a rule what went in, and what was left out and why.
    Explain(explain::ExplainArgs),
    /// Writes rules for Prometheus, and promtool's tests of them.
    Export(export::ExportArgs),
}

/// Runs the command.
pub(crate) fn run(command: RulesCommand) -> ExitCode {
    match command {
        RulesCommand::Check(args) => check::run(&args),
        RulesCommand::Eval(args) => eval::run(&args),
        RulesCommand::Explain(args) => explain::run(&args),
        RulesCommand::Export(args) => export::run(&args),
    }
}
