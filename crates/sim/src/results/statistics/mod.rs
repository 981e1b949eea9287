//! Statistics of a run's flows, by traffic group and by flow size.
//!
//! Percentiles are exact, by sorting and nearest rank: the p-th percentile of n values is the ⌈p·n/100⌉-th smallest.
//! A flow still under way at the end enters with the time it has taken so far: its true time is longer, so what it
//! could raise is a lower bound and says so. Dropping such flows would favour the runs that starve them.

use pliant_proto::time::Instant;
use serde::Serialize;

use super::objects::ObjectRow;
use super::{FlowRow, FlowState, RunResult};

/// Upper ends of the size buckets, in bytes; larger flows form the last bucket.
pub const SIZE_LIMITS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// Unfinished flows that could raise a value by less than this factor do not make it a lower bound: some flow has
/// always just begun when a run ends.
const NEGLIGIBLE_RISE: f64 = 1.01;

/// A value, or the least that it can be.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Whether unfinished flows could raise it, by more than 1 % in a percentile.
    pub lower_bound: bool,
}

/// Mean and percentiles of one quantity.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: Estimate,
    /// Median.
    pub p50: Estimate,
    /// 95th percentile.
    pub p95: Estimate,
    /// 99th percentile.
    pub p99: Estimate,
}

impl Distribution {
    /// The distribution of `values`; `None` of none.
    pub fn of(mut values: Vec<Estimate>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        sort(&mut values);
        let sum: f64 = values.iter().map(|estimate| estimate.value).sum();
        let mean =
            Estimate { value: sum / values.len() as f64, lower_bound: values.iter().any(|value| value.lower_bound) };
        let at = |percent| percentile(&values, percent);
        Some(Self { mean, p50: at(50), p95: at(95), p99: at(99) })
    }
}

/// Sorts by value, exact ones before lower bounds of the same value.
pub(crate) fn sort(values: &mut [Estimate]) {
    values.sort_unstable_by(|a, b| a.value.total_cmp(&b.value).then(a.lower_bound.cmp(&b.lower_bound)));
}

/// The `percent`-th percentile of sorted values, by nearest rank.
///
/// The true values behind lower bounds may be as large as they like. If all were infinite, the same rank would stand
/// among the exact values alone: that is the percentile's upper bound.
pub(crate) fn percentile(sorted: &[Estimate], percent: usize) -> Estimate {
    permille(sorted, percent * 10)
}

/// The same in tenths of a percent: 999 is the 99.9th percentile.
pub(crate) fn permille(sorted: &[Estimate], permille: usize) -> Estimate {
    assert!((1..=1000).contains(&permille) && !sorted.is_empty(), "a percentile of something");
    let rank = (permille * sorted.len()).div_ceil(1000);
    let value = sorted[rank - 1].value;
    let at_most = sorted.iter().filter(|estimate| !estimate.lower_bound).nth(rank - 1);
    Estimate { value, lower_bound: at_most.is_none_or(|upper| upper.value > value * NEGLIGIBLE_RISE) }
}

/// Completion time of `flow` in microseconds, or the least it can become. A flow that will never complete, having
/// lost bytes that nobody repairs, has none.
pub(crate) fn fct_us(flow: &FlowRow, result: &RunResult) -> Option<Estimate> {
    time_taken(flow, result).map(|(time, lower_bound)| Estimate { value: time.as_us_f64(), lower_bound })
}

/// Slowdown of `flow`, or the least it can become.
pub(crate) fn slowdown(flow: &FlowRow, result: &RunResult) -> Option<Estimate> {
    let (time, lower_bound) = time_taken(flow, result)?;
    let value = flow.slowdown_of(time)?;
    // A flow that has only just begun will still need at least its ideal time.
    Some(Estimate { value: if lower_bound { value.max(1.0) } else { value }, lower_bound })
}

fn time_taken(flow: &FlowRow, result: &RunResult) -> Option<(pliant_proto::time::Span, bool)> {
    let unfinished = || (flow.state == FlowState::Unfinished).then(|| (result.end().since(flow.start), true));
    flow.fct().map(|fct| (fct, false)).or_else(unfinished)
}

/// Shares of the max-min fair rate that flows got.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ShareStatistics {
    /// Flows with a share.
    pub flows: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Least share.
    pub min: f64,
    /// First percentile.
    pub p1: f64,
    /// Fifth percentile.
    pub p5: f64,
    /// Part of the flows whose share is below the `min_share` of their contract, in [0, 1].
    pub below_min_share: f64,
}

