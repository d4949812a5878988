//! A run: the directory of one recording.
//!
//! | path | what |
//! |---|---|
//! | `cpu/samples.csv` | the live tail: rows whose power was published |
//! | `cpu/cpu_manifest.json` | written when the recording ends |
//! | `cpu_samples/part-000001.parquet` | the archive: all rows, also withheld ones |
//! | `scrapes/`, `readings/`, `derived/`, `rule_members/`, `energy_windows/` | likewise |
//! | `rules.yaml` | the rules that made `derived` last |
//! | `journal/000001.wal` | scrapes that are not in Parquet yet |
//! | `.lock` | held by the recorder |
//!
//! Segment N becomes the parts N and is then removed. The parts' names follow from the segment's number, so doing it
//! again after a crash gives the same files, and every row is there once.

mod csv_file;
mod error;
mod paths;
mod reader;
mod results;
mod seal;
mod writer;

pub use error::RunError;
pub(crate) use paths::RunPaths;
pub use reader::{ReadError, RunReader, RunRows};
pub use results::write_energy_windows;
pub use seal::Sealed;
pub(crate) use seal::{RULES_UNTIL, set_aside};
pub use writer::{Options, Recovery, RunWriter};

#[cfg(test)]
mod tests;
