//! Points of the plots: binned, ranked or thinned so that no trace has more than [`MAX_POINTS`].

use std::collections::{BTreeMap, BTreeSet};

use pliant_proto::time::Instant;

use crate::results::statistics::{Estimate, percentile, sort};
use crate::results::{FlowRow, RunResult};

/// Most points of a trace: more than a screen has pixels.
pub(super) const MAX_POINTS: usize = 2000;

/// Up to so many distinct sizes are shown as they are.
const MAX_DISTINCT_SIZES: usize = 24;

/// Bins per factor of ten in flow size.
const BINS_PER_DECADE: f64 = 5.0;

/// The flows of about one size.
pub(super) struct SizePoint {
    pub(super) bytes: f64,
    pub(super) flows: usize,
    pub(super) p50: Estimate,
    pub(super) p99: Estimate,
}

/// Median and 99th percentile of `value` by flow size.
pub(super) fn by_size(flows: &[&FlowRow], value: impl Fn(&FlowRow) -> Option<Estimate>) -> Vec<SizePoint> {
    let sizes: BTreeSet<u64> = flows.iter().map(|flow| flow.bytes).collect();
    let binned = sizes.len() > MAX_DISTINCT_SIZES;
    let bin =
        |bytes: u64| if binned { ((bytes.max(1) as f64).log10() * BINS_PER_DECADE).floor() as u64 } else { bytes };
    let middle = |bin: u64| if binned { 10f64.powf((bin as f64 + 0.5) / BINS_PER_DECADE) } else { bin as f64 };
    let mut bins: BTreeMap<u64, Vec<Estimate>> = BTreeMap::new();
    for flow in flows {
        if let Some(value) = value(flow) {
            bins.entry(bin(flow.bytes)).or_default().push(value);
        }
    }
    let point = |(bin, mut values): (u64, Vec<Estimate>)| {
        sort(&mut values);
        let (p50, p99) = (percentile(&values, 50), percentile(&values, 99));
        SizePoint { bytes: middle(bin), flows: values.len(), p50, p99 }
    };
    bins.into_iter().map(point).collect()
}

/// Points (value, fraction of all at or below it) of the exact among `values`: what is only bounded never steps, so
/// the curve ends below 1.
pub(super) fn cumulative(mut values: Vec<Estimate>) -> Vec<(f64, f64)> {
    let all = values.len() as f64;
    values.retain(|value| !value.lower_bound);
    sort(&mut values);
    // The tail is what people look for: its last points stay.
    let tail = values.len().saturating_sub(MAX_POINTS / 4);
    let step = tail.div_ceil(MAX_POINTS * 3 / 4).max(1);
    let shown = (0..values.len()).filter(|&rank| rank >= tail || rank.is_multiple_of(step));
    shown.map(|rank| (values[rank].value, (rank + 1) as f64 / all)).collect()
}

/// Points (milliseconds, Gbit/s) of one group's throughput: the mean over each interval, at the interval's end.
pub(super) fn throughput(run: &RunResult, group: u16) -> Vec<(f64, f64)> {
    let samples: Vec<_> = run.throughput_samples.iter().filter(|sample| sample.group == group).collect();
    let mut before = Instant::ZERO;
    let mean = |chunk: &[&crate::results::ThroughputSample]| {
        let end = chunk[chunk.len() - 1].at;
        let seconds = end.since(before).as_secs_f64();
        before = end;
        let bytes: u64 = chunk.iter().map(|sample| sample.delivered_bytes).sum();
        (end.as_secs_f64() * 1e3, if seconds > 0.0 { bytes as f64 * 8e-9 / seconds } else { 0.0 })
    };
    samples.chunks(samples.len().div_ceil(MAX_POINTS).max(1)).map(mean).collect()
}

/// One queue of one port, by index.
pub(super) type QueueId = (u32, u8);

/// The `count` queues of `run` that held the most bytes over time, the fullest first.
pub(super) fn fullest_queues(run: &RunResult, count: usize) -> Vec<QueueId> {
    let mut held: BTreeMap<QueueId, u64> = BTreeMap::new();
    for sample in &run.queue_samples {
        let total = held.entry((sample.port, sample.queue)).or_default();
        *total = total.saturating_add(sample.bytes);
    }
    let mut queues: Vec<_> = held.into_iter().collect();
    queues.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    queues.into_iter().take(count).map(|(queue, _)| queue).collect()
}

