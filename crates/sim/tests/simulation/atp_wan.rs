//! ATP's profile for wide areas: what it does to others on its path, and what it is good for.

use pliant_sim::oracle::fairness::jain;

use crate::scenarios::run_with;

/// A flow of the profile for wide areas beside CUBIC, and alone.
const SHARED_PATH: &str = r#"
duration = "30s"
drain = "0s"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = { rate = "1Gbit/s", delay = "1us" }
bottleneck_link = { rate = "100Mbit/s", delay = "10ms" }
[queues]
plan = "drop-tail"
limit = "40 packets"
[host_queues]
plan = "drop-tail"
limit = "10000 packets"
[traffic.atp]
kind = "flows"
flows = [{ source = 0, destination = 2 }]
transport = "atp"
contract = { min_delivery = 0.9 }
messages = { size = "1460B", count = 900000, streaming = true }
atp = { profile = "wan" }
"#;

/// Behind a drop-tail queue within the delay target the profile for wide areas takes about what CUBIC takes.
#[test]
fn wan_profile_shares_with_cubic() {
    let cubic = "[traffic.cubic]\nkind = \"flows\"\nflows = [{ source = 1, destination = 3 }]\ntransport = \"cubic\"\n";
    let result = run_with(&format!("{SHARED_PATH}{cubic}"), &[]);
    let goodputs: Vec<f64> = result.flows.iter().map(|flow| flow.delivered_bytes as f64).collect();
    assert!(jain(&goodputs) >= 0.8, "{goodputs:?}");
    assert!(goodputs.iter().sum::<f64>() * 8.0 / 30.0 > 85e6, "{goodputs:?}");
}

/// Behind a queue of 120 ms it keeps to its delay target of 5 ms, but for the start.
#[test]
fn wan_profile_leaves_no_standing_queue() {
    let result = run_with(SHARED_PATH, &["queues.limit=1000 packets", "sample_interval=10ms"]);
    let late = result.queue_samples.iter().filter(|sample| sample.at.as_secs_f64() > 3.0);
    let bottleneck = result.ports.iter().find(|port| port.name == "switch 0 -> switch 1");
    let port = bottleneck.expect("the bottleneck").port;
    let mut held: Vec<u64> = late.filter(|sample| sample.port == port).map(|sample| sample.bytes).collect();
    held.resize(2700, 0);
    held.sort_unstable();
    let delay_ms = |bytes: u64| bytes as f64 * 8.0 / 100e6 * 1e3;
    assert!(delay_ms(held[1350]) <= 5.0, "median {} ms", delay_ms(held[1350]));
    assert!(delay_ms(held[2699]) <= 10.0, "largest {} ms", delay_ms(held[2699]));
    let rate = result.flows[0].delivered_bytes as f64 * 8.0 / 30.0;
    assert!(rate > 75e6, "{rate} bit/s: it uses the link all the same");
}

/// The flow beside which ATP is put, with the settings of a path of wide areas, as in `docs/scenario.md`.
fn cubic(name: &str, pair: u32) -> String {
    format!(
        r#"
[traffic.{name}]
kind = "flows"
flows = [{{ source = {pair}, destination = {} }}]
transport = "cubic"
tcp = {{ min_rto = "200ms", initial_rto = "1s", delayed_ack = "40ms" }}
"#,
        pair + 2
    )
}

/// Goodput of each flow in Mbit/s, mean of three seeds.
fn goodputs(text: &str, changes: &[&str], seconds: f64) -> Vec<f64> {
    let duration = format!("duration={seconds}s");
    let runs = ["seed=1", "seed=2", "seed=3"].map(|seed| run_with(text, &[changes, &[&duration, seed]].concat()));
    let flows = 0..runs[0].flows.len();
    let bytes = |flow: usize| runs.iter().map(|run| run.flows[flow].delivered_bytes as f64).sum::<f64>();
    flows.map(|flow| bytes(flow) * 8e-6 / (seconds * runs.len() as f64)).collect()
}

/// What one flow of CUBIC keeps beside ATP, as a part of what it gets beside a second flow of CUBIC: by round-trip time
/// (one way of it, and the seconds that a run lasts) and by queue in packets. Hosts are late by up to a packet's time at
/// the bottleneck: exactly in step, phase effects decide who loses at a queue that drops by its tail (Floyd and Jacobson
/// 1991).
///
/// No harm means at least 0.8. Whatever joins the link takes something; a second flow of CUBIC, which nobody would
/// refuse, sets the measure (Ware et al., HotNets 2019), and it is what 1.0 stands for. Two flows of CUBIC are
/// themselves up to a quarter apart over a minute with these queues, an eighth to either side; a fifth leaves room for
/// that and for little else.
const NO_HARM: f64 = 0.8;

#[test]
fn wan_profile_does_no_harm_to_cubic() {
    let network = &SHARED_PATH[..SHARED_PATH.find("[traffic.atp]").expect("the flow of ATP")];
    let beside_atp = format!("{SHARED_PATH}{}", cubic("cubic", 1));
    let beside_cubic = format!("{network}{}{}", cubic("other", 0), cubic("cubic", 1));
    let mut harmed = Vec::new();
    for (one_way, seconds) in [("1ms", 30.0), ("10ms", 30.0), ("50ms", 60.0)] {
        for queue in [20, 40, 100, 400] {
            let (delay, limit) = (format!("bottleneck_link.delay={one_way}"), format!("queues.limit={queue} packets"));
            let place = [&delay[..], &limit, "host_jitter=120us"];
            let [with_atp, with_cubic] = [&beside_atp, &beside_cubic].map(|text| goodputs(text, &place, seconds));
            let keeps = with_atp[1] / (with_cubic.iter().sum::<f64>() / 2.0);
            println!(
                "{one_way}, {queue} packets: keeps {keeps:.2}, ATP {:.1}, CUBIC {:.1} Mbit/s",
                with_atp[0], with_atp[1]
            );
            if keeps < NO_HARM {
                harmed.push((one_way, queue, keeps));
            }
        }
    }
    assert_eq!(harmed, [], "one way, packets of queue, what CUBIC keeps");
}

/// What the bound on loss is good for outside datacenters: a path that loses half a per cent by itself, as radio does.
/// A loss without a queue is no congestion, and up to the target of one per cent ATP goes on: it gets at least three
/// times what CUBIC does, which the square root of its losses limits to about a tenth of the link.
#[test]
fn wan_profile_stands_random_loss() {
    let network = &SHARED_PATH[..SHARED_PATH.find("[traffic.atp]").expect("the flow of ATP")];
    let alone = format!("{network}{}", cubic("cubic", 1));
    let lossy = ["losses=[{link=\"switch 0 -> switch 1\",probability=0.005}]", "host_jitter=120us"];
    let [atp, cubic] = [SHARED_PATH, &alone].map(|text| goodputs(text, &lossy, 30.0)[0]);
    println!("ATP {atp:.1}, CUBIC {cubic:.1} Mbit/s");
    assert!(atp >= 3.0 * cubic, "ATP {atp}, CUBIC {cubic} Mbit/s");
}
