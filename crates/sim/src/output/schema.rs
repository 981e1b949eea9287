//! Rows as columns and back, by the declaration of their table; and which run the rows are of.

use std::borrow::Cow;

use super::columns::{Columns, Field, IDENTITY, Values};
use crate::results::comparison::Variant;
use crate::results::table::Table;
use crate::results::{GroupInfo, RunResult};

/// Names and kinds of the columns of `table`.
pub(super) fn fields<R>(table: &Table<R>) -> Vec<Field> {
    table.columns.iter().map(|column| (column.name, column.access.kind)).collect()
}

/// The columns of `rows`.
pub(super) fn columns<'a, R>(table: &Table<R>, rows: &'a [R], groups: &'a [GroupInfo]) -> Columns<'a> {
    let values = table.columns.iter().map(|column| {
        let mut values = Values::empty(column.access.kind);
        for row in rows {
            values.push(column.value(row, groups));
        }
        values
    });
    values.collect()
}

/// Adds to `rows` those of columns that were read. The error names row and column.
pub(super) fn add_rows<R>(
    rows: &mut Vec<R>,
    table: &Table<R>,
    columns: &Columns<'static>,
    groups: &[GroupInfo],
) -> Result<(), String> {
    let before = rows.len();
    // What is computed from other columns is not read.
    let count = columns.iter().map(Values::len).max().unwrap_or(0);
    rows.extend((0..count).map(|_| (table.blank)()));
    for (column, values) in table.columns.iter().zip(columns) {
        let Some(set) = column.access.set else { continue };
        for (number, row) in rows[before..].iter_mut().enumerate() {
            let set = set(row, &values.value(number), groups);
            set.map_err(|why| format!("row {}, column {}: {why}", before + number + 1, column.name))?;
        }
    }
    Ok(())
}

/// What tells the rows of one run from those of another.
pub(super) struct Identity<'a> {
    scenario: &'a str,
    variant: &'a str,
    seed: u64,
    digest: String,
}

impl<'a> Identity<'a> {
    pub(super) fn of(variant: Variant<'a>) -> Self {
        let Variant { label, result } = variant;
        let RunResult { scenario, seed, .. } = result;
        Self { scenario, variant: label, seed: *seed, digest: result.digest_text() }
    }

    /// The columns of [`IDENTITY`] for so many rows.
    pub(super) fn columns(&self, rows: usize) -> Columns<'_> {
        let text = |text| Values::Text(vec![Cow::Borrowed(text); rows]);
        vec![text(self.scenario), text(self.variant), Values::Integer(vec![self.seed; rows]), text(&self.digest)]
    }

    /// Keys and values of a Parquet file.
    pub(super) fn metadata(&self) -> Vec<(String, String)> {
        let own = self.columns(1);
        let identity =
            IDENTITY.iter().zip(own).map(|((name, _), column)| (format!("pliant.{name}"), column.cell(0).into_owned()));
        let version = ("pliant.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        identity.chain([version]).collect()
    }
}