/// Points (milliseconds, kilobytes) of one queue: the longest within each interval shown.
pub(super) fn queue_length(run: &RunResult, queue: QueueId) -> Vec<(f64, f64)> {
    let mut lengths: BTreeMap<Instant, u64> = BTreeMap::new();
    // Empty queues are not recorded: where any other sample tells of a look, this queue was empty.
    lengths.extend(run.throughput_samples.iter().map(|sample| (sample.at, 0)));
    lengths.extend(run.queue_samples.iter().map(|sample| (sample.at, 0)));
    let own = run.queue_samples.iter().filter(|sample| (sample.port, sample.queue) == queue);
    lengths.extend(own.map(|sample| (sample.at, sample.bytes)));
    let lengths: Vec<_> = lengths.into_iter().collect();
    let longest = |chunk: &[(Instant, u64)]| {
        let (at, bytes) = chunk.iter().copied().max_by_key(|&(_, bytes)| bytes).expect("chunks hold something");
        (at.as_secs_f64() * 1e3, bytes as f64 / 1e3)
    };
    lengths.chunks(lengths.len().div_ceil(MAX_POINTS).max(1)).map(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;
    use crate::results::statistics;

    #[test]
    fn no_trace_exceeds_the_limit() {
        let run = samples::run_with(20_000, 1.0);
        let flows: Vec<_> = run.flows.iter().collect();
        let slowdowns: Vec<_> = flows.iter().filter_map(|flow| statistics::slowdown(flow, &run)).collect();
        let worst = slowdowns.iter().filter(|s| !s.lower_bound).map(|s| s.value).fold(0.0, f64::max);
        let curve = cumulative(slowdowns);
        assert!(curve.len() <= MAX_POINTS && curve.is_sorted());
        assert_eq!(curve.last().unwrap().0, worst, "the worst flow stays");
        assert!(curve.last().unwrap().1 < 1.0, "unfinished flows keep the curve below 1");
        assert!(throughput(&run, 0).len() <= MAX_POINTS && queue_length(&run, (0, 0)).len() <= MAX_POINTS);
    }

    #[test]
    fn thinned_throughput_keeps_the_bytes() {
        let mut run = samples::run();
        let samples = run.throughput_samples.clone();
        let more = samples
            .iter()
            .map(|sample| crate::results::ThroughputSample { at: sample.at.after(run.simulated), ..*sample });
        run.throughput_samples.extend(more);
        let total: u64 = run.throughput_samples.iter().filter(|s| s.group == 0).map(|s| s.delivered_bytes).sum();
        let mut before = 0.0;
        let mut bytes = 0.0;
        for (ms, gbit_per_s) in throughput(&run, 0) {
            bytes += gbit_per_s * 1e9 / 8.0 * (ms - before) / 1e3;
            before = ms;
        }
        assert!((bytes / total as f64 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_fullest_queue_comes_first_and_its_peak_stays() {
        let run = samples::run();
        assert_eq!(fullest_queues(&run, 2)[0], (0, 0));
        let peak = run.queue_samples.iter().filter(|s| s.port == 0).map(|s| s.bytes).max().unwrap() as f64 / 1e3;
        let shown = queue_length(&run, (0, 0)).into_iter().map(|(_, kb)| kb).fold(0.0, f64::max);
        assert_eq!(shown, peak);
        assert!(queue_length(&run, (0, 0)).iter().any(|&(_, kb)| kb == 0.0), "empty moments are shown");
    }

    #[test]
    fn few_sizes_are_shown_as_they_are() {
        let flows = [samples::flow(0, 1000), samples::flow(1, 1000), samples::flow(2, 5000)];
        let flows: Vec<_> = flows.iter().collect();
        let run = samples::run();
        let points = by_size(&flows, |flow| statistics::fct_us(flow, &run));
        let seen: Vec<_> = points.iter().map(|point| (point.bytes, point.flows)).collect();
        assert_eq!(seen, [(1000.0, 2), (5000.0, 1)]);
    }
}
