//! `wattscribe rules check`: a rule file in, everything that is wrong in it out.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::given::Given;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The rule file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command. Exit code 2 when the file is refused or cannot be read, as every command has it.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let (text, code) = match Given::file(&args.file) {
        Ok(given) => {
            let count = given.rules.rules.len();
            let rules = if count == 1 { "rule" } else { "rules" };
            (format!("{}: {count} {rules}", args.file.display()), ExitCode::SUCCESS)
        }
        Err(error) => (error.to_string(), ExitCode::from(2)),
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
