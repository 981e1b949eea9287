//! NDP in networks whose switches trim.

use pliant_sim::results::RunResult;

use crate::scenarios::{last_completion, run_with};

/// Payload to wire of a full packet.
const WIRE: f64 = 1538.0 / 1460.0;

/// `senders` flows of `size` to one host of a star, all at once.
fn incast(senders: u32, size: &str) -> RunResult {
    run_with(
        &format!(
            "duration = \"1ms\"\ndrain = \"1s\"\n[topology]\nkind = \"star\"\nhosts = {}\n\
         link = {{ rate = \"10Gbit/s\", delay = \"2us\" }}\n[queues]\nplan = \"ndp\"\n\
         [traffic.incast]\nkind = \"incast\"\nreceivers = 0\nperiod = \"1s\"\nsize = \"{size}\"\ntransport = \"ndp\"\n",
            senders + 1
        ),
        &[],
    )
}

/// Packets trimmed, returned and dropped.
fn fates(result: &RunResult) -> (u64, u64, u64) {
    let sum = |count: &dyn Fn(&pliant_sim::results::PortRow) -> u64| result.ports.iter().map(count).sum();
    (
        sum(&|port| port.counters.trimmed_packets),
        sum(&|port| port.counters.returned_packets),
        sum(&|port| port.dropped_packets()),
    )
}

/// N senders of S bytes take N * S on the wire over the rate, and about a round trip: goodput is 95 % of what the link
/// can carry at least. Nothing is lost, nothing times out, however many send: headers too many go back.
#[test]
fn an_incast_fills_the_link() {
    for senders in [8, 32, 100, 400] {
        let result = incast(senders, "90kB");
        let ideal = f64::from(senders) * 90e3 * WIRE * 8.0 / 10e9;
        let (trimmed, returned, dropped) = fates(&result);
        println!("{senders}: {:.4} of ideal, {trimmed} trimmed, {returned} returned", last_completion(&result) / ideal);
        assert!(last_completion(&result) <= ideal / 0.95 + 10e-6, "{senders}: {}", last_completion(&result));
        assert_eq!(dropped, 0, "{senders}");
        assert_eq!(result.flows.iter().map(|flow| flow.timeouts).sum::<u32>(), 0, "{senders}");
        assert_eq!(result.flows.iter().map(|flow| flow.drops).sum::<u32>(), 0, "{senders}");
        // Whatever was trimmed or returned was sent again, and nothing else.
        let again: u64 = result.flows.iter().map(|flow| u64::from(flow.retransmissions)).sum();
        assert_eq!(again, trimmed, "{senders}");
    }
}

/// While fewer than 188 headers queue, each reaches its receiver: windows of 13 senders are 195 packets, of which 8 are
/// queued and more leave meanwhile.
#[test]
fn headers_arrive_while_188_fit() {
    let (trimmed, returned, dropped) = fates(&incast(13, "21900B"));
    assert!(trimmed > 100, "{trimmed}");
    assert_eq!((returned, dropped), (0, 0));
    let (_, returned, dropped) = fates(&incast(100, "21900B"));
    assert!(returned > 0 && dropped == 0, "{returned} returned, {dropped} dropped");
}

/// A lone flow runs at line rate: within 2 % of its ideal.
#[test]
fn a_lone_flow_is_ideal() {
    let result = incast(1, "3MB");
    let slowdown = result.flows[0].slowdown().expect("it completed");
    assert!(slowdown <= 1.02, "{slowdown}");
}

/// A permutation over a fat-tree whose switches spray uses 90 % of the hosts' links at least, with the paper's jumbo
/// frames and window of 30; so it does with packets of 1500 bytes if each counts with the acknowledgement and the pull, 84
/// bytes each, that take a tenth of the links on their way to the host's own sender. Spraying in turn without shuffling would not do: packets of two flows that alternate at a switch
/// each keep to one link.
#[test]
fn a_permutation_uses_the_network() {
    for (routing, mss, wire) in
        [("spray-permutation", 8960, 9038), ("spray-random", 8960, 9038), ("spray-permutation", 1460, 1538 + 2 * 84)]
    {
        let result = run_with(
            &format!(
                "duration = \"10ms\"\ndrain = \"0s\"\nrouting = \"{routing}\"\n[topology]\nkind = \"fat-tree\"\nk = 4\n\
             link = {{ rate = \"10Gbit/s\", delay = \"1us\" }}\n[queues]\nplan = \"ndp\"\n\
             [packets]\nmss = \"{mss}B\"\n[traffic.all]\nkind = \"permutation\"\ntransport = \"ndp\"\nndp = {{ initial_window = 30 }}\n"
            ),
            &[],
        );
        let bytes: u64 = result.flows.iter().map(|flow| flow.delivered_bytes).sum();
        let share =
            bytes as f64 * (f64::from(wire) / f64::from(mss)) * 8.0 / (16.0 * 10e9 * result.simulated.as_secs_f64());
        println!("{routing}, {mss}: {share:.4}, {:?}", fates(&result));
        assert!(share >= 0.9, "{routing}, {mss} bytes: {share}");
        assert_eq!(fates(&result).2, 0);
    }
}
