//! Opening a Parquet file: which table it holds, and the columns that are asked for.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use super::{PartError, checksum, parquet_error};
use crate::disk;
use crate::table::{Row, SCHEMA_VERSION};

/// How texts come out of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Each cell on its own.
    Plain,
    /// As numbers of the distinct ones: no text is made for a row.
    Dictionary,
}

/// Opens a file for some columns, as far as it has them, and checks that it holds the table of `R` and is as it
/// was written. What the footer says of the values' origin comes second.
pub(crate) fn open<R: Row>(
    path: &Path,
    names: &[&str],
    texts: Texts,
) -> Result<(ParquetRecordBatchReaderBuilder<File>, Option<String>), PartError> {
    let file = disk::open(path)?;
    let metadata = footer::<R>(path, &file, texts)?;
    if checksum::is_in(metadata.metadata().file_metadata()) {
        let (found, expected) = checksum::compare(&file).map_err(disk::at("read", path))?;
        if found != expected {
            return Err(PartError::Damaged { path: path.to_owned(), found, expected });
        }
    }
    let simulated = about(&metadata, "wattscribe.simulated");
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
    Ok((builder.with_projection(mask), simulated))
}

fn about(footer: &ArrowReaderMetadata, key: &str) -> Option<String> {
    let pairs = footer.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.clone()
}

/// Reads the footer of a file and checks that it holds the table of `R`.
fn footer<R: Row>(
    path: &Path,
    file: &File,
    texts: Texts,
) -> Result<ArrowReaderMetadata, PartError> {
    // The types as Parquet has them: another writer's Arrow types (large strings, dictionaries) do not matter.
    let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let footer = ArrowReaderMetadata::load(file, options()).map_err(parquet_error(path))?;
    if let Some(found) = about(&footer, "wattscribe.schema").filter(|found| found != R::TABLE) {
        return Err(PartError::OtherTable { path: path.to_owned(), found, expected: R::TABLE });
    }
    let known = |found: &str| found.parse().is_ok_and(|found: u32| found <= SCHEMA_VERSION);
    if let Some(found) = about(&footer, "wattscribe.schema_version").filter(|found| !known(found)) {
        return Err(PartError::NewerSchema { path: path.to_owned(), found });
    }
    if texts == Texts::Plain {
        return Ok(footer);
    }
    let options = options().with_schema(Arc::new(with_dictionaries(footer.schema())));
    let metadata = Arc::clone(footer.metadata());
    ArrowReaderMetadata::try_new(metadata, options).map_err(parquet_error(path))
}

/// What the footer says under a key.
pub(crate) fn noted<R: Row>(path: &Path, key: &str) -> Result<Option<String>, PartError> {
    Ok(about(&footer::<R>(path, &disk::open(path)?, Texts::Plain)?, key))
}

/// The latest time in a column, in Unix microseconds, as the footer knows it without reading rows.
pub(crate) fn latest_us<R: Row>(path: &Path, column: &str) -> Result<Option<i64>, PartError> {
    let footer = footer::<R>(path, &disk::open(path)?, Texts::Plain)?;
    let metadata = footer.metadata();
    let place = footer.parquet_schema().columns().iter().position(|of| of.name() == column);
    let Some(place) = place else { return Ok(None) };
    let of_group = |group: &RowGroupMetaData| match group.column(place).statistics()? {
        Statistics::Int64(statistics) => statistics.max_opt().copied(),
        _ => None,
    };
    let groups = metadata.row_groups().iter();
    Ok(groups.map(of_group).collect::<Option<Vec<_>>>().and_then(|of| of.into_iter().max()))
}

/// The same schema with every text as a dictionary.
fn with_dictionaries(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 => {
            let texts = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
            Arc::new(field.as_ref().clone().with_data_type(texts))
        }
        _ => Arc::clone(field),
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}
