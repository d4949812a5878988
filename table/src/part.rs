//! One Parquet file of a table, written as a stream of sorted rows and read as a stream of rows.
//!
//! Files carry plain nullable columns, zstd, row groups small enough to skip, their sort order, and in the footer what
//! a stranger needs: table, versions, units, clocks, and whether the values were simulated. They appear under their
//! name only when they are whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::column::CellError;
use crate::disk::{DiskError, HiddenFile, at};
use crate::table::{Row, SCHEMA_VERSION, Table};

mod checksum;
mod open;

pub(crate) use open::{Texts, latest_us, noted, open};

/// Rows per row group: a query for one series of a day reads a few of them instead of the file.
const ROW_GROUP_ROWS: usize = 128 * 1024;

/// Rows converted at a time, in either direction.
const BATCH_ROWS: usize = 8192;

/// Beyond level 3 zstd takes several times as long for a tenth of the size.
const ZSTD_LEVEL: i32 = 3;

/// What the times in a file mean; its `wattscribe.clock`.
const CLOCK_NOTE: &str = "all times are UTC. timestamp in cpu_samples: when the sensors were read, less half of what \
                          a value is a mean over, on the recorder's clock; timestamp in scrapes and readings: when \
                          the scrape began, on the recorder's clock; timestamp in derived: the instant, or the end \
                          of the window, on the recorder's clock; read_at: when the sensor was read, less half of \
                          what the value is a mean over, on the recorder's clock; sensor_time: when the sensor was \
                          read, on the node's clock, as published";

/// A Parquet file that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is not whole, or not Parquet, or could not be encoded.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParquetError,
    },
    /// The file is not as it was written.
    #[error("{}: damaged: found CRC-32 {found}, expected {expected}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The checksum of what is there.
        found: String,
        /// What the footer says.
        expected: String,
    },
    /// A cell does not fit its column.
    #[error("{}: {source}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The cell; its row counts from the start of the file.
        source: CellError,
    },
    /// Rows were not given in the order that the file promises.
    #[error("{}: row {row} comes before the one it follows, expected order by {order:?}", path.display())]
    NotSorted {
        /// The file.
        path: PathBuf,
        /// The row, from zero.
        row: u64,
        /// The columns of the order.
        order: &'static [&'static str],
    },
    /// The file holds another table.
    #[error("{}: found table {found}, expected {expected}", path.display())]
    OtherTable {
        /// The file.
        path: PathBuf,
        /// The table that it names.
        found: String,
        /// The table that was asked for.
        expected: &'static str,
    },
    /// The file was written by a later version of this program.
    #[error("{}: found schema version {found}, expected at most {SCHEMA_VERSION}", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version that it names.
        found: String,
    },
}

/// Whether the values of a file come from a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// All of them.
    True,
    /// None of them.
    False,
    /// Some of them.
    Mixed,
}

impl Simulated {
    /// Sums up rows. `None` when there are none.
    pub fn of(rows: impl IntoIterator<Item = bool>) -> Option<Simulated> {
        rows.into_iter().fold(None, |so_far, simulated| match (so_far, simulated) {
            (None | Some(Simulated::True), true) => Some(Simulated::True),
            (None | Some(Simulated::False), false) => Some(Simulated::False),
            _ => Some(Simulated::Mixed),
        })
    }

    /// What two sets of rows are together.
    pub fn and(self, other: Simulated) -> Simulated {
        if self == other { self } else { Simulated::Mixed }
    }

    /// The value of a word, if it is one of the three.
    pub fn from_word(word: &str) -> Option<Simulated> {
        [Simulated::True, Simulated::False, Simulated::Mixed]
            .into_iter()
            .find(|of| of.as_str() == word)
    }

    /// The word in the file's footer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Simulated::True => "true",
            Simulated::False => "false",
            Simulated::Mixed => "mixed",
        }
    }
}

/// Writes one Parquet file. Dropped unfinished, it leaves nothing.
pub struct PartWriter<T: Table> {
    path: PathBuf,
    writer: ArrowWriter<HiddenFile>,
    schema: Arc<Schema>,
    rows: u64,
    last: Option<T>,
}

