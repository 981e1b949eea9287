//! Tables of results: what each column is called, what it means, and how it is read from a row and written to one.
//!
//! A table is declared once ([`flow`](super::flow), [`tables`](super::tables)). Files, the schema in `docs/output.md`,
//! the measures of experiments and the report take names and values from that declaration.

mod growing;
mod value;

use std::borrow::Cow;

use pliant_proto::contract::reflex::Phase;
use pliant_proto::time::{Instant, Span};

use super::flow_facts::{FlowState, Share};
use super::rows::GroupInfo;
pub use growing::ColumnValues;
pub(crate) use growing::Growing;
use value::small;
pub(crate) use value::{Kind, Value};

/// The unit of a column. Names of columns end in theirs, but for counts, ratios and what has no unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColumnUnit {
    /// None: the column names or numbers something.
    None,
    /// None: 1 is yes, 0 is no.
    Flag,
    /// Events or things.
    Count,
    /// A quantity over another of the same unit.
    Ratio,
    Picoseconds,
    Microseconds,
    Bytes,
    BytesPerSecond,
    Packets,
}

/// A type that a column can hold.
pub(crate) trait Cell: Sized {
    const KIND: Kind;

    fn value(&self) -> Value<'_>;

    /// What [`value`](Self::value) gave. The error says what is wrong with it.
    fn from_value(value: &Value<'_>) -> Result<Self, String>;
}

/// Cells that are integers in a file.
macro_rules! integer_cells {
    ($($type:ty: $to:expr, $from:expr;)+) => {
        $(impl Cell for $type {
            const KIND: Kind = Kind::Integer;

            #[inline]
            fn value(&self) -> Value<'_> {
                let to: fn(Self) -> u64 = $to;
                Value::Integer(to(*self))
            }

            fn from_value(value: &Value<'_>) -> Result<Self, String> {
                let from: fn(u64) -> Result<Self, String> = $from;
                from(value.integer())
            }
        })+
    };
}

integer_cells! {
    u64: |value| value, Ok;
    u32: u64::from, small;
    u8: u64::from, small;
    Instant: Instant::as_ps, |ps| Ok(Instant::from_ps(ps));
    Span: Span::as_ps, |ps| Ok(Span::from_ps(ps));
    bool: u64::from, |flag| Ok(flag != 0);
}

impl Cell for Option<u64> {
    const KIND: Kind = Kind::OptionalInteger;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::OptionalInteger(*self)
    }

    fn from_value(value: &Value<'_>) -> Result<Self, String> {
        Ok(value.optional_integer())
    }
}

impl Cell for Option<Instant> {
    const KIND: Kind = Kind::OptionalInteger;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::OptionalInteger(self.map(Instant::as_ps))
    }

    fn from_value(value: &Value<'_>) -> Result<Self, String> {
        Ok(value.optional_integer().map(Instant::from_ps))
    }
}

impl Cell for Option<f64> {
    const KIND: Kind = Kind::OptionalNumber;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::OptionalNumber(*self)
    }

    fn from_value(value: &Value<'_>) -> Result<Self, String> {
        Ok(value.optional_number())
    }
}

/// A number that every row has.
impl Cell for f64 {
    const KIND: Kind = Kind::OptionalNumber;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::OptionalNumber(Some(*self))
    }

    fn from_value(value: &Value<'_>) -> Result<Self, String> {
        value.optional_number().ok_or_else(|| "a number is missing".to_owned())
    }
}

impl Cell for Share {
    const KIND: Kind = Kind::OptionalNumber;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::OptionalNumber(self.get())
    }

    fn from_value(value: &Value<'_>) -> Result<Self, String> {
        match value.optional_number() {
            Some(share) if share.is_nan() => Err("not a number".to_owned()),
            share => Ok(Self::new(share)),
        }
    }
}

impl Cell for String {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }

    fn from_value(value: &Value<'_>) -> Result<Self, String> {
        Ok(value.text().to_owned())
    }
}

/// Cells that are words in a file: enumerations with names.
macro_rules! named_cells {
    ($($type:ty: $what:literal;)+) => {
        $(impl Cell for $type {
            const KIND: Kind = Kind::Text;

            fn value(&self) -> Value<'_> {
                Value::Text(Cow::Borrowed(self.name()))
            }

            fn from_value(value: &Value<'_>) -> Result<Self, String> {
                let name = value.text();
                Self::from_name(name).ok_or_else(|| format!(concat!("no ", $what, " \"{}\""), name))
            }
        })+
    };
}

