//! The columns of all tables in words, from their declarations.

use crate::results::table::{ColumnUnit, Kind, Table};
use crate::results::{FLOWS, OBJECTS, PORTS, QUEUE_SERIES, REFLEX_SERIES, THROUGHPUT_SERIES, WINDOW_SERIES};

/// One column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnDescription {
    /// Its name in files.
    pub name: &'static str,
    /// What it holds: `integer`, `integer or empty`, `number or empty`, `text`.
    pub kind: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// The transports, or the parts of a scenario, that give it a value. In other rows it is 0 or empty.
    pub of: &'static str,
    /// What it means, in a line of Markdown.
    pub meaning: &'static str,
}

/// One table of an output folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDescription {
    /// The names of the files that hold it.
    pub files: &'static str,
    /// Its columns, in their order.
    pub columns: Vec<ColumnDescription>,
}

/// Every table of an output folder.
pub fn tables() -> Vec<TableDescription> {
    vec![
        describe(&FLOWS),
        describe(&OBJECTS),
        describe(&PORTS),
        describe(&QUEUE_SERIES),
        describe(&THROUGHPUT_SERIES),
        describe(&REFLEX_SERIES),
        describe(&WINDOW_SERIES),
    ]
}

pub(super) fn describe<R>(table: &Table<R>) -> TableDescription {
    let columns = table.columns.iter().map(|column| ColumnDescription {
        name: column.name,
        kind: kind(column.access.kind),
        unit: unit(column.unit),
        of: column.of,
        meaning: column.meaning,
    });
    TableDescription { files: table.files, columns: columns.collect() }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "integer",
        Kind::OptionalInteger => "integer or empty",
        Kind::OptionalNumber => "number or empty",
        Kind::Text => "text",
    }
}

const fn unit(unit: ColumnUnit) -> &'static str {
    match unit {
        ColumnUnit::None => "",
        ColumnUnit::Flag => "0 or 1",
        ColumnUnit::Count => "count",
        ColumnUnit::Ratio => "ratio",
        ColumnUnit::Picoseconds => "ps",
        ColumnUnit::Microseconds => "µs",
        ColumnUnit::Bytes => "bytes",
        ColumnUnit::BytesPerSecond => "bytes/s",
        ColumnUnit::Packets => "packets",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::{env, fs};

    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/output.md");
    const END: &str = "<!-- end of columns -->";

    fn begin(table: &TableDescription) -> String {
        format!("<!-- columns of {} -->\n\n", table.files)
    }

    fn markdown(table: &TableDescription) -> String {
        let mut text = "| column | type | unit | of | meaning |\n|---|---|---|---|---|\n".to_owned();
        for ColumnDescription { name, kind, unit, of, meaning } in &table.columns {
            writeln!(text, "| `{name}` | {kind} | {unit} | {of} | {meaning} |").unwrap();
        }
        text.push('\n');
        text
    }

    /// `document` with every table between its markers as it is declared.
    fn regenerated(mut document: String) -> String {
        for table in tables() {
            let begin = begin(&table);
            let start = document.find(&begin).unwrap_or_else(|| panic!("docs/output.md lacks {begin}")) + begin.len();
            let end = start + document[start..].find(END).expect("a table ends");
            document.replace_range(start..end, &markdown(&table));
        }
        document
    }

    /// The tables of the document are those that the columns' declarations give. With `PLIANT_WRITE_DOCS` set the test
    /// writes them.
    #[test]
    fn the_document_has_the_columns_as_they_are_declared() {
        let document = fs::read_to_string(DOCUMENT).unwrap();
        let fresh = regenerated(document.clone());
        if env::var_os("PLIANT_WRITE_DOCS").is_some() {
            fs::write(DOCUMENT, fresh).unwrap();
        } else {
            assert!(
                document == fresh,
                "docs/output.md is stale: write it with `PLIANT_WRITE_DOCS=1 cargo test -p pliant-sim --lib output::description`"
            );
        }
    }

    /// A stale table is noticed and replaced, and what stands around it is kept.
    #[test]
    fn a_stale_document_is_noticed() {
        let fresh = regenerated(fs::read_to_string(DOCUMENT).unwrap());
        let stale = fresh.replacen("| `timeouts` |", "| `time_outs` |", 1);
        assert!(stale != fresh, "the document has the column");
        assert!(regenerated(stale) == fresh, "what is declared takes the place of what is stale");
    }

    /// Names end in their unit, so that a file needs no other document for it.
    #[test]
    fn names_carry_units() {
        let units =
            [("_ps", "ps"), ("_us", "µs"), ("bytes", "bytes"), ("bytes_per_s", "bytes/s"), ("packets", "packets")];
        for column in tables().iter().flat_map(|table| &table.columns) {
            for (suffix, unit) in units {
                assert_eq!(column.name.ends_with(suffix), column.unit == unit, "{} in {}", column.name, column.unit);
            }
            let whole = column.kind.starts_with("integer");
            assert!(column.unit != "ratio" || !whole, "{} is a ratio", column.name);
            assert!(column.kind != "text" || column.unit.is_empty(), "{} is text", column.name);
        }
    }

    #[test]
    fn descriptions_fit_into_a_table() {
        for column in tables().iter().flat_map(|table| &table.columns) {
            let ColumnDescription { name, of, meaning, .. } = column;
            assert!(meaning.ends_with('.') && !of.is_empty(), "{name}");
            assert!(![*of, *meaning].iter().any(|text| text.contains(['|', '\n'])), "{name}");
        }
    }
}
