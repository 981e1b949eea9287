//! `sweep.csv`: a tidy table, one row per finished point, traffic group and flow size.

use serde_json::Value;

use super::plan::{Point, SEED};
use crate::error::CliError;
use crate::grid::Axis;

/// Columns of a group's statistics, and where `summary.json` has them.
const STATISTICS: &[(&str, &str)] = &[
    ("flows", "/flows"),
    ("completed", "/completed"),
    ("unfinished", "/unfinished"),
    ("sent_with_loss", "/sent_with_loss"),
    ("ran_to_end", "/ran_to_end"),
    ("delivered_bytes", "/delivered_bytes"),
    ("goodput_gbit_per_s", "/goodput_gbit_per_s"),
    ("fct_mean_us", "/fct_us/mean/value"),
    ("fct_p50_us", "/fct_us/p50/value"),
    ("fct_p95_us", "/fct_us/p95/value"),
    ("fct_p99_us", "/fct_us/p99/value"),
    ("slowdown_mean", "/slowdown/mean/value"),
    ("slowdown_p50", "/slowdown/p50/value"),
    ("slowdown_p95", "/slowdown/p95/value"),
    ("slowdown_p99", "/slowdown/p99/value"),
    ("mean_is_lower_bound", "/fct_us/mean/lower_bound"),
    ("p99_is_lower_bound", "/fct_us/p99/lower_bound"),
    ("retransmissions", "/retransmissions"),
    ("timeouts", "/timeouts"),
    ("marks", "/marks"),
    ("drops", "/drops"),
    ("fair_share_mean", "/fair_share/mean"),
    ("fair_share_min", "/fair_share/min"),
    ("fair_share_p1", "/fair_share/p1"),
    ("fair_share_p5", "/fair_share/p5"),
    ("fair_share_below_min_share", "/fair_share/below_min_share"),
    ("fluid_share_mean", "/fluid_share/mean"),
    ("fluid_share_min", "/fluid_share/min"),
    ("fluid_share_p1", "/fluid_share/p1"),
    ("fluid_share_p5", "/fluid_share/p5"),
    ("fluid_share_below_min_share", "/fluid_share/below_min_share"),
];

/// The table of all finished points as CSV, and its number of rows.
pub(super) fn table(axes: &[Axis], points: &[Point]) -> Result<(String, usize), CliError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // The seed has a column of its own.
    let keys = axes.iter().map(|axis| axis.key.as_str()).filter(|key| *key != SEED);
    let fixed = ["seed", "digest", "group", "transport", "flow_size"];
    let columns = keys.chain(fixed).chain(STATISTICS.iter().map(|(name, _)| *name));
    writer.write_record(columns).map_err(machine)?;
    let mut rows = 0;
    for point in points.iter().filter(|point| point.is_finished()) {
        let Some(summary) = point.summary() else { continue };
        let named = point.choice.iter().filter(|(key, _)| key != SEED);
        let values: Vec<String> = named.map(|(_, value)| value.clone()).collect();
        for group in summary["groups"].as_array().into_iter().flatten() {
            for (size, statistics) in by_size(group) {
                let fixed = [
                    point.seed.to_string(),
                    text(&summary["digest"]),
                    text(&group["name"]),
                    text(&group["transport"]),
                    size,
                ];
                let numbers = STATISTICS.iter().map(|(_, at)| text(statistics.pointer(at).unwrap_or(&Value::Null)));
                writer.write_record(values.iter().cloned().chain(fixed).chain(numbers)).map_err(machine)?;
                rows += 1;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| machine(error.into_error()))?;
    Ok((String::from_utf8(bytes).map_err(machine)?, rows))
}

/// A group's statistics over all flows, then by size.
fn by_size(group: &Value) -> impl Iterator<Item = (String, &Value)> {
    let sizes = group["by_size"].as_array().into_iter().flatten();
    let named = sizes.map(|bucket| match bucket["up_to_bytes"].as_u64() {
        Some(limit) => (format!("up_to_{limit}_bytes"), bucket),
        None => ("larger".to_owned(), bucket),
    });
    std::iter::once(("all".to_owned(), &group["all"])).chain(named)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn machine(error: impl std::fmt::Display) -> CliError {
    CliError::Machine(format!("cannot make the table: {error}"))
}
