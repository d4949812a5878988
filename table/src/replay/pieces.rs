//! The pieces of a run: what they are, and each of them when it is asked for, by any thread.

use std::collections::btree_map::{BTreeMap, Entry};
use std::path::Path;

use super::parts;
use super::piece::{Builder, Piece};
use super::sessions::Sessions;
use crate::journal::{JournalError, SegmentReader, Tail};
use crate::part::{latest_us, noted};
use crate::run::{RULES_UNTIL, RunPaths, set_aside};
use crate::{CpuSample, LongReading, ReadError, Record, Scrape};

/// A run as rules take it, as it is now. The scrapes of a target come in the order of their numbers, piece by piece.
#[derive(Clone, Debug)]
pub struct Pieces {
    paths: RunPaths,
    /// Their numbers, ascending, and whether they are in Parquet.
    pieces: Vec<(u64, Kind)>,
    warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Parts,
    Segment,
}

impl Pieces {
    pub(crate) fn list(paths: &RunPaths) -> Result<Pieces, ReadError> {
        // In this order a segment that is sealed between the lists is in both, and counts as sealed: scrapes are the last
        // table that sealing writes.
        let segments = paths.segments()?;
        let mut pieces: BTreeMap<u64, Kind> =
            paths.parts::<Scrape>()?.into_iter().map(|number| (number, Kind::Parts)).collect();
        for number in segments {
            if let Entry::Vacant(free) = pieces.entry(number) {
                free.insert(Kind::Segment);
            }
        }
        let damaged = paths.damaged_segments()?.into_iter();
        let warnings = damaged.map(|number| set_aside(&paths.damaged(number))).collect();
        Ok(Pieces { paths: paths.clone(), pieces: pieces.into_iter().collect(), warnings })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// What was lost when the recording was archived: each a line for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Leaves out those all of whose scrapes began before a time, in Unix microseconds.
    ///
    /// # Errors
    /// A part that cannot be read.
    pub fn since(mut self, start_us: i64) -> Result<Pieces, ReadError> {
        // Time goes on from piece to piece, so the last that is older ends the search.
        let mut first = self.pieces.len();
        while first > 0 && self.latest_us(first - 1)?.is_none_or(|latest_us| latest_us >= start_us)
        {
            first -= 1;
        }
        self.pieces.drain(..first);
        Ok(self)
    }

    /// Leaves out those behind the first with a scrape that began at or after a time, in Unix microseconds.
    ///
    /// # Errors
    /// A part that cannot be read.
    pub fn until(mut self, start_us: i64) -> Result<Pieces, ReadError> {
        let mut count = 0;
        while count < self.pieces.len() {
            count += 1;
            if self.latest_us(count - 1)?.is_some_and(|latest_us| latest_us >= start_us) {
                break;
            }
        }
        self.pieces.truncate(count);
        Ok(self)
    }

    /// Leaves out what is not in Parquet yet.
    #[must_use]
    pub fn archived(mut self) -> Pieces {
        self.pieces.retain(|(_, kind)| *kind == Kind::Parts);
        self
    }

    /// When the latest scrape of a piece began; `None` where no footer says so.
    fn latest_us(&self, place: usize) -> Result<Option<i64>, ReadError> {
        let (number, kind) = self.pieces[place];
        let path = self.paths.part::<Scrape>(number);
        match kind {
            Kind::Parts => Ok(latest_us::<Scrape>(&path, "timestamp")?),
            Kind::Segment => Ok(None),
        }
    }

    /// When the latest scrape of all began, in Unix microseconds; `None` when there is none.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn last_us(&self) -> Result<Option<i64>, ReadError> {
        let Some(last) = self.pieces.len().checked_sub(1) else { return Ok(None) };
        if let Some(latest_us) = self.latest_us(last)? {
            return Ok(Some(latest_us));
        }
        let piece = self.scrapes(last)?;
        let scrapes = piece.targets.iter().flat_map(|of| &of.scrapes);
        Ok(scrapes.map(|scrape| scrape.start_us).max())
    }

    /// When the earliest scrape of all began, in Unix microseconds; `None` when there is none.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn first_us(&self) -> Result<Option<i64>, ReadError> {
        let piece = self.scrapes(0)?;
        let scrapes = piece.targets.iter().flat_map(|of| &of.scrapes);
        Ok(scrapes.map(|scrape| scrape.start_us).min())
    }

    /// Up to which time rules are known to have recorded what follows from scrapes, in Unix microseconds, as the latest
    /// part says that says so.
    ///
    /// # Errors
    /// A part that cannot be read.
    pub fn rules_until_us(&self) -> Result<Option<i64>, ReadError> {
        for (number, kind) in self.pieces.iter().rev() {
            if *kind == Kind::Parts {
                let noted = noted::<Scrape>(&self.paths.part::<Scrape>(*number), RULES_UNTIL)?;
                if let Some(until_us) = noted.and_then(|noted| noted.parse().ok()) {
                    return Ok(Some(until_us));
                }
            }
        }
        Ok(None)
    }

    /// Leaves out all but the last.
    #[must_use]
    pub fn last(mut self, count: usize) -> Pieces {
        self.pieces.drain(..self.pieces.len().saturating_sub(count));
        self
    }

    /// Which recordings they are of, and how far each target goes.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn sessions(&self) -> Result<Sessions, ReadError> {
        let mut sessions = Sessions::default();
        for place in 0..self.pieces.len() {
            sessions.take(&self.scrapes(place)?);
        }
        Ok(sessions)
    }

    /// The scrapes of one of them without their rows.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn scrapes(&self, place: usize) -> Result<Piece, ReadError> {
        match self.pieces.get(place) {
            Some((number, Kind::Parts)) => {
                let mut builder = Builder::default();
                parts::scrapes(&self.paths.part::<Scrape>(*number), &mut builder)?;
                Ok(builder.finish(Vec::new()))
            }
            Some((_, Kind::Segment)) | None => self.read(place, &|_| false),
        }
    }

    /// Reads one of them, with those samples whose metric is wanted.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(&self, place: usize, wants: &dyn Fn(&str) -> bool) -> Result<Piece, ReadError> {
        let Some(&(number, kind)) = self.pieces.get(place) else { return Ok(Piece::default()) };
        if kind == Kind::Segment {
            match SegmentReader::open(&self.paths.segment(number)) {
                // Sealed since it was listed.
                Err(JournalError::Disk(error)) if error.is_not_found() => {}
                segment => return replay(segment?, wants),
            }
        }
        let mut builder = Builder::default();
        let there = |path: &Path| path.exists();
        let scrapes = self.paths.part::<Scrape>(number);
        if there(&scrapes) {
            parts::scrapes(&scrapes, &mut builder)?;
        }
        let sockets = self.paths.part::<CpuSample>(number);
        if there(&sockets) {
            parts::sockets(&sockets, &mut builder)?;
        }
        let samples = self.paths.part::<LongReading>(number);
        if there(&samples) {
            parts::samples(&samples, &mut builder, wants)?;
        }
        Ok(builder.finish(Vec::new()))
    }
}

fn replay(mut segment: SegmentReader, wants: &dyn Fn(&str) -> bool) -> Result<Piece, ReadError> {
    let mut builder = Builder::default();
    for record in &mut segment {
        if let Record::Scrape(record) = record? {
            builder.record(&record, wants);
        }
    }
    let mut warnings = Vec::new();
    // A torn end is what a scrape looks like that is just being written.
    if let Some(Tail::Damaged { bytes }) = segment.tail() {
        warnings.push(format!("{}: {bytes} bytes cannot be read", segment.path().display()));
    }
    Ok(builder.finish(warnings))
}
