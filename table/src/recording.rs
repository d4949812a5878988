//! The samples of whatever path a user has: a run, a directory of Parquet files, one Parquet file, or a samples.csv.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::samples_csv::{CsvReason, SamplesCsv};
use crate::{CpuSample, Journaled, PartReader, ReadError, RunReader, RunRows};

/// What [`open_any`] can read, for its error.
const READABLE: &str =
    "a recording, a directory of Parquet files, a .parquet file or a samples.csv";

/// Opens the CPU samples at a path; `R` is [`CpuSample`] or, for less reading, [`crate::CpuPower`].
///
/// In a recording, the archive and the journal are read and not samples.csv, which has fewer columns of the same rows.
/// The files of a directory come in the order of their names.
///
/// # Errors
/// A path that is none of these, or a CSV file without a known header.
pub fn open_any<R: Journaled + From<CpuSample>>(path: &Path) -> Result<Recording<R>, ReadError> {
    let not_recorded =
        |found: String| ReadError::NotRecorded { path: path.to_owned(), found, expected: READABLE };
    let parts = |files: Vec<PathBuf>| Recording(Kind::Parts { files: files.into(), open: None });
    if !path.is_dir() {
        return match path.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") if path.exists() => Ok(parts(vec![path.to_owned()])),
            Some("csv") => open_csv(path),
            _ if path.exists() => Err(not_recorded("a file of another kind".into())),
            _ => Err(not_recorded("nothing".into())),
        };
    }
    if let Ok(run) = RunReader::open(path) {
        return Ok(Recording(Kind::Run(run.rows()?)));
    }
    let names = disk::names(path)?;
    let files: Vec<_> = names
        .iter()
        .filter(|name| name.ends_with(".parquet") && !name.starts_with('.'))
        .map(|name| path.join(name))
        .collect();
    if !files.is_empty() {
        return Ok(parts(files));
    }
    let csv = ["cpu/samples.csv", "samples.csv"].map(|name| path.join(name));
    match csv.iter().find(|csv| csv.is_file()) {
        Some(csv) => open_csv(csv),
        None => Err(not_recorded(format!("a directory of {} other files", names.len()))),
    }
}

fn open_csv<R: Journaled>(path: &Path) -> Result<Recording<R>, ReadError> {
    let csv = SamplesCsv::open(path);
    let fatal = |reason| matches!(reason, CsvReason::Missing | CsvReason::HeaderMismatch);
    match csv.issues().iter().find(|issue| fatal(issue.reason)) {
        Some(issue) => Err(ReadError::NotRecorded {
            path: path.to_owned(),
            found: issue.to_string(),
            expected: READABLE,
        }),
        None => Ok(Recording(Kind::Csv(Box::new(csv)))),
    }
}

/// The CPU samples at a path.
pub struct Recording<R: Journaled>(Kind<R>);

enum Kind<R: Journaled> {
    Run(RunRows<R>),
    Parts { files: VecDeque<PathBuf>, open: Option<Box<PartReader<R>>> },
    Csv(Box<SamplesCsv<BufReader<File>>>),
}

impl<R: Journaled> Recording<R> {
    /// What could not be read and did not stop the rest: each a line for the user; complete once the iterator has
    /// ended.
    pub fn warnings(&self) -> Vec<String> {
        match &self.0 {
            Kind::Run(rows) => rows.warnings().to_vec(),
            Kind::Parts { .. } => Vec::new(),
            Kind::Csv(csv) => csv.issues().iter().map(ToString::to_string).collect(),
        }
    }
}

impl<R: Journaled + From<CpuSample>> Iterator for Recording<R> {
    type Item = Result<R, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (files, open) = match &mut self.0 {
            Kind::Run(rows) => return rows.next(),
            Kind::Csv(csv) => return csv.next().map(|row| Ok(R::from(row))),
            Kind::Parts { files, open } => (files, open),
        };
        loop {
            if let Some(row) = open.as_mut().and_then(|part| part.next()) {
                return Some(row.map_err(ReadError::from));
            }
            match PartReader::open(&files.pop_front()?) {
                Ok(part) => *open = Some(Box::new(part)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}
