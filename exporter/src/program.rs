//! What both programs that carry the exporter do around it: log lines on standard output, one runtime,
//! exit codes.

use std::error::Error;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::args::ExporterArgs;

/// Runs the exporter as a program. Exit code 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for
/// arguments that make no sense.
pub fn run(args: ExporterArgs) -> ExitCode {
    start_log();
    let config = match args.into_config() {
        Ok(config) => config,
        Err(reason) => {
            tracing::error!("{reason}");
            return ExitCode::from(2);
        }
    };
    // One thread serves: the work of a scrape is copying a page, and a node's cores belong to its jobs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(crate::run(config)).map_err(Box::<dyn Error>::from),
        Err(error) => Err(Box::<dyn Error>::from(error)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Log lines on standard output at INFO; `RUST_LOG` narrows or widens them.
fn start_log() {
    let filter =
        EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(is_terminal).init();
}

/// An error with all its causes on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
