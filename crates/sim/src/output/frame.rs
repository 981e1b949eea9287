//! The tables of a run as columns in memory, for programs that read no files.

use std::thread;

use super::description::{ColumnDescription, describe};
pub use crate::results::table::ColumnValues;
use crate::results::table::{Column, Growing, Table};
use crate::results::{
    FLOWS, GroupInfo, OBJECTS, PORTS, QUEUE_SERIES, REFLEX_SERIES, RunResult, THROUGHPUT_SERIES, WINDOW_SERIES,
};

/// Rows that are read for all columns before the next ones: they stay in a processor's cache meanwhile.
const BLOCK_ROWS: usize = 256;

/// Rows of which one thread makes the columns: more threads would take longer to start.
const ROWS_OF_A_THREAD: usize = 1 << 16;
/// Most threads: the memory is as fast as a few of them.
const MAX_THREADS: usize = 4;

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

/// A column in memory.
#[derive(Clone, Debug)]
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

fn columns<R: Sync>(table: &Table<R>, rows: &[R], groups: &[GroupInfo]) -> Vec<FrameColumn> {
    let processors = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    columns_by(processors.min(rows.len() / ROWS_OF_A_THREAD).max(1), table, rows, groups)
}

/// The columns, made by so many threads.
fn columns_by<R: Sync>(threads: usize, table: &Table<R>, rows: &[R], groups: &[GroupInfo]) -> Vec<FrameColumn> {
    // In turns: neighbours are alike in what they cost.
    let part = |first| table.columns.iter().skip(first).step_by(threads);
    let growing = |column: &'static Column<R>| (column, Growing::new(column.access.kind, rows.len()));
    let mut parts: Vec<Vec<_>> = (0..threads).map(|first| part(first).map(growing).collect()).collect();
    let fill = |part: &mut Vec<(&Column<R>, Growing)>| {
        for block in rows.chunks(BLOCK_ROWS) {
            for (column, growing) in &mut *part {
                column.extend(growing, block, groups);
            }
        }
    };
    thread::scope(|scope| {
        let (own, others) = parts.split_first_mut().expect("there is one thread");
        for part in others {
            scope.spawn(|| fill(part));
        }
        fill(own);
    });
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let values = (0..).map_while(|index| parts[index % threads].next());
    let described = describe(table).columns.into_iter().zip(values);
    described.map(|(description, (_, growing))| FrameColumn { description, values: growing.finish() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;
    use crate::results::table::Value;

    /// Every value of every column of every row is what the files have, whatever number of threads made it.
    #[test]
    fn frames_have_what_the_files_have() {
        let result = samples::run();
        check(&result, &frame(&result, TableName::Flows));
        for threads in [1, 2, 3, 100] {
            check(&result, &columns_by(threads, &FLOWS, &result.flows, &result.groups));
        }
    }

    fn check(result: &RunResult, frame: &[FrameColumn]) {
        assert_eq!(frame.len(), FLOWS.columns.len());
        for (of_table, column) in FLOWS.columns.iter().zip(frame) {
            assert_eq!(of_table.name, column.description.name);
            for (index, row) in result.flows.iter().enumerate() {
                let expected = of_table.value(row, &result.groups);
                let found = match &column.values {
                    ColumnValues::Integer(values) => Value::Integer(values[index]),
                    ColumnValues::Zeros(_) => Value::Integer(0),
                    ColumnValues::AbsentIntegers(_) => Value::OptionalInteger(None),
                    ColumnValues::AbsentNumbers(_) => Value::OptionalNumber(None),
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
