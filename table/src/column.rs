//! How a field of a row becomes a cell of a Parquet column and comes back.
//!
//! Five column types are enough for every table: UTF-8 text, double, 64-bit integer, boolean, and UTC time in
//! microseconds. No dictionary types, maps, nanoseconds or unsigned integers: each of them is read differently by one
//! common reader or another. A value that does not fit is refused with its column and row, never bent to fit.

use std::fmt::Display;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, TimeUnit};
use wattscribe_rules::State;

/// A cell that could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}, row {row}: found {found}, expected {expected}")]
pub struct CellError {
    /// Name of the column.
    pub column: &'static str,
    /// Row within the batch, from zero; 0 when the whole column is at fault.
    pub row: usize,
    /// What stood there.
    pub found: String,
    /// What may stand there.
    pub expected: &'static str,
}

/// A value that does not fit its cell: what was found and what was expected. The caller knows the place.
type Misfit = (String, &'static str);

/// One of the five column types.
pub(crate) trait Store: Array + Sized + 'static {
    /// A cell that is not null.
    type Item<'a>;
    /// The type as an error names it.
    const NAME: &'static str;
    /// The type in the file's schema.
    fn column_type() -> DataType;
    /// Builds the column.
    fn collect<'a>(cells: impl Iterator<Item = Option<Self::Item<'a>>>) -> Self;
    /// The cell of a row that is not null.
    fn item(&self, row: usize) -> Self::Item<'_>;
}

macro_rules! store {
    ($array:ident, $item:ty, $name:literal, $column_type:expr, $finish:expr) => {
        impl Store for $array {
            type Item<'a> = $item;
            const NAME: &'static str = $name;
            fn column_type() -> DataType {
                $column_type
            }
            fn collect<'a>(cells: impl Iterator<Item = Option<Self::Item<'a>>>) -> Self {
                let finish: fn($array) -> $array = $finish;
                finish(cells.collect())
            }
            fn item(&self, row: usize) -> Self::Item<'_> {
                self.value(row)
            }
        }
    };
}

/// `UTC` and not `+00:00`: pandas and DuckDB show the name as it stands.
const UTC: &str = "UTC";

type Text<'a> = &'a str;

store!(StringArray, Text<'a>, "text", DataType::Utf8, |array| array);
store!(Float64Array, f64, "a double", DataType::Float64, |array| array);
store!(Int64Array, i64, "a 64-bit integer", DataType::Int64, |array| array);
store!(BooleanArray, bool, "a boolean", DataType::Boolean, |array| array);
store!(
    TimestampMicrosecondArray,
    i64,
    "a UTC timestamp in microseconds",
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
    |array| array.with_timezone(UTC)
);

/// The way a field of type `T` stands in a column: [`Plain`] or [`Time`].
pub(crate) trait Codec<T> {
    /// The column type.
    type Store: Store;
    /// Whether a null is an error when the row is read.
    const REQUIRED: bool = true;
    /// The cell for a value; `None` is null.
    fn store(value: &T) -> Result<Option<<Self::Store as Store>::Item<'_>>, Misfit>;
    /// The value of a cell.
    fn load(cell: Option<<Self::Store as Store>::Item<'_>>) -> Result<T, Misfit>;
}

/// The value itself, in the column type that its Rust type asks for.
pub(crate) enum Plain {}

/// A moment: `i64` holds microseconds and `f64` seconds, both since 1970-01-01 UTC.
///
/// Seconds that are a whole number of microseconds before the year 2106 come back as the same double: the two
/// roundings on the way, of a division and of a multiplication by 10^6, stay below half a microsecond together.
pub(crate) enum Time {}

impl<K: Codec<T>, T> Codec<Option<T>> for K {
    type Store = K::Store;
    const REQUIRED: bool = false;
    fn store(value: &Option<T>) -> Result<Option<<Self::Store as Store>::Item<'_>>, Misfit> {
        value.as_ref().map_or(Ok(None), K::store)
    }
    fn load(cell: Option<<Self::Store as Store>::Item<'_>>) -> Result<Option<T>, Misfit> {
        cell.map(|item| K::load(Some(item))).transpose()
    }
}

fn present<I>(cell: Option<I>) -> Result<I, Misfit> {
    cell.ok_or_else(|| ("null".to_owned(), "a value"))
}

macro_rules! codec {
    ($kind:ident, $value:ty, $store:ty, $out:expr, $in:expr) => {
        impl Codec<$value> for $kind {
            type Store = $store;
            fn store(value: &$value) -> Result<Option<<$store as Store>::Item<'_>>, Misfit> {
                let out: fn(&$value) -> Result<<$store as Store>::Item<'_>, Misfit> = $out;
                out(value).map(Some)
            }
            fn load(cell: Option<<$store as Store>::Item<'_>>) -> Result<$value, Misfit> {
                let within: fn(<$store as Store>::Item<'_>) -> Result<$value, Misfit> = $in;
                within(present(cell)?)
            }
        }
    };
}

codec!(Plain, String, StringArray, |value| Ok(value), |item| Ok(item.to_owned()));
codec!(Plain, f64, Float64Array, |value| Ok(*value), Ok);
codec!(Plain, i64, Int64Array, |value| Ok(*value), Ok);
codec!(Plain, bool, BooleanArray, |value| Ok(*value), Ok);
codec!(Plain, u64, Int64Array, |value| narrow(*value, "at most 2^63 - 1"), |item| narrow(
    item,
    "a whole number from 0 to 2^63 - 1"
));
codec!(Plain, u32, Int64Array, |value| Ok(i64::from(*value)), |item| narrow(
    item,
    "a whole number from 0 to 2^32 - 1"
));
codec!(Plain, u16, Int64Array, |value| Ok(i64::from(*value)), |item| narrow(
    item,
    "a whole number from 0 to 65535"
));
codec!(Plain, State, StringArray, |value| Ok(value.as_str()), |item| item
    .parse()
    .map_err(|_| (format!("{item:?}"), "the name of a state")));
codec!(Time, i64, TimestampMicrosecondArray, |value| Ok(*value), Ok);
codec!(Time, f64, TimestampMicrosecondArray, |value| micros(*value), |item| Ok(seconds(item)));

fn narrow<A: TryInto<B> + Copy + Display, B>(
    value: A,
    expected: &'static str,
) -> Result<B, Misfit> {
    value.try_into().map_err(|_| (value.to_string(), expected))
}

/// Seconds to whole microseconds, to the nearest.
fn micros(seconds: f64) -> Result<i64, Misfit> {
    let micros = (seconds * 1e6).round();
    // Doubles count microseconds one by one up to 2^53, the year 2255.
    if micros.abs() <= 9_007_199_254_740_992.0 {
        Ok(micros as i64)
    } else {
        Err((format!("{seconds} s"), "a time within 285 years of 1970"))
    }
}

/// Microseconds to the double that the CSV carries for the same moment.
pub(crate) fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Builds the column of one field of many rows.
pub(crate) fn collect<'a, K: Codec<T>, T: 'a>(
    column: &'static str,
    fields: impl ExactSizeIterator<Item = &'a T>,
) -> Result<K::Store, CellError> {
    let mut failure = None;
    let array = K::Store::collect(fields.enumerate().map(|(row, field)| {
        K::store(field).unwrap_or_else(|(found, expected)| {
            failure.get_or_insert(CellError { column, row, found, expected });
            None
        })
    }));
    failure.map_or(Ok(array), Err)
}

/// One column of a batch that was read, as fields of type `T`. A column that the file lacks is all null.
pub(crate) struct Cells<'a, K: Codec<T>, T> {
    column: &'static str,
    store: Option<&'a K::Store>,
}

