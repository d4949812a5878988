//! A recording once more, as rules take it: target by target, scrape by scrape.
//!
//! A recording is a row of pieces, a Parquet part of each table or a segment of the journal, and every scrape lies in
//! one of them. Texts are made once for each series of a piece and not for each row.

mod csv;
mod mark;
mod parts;
mod piece;
mod pieces;

pub use csv::CsvPieces;
pub use mark::{SampleMark, ScrapeMark, SocketMark};
pub use piece::{Piece, SampleSeries, SocketSeries, TargetPiece};
pub use pieces::Pieces;

#[cfg(test)]
mod tests;
