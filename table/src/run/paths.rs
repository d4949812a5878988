//! Where the files of a run are, and which numbers are taken.

use std::path::{Path, PathBuf};

use crate::disk::{self, DiskError};
use crate::{CpuSample, DerivedRow, LongReading, Row, RuleMember, Scrape};

/// The names within a run's directory.
#[derive(Clone, Debug)]
pub(crate) struct RunPaths {
    root: PathBuf,
}

impl RunPaths {
    pub(crate) fn new(root: &Path) -> RunPaths {
        RunPaths { root: root.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join(".lock")
    }

    pub(crate) fn cpu(&self) -> PathBuf {
        self.root.join("cpu")
    }

    pub(crate) fn csv(&self) -> PathBuf {
        self.cpu().join("samples.csv")
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.cpu().join("cpu_manifest.json")
    }

    /// The rules that the recording was last made with.
    pub(crate) fn rules(&self) -> PathBuf {
        self.root.join("rules.yaml")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.journal().join(format!("{number:06}.wal"))
    }

    /// Where a segment goes that has bytes in its middle which cannot be read.
    pub(crate) fn damaged(&self, number: u64) -> PathBuf {
        self.journal().join(format!("{number:06}.damaged"))
    }

    pub(crate) fn table<R: Row>(&self) -> PathBuf {
        self.root.join(R::TABLE)
    }

    pub(crate) fn part<R: Row>(&self, number: u64) -> PathBuf {
        self.table::<R>().join(format!("part-{number:06}.parquet"))
    }

    /// Where a part is until it is whole: outside of its table's directory, which holds parts only.
    pub(crate) fn unfinished<R: Row>(&self, number: u64) -> PathBuf {
        self.root.join(format!(".{}-{number:06}.tmp", R::TABLE))
    }

    /// Numbers of the segments, ascending.
    pub(crate) fn segments(&self) -> Result<Vec<u64>, DiskError> {
        numbers(&self.journal(), "", ".wal")
    }

    /// Numbers of the damaged segments that were kept, ascending.
    pub(crate) fn damaged_segments(&self) -> Result<Vec<u64>, DiskError> {
        numbers(&self.journal(), "", ".damaged")
    }

    /// Numbers of a table's parts, ascending.
    pub(crate) fn parts<R: Row>(&self) -> Result<Vec<u64>, DiskError> {
        numbers(&self.table::<R>(), "part-", ".parquet")
    }

    /// The first number above all that segments and the parts made of them have.
    pub(crate) fn next_number(&self) -> Result<u64, DiskError> {
        let taken = [
            self.segments()?,
            self.damaged_segments()?,
            self.parts::<CpuSample>()?,
            self.parts::<Scrape>()?,
            self.parts::<LongReading>()?,
            self.parts::<DerivedRow>()?,
            self.parts::<RuleMember>()?,
        ];
        Ok(taken.into_iter().flatten().max().unwrap_or(0) + 1)
    }
}

/// The numbers in the names `<before><number><after>`, ascending.
fn numbers(directory: &Path, before: &str, after: &str) -> Result<Vec<u64>, DiskError> {
    let number = |name: String| {
        let digits = name.strip_prefix(before)?.strip_suffix(after)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mut numbers: Vec<u64> = disk::names(directory)?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
