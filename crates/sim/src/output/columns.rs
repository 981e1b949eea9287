//! A table as columns, and its two file forms: CSV and Parquet.
//!
//! A table is written in chunks of rows, so that a run with millions of flows needs no second copy of them. Its columns
//! may follow those that identify the run; these are skipped when a file is read.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::results::table::{Kind, Value};

/// Rows per chunk, which is a row group in Parquet.
pub(super) const CHUNK_ROWS: usize = 65_536;

/// The name and kind of a column.
pub(super) type Field = (&'static str, Kind);

/// The columns that say which run a row is of. They lead the others if the user asks for them.
pub(super) const IDENTITY: [Field; 4] =
    [("scenario", Kind::Text), ("variant", Kind::Text), ("seed", Kind::Integer), ("digest", Kind::Text)];

/// The values of one column.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Values<'a> {
    Integer(Vec<u64>),
    OptionalInteger(Vec<Option<u64>>),
    OptionalNumber(Vec<Option<f64>>),
    Text(Vec<Cow<'a, str>>),
}

impl<'a> Values<'a> {
    /// A column of `kind` without values.
    pub(super) fn empty(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integer(Vec::new()),
            Kind::OptionalInteger => Self::OptionalInteger(Vec::new()),
            Kind::OptionalNumber => Self::OptionalNumber(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Integer,
            Self::OptionalInteger(_) => Kind::OptionalInteger,
            Self::OptionalNumber(_) => Kind::OptionalNumber,
            Self::Text(_) => Kind::Text,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Integer(values) => values.len(),
            Self::OptionalInteger(values) => values.len(),
            Self::OptionalNumber(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Adds a value of the column's kind.
    pub(super) fn push(&mut self, value: Value<'a>) {
        match (self, value) {
            (Self::Integer(values), Value::Integer(value)) => values.push(value),
            (Self::OptionalInteger(values), Value::OptionalInteger(value)) => values.push(value),
            (Self::OptionalNumber(values), Value::OptionalNumber(value)) => values.push(value),
            (Self::Text(values), Value::Text(value)) => values.push(value),
            (column, value) => unreachable!("{value:?} in a column of {:?}", column.kind()),
        }
    }

    /// The value in a row.
    pub(super) fn value(&self, row: usize) -> Value<'_> {
        match self {
            Self::Integer(values) => Value::Integer(values[row]),
            Self::OptionalInteger(values) => Value::OptionalInteger(values[row]),
            Self::OptionalNumber(values) => Value::OptionalNumber(values[row]),
            Self::Text(values) => Value::Text(Cow::Borrowed(&values[row])),
        }
    }

    /// The value in a row, as CSV has it.
    pub(super) fn cell(&self, row: usize) -> Cow<'_, str> {
        let optional = |text: Option<String>| Cow::Owned(text.unwrap_or_default());
        match self {
            Self::Integer(values) => Cow::Owned(values[row].to_string()),
            Self::OptionalInteger(values) => optional(values[row].map(|value| value.to_string())),
            Self::OptionalNumber(values) => optional(values[row].map(|value| value.to_string())),
            Self::Text(values) => Cow::Borrowed(&values[row]),
        }
    }

    fn push_cell(&mut self, cell: &str) -> Result<(), String> {
        let integer = || cell.parse().map_err(|_| format!("\"{cell}\" is not a whole number"));
        match self {
            Self::Integer(values) => values.push(integer()?),
            Self::OptionalInteger(values) => values.push(if cell.is_empty() { None } else { Some(integer()?) }),
            Self::OptionalNumber(values) if cell.is_empty() => values.push(None),
            Self::OptionalNumber(values) => {
                values.push(Some(cell.parse().map_err(|_| format!("\"{cell}\" is not a number"))?));
            }
            Self::Text(values) => values.push(Cow::Owned(cell.to_owned())),
        }
        Ok(())
    }
}

/// Columns of equal length, in the order of their fields.
pub(super) type Columns<'a> = Vec<Values<'a>>;

fn row_count(fields: &[Field], columns: &[Values<'_>]) -> usize {
    assert_eq!(fields.len(), columns.len(), "a column for every field");
    for ((name, kind), column) in fields.iter().zip(columns) {
        assert!(column.kind() == *kind && column.len() == columns[0].len(), "column {name} breaks its schema");
    }
    columns.first().map_or(0, Values::len)
}

/// Writes a header and `chunks` as CSV.
pub(super) fn write_csv<'a>(
    out: impl Write,
    fields: &[Field],
    chunks: impl Iterator<Item = Columns<'a>>,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(fields.iter().map(|(name, _)| name))?;
    for columns in chunks {
        for row in 0..row_count(fields, &columns) {
            for column in &columns {
                writer.write_field(column.cell(row).as_bytes())?;
            }
            writer.write_record(None::<&[u8]>)?;
        }
    }
    writer.flush()
}

/// Reads what [`write_csv`] wrote; the error names the line.
pub(super) fn read_csv(input: impl Read, fields: &[Field]) -> Result<Columns<'static>, String> {
    let mut reader = csv::Reader::from_reader(input);
    let header = reader.headers().map_err(|error| error.to_string())?;
    let is_headed = |fields: &[Field]| header.iter().eq(fields.iter().map(|(name, _)| *name));
    let skipped = leading(fields, is_headed).ok_or("line 1: these are not the columns that this version writes")?;
    let mut columns: Vec<_> = fields.iter().map(|(_, kind)| Values::empty(*kind)).collect();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        for ((column, cell), (name, _)) in columns.iter_mut().zip(record.iter().skip(skipped)).zip(fields) {
            let line = record.position().map_or(0, csv::Position::line);
            column.push_cell(cell).map_err(|why| format!("line {line}, column {name}: {why}"))?;
        }
    }
    Ok(columns)
}

