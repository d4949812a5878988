//! Rows on disk: every table's schema stated once, CSV and Parquet with the reader beside the writer, the journal that
//! makes a scrape durable, and its recovery.
//!
//! [`RunWriter`] records, [`RunReader`] and [`open_any`] read. A row is in samples.csv and in Parquet exactly once,
//! wherever the process or the machine stopped. Errors carry the file, and where it matters the byte, line or row.
#![forbid(unsafe_code)]

mod column;
mod cpu_sample;
mod derived;
mod disk;
mod energy_window;
mod journal;
mod line_file;
#[cfg(test)]
mod made_rows;
mod manifest;
mod part;
mod reading;
mod record;
mod recording;
mod replay;
mod rule_member;
mod run;
mod samples_csv;
mod scrape;
mod state_text;
mod table;

pub use column::CellError;
pub use cpu_sample::{CpuPower, CpuSample, SocketRead};
pub use derived::{DerivedRow, DerivedTime};
pub use disk::DiskError;
pub use energy_window::EnergyWindow;
pub use journal::{JournalError, RECORD_BYTES_MAX, SegmentReader, Tail};
pub use line_file::append_line;
pub use manifest::{CpuManifest, NodeSummary, RunSummary, TargetSummary};
pub use part::{PartError, PartReader, PartWriter, Simulated, write_part};
pub use reading::LongReading;
pub use record::{Journaled, Record, RuleRecord, ScrapeRecord};
pub use recording::{Recording, open_any};
pub use replay::{
    CsvPieces, DerivedRows, FleetRules, Piece, Pieces, RecordedUntil, RunTail, SampleMark,
    SampleSeries, ScrapeMark, Sessions, Settled, SocketMark, SocketSeries, TargetPiece,
    TargetRules,
};
pub use rule_member::RuleMember;
pub use run::{
    Options, ReadError, Recovery, RunError, RunReader, RunRows, RunWriter, Sealed,
    write_energy_windows,
};
pub use samples_csv::{
    CsvIssue, CsvPlace, CsvReason, CsvVersion, SamplesCsv, csv_header, csv_rows,
};
pub use scrape::{Scrape, ScrapeNumber, ScrapeOutcome};
pub use table::{Column, Row, SCHEMA_VERSION, Table};
