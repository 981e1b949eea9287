//! What the processes of a testbed report, as the result that the simulator yields.

use std::collections::BTreeMap;

use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};
use pliant_sim::engine::flow_path;
use pliant_sim::results::{FlowRow, FlowState, MessageCounts, QueueSample, RunResult, ThroughputSample};
use pliant_sim::run::{Opener, group_infos, measured, port_rows};
use pliant_sim::scenario::{Carrier, Resolved};

use crate::messages::{HostReport, QueueReport, ReceiverReport, SenderReport, SwitchReport};

/// The result of a run that ended at `ended`.
pub(crate) fn result(
    scenario: &Resolved,
    hosts: &[HostReport],
    switch: &SwitchReport,
    ended: Instant,
    interrupted: bool,
) -> RunResult {
    let cpu_s = switch.cpu_s + hosts.iter().map(|host| host.cpu_s).sum::<f64>();
    let mut throughput: BTreeMap<(u64, u16), [u64; 2]> = BTreeMap::new();
    for (at, group, bytes, reactive) in hosts.iter().flat_map(|host| &host.throughput) {
        let sum = throughput.entry((*at, *group)).or_default();
        sum[0] += bytes;
        sum[1] += reactive;
    }
    let throughput_samples = throughput.into_iter().map(|((at, group), [delivered_bytes, reactive_bytes])| {
        ThroughputSample { at: Instant::from_ps(at), group, delivered_bytes, reactive_bytes }
    });
    let queue_samples = switch.samples.iter().map(|&(at, port, queue, packets, bytes, red_bytes)| QueueSample {
        at: Instant::from_ps(at),
        port,
        queue,
        packets,
        bytes,
        red_bytes,
    });
    let left = |queue: &QueueReport| Occupancy { packets: queue.left_packets, bytes: queue.left_bytes };
    let counters = |queue: &QueueReport| {
        let tally = |[packets, bytes]: [u64; 2]| Tally { packets, bytes };
        let dropped = |reason: usize| tally(queue.dropped.get(reason).copied().unwrap_or_default());
        QueueCounters {
            admitted: tally(queue.admitted),
            dropped: std::array::from_fn::<_, { DropReason::ALL.len() }, _>(dropped),
            marked_packets: queue.marked,
            max_packets: queue.max_packets,
            ..QueueCounters::default()
        }
    };
    let all_left = switch.queues.iter().map(|queues| queues.iter().map(left).collect()).collect();
    let all_counters = switch.queues.iter().map(|queues| queues.iter().map(counters).collect()).collect();
    RunResult {
        scenario: scenario.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: scenario.spec.seed,
        // No two runs on a real network are equal.
        digest: 0,
        simulated: ended.since(Instant::ZERO),
        wall_s: ended.as_secs_f64(),
        cpu_s,
        packet_hops: switch.hops,
        events: 0,
        control_messages: 0,
        interrupted,
        overloaded: None,
        groups: group_infos(scenario),
        flows: measured(rows(scenario, hosts, ended), scenario),
        ports: port_rows(scenario, all_counters, all_left),
        queue_samples: queue_samples.collect(),
        throughput_samples: throughput_samples.collect(),
        reflex_samples: Vec::new(),
        window_samples: Vec::new(),
    }
}

/// A row for each flow that started.
fn rows(scenario: &Resolved, hosts: &[HostReport], ended: Instant) -> Vec<FlowRow> {
    let senders: BTreeMap<u64, &SenderReport> =
        hosts.iter().flat_map(|host| &host.senders).map(|flow| (flow.flow, flow)).collect();
    let receivers: BTreeMap<u64, &ReceiverReport> =
        hosts.iter().flat_map(|host| &host.receivers).map(|flow| (flow.flow, flow)).collect();
    let mut opener = Opener::new(scenario);
    let mut path = Vec::new();
    let mut rows = Vec::new();
    let nobody = (SenderReport::default(), ReceiverReport::default());
    for (id, spec) in (0..).zip(scenario.traffic().expect("the scenario was checked")) {
        let Some(&sender) = senders.get(&id) else { continue };
        if spec.start > ended {
            break;
        }
        let receiver = receivers.get(&id).copied().unwrap_or(&nobody.1);
        flow_path(&scenario.routing, &spec, scenario.spec.seed, &mut path);
        let modelled = !matches!(scenario.groups[usize::from(spec.group)].carrier, Carrier::Kernel);
        let (ideal_fct, group, object) = if modelled {
            let opened = opener.open(&spec, &path);
            (opened.ideal_fct, opened.group, opened.object)
        } else {
            (Span::ZERO, spec.group, None)
        };
        let received = receiver.received_ps.map(|ps| Instant::ZERO.after(Span::from_ps(ps)));
        let delivered_bytes = receiver.delivered_bytes.min(spec.bytes);
        let all_arrived = received.is_some() || delivered_bytes == spec.bytes;
        rows.push(FlowRow {
            id,
            group,
            request: spec.sequence,
            source: spec.source,
            destination: spec.destination,
            bytes: spec.bytes,
            start: spec.start,
            completed: received,
            ideal_fct,
            delivered_bytes,
            given_up_bytes: sender.given_up_bytes,
            low_bytes: sender.low_bytes,
            low_time: Span::from_ps(sender.low_ps),
            state: FlowState::of(all_arrived, sender.finished),
            retransmissions: sender.retransmissions as u32,
            timeouts: sender.timeouts as u32,
            marks: receiver.marks as u32,
            credits: receiver.credits,
            wasted_credits: sender.wasted_credits,
            reactive_bytes: receiver.reactive_bytes,
            reorder_bytes: receiver.reorder_bytes,
            object: object.map(|part| part.number),
            shares_object: object.is_some_and(|part| part.shares),
            symbols: receiver.symbols,
            excess_symbols: receiver.excess_symbols,
            decoded_blocks: receiver.decoded_blocks,
            whole_blocks: receiver.whole_blocks,
            pauses: sender.pauses as u32,
            paused: Span::from_ps(sender.paused_ps),
            messages: receiver.messages.map(|[total, needed, delivered]| MessageCounts { total, needed, delivered }),
            ..FlowRow::default()
        });
    }
    rows
}
