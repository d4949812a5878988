//! A samples.csv as rules take it.
//!
//! A CSV has no scrapes. What one socket said follows from its lines, and the lines of a node with one time are taken for
//! one scrape, which began at that time. That a scrape failed or a power was withheld is not there to be read.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;

use super::mark::ScrapeMark;
use super::piece::{Builder, Piece};
use crate::{CpuSample, SamplesCsv};

/// Lines of one piece: enough that a piece is worth a hand-over, few enough to be held twice.
const LINES_MAX: usize = 128 * 1024;

/// The pieces of a samples.csv, in its order.
pub struct CsvPieces {
    csv: SamplesCsv<BufReader<File>>,
    /// Of each host, the scrape that may go on with the next line.
    open: HashMap<String, Lines>,
    has_ended: bool,
}

/// The lines of one scrape.
struct Lines {
    seq: u64,
    rows: Vec<CpuSample>,
}

impl CsvPieces {
    /// Of a file that was opened.
    pub fn new(csv: SamplesCsv<BufReader<File>>) -> CsvPieces {
        CsvPieces { csv, open: HashMap::new(), has_ended: false }
    }

    /// Whether all lines are read.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What had to be left out: complete once the iterator has ended.
    pub fn warnings(&self) -> Vec<String> {
        self.csv.issues().iter().map(ToString::to_string).collect()
    }
}

impl Iterator for CsvPieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.has_ended {
            return None;
        }
        let mut builder = Builder::default();
        for _ in 0..LINES_MAX {
            let Some(row) = self.csv.next() else {
                self.has_ended = true;
                self.open.drain().for_each(|(_, lines)| lines.close(&mut builder));
                break;
            };
            let Some(lines) = self.open.get_mut(&row.hostname) else {
                self.open.insert(row.hostname.clone(), Lines { seq: 0, rows: vec![row] });
                continue;
            };
            let is_same = |before: &CpuSample| {
                before.timestamp_unix.to_bits() == row.timestamp_unix.to_bits()
            };
            if lines.rows.first().is_none_or(is_same) {
                lines.rows.push(row);
            } else {
                let next = Lines { seq: lines.seq + 1, rows: vec![row] };
                std::mem::replace(lines, next).close(&mut builder);
            }
        }
        Some(builder.finish(Vec::new()))
    }
}

impl Lines {
    fn close(self, builder: &mut Builder) {
        let Lines { seq, rows } = self;
        let mut scrape = None;
        for row in rows {
            let row = CpuSample { scrape_seq: seq, ..row };
            let place = builder.socket_row(&row);
            scrape = Some((place, (row.timestamp_unix * 1e6).round() as i64));
        }
        if let Some((place, start_us)) = scrape {
            let mark = ScrapeMark { seq, start_us, recorder_us: None, is_ok: true };
            builder.at(place).scrapes.push(mark);
        }
    }
}