impl<'a, K: Codec<T>, T> Cells<'a, K, T> {
    /// Finds the column and checks its type.
    pub(crate) fn find(batch: &'a RecordBatch, column: &'static str) -> Result<Self, CellError> {
        let error = |found, expected| CellError { column, row: 0, found, expected };
        let Some(array) = batch.column_by_name(column) else {
            return if K::REQUIRED {
                Err(error("no such column".into(), "one"))
            } else {
                Ok(Cells { column, store: None })
            };
        };
        // It may be local time of anywhere: to take it as UTC would move every row by hours.
        if matches!(array.data_type(), DataType::Timestamp(_, None)) {
            return Err(error("a timestamp without a time zone".into(), K::Store::NAME));
        }
        match array.as_any().downcast_ref() {
            Some(store) => Ok(Cells { column, store: Some(store) }),
            None => Err(error(array.data_type().to_string(), K::Store::NAME)),
        }
    }

    /// The field of a row.
    pub(crate) fn get(&self, row: usize) -> Result<T, CellError> {
        let cell = self.store.filter(|store| store.is_valid(row)).map(|store| store.item(row));
        K::load(cell).map_err(|(found, expected)| CellError {
            column: self.column,
            row,
            found,
            expected,
        })
    }
}

/// A column of texts that was read as a dictionary: a number for each row, and what the numbers mean.
pub(crate) struct DictionaryCells<'a> {
    column: &'static str,
    numbers: &'a Int32Array,
    texts: &'a StringArray,
}

impl<'a> DictionaryCells<'a> {
    /// Finds the column and checks its type.
    pub(crate) fn find(batch: &'a RecordBatch, column: &'static str) -> Result<Self, CellError> {
        let error = |found, expected| CellError { column, row: 0, found, expected };
        let array =
            batch.column_by_name(column).ok_or_else(|| error("no such column".into(), "one"))?;
        let dictionary: Option<&DictionaryArray<Int32Type>> = array.as_any().downcast_ref();
        let texts = dictionary.and_then(|of| of.values().as_any().downcast_ref());
        match dictionary.zip(texts) {
            Some((of, texts)) => Ok(DictionaryCells { column, numbers: of.keys(), texts }),
            None => Err(error(array.data_type().to_string(), StringArray::NAME)),
        }
    }

    /// The number of a row's text; rows of one batch with equal numbers have equal texts.
    pub(crate) fn number(&self, row: usize) -> Result<usize, CellError> {
        let number = self.numbers.is_valid(row).then(|| self.numbers.value(row));
        let in_range = number.and_then(|number| usize::try_from(number).ok());
        in_range.filter(|number| *number < self.texts.len()).ok_or_else(|| CellError {
            column: self.column,
            row,
            found: "null".into(),
            expected: "a value",
        })
    }

    /// The text of a number.
    pub(crate) fn text(&self, number: usize) -> &'a str {
        self.texts.value(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn microseconds_survive_as_seconds(us in 0i64..4_294_967_296_000_000) {
            prop_assert_eq!(micros(seconds(us)), Ok(us));
        }
    }

    #[test]
    fn a_time_that_is_no_time_is_refused() {
        for found in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e10] {
            assert!(micros(found).is_err(), "{found}");
        }
        assert_eq!(micros(-0.5), Ok(-500_000));
    }

    #[test]
    fn a_value_that_does_not_fit_names_its_place() {
        let result = collect::<Plain, u64>("seq", [1, u64::MAX].iter());
        assert_eq!(
            result.map_err(|error| error.to_string()).err().as_deref(),
            Some("column seq, row 1: found 18446744073709551615, expected at most 2^63 - 1")
        );
    }
}