impl<T: Table> PartWriter<T> {
    /// Begins the file under a hidden name beside `path`, in a directory that exists.
    ///
    /// # Errors
    /// When the hidden file cannot be created.
    pub fn create(path: &Path) -> Result<Self, PartError> {
        Self::begin(HiddenFile::create(path)?, path)
    }

    fn begin(file: HiddenFile, path: &Path) -> Result<Self, PartError> {
        let schema = Arc::new(T::schema());
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties::<T>(path)?));
        let writer = writer.map_err(parquet_error(path))?;
        Ok(PartWriter { path: path.to_owned(), writer, schema, rows: 0, last: None })
    }

    /// Appends rows, which must go on in the table's order.
    ///
    /// # Errors
    /// Rows out of order, a value that does not fit its column, a full disk. The file is then not to be finished.
    pub fn write(&mut self, rows: &[T]) -> Result<(), PartError> {
        for batch in rows.chunks(BATCH_ROWS) {
            let mut before = self.last.as_ref();
            for (row, at) in batch.iter().zip(self.rows..) {
                if before.is_some_and(|before| before.order(row).is_gt()) {
                    let (path, order) = (self.path.clone(), T::SORTED_BY);
                    return Err(PartError::NotSorted { path, row: at, order });
                }
                before = Some(row);
            }
            let arrays = T::to_arrays(batch).map_err(cell_error(&self.path, self.rows))?;
            self.write_columns(arrays)?;
            self.last = batch.last().cloned();
        }
        Ok(())
    }

    /// Appends rows as columns, which must go on in the table's order: here nobody looks.
    pub(crate) fn write_columns(&mut self, arrays: Vec<ArrayRef>) -> Result<(), PartError> {
        let columns = RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|error| parquet_error(&self.path)(error.into()))?;
        self.writer.write(&columns).map_err(parquet_error(&self.path))?;
        self.rows += columns.num_rows() as u64;
        Ok(())
    }

    /// Says something more in the footer.
    pub(crate) fn note(&mut self, key: &str, value: String) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }

    /// Completes the file and gives it its name. Returns how many rows it holds.
    ///
    /// # Errors
    /// When the footer cannot be written, synced or renamed; the file does then not exist.
    pub fn finish(mut self, simulated: Option<Simulated>) -> Result<u64, PartError> {
        if let Some(simulated) = simulated {
            self.note("wattscribe.simulated", simulated.as_str().to_owned());
        }
        self.note(checksum::KEY, checksum::BLANK.to_owned());
        let file = self.writer.into_inner().map_err(parquet_error(&self.path))?;
        checksum::put(file.file()).map_err(at("write", &self.path))?;
        file.publish()?;
        Ok(self.rows)
    }
}

/// Sorts rows and writes them as one file, unless there are none.
///
/// # Errors
/// As those of [`PartWriter`].
pub fn write_part<T: Table>(
    path: &Path,
    rows: Vec<T>,
    simulated: Option<Simulated>,
) -> Result<u64, PartError> {
    if rows.is_empty() {
        return Ok(0);
    }
    write_sorted(PartWriter::create(path)?, rows, simulated)
}

/// Does so, with a note in the footer, under the name `hidden`, which is in another directory: Polars refuses to scan one that holds any file with
/// another suffix, hidden or not.
pub(crate) fn write_part_as<T: Table>(
    hidden: PathBuf,
    path: &Path,
    rows: Vec<T>,
    simulated: Option<Simulated>,
    note: Option<(&str, String)>,
) -> Result<u64, PartError> {
    let file = HiddenFile::create_as(hidden, path)?;
    let mut writer = PartWriter::begin(file, path)?;
    if let Some((key, value)) = note {
        writer.note(key, value);
    }
    write_sorted(writer, rows, simulated)
}

fn write_sorted<T: Table>(
    mut writer: PartWriter<T>,
    mut rows: Vec<T>,
    simulated: Option<Simulated>,
) -> Result<u64, PartError> {
    rows.sort_by(T::order);
    writer.write(&rows)?;
    writer.finish(simulated)
}

