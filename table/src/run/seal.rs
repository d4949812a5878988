//! Sealing: a segment of the journal becomes Parquet parts and is removed.
//!
//! It always starts from the segment's file, whether the recorder rotates or a crash is being recovered, so there is
//! one way and it is used every day.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::paths::RunPaths;
use crate::disk;
use crate::part::write_part_as;
use crate::{
    CpuSample, DerivedRow, LongReading, Record, RuleMember, Scrape, SegmentReader, Simulated,
    Table, Tail,
};

/// The note in a part of `scrapes` that says how far rules came: see [`crate::RuleRecord::until_us`].
pub(crate) const RULES_UNTIL: &str = "wattscribe.rules_until";

/// What sealing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Records that were replayed.
    pub records: u64,
    /// Rows that are now in Parquet, over all tables.
    pub rows: u64,
    /// Bytes of the segments that are no whole record: torn ends, which are gone, and what the damaged keep.
    pub bytes_dropped: u64,
    /// Segments with unreadable bytes in their middle, kept under these names. The whole records around are replayed.
    pub damaged: Vec<PathBuf>,
}

impl Sealed {
    /// What was lost: each a line for the log.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.damaged.iter().map(|path| set_aside(path)).collect();
        if self.bytes_dropped > 0 {
            warnings.push(format!("journal: {} bytes were no whole scrape", self.bytes_dropped));
        }
        warnings
    }

    /// Adds what sealing another segment did.
    pub(super) fn add(&mut self, other: Sealed) {
        self.records += other.records;
        self.rows += other.rows;
        self.bytes_dropped += other.bytes_dropped;
        self.damaged.extend(other.damaged);
    }
}

/// Says that scrapes are missing from a run because of a segment that was kept.
pub(crate) fn set_aside(path: &Path) -> String {
    format!("{}: scrapes of this segment could not be read and are missing", path.display())
}

/// Seals one segment, which nobody writes any more. Doing it again gives the same.
pub(super) fn seal(paths: &RunPaths, number: u64) -> Result<Sealed, RunError> {
    let segment = paths.segment(number);
    let mut reader = SegmentReader::open(&segment)?;
    let (mut cpu, mut scrapes, mut readings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut derived, mut members, mut until_us) = (Vec::new(), Vec::new(), None);
    let mut sealed = Sealed::default();
    for record in &mut reader {
        sealed.records += 1;
        match record? {
            Record::Scrape(record) => {
                cpu.extend(record.cpu);
                scrapes.push(record.scrape);
                readings.extend(record.readings);
            }
            Record::Rules(record) => {
                derived.extend(record.derived);
                members.extend(record.members);
                until_us = until_us.max(record.until_us);
            }
        }
    }
    let simulated = Simulated::of(cpu.iter().map(|row: &CpuSample| row.simulated));
    let until = until_us.map(|until_us| (RULES_UNTIL, until_us.to_string()));
    sealed.rows += write::<CpuSample>(paths, number, cpu, simulated, None)?;
    sealed.rows += write::<LongReading>(paths, number, readings, simulated, None)?;
    sealed.rows += write::<Scrape>(paths, number, scrapes, simulated, until)?;
    let of_results = Simulated::of(derived.iter().map(|row: &DerivedRow| row.simulated));
    sealed.rows += write::<DerivedRow>(paths, number, derived, of_results, None)?;
    let of_members = Simulated::of(members.iter().map(|row: &RuleMember| row.simulated));
    sealed.rows += write::<RuleMember>(paths, number, members, of_members, None)?;
    match reader.tail() {
        Some(Tail::Damaged { bytes }) => {
            sealed.bytes_dropped = bytes;
            let aside = paths.damaged(number);
            disk::rename(&segment, &aside)?;
            sealed.damaged.push(aside);
        }
        Some(Tail::Torn { bytes }) => {
            sealed.bytes_dropped = bytes;
            disk::remove(&segment)?;
        }
        Some(Tail::Clean) | None => disk::remove(&segment)?,
    }
    Ok(sealed)
}

fn write<T: Table>(
    paths: &RunPaths,
    number: u64,
    rows: Vec<T>,
    simulated: Option<Simulated>,
    note: Option<(&str, String)>,
) -> Result<u64, RunError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let directory: &Path = &paths.table::<T>();
    disk::make_dir(directory)?;
    let (unfinished, path) = (paths.unfinished::<T>(number), paths.part::<T>(number));
    Ok(write_part_as(unfinished, &path, rows, simulated, note)?)
}
