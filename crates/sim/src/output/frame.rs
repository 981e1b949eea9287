//! The tables of a run as columns in memory, for programs that read no files.

use std::collections::BTreeMap;

use super::description::{ColumnDescription, describe};
use crate::results::table::{Kind, Table, Value};
use crate::results::{
    FLOWS, GroupInfo, OBJECTS, PORTS, QUEUE_SERIES, REFLEX_SERIES, RunResult, THROUGHPUT_SERIES, WINDOW_SERIES,
};

/// Rows that are read for all columns before the next ones: they stay in a processor's cache meanwhile.
const BLOCK_ROWS: usize = 1024;
/// Words that are looked for one by one before all are searched. Names of groups and states are fewer.
const FIRST_WORDS: usize = 8;

/// A table of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TableName {
    /// A row for each flow that started.
    Flows,
    /// A row for each object.
    Objects,
    /// A row for each queue of each port.
    Ports,
    /// Queue lengths over time.
    QueueSeries,
    /// Throughput over time.
    ThroughputSeries,
    /// Standings of flows under REFLEX over time.
    ReflexSeries,
    /// Windows of senders over time.
    WindowSeries,
}

impl TableName {
    /// Every table.
    pub const ALL: [Self; 7] = [
        Self::Flows,
        Self::Objects,
        Self::Ports,
        Self::QueueSeries,
        Self::ThroughputSeries,
        Self::ReflexSeries,
        Self::WindowSeries,
    ];

    /// Its name: that of its file without the ending.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Objects => "objects",
            Self::Ports => "ports",
            Self::QueueSeries => "queue_series",
            Self::ThroughputSeries => "throughput_series",
            Self::ReflexSeries => "reflex_series",
            Self::WindowSeries => "window_series",
        }
    }
}

/// The values of a column. A value that is not present is 0 among the values.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnValues {
    /// Integers.
    Integer(Vec<u64>),
    /// Integers, where there are some.
    OptionalInteger {
        /// A value for each row.
        values: Vec<u64>,
        /// Whether the row has it.
        present: Vec<bool>,
    },
    /// Numbers, where there are some.
    OptionalNumber {
        /// A value for each row.
        values: Vec<f64>,
        /// Whether the row has it.
        present: Vec<bool>,
    },
    /// Text, of which there are few different words.
    Text {
        /// The different words, in the order of their first rows.
        words: Vec<String>,
        /// The index of each row's word.
        rows: Vec<u32>,
    },
}

/// A column in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct FrameColumn {
    /// What it is called and means.
    pub description: ColumnDescription,
    /// Its values.
    pub values: ColumnValues,
}

/// The columns of a table of `result`, in the order of its file.
pub fn frame(result: &RunResult, table: TableName) -> Vec<FrameColumn> {
    let groups = &result.groups;
    match table {
        TableName::Flows => columns(&FLOWS, &result.flows, groups),
        TableName::Objects => columns(&OBJECTS, &result.objects(), groups),
        TableName::Ports => columns(&PORTS, &result.ports, groups),
        TableName::QueueSeries => columns(&QUEUE_SERIES, &result.queue_samples, groups),
        TableName::ThroughputSeries => columns(&THROUGHPUT_SERIES, &result.throughput_samples, groups),
        TableName::ReflexSeries => columns(&REFLEX_SERIES, &result.reflex_samples, groups),
        TableName::WindowSeries => columns(&WINDOW_SERIES, &result.window_samples, groups),
    }
}

fn columns<R>(table: &Table<R>, rows: &[R], groups: &[GroupInfo]) -> Vec<FrameColumn> {
    let mut building: Vec<Building> =
        table.columns.iter().map(|column| Building::new(column.access.kind, rows.len())).collect();
    for block in rows.chunks(BLOCK_ROWS) {
        for (column, building) in table.columns.iter().zip(&mut building) {
            building.extend(block.iter().map(|row| column.value(row, groups)));
        }
    }
    let described = describe(table).columns.into_iter().zip(building);
    described.map(|(description, Building { values, .. })| FrameColumn { description, values }).collect()
}

