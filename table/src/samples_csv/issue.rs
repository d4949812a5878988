//! What a reader of samples.csv had to leave out, and where.

use std::fmt;

/// Why rows are missing. The words are those that existing readers of this file use, and one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvReason {
    /// There is no such file.
    Missing,
    /// The first line is the header of no known version; no row was read.
    HeaderMismatch,
    /// A row could not be read and was skipped, or reading stopped at an I/O error.
    Malformed,
    /// The last line does not end: its writer was interrupted, or is just writing. It was not read.
    Torn,
}

impl CsvReason {
    /// The word for reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            CsvReason::Missing => "cpu_samples_csv_missing",
            CsvReason::HeaderMismatch => "cpu_samples_csv_header_mismatch",
            CsvReason::Malformed => "cpu_samples_csv_malformed",
            CsvReason::Torn => "cpu_samples_csv_torn",
        }
    }
}

/// A line and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvPlace {
    /// Line number, from 1; 0 for the last line of a torn file, which is found from the end and not counted.
    pub line: u64,
    /// What was found and what was expected.
    pub what: String,
}

/// A reason, how often it was met, and the first places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvIssue {
    /// The reason.
    pub reason: CsvReason,
    /// How many lines met it.
    pub count: u64,
    /// The first of them.
    pub places: Vec<CsvPlace>,
}

/// Places kept per reason: enough to see the pattern, and a file of garbage costs no memory.
const PLACES_MAX: usize = 8;

impl fmt::Display for CsvIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} lines)", self.reason.as_str(), self.count)?;
        self.places.iter().try_for_each(|place| match place.line {
            0 => write!(f, "; {}", place.what),
            line => write!(f, "; line {line}: {}", place.what),
        })
    }
}

/// Adds one more line to the issue of its reason.
pub(super) fn note(issues: &mut Vec<CsvIssue>, reason: CsvReason, line: u64, what: String) {
    let at = issues.iter().position(|issue| issue.reason == reason).unwrap_or_else(|| {
        issues.push(CsvIssue { reason, count: 0, places: Vec::new() });
        issues.len() - 1
    });
    let issue = &mut issues[at];
    issue.count += 1;
    if issue.places.len() < PLACES_MAX {
        issue.places.push(CsvPlace { line, what });
    }
}
