//! `bounded` on one queue without help from the network: what LEDBAT++ is known to fail at, and what others keep.

use pliant_sim::results::RunResult;

use crate::scenarios::{DROP_TAIL_LINE, GREEDY, run_with};

/// The flow under test, from host 1 to host 3.
const BACKGROUND: &str = r#"
[traffic.background]
kind = "flows"
flows = [{ source = 1, destination = 3 }]
transport = "bounded"
contract = { min_share = 0.0 }
tcp = { min_rto = "200ms", rack = true, prr = true }
"#;

/// Four clients that ask for 10 kB again and again, which fills the line.
const CLIENTS: &str = r#"
[traffic.foreground]
kind = "closed-loop"
source = 0
destination = 2
loops = 4
size = "10kB"
transport = "kernel"
tcp = { handshake = false }
"#;

/// Flows of one size that arrive at random.
fn small_flows(size: &str, per_second: f64) -> String {
    format!(
        r#"
[traffic.foreground]
kind = "poisson"
sources = [0]
destinations = [2]
size = "{size}"
rate_per_s = {per_second:?}
transport = "kernel"
tcp = {{ handshake = false }}
"#
    )
}

const LEDBAT: [&str; 2] = ["traffic.background.transport=ledbat++", "traffic.background.contract.min_share=1"];
/// Payload of the line in 12 s.
const LINE_BYTES: f64 = 12.5e6 * 12.0 * 1460.0 / 1538.0;

fn of_background(result: &RunResult) -> f64 {
    let flows = result.flows.iter().filter(|flow| flow.source == 1);
    flows.map(|flow| flow.delivered_bytes as f64).sum::<f64>() / LINE_BYTES
}

fn of_foreground(result: &RunResult) -> f64 {
    let flows = result.flows.iter().filter(|flow| flow.source == 0);
    flows.map(|flow| flow.delivered_bytes as f64).sum::<f64>() / LINE_BYTES
}

fn beside(foreground: &str, changes: &[&str]) -> (f64, f64) {
    let result = run_with(&format!("{DROP_TAIL_LINE}{BACKGROUND}{foreground}"), changes);
    let both = (of_foreground(&result), of_background(&result));
    println!("foreground {:.3}, background {:.3} of the line: {changes:?}", both.0, both.1);
    both
}

fn with_ledbat<'a>(changes: &[&'a str]) -> Vec<&'a str> {
    [&LEDBAT[..], changes].concat()
}

/// A single greedy flow in a buffer above LEDBAT++'s target leaves it less than a tenth of the line. `bounded` keeps half of
/// what a CUBIC flow has there, and without a promise it leaves nine tenths to the other.
#[test]
fn one_greedy_flow_does_not_starve_the_promise() {
    let deep = ["queues.limit=2MB"];
    let (_, starved) = beside(GREEDY, &with_ledbat(&deep));
    let (_, cubic) =
        beside(GREEDY, &["traffic.background.transport=kernel", "traffic.background.contract.min_share=1", deep[0]]);
    let (_, kept) = beside(GREEDY, &["traffic.background.contract.min_share=0.5", deep[0]]);
    let (left, _) = beside(GREEDY, &deep);
    assert!(starved < 0.1, "{starved}");
    assert!(kept >= 0.5 * cubic && kept >= 0.2, "{kept} beside {cubic}");
    assert!(left >= 0.85, "{left}");
}

/// Closed loops never queue more than their own 40 kB, so LEDBAT++, whose target no buffer here reaches, sees an idle path.
/// `bounded` leaves them 95 % of the line.
#[test]
fn a_target_above_the_buffer_harms_nobody() {
    for limit in ["queues.limit=125kB", "queues.limit=500kB"] {
        let (left, _) = beside(CLIENTS, &with_ledbat(&[limit]));
        assert!(left < 0.6, "{limit}: {left}");
        let (left, _) = beside(CLIENTS, &[limit]);
        assert!(left >= 0.95, "{limit}: {left}");
    }
}

/// Who starts later than the others never sees the path without their queue. LEDBAT++ takes it for the path's own delay.
#[test]
fn a_latecomer_gives_way() {
    let late = r#"traffic.background.flows=[{ source = 1, destination = 3, start = "2s" }]"#;
    let (left, _) = beside(CLIENTS, &with_ledbat(&[late]));
    assert!(left < 0.6, "{left}");
    let (left, _) = beside(CLIENTS, &[late]);
    assert!(left >= 0.95, "{left}");
}

