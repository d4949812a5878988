//! Results as the table `derived`, beside nothing else.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use wattscribe_table::{DerivedRow, DerivedRows, PartError, Row, Settled};

use super::evaluation::{Keep, Kept};
use super::summary::Summary;

/// Parquet parts, one for each piece and share.
pub(crate) struct Parts {
    directory: PathBuf,
    rows: DerivedRows,
}

impl Parts {
    /// In a directory of its own below `out`, which is made.
    pub(crate) fn new(out: &Path, rows: DerivedRows) -> Result<Parts, Box<dyn Error>> {
        let directory = out.join(DerivedRow::TABLE);
        fs::create_dir_all(out)
            .map_err(|error| format!("cannot create {}: {error}", out.display()))?;
        // What a recorder wrote, or another evaluation, is not mixed with this one.
        fs::create_dir(&directory).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::AlreadyExists => "; remove it, or give another --out",
                _ => "",
            };
            format!("cannot create {}: {error}{remedy}", directory.display())
        })?;
        Ok(Parts { directory, rows })
    }
}

impl Keep for Parts {
    fn keep(&self, place: usize, share: usize, results: &[Settled]) -> Result<Kept, PartError> {
        let name = format!("part-{:06}-{share:02}.parquet", place + 1);
        self.rows.write(&self.directory.join(name), results)?;
        Ok(Kept { summary: Summary::of(results), rows: Vec::new() })
    }
}
