//! Queues of ports: what they counted, and what they held over time (which needs `sample_interval`).

use std::collections::{BTreeMap, BTreeSet};

use pliant_proto::time::Instant;
use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::run_ref::RunRef;
use super::values::{Statistic, exact};
use crate::experiment::context::{Failure, lacking};
use crate::results::table::ColumnMeasure;
use crate::results::{PORTS, PortRow, QUEUE_SERIES, QueueSample, RunResult};

/// Some of the queues of a run, by the names of ports and of queues.
#[derive(Clone)]
pub(in crate::experiment) struct Queues {
    run: RunRef,
    port: String,
    queue: Option<String>,
}

/// Whether `name` is what `pattern` says, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(left) = name.strip_prefix(start) else { return false };
    rest.is_empty() || (0..=left.len()).any(|at| left.is_char_boundary(at) && matches(rest, &left[at..]))
}

impl Queues {
    fn has(&self, row: &PortRow) -> bool {
        let queue = || self.queue.as_ref().is_none_or(|pattern| matches(pattern, &row.queue_name));
        self.run.is_check() || matches(&self.port, &row.name) && queue()
    }

    fn each(&self, visit: &mut dyn FnMut(&[&PortRow], &RunResult)) -> Result<(), Failure> {
        let mut missing = false;
        self.run.each(&mut |result| {
            let rows: Vec<&PortRow> = result.ports.iter().filter(|row| self.has(row)).collect();
            missing |= rows.is_empty();
            visit(&rows, result);
        })?;
        if missing {
            let (label, port) = (self.run.label(), &self.port);
            return Err(format!("run `{label}` has no such queue at a port `{port}`; a run's ports.csv names them")
                .as_str()
                .into());
        }
        Ok(())
    }
}

/// What the queues hold together at each look, by time. A queue that held nothing has no sample.
fn held(rows: &[&PortRow], result: &RunResult, amount: impl Fn(&QueueSample) -> f64) -> BTreeMap<Instant, f64> {
    let ids: BTreeSet<(u32, u8)> = rows.iter().map(|row| (row.port, row.queue)).collect();
    // Every look leaves a row for each traffic group.
    let mut looks: BTreeMap<Instant, f64> = result.throughput_samples.iter().map(|sample| (sample.at, 0.0)).collect();
    for sample in result.queue_samples.iter().filter(|sample| ids.contains(&(sample.port, sample.queue))) {
        *looks.entry(sample.at).or_insert(0.0) += amount(sample);
    }
    looks
}

pub(super) fn register_choice(engine: &mut Engine) {
    engine.register_fn("queues", |run: RunRef, port: ImmutableString| Queues {
        run,
        port: port.to_string(),
        queue: None,
    });
    engine.register_fn("queues", |run: RunRef, port: ImmutableString, queue: ImmutableString| Queues {
        run,
        port: port.to_string(),
        queue: Some(queue.to_string()),
    });
}

/// The names of the measures that columns of queues declare.
pub(super) fn column_names() -> Vec<String> {
    let held = QUEUE_SERIES.each().flat_map(|(name, _)| [format!("occupancy_{name}"), format!("held_{name}")]);
    held.chain(PORTS.sums().map(|(name, _)| name.to_owned())).collect()
}

/// The measures that columns of queues declare: statistics of what queues held over time, sums of what they counted.
pub(super) fn register_columns(engine: &mut Engine) {
    for (name, amount) in QUEUE_SERIES.each() {
        register_occupancy(engine, &format!("occupancy_{name}"), amount);
        register_held(engine, &format!("held_{name}"), amount);
    }
    for (name, column) in PORTS.sums() {
        register_count(engine, name, move |row| column.count(row));
    }
}

/// Packets dropped for any reason.
pub(super) fn register_drops(engine: &mut Engine) {
    register_count(engine, "dropped_packets", PortRow::dropped_packets);
}

/// A statistic over all looks of what each queue held.
fn register_occupancy(engine: &mut Engine, name: &str, amount: ColumnMeasure<QueueSample>) {
    let amount = move |sample: &QueueSample| amount.of(sample).unwrap_or(0.0);
    engine.register_fn(name, move |queues: &mut Queues, which: ImmutableString| {
        let every_look = |row: &PortRow, result: &RunResult| held(&[row], result, amount).into_values().collect();
        statistic(queues, &which, &every_look)
    });
}

/// The same over the looks at which a queue held something.
fn register_held(engine: &mut Engine, name: &str, amount: ColumnMeasure<QueueSample>) {
    let amount = move |sample: &QueueSample| amount.of(sample).unwrap_or(0.0);
    engine.register_fn(name, move |queues: &mut Queues, which: ImmutableString| {
        let samples = |row: &PortRow, result: &RunResult| {
            let own = result.queue_samples.iter().filter(|sample| (sample.port, sample.queue) == (row.port, row.queue));
            own.map(amount).collect()
        };
        statistic(queues, &which, &samples)
    });
}

fn statistic(queues: &Queues, which: &str, values: &dyn Fn(&PortRow, &RunResult) -> Vec<f64>) -> Result<f64, Failure> {
    let statistic = Statistic::parse(which)?;
    let mut all = Vec::new();
    queues.each(&mut |rows, result| {
        for row in rows {
            all.extend(values(row, result).into_iter().map(exact));
        }
    })?;
    if all.is_empty() { Err(unsampled(&queues.run)) } else { Ok(statistic.of(all).value) }
}

#[allow(clippy::unnecessary_box_returns, reason = "the engine boxes its errors")]
fn unsampled(run: &RunRef) -> Failure {
    lacking(format!("run `{}` recorded no queues: set `sample_interval` in the scenario", run.label()))
}

/// Pairs of time, in seconds, and kilobytes that the queues held together.
pub(super) fn register_series(engine: &mut Engine) {
    engine.register_fn("occupancy_series", |queues: &mut Queues| {
        let mut pairs = Array::new();
        queues.each(&mut |rows, result| {
            let looks = held(rows, result, |sample| sample.bytes as f64 / 1e3);
            let pair = |(at, kb): (Instant, f64)| {
                Dynamic::from_array([at.as_secs_f64(), kb].map(Dynamic::from_float).to_vec())
            };
            pairs.extend(looks.into_iter().map(pair));
        })?;
        if pairs.is_empty() { Err(unsampled(&queues.run)) } else { Ok::<Array, Failure>(pairs) }
    });
}

/// A counter's sum over the queues, and over the seeds in question.
fn register_count(engine: &mut Engine, name: &str, count: impl Fn(&PortRow) -> u64 + 'static) {
    engine.register_fn(name, move |queues: &mut Queues| {
        let mut sum = 0;
        queues.each(&mut |rows, _| sum += rows.iter().map(|row| count(row)).sum::<u64>())?;
        Ok::<f64, Failure>(sum as f64)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("leaf 0 -> host 3", "leaf 0 -> host 3", true),
            ("leaf 0 -> host 3", "leaf 0 -> host 31", false),
            ("leaf * -> host 3", "leaf 12 -> host 3", true),
            ("* -> host 3", "leaf 0 -> host 31", false),
            ("*", "", true),
            ("leaf*spine*", "leaf 1 -> spine 2", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