fn properties<T: Table>(path: &Path) -> Result<WriterProperties, PartError> {
    let columns = T::columns();
    let units: BTreeMap<_, _> =
        columns.iter().filter_map(|column| Some((column.name, column.unit?))).collect();
    let units = serde_json::json!(units).to_string();
    let about = [
        ("wattscribe.schema", T::TABLE.to_owned()),
        ("wattscribe.schema_version", SCHEMA_VERSION.to_string()),
        ("wattscribe.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("wattscribe.units", units),
        ("wattscribe.clock", CLOCK_NOTE.to_owned()),
    ];
    let about = about.map(|(key, value)| KeyValue::new(key.to_owned(), value)).to_vec();
    let position = |name: &&str| columns.iter().position(|column| column.name == *name);
    let sorted = T::SORTED_BY.iter().filter_map(position).map(|at| SortingColumn {
        column_idx: at as i32,
        descending: false,
        nulls_first: true,
    });
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(parquet_error(path))?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(checksum::CREATED_BY.to_owned())
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_sorting_columns(Some(sorted.collect()))
        .set_key_value_metadata(Some(about));
    for column in
        columns.iter().filter(|column| matches!(column.data_type, DataType::Timestamp(..)))
    {
        // Neighbouring times differ by about the interval, so their differences are a tenth of the size.
        let name = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_encoding(name, Encoding::DELTA_BINARY_PACKED);
    }
    for column in columns.iter().filter(|column| column.data_type == DataType::Float64) {
        // Measured values rarely repeat: they fill a dictionary, and are then written once more without it.
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(column.name), false);
    }
    Ok(properties.build())
}

pub(crate) fn parquet_error(path: &Path) -> impl FnOnce(ParquetError) -> PartError + '_ {
    move |source| PartError::Parquet { path: path.to_owned(), source }
}

pub(crate) fn cell_error(
    path: &Path,
    rows_before: u64,
) -> impl FnOnce(CellError) -> PartError + '_ {
    move |mut source| {
        source.row += rows_before as usize;
        PartError::Cell { path: path.to_owned(), source }
    }
}

/// Reads the rows of one Parquet file in their order. Only the columns that `R` names are read.
pub struct PartReader<R: Row> {
    path: PathBuf,
    batches: ParquetRecordBatchReader,
    rows: std::vec::IntoIter<R>,
    rows_before: u64,
    simulated: Option<String>,
    failed: bool,
}

impl<R: Row> PartReader<R> {
    /// Opens the file and checks that it holds the table. A file without our footer is taken by its columns, so that
    /// one that was rewritten by another tool can still be read.
    ///
    /// # Errors
    /// A file that is missing, not whole, of another table or of a later version.
    pub fn open(path: &Path) -> Result<Self, PartError> {
        let names: Vec<_> = R::columns().into_iter().map(|column| column.name).collect();
        let (builder, simulated) = open::<R>(path, &names, Texts::Plain)?;
        let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(parquet_error(path))?;
        Ok(PartReader {
            path: path.to_owned(),
            batches,
            rows: Vec::new().into_iter(),
            rows_before: 0,
            simulated,
            failed: false,
        })
    }

    /// What the footer says of the values' origin: `true`, `false`, `mixed`, or nothing.
    pub fn simulated(&self) -> Option<&str> {
        self.simulated.as_deref()
    }

    fn next_batch(&mut self) -> Result<Option<Vec<R>>, PartError> {
        let Some(batch) = self.batches.next() else { return Ok(None) };
        let batch = batch.map_err(|error| parquet_error(&self.path)(error.into()))?;
        let rows = R::from_batch(&batch).map_err(cell_error(&self.path, self.rows_before))?;
        self.rows_before += batch.num_rows() as u64;
        Ok(Some(rows))
    }
}

impl<R: Row> Iterator for PartReader<R> {
    type Item = Result<R, PartError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            if self.failed {
                return None;
            }
            match self.next_batch().transpose()? {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
