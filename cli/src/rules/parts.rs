//! Results as the table `derived`, beside nothing else.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use wattscribe_table::{DerivedRow, Row, Simulated, write_part};

use super::eval::Out;
use super::evaluation::Sink;

/// Parquet parts, one for each piece.
pub(crate) struct Parts {
    directory: PathBuf,
}

impl Parts {
    /// In a directory of its own below `out`, which is made.
    pub(crate) fn new(out: &Path) -> Result<Parts, Box<dyn Error>> {
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
        Ok(Parts { directory })
    }
}

impl Sink for Parts {
    fn take(&mut self, place: usize, rows: Vec<DerivedRow>) -> Result<(), Box<dyn Error>> {
        let path = self.directory.join(format!("part-{:06}.parquet", place + 1));
        let simulated = Simulated::of(rows.iter().map(|row| row.simulated));
        write_part(&path, rows, simulated)?;
        Ok(())
    }
}

impl Out for Parts {
    fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
}
