//! What rules are evaluated over: a recording, or a samples.csv.

use std::error::Error;
use std::path::{Path, PathBuf};

use wattscribe_rules::rule::RuleSet;
use wattscribe_table::{
    CsvPieces, CsvReason, Piece, Pieces, ReadError, RunReader, SamplesCsv, Sessions,
};

use crate::energy::manifest;

/// A recording as rules take it.
#[derive(Debug)]
pub(crate) struct Source {
    kind: Kind,
    sessions: Sessions,
    /// What a host of a CSV may be silent for at the end, in microseconds, and be there still.
    silence_us: i64,
}

#[derive(Debug)]
enum Kind {
    Run(Pieces),
    Csv { path: PathBuf, pieces: usize, is_simulated: bool },
}

impl Source {
    /// Opens a path. A samples.csv is read once to the end, to know how far each host goes.
    pub(crate) fn open(path: &Path, rules: &RuleSet) -> Result<Source, Box<dyn Error>> {
        let timing = rules.timing;
        let silence_us = i64::try_from((timing.look_back + timing.lateness).as_micros())?;
        if let Ok(run) = RunReader::open(path) {
            let pieces = run.pieces()?;
            if pieces.is_empty() {
                return Err(format!("{}: found no scrapes", path.display()).into());
            }
            let sessions = pieces.sessions()?;
            return Ok(Source { kind: Kind::Run(pieces), sessions, silence_us });
        }
        // Rows of a CSV cannot say it; the manifest beside them can.
        let word = manifest(path).and_then(|manifest| manifest.wattscribe.simulated);
        let is_simulated = word.is_some_and(|word| word != "false");
        let path = csv_path(path)?;
        let (mut sessions, mut count) = (Sessions::default(), 0);
        for piece in open_csv(&path)? {
            sessions.take(&piece);
            count += 1;
        }
        Ok(Source { kind: Kind::Csv { path, pieces: count, is_simulated }, sessions, silence_us })
    }

    /// Leaves out what comes after a time, in Unix microseconds, as far as that can be told without reading it.
    pub(crate) fn until(mut self, end_us: i64) -> Result<Source, Box<dyn Error>> {
        if let Kind::Run(pieces) = self.kind {
            self.kind = Kind::Run(pieces.until(end_us)?);
        }
        Ok(self)
    }

    /// How many pieces there are.
    pub(crate) fn len(&self) -> usize {
        match &self.kind {
            Kind::Run(pieces) => pieces.len(),
            Kind::Csv { pieces, .. } => *pieces,
        }
    }

    /// What was lost when it was archived: each a line for the user.
    pub(crate) fn warnings(&self) -> &[String] {
        match &self.kind {
            Kind::Run(pieces) => pieces.warnings(),
            Kind::Csv { .. } => &[],
        }
    }

    /// Whether it is a CSV, which has sockets alone.
    pub(crate) fn is_csv(&self) -> bool {
        matches!(self.kind, Kind::Csv { .. })
    }

    /// Whether all of it counts as simulated, whatever its rows say.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Csv { is_simulated: true, .. })
    }

    /// The targets.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> + '_ {
        self.sessions.targets()
    }

    /// See [`Sessions::beginning_at`].
    pub(crate) fn beginning_at(&self, place: usize) -> Vec<&str> {
        self.sessions.beginning_at(place).into_iter().flatten().collect()
    }

    /// Whether a target ends with a piece, by its place, before the recording does.
    pub(crate) fn ends_at(&self, place: usize, target: &str) -> bool {
        match &self.kind {
            Kind::Run(_) => self.sessions.ends_at(place, target),
            Kind::Csv { .. } => self.sessions.falls_silent_at(place, target, self.silence_us),
        }
    }

    /// How many threads may read at once, each every nth piece.
    pub(crate) fn readers_max(&self) -> usize {
        match &self.kind {
            Kind::Run(pieces) => pieces.len().max(1),
            Kind::Csv { .. } => 1,
        }
    }

    /// Reads every `step`th piece from the `first` on.
    pub(crate) fn read<'a>(
        &'a self,
        first: usize,
        step: usize,
        wants: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Box<dyn Iterator<Item = Result<Piece, ReadError>> + 'a> {
        match &self.kind {
            Kind::Run(pieces) => Box::new(
                (first..pieces.len())
                    .step_by(step)
                    .map(move |place| pieces.read(place, &|metric| wants(metric))),
            ),
            Kind::Csv { path, .. } => match open_csv(path) {
                Ok(pieces) => Box::new(CsvRead { pieces }),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        }
    }
}

/// Pieces of a samples.csv; what had to be left out is said with the last.
struct CsvRead {
    pieces: CsvPieces,
}

impl Iterator for CsvRead {
    type Item = Result<Piece, ReadError>;

    fn next(&mut self) -> Option<Result<Piece, ReadError>> {
        let mut piece = self.pieces.next()?;
        if self.pieces.has_ended() {
            piece.warnings = self.pieces.warnings();
        }
        Some(Ok(piece))
    }
}

/// What can be evaluated.
const EXPECTED: &str = "the directory of a recording or a samples.csv";

fn csv_path(path: &Path) -> Result<PathBuf, ReadError> {
    let beside = [path.join("cpu/samples.csv"), path.join("samples.csv")];
    let is_csv = path.extension().is_some_and(|extension| extension == "csv");
    if path.is_file() && is_csv {
        return Ok(path.to_owned());
    }
    let found = if path.exists() { "something else" } else { "nothing" };
    let not_recorded = || ReadError::NotRecorded {
        path: path.to_owned(),
        found: found.to_owned(),
        expected: EXPECTED,
    };
    beside.into_iter().find(|path| path.is_file()).ok_or_else(not_recorded)
}

fn open_csv(path: &Path) -> Result<CsvPieces, ReadError> {
    let csv = SamplesCsv::open(path);
    let fatal = |reason| matches!(reason, CsvReason::Missing | CsvReason::HeaderMismatch);
    match csv.issues().iter().find(|issue| fatal(issue.reason)) {
        Some(issue) => Err(ReadError::NotRecorded {
            path: path.to_owned(),
            found: issue.to_string(),
            expected: EXPECTED,
        }),
        None => Ok(CsvPieces::new(csv)),
    }
}
