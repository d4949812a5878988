//! Reads a run, also while it is being recorded: the parts, then what is only in the journal.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};

use super::paths::RunPaths;
use super::seal::set_aside;
use crate::journal::{JournalError, SegmentReader, Tail};
use crate::part::{PartError, PartReader, latest_us};
use crate::record::Journaled;
use crate::{DiskError, Pieces, Row};

/// A run, or a file of one, that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A segment could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A Parquet file could not be read.
    #[error(transparent)]
    Part(#[from] PartError),
    /// There is nothing there that holds the table.
    #[error("{}: found {found}, expected {expected}", path.display())]
    NotRecorded {
        /// The path that was given.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What could be read.
        expected: &'static str,
    },
}

/// The directory of a recording, for reading.
#[derive(Debug)]
pub struct RunReader {
    paths: RunPaths,
}

impl RunReader {
    /// Opens a run. Nothing is changed in it, and no lock is taken.
    ///
    /// # Errors
    /// When the directory holds neither a journal nor Parquet parts.
    pub fn open(directory: &Path) -> Result<RunReader, ReadError> {
        let paths = RunPaths::new(directory);
        if paths.journal().is_dir() || paths.table::<crate::CpuSample>().is_dir() {
            return Ok(RunReader { paths });
        }
        Err(ReadError::NotRecorded {
            path: directory.to_owned(),
            found: "neither journal/ nor cpu_samples/".into(),
            expected: "the directory of a recording",
        })
    }

    /// What rules take of the run, as it is now, piece by piece.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn pieces(&self) -> Result<Pieces, ReadError> {
        Pieces::list(&self.paths)
    }

    /// The rows of a table, as they are now. The time of each series does not decrease, as far as the recorder's wall
    /// clock did not: parts come in the order of their numbers, and each is sorted by series, then time.
    ///
    /// # Errors
    /// When the directory cannot be listed. Errors of single files come as items.
    pub fn rows<R: Journaled>(&self) -> Result<RunRows<R>, ReadError> {
        self.rows_of(|_| Ok(true))
    }

    /// Those rows, without the parts all of whose times in a column are before `since_us`, in Unix microseconds.
    ///
    /// # Errors
    /// When the directory cannot be listed, or a part's footer cannot be read.
    pub fn rows_since<R: Journaled>(
        &self,
        column: &str,
        since_us: i64,
    ) -> Result<RunRows<R>, ReadError> {
        self.rows_of(|part| {
            Ok(latest_us::<R>(part, column)?.is_none_or(|latest_us| latest_us >= since_us))
        })
    }

    fn rows_of<R: Journaled>(
        &self,
        is_wanted: impl Fn(&Path) -> Result<bool, PartError>,
    ) -> Result<RunRows<R>, ReadError> {
        // In this order a segment that is sealed between the two lists is in both, and one is left out below. The other
        // way round it could be in neither.
        let segments = self.paths.segments()?;
        let parts = self.paths.parts::<R>()?;
        let mut pieces: BTreeMap<u64, Piece> =
            parts.into_iter().map(|number| (number, Piece::Part)).collect();
        for number in segments {
            if let Entry::Vacant(free) = pieces.entry(number) {
                free.insert(Piece::Segment);
            }
        }
        for (number, piece) in std::mem::take(&mut pieces) {
            if piece == Piece::Segment || is_wanted(&self.paths.part::<R>(number))? {
                pieces.insert(number, piece);
            }
        }
        let damaged = self.paths.damaged_segments()?.into_iter();
        Ok(RunRows {
            paths: self.paths.clone(),
            pieces: pieces.into_iter().collect(),
            rows: Rows::Sorted(Vec::new().into_iter()),
            warnings: damaged.map(|number| set_aside(&self.paths.damaged(number))).collect(),
        })
    }
}

/// Where the rows with one number are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Part,
    Segment,
}

enum Rows<R: Row> {
    Part(Box<PartReader<R>>),
    Sorted(std::vec::IntoIter<R>),
}

/// The rows of one table of a run.
pub struct RunRows<R: Row> {
    paths: RunPaths,
    pieces: VecDeque<(u64, Piece)>,
    rows: Rows<R>,
    warnings: Vec<String>,
}

impl<R: Journaled> RunRows<R> {
    /// What could not be read, now or when it was archived, and did not stop the rest; complete once the iterator has ended.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn begin(&mut self, number: u64, piece: Piece) -> Result<Rows<R>, ReadError> {
        if let Piece::Segment = piece {
            match SegmentReader::open(&self.paths.segment(number)) {
                // Sealed since it was listed. If it held rows of this table, they are in the part now.
                Err(JournalError::Disk(error)) if error.is_not_found() => {
                    if !self.paths.part::<R>(number).exists() {
                        return Ok(Rows::Sorted(Vec::new().into_iter()));
                    }
                }
                segment => return self.replay(segment?),
            }
        }
        Ok(Rows::Part(Box::new(PartReader::open(&self.paths.part::<R>(number))?)))
    }

    fn replay(&mut self, mut segment: SegmentReader) -> Result<Rows<R>, ReadError> {
        let mut rows = Vec::new();
        for record in &mut segment {
            rows.extend(R::of(record?));
        }
        // A torn end is what a scrape looks like that is just being written.
        if let Some(Tail::Damaged { bytes }) = segment.tail() {
            self.warnings
                .push(format!("{}: {bytes} bytes cannot be read", segment.path().display()));
        }
        rows.sort_by(R::order);
        Ok(Rows::Sorted(rows.into_iter()))
    }
}

impl<R: Journaled> Iterator for RunRows<R> {
    type Item = Result<R, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match &mut self.rows {
                Rows::Part(part) => part.next().map(|row| row.map_err(ReadError::from)),
                Rows::Sorted(rows) => rows.next().map(Ok),
            };
            if row.is_some() {
                return row;
            }
            let (number, piece) = self.pieces.pop_front()?;
            match self.begin(number, piece) {
                Ok(rows) => self.rows = rows,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
