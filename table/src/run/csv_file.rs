//! The samples.csv of a run while it grows, and how it is brought back in step with the journal.
//!
//! The journal comes first, so after a crash this file can only be behind it. Every record says at which byte its lines
//! begin, so what is missing is known to the byte: nothing is written twice.

use std::path::Path;

use super::error::RunError;
use crate::disk::{self, DiskError, GrowingFile};
use crate::samples_csv::{CsvVersion, csv_header, csv_rows, whole_lines};
use crate::{CpuSample, ScrapeRecord};

/// Lines that may wait while the file cannot be written, about an hour of a hundred nodes at one hertz and two sockets.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// samples.csv, open for appending.
#[derive(Debug)]
pub(super) struct CsvFile {
    file: GrowingFile,
    version: CsvVersion,
    /// Lines that are in the journal and could not be written here yet.
    waiting: Vec<u8>,
}

/// What became of the lines of a journal record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    /// They were there.
    Present,
    /// Some or all were missing and were appended: so many.
    Added(u64),
    /// The file is shorter than the journal found it, or lines do not meet: it was changed by other hands, or the
    /// records between are damaged. Appending could write rows twice, so it is left; the rows are in Parquet.
    Foreign(u64),
}

impl CsvFile {
    /// Opens or creates the file. A torn last line is cut: its length comes second.
    pub(super) fn open(path: &Path, version: CsvVersion) -> Result<(CsvFile, u64), RunError> {
        let mut file = GrowingFile::open(path)?;
        let header = csv_header(version);
        let found = disk::head(path, header.len() as u64)?;
        let mut torn = 0;
        if found.len() < header.len() && header.starts_with(&found) {
            torn = file.len();
            file.cut(0)?;
            file.append(&header)?;
            file.sync()?;
        } else if found != header {
            let start = disk::head(path, 400)?;
            let line = start.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            return Err(RunError::OtherCsv {
                path: path.to_owned(),
                found: String::from_utf8_lossy(line).into_owned(),
                expected: String::from_utf8_lossy(header.trim_ascii_end()).into_owned(),
            });
        } else {
            let whole = whole_lines(file.file()).map_err(disk::at("read", path))?;
            torn += file.len() - whole;
            if torn > 0 {
                file.cut(whole)?;
            }
        }
        Ok((CsvFile { file, version, waiting: Vec::new() }, torn))
    }

    /// Where the next lines will begin.
    pub(super) fn offset(&self) -> u64 {
        self.file.len() + self.waiting.len() as u64
    }

    /// Refuses when too much waits already.
    pub(super) fn check_room(&self) -> Result<(), RunError> {
        let (waiting, limit) = (self.waiting.len(), WAITING_BYTES_MAX);
        if waiting < limit {
            return Ok(());
        }
        Err(RunError::CsvBehind { path: self.file.path().to_owned(), waiting, limit })
    }

    /// Appends the lines of rows that are in the journal. If that fails they wait, and [`CsvFile::flush`] will say why.
    pub(super) fn append(&mut self, rows: &[CpuSample]) {
        self.waiting.extend(csv_rows(self.version, rows));
        // The rows are recorded; the error comes back from the next flush, if it is still there then.
        let _ = self.flush();
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<(), DiskError> {
        if !self.waiting.is_empty() {
            self.file.append(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Makes all lines durable.
    pub(super) fn sync(&mut self) -> Result<(), DiskError> {
        self.flush()?;
        self.file.sync()
    }

    /// Adds the lines of a journal record that are missing. Records come in the order in which they were written.
    pub(super) fn restore(&mut self, record: &ScrapeRecord) -> Result<Restored, DiskError> {
        let lines = csv_rows(self.version, &record.cpu);
        let count = |lines: &[u8]| lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        let Some(there) = self.file.len().checked_sub(record.csv_offset) else {
            return Ok(match count(&lines) {
                0 => Restored::Present,
                count => Restored::Foreign(count),
            });
        };
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(lines.len());
        let (before, missing) = lines.split_at(there);
        if missing.is_empty() {
            return Ok(Restored::Present);
        }
        if !before.is_empty() && !before.ends_with(b"\n") {
            return Ok(Restored::Foreign(count(&lines)));
        }
        self.file.append(missing)?;
        Ok(Restored::Added(count(missing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_rows::cpu;
    use std::fs;
    use tempfile::tempdir;

    #[test]
    fn lines_that_cannot_be_written_wait_and_keep_their_place() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("samples.csv");
        let (mut csv, _) = CsvFile::open(&path, CsvVersion::V3).unwrap();
        let line = csv_rows(CsvVersion::V3, &[cpu("a", 0, 0)]).len() as u64;
        let start = csv.offset();
        csv.append(&[cpu("a", 0, 0)]);
        // As after an append that failed.
        csv.waiting.extend(csv_rows(CsvVersion::V3, &[cpu("a", 0, 1)]));
        assert_eq!(csv.offset(), start + 2 * line);
        csv.append(&[cpu("a", 0, 2)]);
        assert_eq!(csv.offset(), fs::metadata(&path).unwrap().len());
        let text = fs::read_to_string(&path).unwrap();
        let times = text.lines().skip(1).filter_map(|line| line.split(',').nth(1));
        assert_eq!(
            times.collect::<Vec<_>>(),
            ["1788310143.461", "1788310144.461", "1788310145.461"]
        );

        csv.waiting.resize(WAITING_BYTES_MAX, b'x');
        assert!(matches!(csv.check_room(), Err(RunError::CsvBehind { .. })));
    }
}