named_cells! {
    FlowState: "state";
    Phase: "phase";
}

/// How a column is read from a row, and written to one. Groups of the run give the names of traffic groups.
pub(crate) struct Access<R: 'static> {
    pub(crate) kind: Kind,
    pub(crate) get: for<'a> fn(&'a R, &'a [GroupInfo]) -> Value<'a>,
    /// Reads it from many rows, without a call for each: a million rows have forty million values. `None` where rows are read
    /// one by one.
    pub(crate) fill: Option<Fill<R>>,
    /// `None` of a column that is computed from others, and ignored when read.
    pub(crate) set: Option<Set<R>>,
}

/// Reads a column from rows.
pub(crate) type Fill<R> = fn(&[R], &[GroupInfo], &mut Growing);

/// Writes a value to a row. The error says what is wrong with the value.
pub(crate) type Set<R> = fn(&mut R, &Value<'_>, &[GroupInfo]) -> Result<(), String>;

/// Access to a place in the row: `place!(u64, counters.admitted.bytes)`.
macro_rules! place {
    ($type:ty, $($place:tt)+) => {
        $crate::results::table::Access {
            kind: <$type as $crate::results::table::Cell>::KIND,
            get: |row, _| $crate::results::table::Cell::value(&row.$($place)+),
            fill: Some(|rows, _, growing| {
                growing.extend(rows.iter().map(|row| $crate::results::table::Cell::value(&row.$($place)+)));
            }),
            set: Some(|row, value, _| {
                row.$($place)+ = <$type as $crate::results::table::Cell>::from_value(value)?;
                Ok(())
            }),
        }
    };
}

/// A value that is computed from the row: `computed!(Integer, |port| port.dequeued().bytes)`.
macro_rules! computed {
    ($kind:ident, |$row:ident| $value:expr) => {
        $crate::results::table::Access {
            kind: $crate::results::table::Kind::$kind,
            get: |$row, _| $crate::results::table::Value::$kind($value),
            fill: Some(|rows, _, growing| {
                growing.extend(rows.iter().map(|$row| $crate::results::table::Value::$kind($value)));
            }),
            set: None,
        }
    };
}

/// The traffic group of a row, by name; the row has its index.
macro_rules! group {
    () => {
        $crate::results::table::Access {
            kind: $crate::results::table::Kind::Text,
            get: |row, groups| $crate::results::table::Value::Text((&groups[usize::from(row.group)].name).into()),
            fill: Some(|rows, groups, growing| {
                let name = |group: u16| $crate::results::table::Value::Text((&groups[usize::from(group)].name).into());
                growing.extend(rows.iter().map(|row| name(row.group)));
            }),
            set: Some(|row, value, groups| {
                row.group = $crate::results::table::group_index(value, groups)?;
                Ok(())
            }),
        }
    };
}

/// The columns of a table of rows: `"NAME" [ACCESS] UNIT, OF, MEANING, MORE;` for each. MORE are
/// [`sum`](Column::sum), [`each`](Column::each) and [`titled`](Column::titled), as far as they apply.
macro_rules! columns {
    ($row:ty; $(
        $name:literal [$access:expr] $unit:ident, $of:expr, $meaning:literal $(, $more:ident($($argument:expr),+))*;
    )+) => {
        &[$(
            $crate::results::table::column::<$row>(
                $name, $crate::results::table::ColumnUnit::$unit, $of, $meaning, $access
            )$(.$more($($argument),+))*,
        )+]
    };
}

pub(super) use {columns, computed, group, place};

/// Index of the group with this name.
pub(super) fn group_index(name: &Value<'_>, groups: &[GroupInfo]) -> Result<u16, String> {
    let position = groups.iter().position(|group| group.name == name.text());
    position.map(|index| index as u16).ok_or_else(|| format!("\"{}\" is no group of the summary", name.text()))
}

/// What experiments take of a column, and under which name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measured {
    /// The sum over rows.
    Sum(&'static str),
    /// A value of each row, in the unit that the function converts to.
    Each(&'static str, fn(f64) -> f64),
}

/// One column of a table.
pub(crate) struct Column<R: 'static> {
    pub(crate) name: &'static str,
    pub(crate) unit: ColumnUnit,
    /// The transports, or the parts of a scenario, that give it a value; others leave it 0 or empty.
    pub(crate) of: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) access: Access<R>,
    pub(crate) measured: Option<Measured>,
    /// What the report calls its sum; empty if the report does not show it.
    pub(crate) title: &'static str,
}

