//! Why a run cannot be written.

use std::path::PathBuf;

use crate::{DiskError, JournalError, PartError};

/// A run that could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The journal could not be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A Parquet file could not be written.
    #[error(transparent)]
    Part(#[from] PartError),
    /// Another process holds the lock.
    #[error("{}: another recorder is writing here", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// samples.csv is there with another header, as of another version. It is left as it is.
    #[error("{}: found header {found:?}, expected {expected:?}", path.display())]
    OtherCsv {
        /// The file.
        path: PathBuf,
        /// Its first line.
        found: String,
        /// The header of the version asked for.
        expected: String,
    },
    /// samples.csv cannot be written and too much waits for it. Nothing of the scrape was recorded.
    #[error("{}: {waiting} bytes wait to be written, expected fewer than {limit}", path.display())]
    CsvBehind {
        /// The file.
        path: PathBuf,
        /// Bytes that wait.
        waiting: usize,
        /// How many may.
        limit: usize,
    },
    /// A text of a row holds a line break, which CSV lines must not. Nothing of the scrape was recorded.
    #[error("{column} of socket {socket_id} is {found:?}, expected no line break")]
    LineBreak {
        /// The column.
        column: &'static str,
        /// The socket of the row.
        socket_id: u32,
        /// The text.
        found: String,
    },
}
