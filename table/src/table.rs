//! A table's schema, stated once: the macro `table!` makes the row type, its Parquet columns with their units, its sort
//! order, and the conversion both ways from one list of fields.

use std::cmp::Ordering;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use crate::column::CellError;

/// Version of every table's schema. New nullable columns do not change it; a column whose type or meaning changed does.
pub const SCHEMA_VERSION: u32 = 1;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name in the file.
    pub name: &'static str,
    /// Type in the file. Every column is nullable there, so that files of different ages unite.
    pub data_type: DataType,
    /// Unit of the numbers, where they have one.
    pub unit: Option<&'static str>,
}

/// A type that can be read from a table: it names the columns it needs, and only these are read from the disk.
pub trait Row: Sized {
    /// Name of the table.
    const TABLE: &'static str;
    /// The columns by which files are sorted: those of the series, then the time.
    const SORTED_BY: &'static [&'static str];
    /// The columns.
    fn columns() -> Vec<Column>;
    /// Compares by [`Row::SORTED_BY`].
    fn order(&self, other: &Self) -> Ordering;
    /// Writes rows as columns in the order of [`Row::columns`].
    ///
    /// # Errors
    /// A value that does not fit its column.
    fn to_arrays(rows: &[Self]) -> Result<Vec<ArrayRef>, CellError>;
    /// Reads rows from the columns of a batch.
    ///
    /// # Errors
    /// A column of another type, or a missing or unreadable cell of a field that cannot be missing.
    fn from_batch(batch: &RecordBatch) -> Result<Vec<Self>, CellError>;

    /// The file's schema.
    fn schema() -> Schema {
        let field = |column: Column| Field::new(column.name, column.data_type, true);
        Schema::new(Self::columns().into_iter().map(field).collect::<Vec<_>>())
    }
}

/// A row type that holds every column of its table, so that it may be written.
pub trait Table: Row + Clone {}

/// Orders fields as the columns that hold them are ordered.
pub(crate) trait ColumnOrder {
    fn column_order(&self, other: &Self) -> Ordering;
}

impl ColumnOrder for f64 {
    fn column_order(&self, other: &f64) -> Ordering {
        self.total_cmp(other)
    }
}

macro_rules! ordered {
    ($($field:ty),*) => { $(impl ColumnOrder for $field {
        fn column_order(&self, other: &$field) -> Ordering {
            self.cmp(other)
        }
    })* };
}

ordered!(String, i64, u64, u32, Option<String>, Option<u32>);

/// Makes a row type. A field reads `name: Type as Time("column") ["unit"]`, where all after the type may be left out.
macro_rules! table {
    (
        $(#[$about:meta])*
        pub struct $row:ident: $table:literal sorted by [$($key:ident),+] {
            $($(#[$field_about:meta])* $field:ident: $value:ty $(as $kind:ident($column:literal))? $([$unit:literal])?,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $row {
            $($(#[$field_about])* pub $field: $value,)+
        }

        impl $crate::table::Row for $row {
            const TABLE: &'static str = $table;
            const SORTED_BY: &'static [&'static str] = &{
                $(#[allow(
                    non_upper_case_globals,
                    dead_code,
                    reason = "one constant per field, named as it is, so that the keys can name theirs"
                )]
                const $field: &str = $crate::table::table!(@name $field $($column)?);)+
                [$($key),+]
            };

            fn columns() -> Vec<$crate::table::Column> {
                use $crate::column::{Codec, Store};
                vec![$($crate::table::Column {
                    name: $crate::table::table!(@name $field $($column)?),
                    data_type: <<$crate::table::table!(@kind $($kind)?) as Codec<$value>>::Store as Store>::column_type(),
                    unit: $crate::table::table!(@unit $($unit)?),
                }),+]
            }

            fn order(&self, other: &Self) -> std::cmp::Ordering {
                use $crate::table::ColumnOrder;
                std::cmp::Ordering::Equal$(.then_with(|| self.$key.column_order(&other.$key)))+
            }

            fn to_arrays(rows: &[Self]) -> Result<Vec<arrow_array::ArrayRef>, $crate::column::CellError> {
                Ok(vec![$(std::sync::Arc::new(
                    $crate::column::collect::<$crate::table::table!(@kind $($kind)?), $value>(
                        $crate::table::table!(@name $field $($column)?),
                        rows.iter().map(|row| &row.$field),
                    )?,
                ) as arrow_array::ArrayRef),+])
            }

            fn from_batch(batch: &arrow_array::RecordBatch) -> Result<Vec<Self>, $crate::column::CellError> {
                $(let $field = $crate::column::Cells::<$crate::table::table!(@kind $($kind)?), $value>::find(
                    batch,
                    $crate::table::table!(@name $field $($column)?),
                )?;)+
                (0..batch.num_rows()).map(|row| Ok($row { $($field: $field.get(row)?),+ })).collect()
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $column:literal) => { $column };
    (@kind) => { $crate::column::Plain };
    (@kind $kind:ident) => { $crate::column::$kind };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}
pub(crate) use table;