/// A column that neither experiments nor the report name.
pub(super) const fn column<R>(
    name: &'static str,
    unit: ColumnUnit,
    of: &'static str,
    meaning: &'static str,
    access: Access<R>,
) -> Column<R> {
    Column { name, unit, of, meaning, access, measured: None, title: "" }
}

impl<R> Column<R> {
    /// The same column, of which experiments measure the sum as `name`.
    pub(super) const fn sum(self, name: &'static str) -> Self {
        Self { measured: Some(Measured::Sum(name)), ..self }
    }

    /// The same column, of which experiments measure each row's value, converted by `to`, as `name`.
    pub(super) const fn each(self, name: &'static str, to: fn(f64) -> f64) -> Self {
        Self { measured: Some(Measured::Each(name, to)), ..self }
    }

    /// The same column, which the report shows under `title`.
    pub(super) const fn titled(self, title: &'static str) -> Self {
        Self { title, ..self }
    }

    /// Its value in `row`.
    pub(crate) fn value<'a>(&self, row: &'a R, groups: &'a [GroupInfo]) -> Value<'a> {
        (self.access.get)(row, groups)
    }

    /// Appends its values in `rows`.
    pub(crate) fn extend(&self, growing: &mut Growing, rows: &[R], groups: &[GroupInfo]) {
        match self.access.fill {
            Some(fill) => fill(rows, groups, growing),
            None => growing.extend(rows.iter().map(|row| self.value(row, groups))),
        }
    }

    /// Its value in `row` as a number; `None` of text and where there is nothing.
    pub(crate) fn number(&self, row: &R) -> Option<f64> {
        self.value(row, &[]).number()
    }

    /// Its value in `row` as a count.
    pub(crate) fn count(&self, row: &R) -> u64 {
        self.value(row, &[]).integer()
    }
}

/// A table: its columns, in the order of its files.
pub(crate) struct Table<R: 'static> {
    /// The files that hold it, as `docs/output.md` heads its description.
    pub(crate) files: &'static str,
    pub(crate) columns: &'static [Column<R>],
    /// A row before its columns are set.
    pub(crate) blank: fn() -> R,
}

impl<R> Table<R> {
    /// The column called `name`. In a constant, a name that the table does not have is an error of the compiler.
    pub(crate) const fn column(&'static self, name: &str) -> &'static Column<R> {
        let mut index = 0;
        while index < self.columns.len() {
            if is_equal(self.columns[index].name.as_bytes(), name.as_bytes()) {
                return &self.columns[index];
            }
            index += 1;
        }
        panic!("the table has no column of this name")
    }

    /// The columns of which experiments measure sums, with the measures' names.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&'static str, &'static Column<R>)> + use<R> {
        let columns = self.columns.iter();
        columns.filter_map(|column| match column.measured {
            Some(Measured::Sum(name)) => Some((name, column)),
            _ => None,
        })
    }

    /// The columns of which experiments measure each row's value, with the measures' names and conversions.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, ColumnMeasure<R>)> + use<R> {
        let columns = self.columns.iter();
        columns.filter_map(|column| match column.measured {
            Some(Measured::Each(name, to)) => Some((name, ColumnMeasure { column, to })),
            _ => None,
        })
    }
}

/// `==` of texts, which constants do not have.
const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    a.len() == b.len() && index == a.len()
}

/// A column in the unit of a measure.
pub(crate) struct ColumnMeasure<R: 'static> {
    column: &'static Column<R>,
    to: fn(f64) -> f64,
}

impl<R> Clone for ColumnMeasure<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for ColumnMeasure<R> {}

impl<R> ColumnMeasure<R> {
    /// Its value in `row`, if there is one.
    pub(crate) fn of(&self, row: &R) -> Option<f64> {
        self.column.number(row).map(self.to)
    }
}

#[cfg(test)]
pub(crate) mod tests;
