//! Names of the files of an output folder.

/// The scenario, resolved.
pub const SCENARIO: &str = "scenario.toml";
/// Statistics and what identifies the run.
pub const SUMMARY: &str = "summary.json";
/// One row per flow that started.
pub const FLOWS_CSV: &str = "flows.csv";
/// The same, as Parquet.
pub const FLOWS_PARQUET: &str = "flows.parquet";
/// One row per queue of every port.
pub const PORTS_CSV: &str = "ports.csv";
/// Queue lengths over time.
pub const QUEUE_SERIES: &str = "queue_series.parquet";
/// Throughput over time.
pub const THROUGHPUT_SERIES: &str = "throughput_series.parquet";
/// Standings of flows under REFLEX over time.
pub const REFLEX_SERIES: &str = "reflex_series.parquet";
/// Windows of senders over time.
pub const WINDOW_SERIES: &str = "window_series.parquet";
/// One row per object.
pub const OBJECTS: &str = "objects.csv";
/// Lengths and checksums of a point's files.
pub const CHECKSUMS: &str = "checksums.txt";
/// The report.
pub const REPORT: &str = "report.html";
/// The plotting library beside a report that does not carry it.
pub const PLOTLY: &str = "plotly-basic.min.js";
/// The table of a comparison.
pub const COMPARISON: &str = "comparison.json";
/// The verdicts of a reproduction.
pub const VERDICTS: &str = "verdicts.json";

/// The files that the folder of a run may have.
pub const OF_A_RUN: [&str; 11] = [
    SCENARIO,
    SUMMARY,
    FLOWS_CSV,
    FLOWS_PARQUET,
    PORTS_CSV,
    QUEUE_SERIES,
    THROUGHPUT_SERIES,
    REFLEX_SERIES,
    WINDOW_SERIES,
    OBJECTS,
    REPORT,
];