/// One packet in a hundred is lost on an idle path of 20 ms: LEDBAT++ halves each time. `bounded` sees no delay and goes on.
#[test]
fn losses_without_delay_are_no_congestion() {
    let lossy =
        ["topology.bottleneck_link.delay=10ms", r#"losses=[{ link = "switch 0 -> switch 1", probability = 0.01 }]"#];
    let (_, slow) = beside("", &with_ledbat(&lossy));
    let (_, taken) = beside("", &lossy);
    assert!(slow < 0.15, "{slow}");
    assert!(taken >= 0.6, "{taken}");
}

/// The others stop after 4 s of 12: what the background has then is nine tenths of the line but for the first second.
#[test]
fn an_idle_line_is_filled_within_a_second() {
    let pause = ["traffic.foreground.stop=4s"];
    for promise in [None, Some("traffic.background.contract.min_share=0.5")] {
        let changes: Vec<&str> = pause.into_iter().chain(promise).collect();
        let (_, taken) = beside(CLIENTS, &changes);
        let before = if promise.is_some() { 0.4 * 4.0 } else { 0.0 };
        assert!(taken * 12.0 >= 0.9 * 7.0 + before, "{taken}");
    }
}

/// A promised rate of a fifth of the line is kept beside four clients, within a twentieth, and they keep the rest.
#[test]
fn a_promised_rate_is_kept() {
    let promise = r#"traffic.background.contract={ min_share = 0.0, min_rate = "20Mbit/s" }"#;
    let (left, taken) = beside(CLIENTS, &[promise]);
    assert!(taken >= 0.95 * 0.2 / 0.949, "{taken}");
    assert!(left >= 0.7, "{left}");
}

/// Random flows of 50 kB load three tenths of a line of 50 Mbit/s, whose trickle is a packet in 15 ms. The background takes a quarter
/// of what they leave.
#[test]
fn a_slow_line_is_shared() {
    let flows = small_flows("50kB", 36.0);
    let slow = ["topology.bottleneck_link.rate=50Mbit/s", "queues.limit=300kB"];
    // Longer bursts, which keep a queue too short to be others' for sure.
    let bursty = ["topology.edge_link.rate=200Mbit/s", "topology.bottleneck_link.delay=2ms"];
    for seed in ["seed=1", "seed=2", "seed=3", "seed=4"] {
        for changes in [[&slow[..], &[seed]].concat(), [&slow[..], &bursty, &[seed]].concat()] {
            let (others, taken) = beside(&flows, &changes);
            let left = 0.5 - others;
            assert!(taken >= left / 4.0, "{changes:?}: {taken} of {left}");
        }
    }
}

/// A token bucket lets pairs of packets through at the speed of the wire, so the line seems to be fast. The first queue tells its
/// rate. The background takes half of what others leave at least, and those of their flows that are short wait for less than half
/// of the full queue (50 ms), though others leave 14 % of the line.
#[test]
fn a_token_bucket_is_no_fast_line() {
    let load = r#"
[traffic.load]
kind = "flows"
flows = [{ source = 0, destination = 2, start = "4s" }]
transport = "udp"
udp = { rate = "16Mbit/s" }
"#;
    let line = r#"classes = [0], limit = "125kB", shaper = { rate = "20Mbit/s", depth = "15kB" }"#;
    let shaped = format!(r#"queues={{ scheduler = "strict", queue = [{{ name = "line", {line} }}] }}"#);
    let text = format!("{DROP_TAIL_LINE}{BACKGROUND}{load}{}", small_flows("1kB", 150.0));
    for seed in 25..=48 {
        let seed = format!("seed={seed}");
        let result = run_with(&text, &[&shaped, "topology.bottleneck_link.rate=1Gbit/s", &seed]);
        let short = result.flows.iter().filter(|flow| flow.bytes == 1000);
        let mut times_ms: Vec<f64> =
            short.map(|flow| flow.fct().map_or(f64::INFINITY, |time| time.as_us_f64() / 1e3)).collect();
        times_ms.sort_by(f64::total_cmp);
        let p99_ms = times_ms[times_ms.len() * 99 / 100];
        // Of the line of 100 Mbit/s by which shares are told, a fifth; others leave 94 % of it for 4 s, and 14 % for 8 s.
        let left = 0.2 * (4.0 * 0.94 + 8.0 * 0.14) / 12.0;
        let taken = of_background(&result) / left;
        println!("{seed}: p99 {p99_ms} ms, {taken} of what is left");
        assert!(p99_ms < 25.0 && taken >= 0.5, "{seed}: {p99_ms} ms, {taken}");
    }
}