impl ShareStatistics {
    /// Statistics of the `share` of `flows`; `None` if none has one.
    fn of(flows: &[&FlowRow], result: &RunResult, share: fn(&FlowRow) -> Option<f64>) -> Option<Self> {
        let mut shares: Vec<Estimate> = Vec::new();
        let mut below = 0u64;
        for flow in flows {
            let Some(value) = share(flow) else { continue };
            shares.push(Estimate { value, lower_bound: false });
            below += u64::from(value < result.groups[usize::from(flow.group)].min_share);
        }
        let count = shares.len() as f64;
        sort(&mut shares);
        Some(Self {
            flows: shares.len() as u64,
            mean: shares.iter().map(|share| share.value).sum::<f64>() / count,
            min: shares.first()?.value,
            p1: percentile(&shares, 1).value,
            p5: percentile(&shares, 5).value,
            below_min_share: below as f64 / count,
        })
    }
}

/// Statistics of a set of flows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowStatistics {
    /// Flows started.
    pub flows: u64,
    /// Of these: completed.
    pub completed: u64,
    /// Of these: still under way at the end.
    pub unfinished: u64,
    /// Of these: sent, with bytes lost for good.
    pub sent_with_loss: u64,
    /// Of these: without an end, and so without a completion time.
    pub ran_to_end: u64,
    /// Payload bytes delivered, those of unfinished flows too.
    pub delivered_bytes: u64,
    /// Payload delivered over the time in which at least one flow could be open, from the first start to the last
    /// completion or the run's end, in Gbit/s: how long other traffic goes on does not count.
    pub goodput_gbit_per_s: f64,
    /// Rate of a flow while it is open, in Gbit/s: bytes delivered over the sum of the flows' own durations.
    pub flow_rate_gbit_per_s: f64,
    /// Flow completion time in microseconds.
    pub fct_us: Option<Distribution>,
    /// Completion time over the ideal one.
    pub slowdown: Option<Distribution>,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Data packets that arrived marked CE.
    pub marks: u64,
    /// Packets refused by queues.
    pub drops: u64,
    /// Credits sent.
    pub credits: u64,
    /// Credits that found nothing to send.
    pub wasted_credits: u64,
    /// Payload bytes that arrived without a credit, of transports with credits.
    pub reactive_bytes: u64,
    /// Largest stretch that one receiver held beyond a gap, in bytes.
    pub reorder_bytes: u64,
    /// What part of their entitlement flows were delivered; `None` unless shares were asked for.
    pub fair_share: Option<ShareStatistics>,
    /// Completion times of the fluid system over the flows' own; `None` unless shares were asked for.
    pub fluid_share: Option<ShareStatistics>,
    /// Messages of the flows that consist of messages.
    pub messages: u64,
    /// Of these: arrived whole.
    pub delivered_messages: u64,
}

impl FlowStatistics {
    /// Statistics of `flows`, all of them of the run `result`.
    pub fn of(flows: &[&FlowRow], result: &RunResult) -> Self {
        let in_state = |state| flows.iter().filter(|flow| flow.state == state).count() as u64;
        let sum = |count: fn(&FlowRow) -> u32| flows.iter().map(|flow| u64::from(count(flow))).sum();
        let delivered_bytes = flows.iter().fold(0u64, |total, flow| total.saturating_add(flow.delivered_bytes));
        let over = |flow: &&FlowRow| flow.completed.unwrap_or(result.end());
        let first = flows.iter().map(|flow| flow.start).min().unwrap_or(Instant::ZERO);
        let last = flows.iter().map(over).max().unwrap_or(Instant::ZERO);
        let open_seconds: f64 = flows.iter().map(|flow| over(flow).since(flow.start).as_secs_f64()).sum();
        let rate = |seconds: f64| if seconds > 0.0 { delivered_bytes as f64 * 8e-9 / seconds } else { 0.0 };
        Self {
            flows: flows.len() as u64,
            completed: in_state(FlowState::Completed),
            unfinished: in_state(FlowState::Unfinished),
            sent_with_loss: in_state(FlowState::SentWithLoss),
            ran_to_end: in_state(FlowState::RanToEnd),
            delivered_bytes,
            goodput_gbit_per_s: rate(last.since(first).as_secs_f64()),
            flow_rate_gbit_per_s: rate(open_seconds),
            fct_us: Distribution::of(flows.iter().filter_map(|flow| fct_us(flow, result)).collect()),
            slowdown: Distribution::of(flows.iter().filter_map(|flow| slowdown(flow, result)).collect()),
            retransmissions: sum(|flow| flow.retransmissions),
            timeouts: sum(|flow| flow.timeouts),
            marks: sum(|flow| flow.marks),
            drops: sum(|flow| flow.drops),
            credits: flows.iter().map(|flow| flow.credits).sum(),
            wasted_credits: flows.iter().map(|flow| flow.wasted_credits).sum(),
            reactive_bytes: flows.iter().map(|flow| flow.reactive_bytes).sum(),
            reorder_bytes: flows.iter().map(|flow| flow.reorder_bytes).max().unwrap_or(0),
            fair_share: ShareStatistics::of(flows, result, |flow| flow.fair_share.get()),
            fluid_share: ShareStatistics::of(flows, result, |flow| flow.fluid_share.get()),
            messages: sum(|flow| flow.messages.map_or(0, |counts| counts.total)),
            delivered_messages: sum(|flow| flow.messages.map_or(0, |counts| counts.delivered)),
        }
    }
}

