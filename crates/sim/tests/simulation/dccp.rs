//! DCCP in a network: it shares as Reno does, and ends with what arrived.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_sim::oracle::fairness::jain;
use pliant_sim::results::{FlowState, RunResult};
use pliant_sim::run::run;
use pliant_sim::scenario::Scenario;

fn result(groups: &str) -> RunResult {
    let text = format!(
        "duration = \"100ms\"\ndrain = \"1s\"\n[topology]\nkind = \"dumbbell\"\npairs = 4\n\
         edge_link = {{ rate = \"40Gbit/s\", delay = \"5us\" }}\n\
         bottleneck_link = {{ rate = \"10Gbit/s\", delay = \"20us\" }}\n\
         [queues]\nplan = \"drop-tail\"\nlimit = \"100 packets\"\n[host_queues]\nplan = \"drop-tail\"\n\
         limit = \"10000 packets\"\n{groups}"
    );
    let scenario = Scenario::parse(&text, Path::new("test.toml")).unwrap().resolve().unwrap();
    run(&scenario, &AtomicBool::new(false), &mut |_| {}).expect("nothing can fail")
}

/// Four long flows fill the bottleneck to 97 % at least and share it with a Jain index of 0.9 at least.
#[test]
fn long_flows_share_the_link() {
    let flows = "flows = [{ source = 0, destination = 4 }, { source = 1, destination = 5, start = \"1ms\" }, \
                 { source = 2, destination = 6, start = \"2ms\" }, { source = 3, destination = 7, start = \"3ms\" }]";
    let result = result(&format!("[traffic.long]\nkind = \"flows\"\ntransport = \"dccp\"\n{flows}\n"));
    let bytes: Vec<f64> = result.flows.iter().map(|flow| flow.delivered_bytes as f64).collect();
    // They run on while nothing else does, until `duration`.
    let share = bytes.iter().sum::<f64>() * 8.0 * (1538.0 / 1460.0) / 10e9 / result.simulated.as_secs_f64();
    println!("{share} of the link, {bytes:?}");
    assert!(share >= 0.97, "{share}");
    assert!(jain(&bytes) >= 0.9, "{bytes:?}");
}

/// Flows with an end: without repetition one with losses ends short by its drops, with repetition all arrives.
#[test]
fn flows_end_with_what_arrived() {
    for repeat in [false, true] {
        let result = result(&format!(
            "[traffic.short]\nkind = \"incast\"\nsources = \"0..4\"\nreceivers = \"7\"\nperiod = \"20ms\"\nsize = \"2MB\"\n\
             transport = \"dccp\"\ndccp = {{ repeat_lost = {repeat} }}\n"
        ));
        assert!(result.flows.iter().any(|flow| flow.drops > 0), "the queue overflows");
        for flow in &result.flows {
            if repeat {
                assert_eq!((flow.state, flow.delivered_bytes), (FlowState::Completed, flow.bytes));
            } else {
                let lost = flow.bytes - flow.delivered_bytes;
                // Dropped packets are full ones, but for the last.
                assert!(lost <= u64::from(flow.drops) * 1460 && lost + 1460 > u64::from(flow.drops) * 1460, "{flow:?}");
                assert_eq!(flow.retransmissions, 0);
            }
        }
    }
}
