//! samples.csv: one row per socket and scrape, as spreadsheets, pandas and existing readers expect it.
//!
//! Lines end in CR LF and cells are quoted only where they must be, as Python's `csv.writer` does by default; doubles
//! are printed as Python's `repr` prints them; a missing number is an empty cell. Writing is pure: rows become bytes,
//! and whoever owns the file appends them in one piece.

mod float;
mod header;
mod issue;
mod line;
mod reader;
mod writer;

pub use header::CsvVersion;
pub use issue::{CsvIssue, CsvPlace, CsvReason};
pub(crate) use line::whole_lines;
pub use reader::SamplesCsv;
pub use writer::{csv_header, csv_rows};

#[cfg(test)]
mod tests;
