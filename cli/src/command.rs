//! The command that a recording runs around: started, signalled, waited for.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::record::{Asked, Signals};

/// How long a command may take to end once it was asked to; then it is killed.
const END_TIME_MAX: Duration = Duration::from_secs(30);

/// Shells' exit codes for a command that is not there or cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Runs a command to its end. Its exit code, or 128 and the signal that ended it; or, when it could not
/// be started, the code a shell would give and why.
///
/// Ctrl-C reaches the command from the terminal by itself, so here it is only waited for; SIGTERM is
/// passed on.
pub(crate) async fn run(argv: &[String], signals: &mut Signals) -> Result<u8, (u8, String)> {
    let Some((program, args)) = argv.split_first() else {
        return Err((NOT_FOUND, "no command".to_owned()));
    };
    let mut child = Command::new(program).args(args).spawn().map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
        (code, format!("cannot run {program}: {error}"))
    })?;
    let ended = tokio::select! {
        ended = child.wait() => ended,
        asked = signals.any() => {
            let signal = (asked == Asked::Terminate).then_some(Signal::TERM);
            end(&mut child, signal).await
        }
    };
    ended.map(exit_code).map_err(|error| (NOT_RUN, format!("cannot wait for {program}: {error}")))
}

/// Waits for a command that has been, or now is, asked to end; kills it if it does not.
async fn end(child: &mut Child, signal: Option<Signal>) -> io::Result<ExitStatus> {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let (Some(pid), Some(signal)) = (pid, signal) {
        // It may have ended just now: then the wait below says so.
        let _ = kill_process(pid, signal);
    }
    match timeout(END_TIME_MAX, child.wait()).await {
        Ok(ended) => ended,
        Err(_) => {
            tracing::warn!("the command has not ended within {END_TIME_MAX:?} and is killed");
            child.kill().await?;
            child.wait().await
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
