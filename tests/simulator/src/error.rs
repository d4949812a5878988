//! What can go wrong with a simulated machine: its description, its files, or a name that is not there.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the simulator, with the machine or the path it happened at.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// A description that no machine can have.
    #[error("machine {machine:?}: {what} is {found}, expected {expected}")]
    Description {
        /// Name of the machine.
        machine: String,
        /// The part of the description, such as `sockets[1].total.period_s`.
        what: String,
        /// The value found there.
        found: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// A file, link or folder of the tree could not be made or changed.
    #[error("cannot change {path}")]
    Change {
        /// The path that was to be changed.
        path: PathBuf,
        /// Why it could not be.
        #[source]
        source: io::Error,
    },
    /// A name that this simulation does not have.
    #[error("{place} has no {kind} {name:?}")]
    Unknown {
        /// Where it was looked for.
        place: String,
        /// The kind of thing: `machine`, `sensor`, `socket` or `counter`.
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
    /// The operating system refused the refreshing thread.
    #[error("cannot start the refreshing thread")]
    Thread(#[source] io::Error),
    /// The refreshing thread panicked, so the files have stopped moving.
    #[error("the refreshing thread panicked")]
    Panicked,
}

impl SimulatorError {
    /// For `map_err`: says which path an I/O error belongs to.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> SimulatorError {
        let path = path.to_owned();
        move |source| SimulatorError::Change { path, source }
    }
}
