//! What traffic groups deliver over time. Needs `sample_interval` in the scenario.

use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::run_ref::RunRef;
use super::values::seconds;
use crate::experiment::context::{Failure, lacking};
use crate::results::table::ColumnMeasure;
use crate::results::{RunResult, THROUGHPUT_SERIES, ThroughputSample};

/// What a group delivered in one interval.
struct Interval {
    from_s: f64,
    until_s: f64,
    bytes: f64,
}

impl Interval {
    fn gbit_per_s(&self) -> f64 {
        self.bytes * 8e-9 / (self.until_s - self.from_s)
    }
}

/// The column of samples that is counted, in bytes.
type Amount = ColumnMeasure<ThroughputSample>;

/// The names of the measures that a column declared as `name` has: the mean over a window, the list and the series.
fn names(name: &str) -> [String; 3] {
    [format!("{name}_gbit_per_s"), format!("{name}s_gbit_per_s"), format!("{name}_series")]
}

/// The names of the measures that columns of throughput declare.
pub(super) fn column_names() -> Vec<String> {
    THROUGHPUT_SERIES.each().flat_map(|(name, _)| names(name)).collect()
}

/// The measures that columns of throughput declare.
pub(super) fn register_columns(engine: &mut Engine) {
    for (name, amount) in THROUGHPUT_SERIES.each() {
        let [mean, list, series] = names(name);
        register_mean(engine, &mean, amount);
        register_list(engine, &list, amount);
        register_series(engine, &series, amount);
    }
}

fn intervals(result: &RunResult, group: u16, amount: Amount) -> Vec<Interval> {
    let mut before = 0.0;
    let samples = result.throughput_samples.iter().filter(|sample| sample.group == group);
    let interval = |sample: &ThroughputSample| {
        let from_s = std::mem::replace(&mut before, sample.at.as_secs_f64());
        Interval { from_s, until_s: before, bytes: amount.of(sample).unwrap_or(0.0) }
    };
    samples.map(interval).filter(|interval| interval.until_s > interval.from_s).collect()
}

/// The intervals of one group in [from, until), of every seed in question.
fn chosen(run: &RunRef, group: &str, amount: Amount, from: f64, until: f64) -> Result<Vec<Interval>, Failure> {
    let index = run.group(group)?;
    let mut found = Vec::new();
    let slack = 1e-9;
    run.each(&mut |result| {
        let inside = |interval: &Interval| interval.from_s >= from - slack && interval.until_s <= until + slack;
        found
            .extend(intervals(result, index, amount).into_iter().filter(|interval| run.is_check() || inside(interval)));
    })?;
    if found.is_empty() {
        let label = run.label();
        let why =
            format!("run `{label}` has no whole sample between {from} s and {until} s: set a shorter sample_interval");
        return Err(lacking(why));
    }
    Ok(found)
}

/// The mean over whole intervals in a window.
fn register_mean(engine: &mut Engine, name: &str, amount: Amount) {
    let mean = move |run: RunRef, group: ImmutableString, from: Dynamic, until: Dynamic| {
        let found = chosen(&run, &group, amount, seconds(&from)?, seconds(&until)?)?;
        let (bytes, time) = found.iter().fold((0.0, 0.0), |(bytes, time), interval| {
            (bytes + interval.bytes, time + interval.until_s - interval.from_s)
        });
        Ok::<f64, Failure>(bytes * 8e-9 / time)
    };
    engine.register_fn(name, mean);
}

/// Of each interval in a window.
fn register_list(engine: &mut Engine, name: &str, amount: Amount) {
    let list = move |run: RunRef, group: ImmutableString, from: Dynamic, until: Dynamic| {
        let found = chosen(&run, &group, amount, seconds(&from)?, seconds(&until)?)?;
        Ok::<Array, Failure>(found.iter().map(|interval| Dynamic::from_float(interval.gbit_per_s())).collect())
    };
    engine.register_fn(name, list);
}

/// Pairs of the end of each interval, in seconds, and Gbit/s.
fn register_series(engine: &mut Engine, name: &str, amount: Amount) {
    let series = move |run: RunRef, group: ImmutableString| {
        let found = chosen(&run, &group, amount, 0.0, f64::INFINITY)?;
        let pair = |interval: &Interval| {
            let pair = [interval.until_s, interval.gbit_per_s()].map(Dynamic::from_float);
            Dynamic::from_array(pair.to_vec())
        };
        Ok::<Array, Failure>(found.iter().map(pair).collect())
    };
    engine.register_fn(name, series);
}