/// How many columns stand before those of `fields` in a file that `has` all of certain fields: none, or those that
/// identify the run. `None` if it has others.
fn leading(fields: &[Field], has: impl Fn(&[Field]) -> bool) -> Option<usize> {
    if has(fields) {
        return Some(0);
    }
    has(&[&IDENTITY, fields].concat()).then_some(IDENTITY.len())
}

fn parquet_type((name, kind): Field) -> Result<Arc<Type>, ParquetError> {
    let unsigned = Some(LogicalType::integer(64, false));
    let (physical, logical, repetition) = match kind {
        Kind::Integer => (PhysicalType::INT64, unsigned, Repetition::REQUIRED),
        Kind::OptionalInteger => (PhysicalType::INT64, unsigned, Repetition::OPTIONAL),
        Kind::OptionalNumber => (PhysicalType::DOUBLE, None, Repetition::OPTIONAL),
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
    };
    let column = Type::primitive_type_builder(name, physical).with_logical_type(logical).with_repetition(repetition);
    column.build().map(Arc::new)
}

fn parquet_types(fields: &[Field]) -> Result<Vec<Arc<Type>>, ParquetError> {
    fields.iter().map(|&field| parquet_type(field)).collect()
}

/// Writes `chunks` as Parquet, one row group each, uncompressed beyond Parquet's own dictionaries. The file carries
/// `metadata`, pairs of key and value.
pub(super) fn write_parquet<'a>(
    out: impl Write + Send,
    fields: &[Field],
    metadata: Vec<(String, String)>,
    chunks: impl Iterator<Item = Columns<'a>>,
) -> Result<(), ParquetError> {
    let schema = Type::group_type_builder("schema").with_fields(parquet_types(fields)?).build()?;
    let metadata = metadata.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    for columns in chunks {
        row_count(fields, &columns);
        let mut group = writer.next_row_group()?;
        for column in &columns {
            write_column(&mut group, column)?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Values<'_>,
) -> Result<(), ParquetError> {
    match column {
        // Parquet stores unsigned integers as the same 64 bits, signed.
        Values::Integer(values) => {
            write_values::<Int64Type, W>(group, &values.iter().map(|&value| value as i64).collect::<Vec<_>>(), None)
        }
        Values::OptionalInteger(values) => {
            let present: Vec<_> = values.iter().flatten().map(|&value| value as i64).collect();
            write_values::<Int64Type, W>(group, &present, Some(&definition_levels(values)))
        }
        Values::OptionalNumber(values) => {
            let present: Vec<_> = values.iter().flatten().copied().collect();
            write_values::<DoubleType, W>(group, &present, Some(&definition_levels(values)))
        }
        Values::Text(values) => {
            let bytes: Vec<_> = values.iter().map(|text| ByteArray::from(text.as_bytes().to_vec())).collect();
            write_values::<ByteArrayType, W>(group, &bytes, None)
        }
    }
}

/// One where a value is present, zero where it is not.
fn definition_levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

fn write_values<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut writer = group.next_column()?.expect("as many columns as the schema has");
    writer.typed::<T>().write_batch(values, levels, None)?;
    writer.close()
}

/// Reads what [`write_parquet`] wrote, a row group at a time: a file's columns take several times the memory of its rows. Fields that are not `wanted` have no values.
pub(super) fn read_parquet(
    file: File,
    fields: &[Field],
    wanted: impl Fn(usize) -> bool,
    mut take: impl FnMut(&Columns<'static>) -> Result<(), String>,
) -> Result<(), String> {
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let own = reader.metadata().file_metadata().schema().get_fields();
    let has = |fields: &[Field]| parquet_types(fields).is_ok_and(|types| own == types);
    let skipped = leading(fields, has).ok_or("these are not the columns that this version writes")?;
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).map_err(|error| error.to_string())?;
        let mut columns: Vec<_> = fields.iter().map(|(_, kind)| Values::empty(*kind)).collect();
        for (position, column) in columns.iter_mut().enumerate().filter(|(position, _)| wanted(*position)) {
            read_column(&*group, skipped + position, column).map_err(|error| error.to_string())?;
        }
        take(&columns)?;
    }
    Ok(())
}

