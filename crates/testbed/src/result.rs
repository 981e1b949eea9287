//! What the processes of a testbed report, as a result of the same form as the simulator's.

use std::collections::BTreeMap;

use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};
use pliant_sim::engine::flow_path;
use pliant_sim::results::{FlowEnd, FlowRow, QueueSample, RunResult, ThroughputSample};
use pliant_sim::run::{FlowFactory, group_infos, measured, port_rows};
use pliant_sim::scenario::Resolved;

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
            trimmed_packets: queue.trimmed,
            returned_packets: queue.returned,
            max_packets: queue.max_packets,
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
    let mut factory = FlowFactory::new(scenario);
    let mut path = Vec::new();
    let mut rows = Vec::new();
    let nobody = ReceiverReport::default();
    for (id, spec) in (0..).zip(scenario.traffic().expect("the scenario was checked")) {
        let Some(&sender) = senders.get(&id) else { continue };
        if spec.start > ended {
            break;
        }
        let receiver = receivers.get(&id).copied().unwrap_or(&nobody);
        flow_path(&scenario.routing, &spec, scenario.spec.seed, &mut path);
        let modelled = scenario.groups[usize::from(spec.group)].transport.facts().testbed_only.is_none();
        let (ideal_fct, group, object) = if modelled {
            let opened = factory.open(&spec, &path);
            (opened.ideal_fct, opened.group, opened.object)
        } else {
            (Span::ZERO, spec.group, None)
        };
        let received = receiver.received_ps.map(|ps| Instant::ZERO.after(Span::from_ps(ps)));
        let end = FlowEnd {
            id,
            group,
            spec: &spec,
            ideal_fct,
            object,
            received,
            delivered_bytes: receiver.delivered_bytes.min(spec.bytes),
            finished: sender.finished,
            // Queues count what they refuse, and do not know of which flow it was.
            drops: 0,
            messages: receiver.messages,
            record_error: receiver.record_error,
            sender: sender.counted,
            receiver: receiver.counted,
        };
        rows.push(end.row());
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pliant_proto::transport::Statistics;
    use pliant_sim::results::MessageCounts;
    use pliant_sim::scenario::Scenario;

    use super::*;

    const SCENARIO: &str = r#"
duration = "1ms"
topology = { kind = "star", hosts = 2, link = { rate = "1Gbit/s", delay = "10us" } }

[traffic.one]
kind = "flows"
transport = "dctcp"
flows = [{ source = 0, destination = 1, start = "0s", size = "10kB" }]
"#;

    /// Statistics of which every counter is another number, from `first` on.
    fn counted(first: u64) -> Statistics {
        let words = Statistics::default().to_words().len() as u64;
        Statistics::from_words(&(first..first + words).collect::<Vec<_>>()).unwrap()
    }

    /// The report of a host passes through the line that a host writes, and what its transports counted reaches the row
    /// of the flow: duplicate bytes too, which were lost on the way once.
    #[test]
    fn what_transports_counted_arrives_in_the_row() {
        let scenario = Scenario::parse(SCENARIO, Path::new("one.toml")).unwrap().resolve().unwrap();
        let (sender, receiver) = (counted(100), counted(500));
        let messages = Some(MessageCounts { total: 5, needed: 4, delivered: 3 });
        let report = HostReport {
            senders: vec![SenderReport { flow: 0, finished: true, counted: sender }],
            receivers: vec![ReceiverReport {
                flow: 0,
                delivered_bytes: 10_000,
                received_ps: Some(200_000_000),
                messages,
                record_error: Some(0.25),
                counted: receiver,
                ..ReceiverReport::default()
            }],
            ..HostReport::default()
        };
        let line = serde_json::to_string(&report).unwrap();
        assert_eq!(line.lines().count(), 1, "a report is one line");
        let read: HostReport = serde_json::from_str(&line).unwrap();
        let rows = rows(&scenario, &[read], Instant::ZERO.after(Span::from_ms(1)));
        let [row] = rows[..] else { panic!("{rows:?}") };
        assert_eq!(row.duplicate_bytes, receiver.duplicate_bytes);
        assert_eq!((row.marks, row.credits), (receiver.marks as u32, receiver.credits_sent));
        assert_eq!((row.reactive_bytes, row.reorder_bytes), (receiver.reactive_bytes, receiver.reorder_bytes));
        assert_eq!((row.symbols, row.excess_symbols), (receiver.symbols, receiver.excess_symbols));
        assert_eq!((row.decoded_blocks, row.whole_blocks), (receiver.decoded_blocks, receiver.whole_blocks));
        assert_eq!((row.retransmissions, row.timeouts), (sender.retransmissions as u32, sender.timeouts as u32));
        assert_eq!((row.low_bytes, row.low_time.as_ps()), (sender.policy.low_bytes, sender.policy.low_ps));
        assert_eq!((row.pauses, row.paused), (sender.pauses as u32, sender.paused));
        assert_eq!((row.given_up_bytes, row.wasted_credits), (sender.given_up_bytes, sender.wasted_credits));
        assert_eq!((row.messages, row.record_error.get()), (messages, Some(0.25)));
        assert_eq!(row.completed, Some(Instant::ZERO.after(Span::from_us(200))));
    }

    #[test]
    fn statistics_of_another_program_are_refused() {
        let line = r#"{"flow":0,"finished":true,"counted":[1,2,3]}"#;
        let error = serde_json::from_str::<SenderReport>(line).unwrap_err().to_string();
        assert!(error.contains("statistics of a transport"), "{error}");
    }
}
