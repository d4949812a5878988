//! `wattscribe rules check`: a rule file in, everything that is wrong in it out.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::given::{Given, GivenError};

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The rule file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command. Exit code 1 when the file is refused, 2 when it cannot be read.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let (text, code) = match Given::file(&args.file) {
        Ok(given) => {
            let count = given.rules.rules.len();
            let rules = if count == 1 { "rule" } else { "rules" };
            (format!("{}: {count} {rules}", args.file.display()), ExitCode::SUCCESS)
        }
        Err(error @ GivenError::Refused(_)) => (error.to_string(), ExitCode::FAILURE),
        Err(error @ GivenError::Unreadable { .. }) => (error.to_string(), ExitCode::from(2)),
    };
    let written = if code == ExitCode::SUCCESS {
        writeln!(io::stdout(), "{text}")
    } else {
        writeln!(io::stderr(), "{text}")
    };
    // Whoever closes the pipe knows the answer by the exit code.
    drop(written);
    code
}