fn read_column(group: &dyn RowGroupReader, position: usize, column: &mut Values<'_>) -> Result<(), ParquetError> {
    match column {
        Values::Integer(into) => {
            let (values, _) = read_values::<Int64Type>(group, position, false)?;
            into.extend(values.into_iter().map(|value| value as u64));
        }
        Values::OptionalInteger(into) => {
            let (values, levels) = read_values::<Int64Type>(group, position, true)?;
            into.extend(spread(values.into_iter().map(|value| value as u64), &levels));
        }
        Values::OptionalNumber(into) => {
            let (values, levels) = read_values::<DoubleType>(group, position, true)?;
            into.extend(spread(values.into_iter(), &levels));
        }
        Values::Text(into) => {
            for value in read_values::<ByteArrayType>(group, position, false)?.0 {
                into.push(Cow::Owned(value.as_utf8()?.to_owned()));
            }
        }
    }
    Ok(())
}

fn read_values<T: DataType>(
    group: &dyn RowGroupReader,
    position: usize,
    optional: bool,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(position)?);
    let rows = group.metadata().num_rows() as usize;
    let (mut values, mut levels, mut read) = (Vec::new(), Vec::new(), 0);
    while read < rows {
        let (records, _, _) = reader.read_records(rows - read, optional.then_some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!("column {position} ends after {read} of {rows} rows")));
        }
        read += records;
    }
    Ok((values, levels))
}

/// Puts values back where their definition levels say they were.
fn spread<T>(mut values: impl Iterator<Item = T>, levels: &[i16]) -> impl Iterator<Item = Option<T>> {
    levels.iter().map(move |&level| if level > 0 { values.next() } else { None })
}

/// The keys and values that a Parquet file carries beside its rows.
#[cfg(test)]
pub(super) fn parquet_metadata(file: File) -> Vec<(String, String)> {
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let pairs = reader.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    pairs.into_iter().map(|pair| (pair.key, pair.value.unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [Field; 4] = [
        ("id", Kind::Integer),
        ("completed_ps", Kind::OptionalInteger),
        ("slowdown", Kind::OptionalNumber),
        ("group", Kind::Text),
    ];

    fn chunk() -> Columns<'static> {
        vec![
            Values::Integer(vec![0, 1, u64::MAX]),
            Values::OptionalInteger(vec![Some(u64::MAX), None, Some(0)]),
            Values::OptionalNumber(vec![None, Some(1.1), Some(1e-300)]),
            Values::Text(vec!["a, \"b\"\n".into(), "".into(), "µ<c>".into()]),
        ]
    }

    #[test]
    fn csv_gives_back_what_was_written() {
        let mut bytes = Vec::new();
        write_csv(&mut bytes, &FIELDS, [chunk()].into_iter()).unwrap();
        assert_eq!(read_csv(&bytes[..], &FIELDS).unwrap(), chunk());
    }

    #[test]
    fn a_bad_cell_is_named_by_line_and_column() {
        let text = "id,completed_ps,slowdown,group\n1,,,a\n2,soon,,a\n";
        let why = read_csv(text.as_bytes(), &FIELDS).unwrap_err();
        assert_eq!(why, "line 3, column completed_ps: \"soon\" is not a whole number");
        assert!(read_csv("id,group\n".as_bytes(), &FIELDS).unwrap_err().contains("columns"));
    }

    /// Takes so many bytes and then is full.
    struct FullAfter(usize);

    impl Write for FullAfter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_wherever_it_strikes() {
        for room in 0..40 {
            assert!(write_csv(FullAfter(room), &FIELDS, [chunk()].into_iter()).is_err(), "{room}");
            assert!(write_parquet(FullAfter(room), &FIELDS, Vec::new(), [chunk()].into_iter()).is_err(), "{room}");
        }
    }

    #[test]
    fn a_table_without_rows_is_a_file() {
        let mut bytes = Vec::new();
        write_csv(&mut bytes, &FIELDS, std::iter::empty()).unwrap();
        assert_eq!(bytes, b"id,completed_ps,slowdown,group\n");
        write_parquet(Vec::new(), &FIELDS, Vec::new(), std::iter::empty()).unwrap();
    }
}
