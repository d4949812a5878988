//! What the program says: log lines on standard error, and one live line that they do not garble.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The last line of the terminal, rewritten in place; every log line goes above it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveLine(Arc<Mutex<String>>);

/// Back to the start of the line, and clear it.
const CLEAR: &[u8] = b"\r\x1b[K";

impl LiveLine {
    /// Whether there is a terminal to show it on.
    pub(crate) fn is_shown() -> bool {
        io::stderr().is_terminal()
    }

    /// Shows this text now, cut to the terminal's width.
    pub(crate) fn show(&self, text: &str) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let width =
            rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        // Some terminals do not know their width and say 0.
        let width = if width < 20 { 80 } else { width };
        *shown = text.chars().take(width - 1).collect();
        // A terminal that cannot be written to shows nothing: there is nobody to tell.
        let _ = write_all(&[CLEAR, shown.as_bytes()]);
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.is_empty() {
            shown.clear();
            let _ = write_all(&[CLEAR]);
        }
    }

    /// Starts logging above this line, at `level` unless `RUST_LOG` says otherwise.
    pub(crate) fn start_log(&self, level: tracing::Level) {
        let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(Self::is_shown())
            .with_target(false)
            .with_writer(self.clone())
            .init();
    }
}

/// One log line on its way out.
#[derive(Debug)]
pub(crate) struct LogLine(LiveLine);

impl Write for LogLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_empty() {
            write_all(&[line])?;
        } else {
            write_all(&[CLEAR, line, shown.as_bytes()])?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LiveLine {
    type Writer = LogLine;

    fn make_writer(&self) -> LogLine {
        LogLine(self.clone())
    }
}

fn write_all(pieces: &[&[u8]]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    pieces.iter().try_for_each(|piece| out.write_all(piece))?;
    out.flush()
}

/// An error with all its causes on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        // A transparent wrapper prints what its source prints.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        cause = error.source();
    }
    text
}
