//! The signals that ask a recording to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Which signal asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGINT, as Ctrl-C sends it to every process of the terminal.
    Interrupt,
    /// SIGTERM, sent to this process alone.
    Terminate,
}

impl Asked {
    /// What a shell gives for a process that the signal ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
        }
    }
}

/// The signals that end a recording.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Signals {
    /// Begins to listen for them.
    pub(crate) fn listen() -> Self {
        // Where no handler can be set the signal keeps its default action and ends the process.
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
        }
    }

    /// Resolves at either of them.
    pub(crate) async fn any(&mut self) -> Asked {
        tokio::select! {
            () = received(&mut self.interrupt) => Asked::Interrupt,
            () = received(&mut self.terminate) => Asked::Terminate,
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}
