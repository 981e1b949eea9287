//! Homa in networks of strict queues, alone and beside DCTCP.

use pliant_sim::results::RunResult;

use crate::scenarios::{last_completion, run_with};

/// Payload to wire of a full packet.
const WIRE: f64 = 1538.0 / 1460.0;
/// A round trip of a full packet and a grant through a star of 1 us links, in payload, rounded up to whole packets.
const RTT_BYTES: u64 = 10_220;

/// A star of `hosts` hosts with 1 us links and Homa's queues.
fn star(hosts: u32, duration: &str, groups: &str) -> RunResult {
    run_with(
        &format!(
            "duration = \"{duration}\"\ndrain = \"100ms\"\nsample_interval = \"1us\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\n\
         link = {{ rate = \"10Gbit/s\", delay = \"1us\" }}\n[queues]\nplan = \"homa\"\n{groups}"
        ),
        &[],
    )
}

fn incast(senders: u32, size: &str) -> RunResult {
    let homa = format!("transport = \"homa\"\nhoma = {{ rtt_bytes = \"{RTT_BYTES}B\" }}\n");
    let group = format!("[traffic.in]\nkind = \"incast\"\nreceivers = 0\nperiod = \"1s\"\nsize = \"{size}\"\n{homa}");
    star(senders + 1, "1ms", &group)
}

/// A lone message of a round trip's worth is ideal; a larger one is within a packet of it: grants never stall.
#[test]
fn a_lone_message_is_ideal() {
    for (size, slack_ns) in [("1B", 0), ("1460B", 0), ("10kB", 0), ("100kB", 1231), ("10MB", 1231)] {
        let result = incast(1, size);
        let flow = &result.flows[0];
        let over = flow.fct().expect("it completed").minus(flow.ideal_fct);
        assert!(over.as_ps() <= slack_ns * 1000, "{size}: {over} more than the ideal {}", flow.ideal_fct);
    }
}

/// K senders keep the receiver's link busy to 95 % at least, and its queue below their unscheduled data and what is
/// granted ahead to all active ones but one.
#[test]
fn many_senders_fill_the_link() {
    for senders in [2u32, 8, 30] {
        let result = incast(senders, "500kB");
        let last = last_completion(&result);
        let ideal = f64::from(senders) * 500e3 * WIRE * 8.0 / 10e9;
        println!("{senders}: {:.4} of ideal", last / ideal);
        assert!(last <= ideal / 0.95, "{senders}: {last}");
        let down: Vec<_> = result.ports.iter().filter(|port| port.name.ends_with("-> host 0")).collect();
        assert_eq!(down.iter().map(|port| port.dropped_packets()).sum::<u64>(), 0);
        let packets = RTT_BYTES.div_ceil(1460);
        let most = u64::from(senders) * packets + 6 * packets;
        // All levels together, by looks a microsecond apart: a level is longest when others are not.
        let mut lengths = std::collections::BTreeMap::<_, u64>::new();
        for sample in result.queue_samples.iter().filter(|sample| sample.port == down[0].port) {
            *lengths.entry(sample.at).or_default() += u64::from(sample.packets);
        }
        let queued = lengths.into_values().max().expect("something was queued");
        assert!(queued <= most, "{senders}: {queued} packets above {most}");
        // What waits behind higher levels for longer than the interval is asked for again: a hundredth at most.
        let again: u32 = result.flows.iter().map(|flow| flow.retransmissions).sum();
        assert!(u64::from(again) * 100 <= u64::from(senders) * 500_000 / 1460, "{senders}: {again} packets twice");
    }
}

/// The shorter of two messages is done when it would be alone, but for the unscheduled data of the longer one.
#[test]
fn the_shorter_message_goes_first() {
    let group = |name: &str, source: u32, size: &str| {
        format!(
            "[traffic.{name}]\nkind = \"flows\"\nflows = [{{ source = {source}, destination = 0, size = \"{size}\" }}]\n\
             transport = \"homa\"\nhoma = {{ rtt_bytes = \"{RTT_BYTES}B\" }}\n"
        )
    };
    let result = star(3, "1ms", &[group("short", 1, "300kB"), group("long", 2, "3MB")].concat());
    let short = &result.flows[0];
    let over = short.fct().expect("it completed").minus(short.ideal_fct).as_us_f64();
    // Both bursts at once, and a packet here and there that had begun.
    let burst = 2.0 * RTT_BYTES as f64 * WIRE * 8.0 / 10e3;
    assert!(over <= burst + 5.0 * 1.2304, "{over} us more than alone");
}

/// 16 long messages to 16 hosts keep 16 round trips' worth in a queue that no grant follows: 16 DCTCP flows in that queue
/// see only marks and starve to a tenth at most (FlexPass, section 2). In the highest queue, alone, they are served first
/// and take nine tenths at least: strict priority leaves Homa what they leave. (FlexPass reports that they starve there,
/// too; that needs Homa's granted data in the same queue.)
#[test]
fn many_messages_starve_dctcp_in_their_queue() {
    let flows = |from: u32| {
        let list = (0..16).map(|flow| format!("{{ source = {}, destination = {} }}", from + flow, 32 + from + flow));
        format!("kind = \"flows\"\nflows = [{}]\n", list.collect::<Vec<_>>().join(", "))
    };
    let share = |class: u8| {
        let result = run_with(
            &format!(
                "duration = \"20ms\"\ndrain = \"0s\"\n[topology]\nkind = \"dumbbell\"\npairs = 32\n\
             edge_link = {{ rate = \"10Gbit/s\", delay = \"2us\" }}\n\
             bottleneck_link = {{ rate = \"10Gbit/s\", delay = \"4us\" }}\n[queues]\nplan = \"homa\"\n\
             [traffic.dctcp]\nclass = {class}\nack_class = 0\ntransport = \"dctcp\"\n{}\
             [traffic.homa]\ntransport = \"homa\"\nhoma = {{ rtt_bytes = \"50kB\" }}\n{}",
                flows(0),
                flows(16)
            ),
            &[],
        );
        let bytes = |group: u16| -> u64 {
            result.flows.iter().filter(|flow| flow.group == group).map(|flow| flow.delivered_bytes).sum()
        };
        bytes(0) as f64 / (bytes(0) + bytes(1)) as f64
    };
    let (beside, above) = (share(7), share(0));
    println!("DCTCP has {beside:.3} beside Homa's granted data, {above:.3} above it");
    assert!(beside <= 0.1, "{beside}");
    assert!(above >= 0.9, "{above}");
}
