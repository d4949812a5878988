//! A recording once more, as rules take it: target by target, scrape by scrape.
//!
//! A recording is a row of pieces, a Parquet part of each table or a segment of the journal, and every scrape lies in
//! one of them. Texts are made once for each series of a piece and not for each row.

mod csv;
mod derived_rows;
mod fleet_rules;
mod mark;
mod parts;
mod piece;
mod pieces;
mod recorded_until;
mod sessions;
mod tail;
mod target_rules;

pub use csv::CsvPieces;
pub use derived_rows::{DerivedRows, Settled};
pub use fleet_rules::FleetRules;
pub use mark::{SampleMark, ScrapeMark, SocketMark};
pub use piece::{Piece, SampleSeries, SocketSeries, TargetPiece};
pub use pieces::Pieces;
pub use recorded_until::RecordedUntil;
pub use sessions::Sessions;
pub use tail::RunTail;
pub use target_rules::TargetRules;

#[cfg(test)]
mod tests;