/// A column that grows.
struct Building {
    values: ColumnValues,
    /// Index of each word of a text, by the word.
    words: BTreeMap<String, u32>,
}

impl Building {
    fn new(kind: Kind, rows: usize) -> Self {
        let values = match kind {
            Kind::Integer => ColumnValues::Integer(Vec::with_capacity(rows)),
            Kind::OptionalInteger => {
                ColumnValues::OptionalInteger { values: Vec::with_capacity(rows), present: Vec::with_capacity(rows) }
            }
            Kind::OptionalNumber => {
                ColumnValues::OptionalNumber { values: Vec::with_capacity(rows), present: Vec::with_capacity(rows) }
            }
            Kind::Text => ColumnValues::Text { words: Vec::new(), rows: Vec::with_capacity(rows) },
        };
        Self { values, words: BTreeMap::new() }
    }

    fn extend<'a>(&mut self, given: impl Iterator<Item = Value<'a>>) {
        match &mut self.values {
            ColumnValues::Integer(values) => values.extend(given.map(|value| value.integer())),
            ColumnValues::OptionalInteger { values, present } => {
                for value in given.map(|value| value.optional_integer()) {
                    values.push(value.unwrap_or_default());
                    present.push(value.is_some());
                }
            }
            ColumnValues::OptionalNumber { values, present } => {
                for value in given.map(|value| value.optional_number()) {
                    values.push(value.unwrap_or_default());
                    present.push(value.is_some());
                }
            }
            ColumnValues::Text { words, rows } => {
                rows.extend(given.map(|value| index_of(value.text(), words, &mut self.words)));
            }
        }
    }
}

/// The index of a word, which is added if it is new.
fn index_of(word: &str, words: &mut Vec<String>, indices: &mut BTreeMap<String, u32>) -> u32 {
    if let Some(index) = words.iter().take(FIRST_WORDS).position(|known| known == word) {
        return index as u32;
    }
    if let Some(&index) = indices.get(word) {
        return index;
    }
    let index = words.len() as u32;
    words.push(word.to_owned());
    indices.insert(word.to_owned(), index);
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    /// Every value of every column of every row is what the files have.
    #[test]
    fn frames_have_what_the_files_have() {
        let result = samples::run();
        let frame = frame(&result, TableName::Flows);
        assert_eq!(frame.len(), FLOWS.columns.len());
        for (of_table, column) in FLOWS.columns.iter().zip(&frame) {
            assert_eq!(of_table.name, column.description.name);
            for (index, row) in result.flows.iter().enumerate() {
                let expected = of_table.value(row, &result.groups);
                let found = match &column.values {
                    ColumnValues::Integer(values) => Value::Integer(values[index]),
                    ColumnValues::OptionalInteger { values, present } => {
                        Value::OptionalInteger(present[index].then_some(values[index]))
                    }
                    ColumnValues::OptionalNumber { values, present } => {
                        Value::OptionalNumber(present[index].then_some(values[index]))
                    }
                    ColumnValues::Text { words, rows } => Value::Text(words[rows[index] as usize].as_str().into()),
                };
                assert_eq!(found, expected, "{} of row {index}", of_table.name);
            }
        }
    }

    /// Words beyond those that are looked for one by one keep their indices.
    #[test]
    fn many_words_are_told_apart() {
        let (mut words, mut indices) = (Vec::new(), BTreeMap::new());
        for round in 0..2 {
            for number in 0..40u32 {
                assert_eq!(index_of(&format!("port {number}"), &mut words, &mut indices), number, "round {round}");
            }
        }
        assert_eq!(words.len(), 40);
    }

    /// A frame's name is that of the table's file.
    #[test]
    fn names_are_those_of_files() {
        let described = super::super::tables();
        for name in TableName::ALL.map(TableName::name) {
            let of_file = |file: &str| file.split('.').next() == Some(name);
            assert!(described.iter().any(|table| table.files.split(", ").any(of_file)), "{name}");
        }
    }
}