/// Statistics of the flows of one size bucket.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SizeStatistics {
    /// Largest flow of the bucket; none for the last bucket.
    pub up_to_bytes: Option<u64>,
    /// Their statistics.
    #[serde(flatten)]
    pub statistics: FlowStatistics,
}

/// Statistics of the objects of one traffic group.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ObjectStatistics {
    /// Objects asked for.
    pub objects: u64,
    /// Of these: complete at their receiver.
    pub completed: u64,
    /// Time until the receiver had all of an object, in microseconds; the time so far of one that is not complete.
    pub completion_us: Distribution,
}

impl ObjectStatistics {
    /// Statistics of the `objects` of one group of the run `result`; `None` of none.
    fn of<'o>(objects: impl Iterator<Item = &'o ObjectRow>, result: &RunResult) -> Option<Self> {
        let time = |object: &ObjectRow| {
            let time = object.completion_time().unwrap_or(result.end().since(object.start));
            Estimate { value: time.as_us_f64(), lower_bound: object.completed.is_none() }
        };
        let times: Vec<Estimate> = objects.map(time).collect();
        let completed = times.iter().filter(|time| !time.lower_bound).count() as u64;
        let objects = times.len() as u64;
        Distribution::of(times).map(|completion_us| Self { objects, completed, completion_us })
    }
}

/// Statistics of one traffic group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupStatistics {
    /// The group's name.
    pub name: String,
    /// Its transport.
    pub transport: String,
    /// Its traffic class or queue.
    pub class: String,
    /// Its service contract.
    pub contract: String,
    /// The least share of their fair rate that the contract grants its flows.
    pub min_share: f64,
    /// Its part of all bytes that the run delivered, in [0, 1].
    pub share_of_delivered: f64,
    /// Its objects; `None` of traffic that is none.
    pub objects: Option<ObjectStatistics>,
    /// All its flows.
    pub all: FlowStatistics,
    /// Its flows by size; only buckets that hold flows.
    pub by_size: Vec<SizeStatistics>,
}

/// The statistics of every group of `result`, in the scenario's order.
pub fn by_group(result: &RunResult) -> Vec<GroupStatistics> {
    let total: f64 = result.flows.iter().map(|flow| flow.delivered_bytes as f64).sum();
    let flows_by_group = flows_by_group(result);
    let objects = result.objects();
    let groups = result.groups.iter().zip(&flows_by_group).enumerate();
    groups
        .map(|(number, (info, flows))| {
            let of_group = objects.iter().filter(|object| usize::from(object.group) == number);
            let all = FlowStatistics::of(flows, result);
            GroupStatistics {
                name: info.name.clone(),
                transport: info.transport.clone(),
                class: info.class.clone(),
                contract: info.contract.clone(),
                min_share: info.min_share,
                share_of_delivered: if total > 0.0 { all.delivered_bytes as f64 / total } else { 0.0 },
                objects: ObjectStatistics::of(of_group, result),
                all,
                by_size: by_size(flows, result),
            }
        })
        .collect()
}

/// The flows of `result`, one list per group.
pub(crate) fn flows_by_group(result: &RunResult) -> Vec<Vec<&FlowRow>> {
    let mut groups = vec![Vec::new(); result.groups.len()];
    for flow in &result.flows {
        groups[usize::from(flow.group)].push(flow);
    }
    groups
}

fn by_size(flows: &[&FlowRow], result: &RunResult) -> Vec<SizeStatistics> {
    let mut buckets = vec![Vec::new(); SIZE_LIMITS.len() + 1];
    for &flow in flows {
        buckets[SIZE_LIMITS.partition_point(|&limit| limit < flow.bytes)].push(flow);
    }
    let limits = SIZE_LIMITS.into_iter().map(Some).chain([None]);
    let filled = limits.zip(buckets).filter(|(_, flows)| !flows.is_empty());
    filled
        .map(|(up_to_bytes, flows)| SizeStatistics { up_to_bytes, statistics: FlowStatistics::of(&flows, result) })
        .collect()
}

#[cfg(test)]
mod tests;
