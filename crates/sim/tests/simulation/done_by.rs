//! `done_by`: kept where it can be, said early where it cannot, and what it costs the foreground.

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use pliant_sim::results::{FlowRow, RunResult};

use crate::scenarios::{GREEDY, resolve_with, run_resolved, run_with, try_resolve};

/// A drop-tail line between two pairs of hosts, and one transfer over it.
const NETWORK: &str = r#"
duration = "60s"
warmup = "0s"
drain = "0s"
host_jitter = "20us"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = { rate = "1Gbit/s", delay = "10us" }
bottleneck_link = { rate = "100Mbit/s", delay = "5ms" }
[queues]
plan = "drop-tail"
limit = "500kB"
[host_queues]
plan = "drop-tail"
limit = "10000 packets"
[traffic.background]
kind = "flows"
flows = [{ source = 1, destination = 3, size = "30MB" }]
transport = "bounded"
contract = { min_share = 0.0 }
tcp = { min_rto = "200ms", rack = true, prr = true }
"#;

fn transfer(result: &RunResult) -> &FlowRow {
    result.flows.iter().find(|flow| flow.source == 1).expect("there is a transfer")
}

/// Seconds that the transfer took, if it was done.
fn taken(result: &RunResult) -> Option<f64> {
    transfer(result).fct().map(Span::as_secs_f64)
}

fn contract(keys: &str) -> String {
    format!("traffic.background.contract={{ min_share = 0.0, {keys} }}")
}

/// Beside a greedy flow it needs 30 MB in nine tenths of 40 s, 6.7 Mbit/s, has that, and leaves the other nine tenths of the
/// line. Without a time it would not be done in a minute.
#[test]
fn the_needed_rate_is_taken_and_no_more() {
    let text = format!("{NETWORK}{GREEDY}");
    assert_eq!(taken(&run_with(&text, &[])), None);
    let result = run_with(&text, &[&contract("done_by = \"40s\"")]);
    let seconds = taken(&result).expect("it is done");
    assert!((33.0..=40.0).contains(&seconds), "{seconds}");
    assert_eq!(transfer(&result).said_late, None);
    let foreground = result.flows.iter().find(|flow| flow.source == 0).unwrap().delivered_bytes as f64;
    assert!(foreground >= 0.85 * 60.0 * 0.949 * 12.5e6, "{foreground}");
}

/// On an idle line there is nobody to give way to: it is done long before its time.
#[test]
fn an_idle_line_is_used() {
    let seconds = taken(&run_with(NETWORK, &[&contract("done_by = \"40s\"")])).expect("it is done");
    assert!(seconds < 5.0, "{seconds}");
}

/// 300 MB in 20 s are 120 Mbit/s on a line of 100 with another flow: it says so in the first fifth of its time, and is a
/// normal flow, which has a quarter of the line or more.
#[test]
fn what_cannot_be_kept_is_said_early() {
    let text = format!("{NETWORK}{GREEDY}");
    let size = r#"traffic.background.flows=[{ source = 1, destination = 3, size = "300MB" }]"#;
    let result = run_with(&text, &[size, "duration=20s", &contract("done_by = \"20s\"")]);
    let row = transfer(&result);
    let said = row.said_late.expect("it says so").since(row.start).as_secs_f64();
    assert!(said <= 4.0, "{said}");
    assert_eq!(row.done_by.map(|by| by.since(row.start)), Some(Span::from_secs(20)));
    assert!(row.delivered_bytes as f64 >= 0.25 * 20.0 * 12.5e6 * 0.949, "{}", row.delivered_bytes);
}

/// A greatest rate holds under every window's transport, and without it the line is filled.
#[test]
fn a_greatest_rate_is_kept() {
    for transport in ["bounded", "cubic", "dctcp"] {
        let transport = format!("traffic.background.transport={transport}");
        let seconds = |contract: &str| taken(&run_with(NETWORK, &[&transport, contract])).expect("it is done");
        let capped = seconds("traffic.background.contract={ min_share = 1.0, max_rate = \"20Mbit/s\" }");
        // 30 MB in packets of 1460 bytes, 1538 on the wire.
        let least = 8.0 * 30e6 * 1538.0 / 1460.0 / 20e6;
        assert!((least - 0.01..=1.05 * least).contains(&capped), "{transport}: {capped}, at least {least}");
        assert!(seconds("traffic.background.contract={ min_share = 1.0 }") < 0.6 * least, "{transport}");
    }
}

/// What has no size, no effect or no chance is refused by name.
#[test]
fn what_cannot_be_promised_is_refused() {
    let refused = |from: &str, to: &str| try_resolve(&NETWORK.replace(from, to)).expect_err(to);
    let share = "contract = { min_share = 0.0 }";
    let of = |keys: &str| refused(share, &format!("contract = {{ {keys} }}"));
    assert!(of("done_by = \"9s\"").contains("done_by has no effect while min_share is 1"));
    assert!(of("min_share = 0.0, done_by = \"0s\"").contains("done_by has passed"));
    assert!(of("min_share = 0.0, max_rate = \"0bit/s\"").contains("max_rate must be above 0"));
    let why = of("min_share = 0.0, done_by = \"9s\", max_rate = \"20Mbit/s\"");
    assert!(why.contains("done_by cannot be kept: at max_rate"), "{why}");
    let why = refused(
        ", size = \"30MB\" }]\ntransport = \"bounded\"\ncontract = {",
        " }]\ntransport = \"bounded\"\ncontract = { done_by = \"9s\",",
    );
    assert!(why.contains("flows with an end"), "{why}");
    let why = refused("\"bounded\"\ncontract = { min_share = 0.0", "\"cubic\"\ncontract = { done_by = \"9s\"");
    assert!(why.contains("cubic does not honour done_by (these do: bounded)"), "{why}");
}

/// A random network with a random foreground, and a transfer over it. `number` is the scenario's.
fn random(number: u64) -> (String, Stream) {
    let mut stream = Stream::named(number, "done_by");
    let mut within = |least: f64, most: f64| least * (most / least).powf(stream.unit());
    let line = within(20.0, 200.0);
    let delay = within(0.5, 25.0);
    let buffer = within(0.01, 0.15);
    let load = within(0.1, 0.9);
    let mean_size = within(30_000.0, 3_000_000.0);
    let loops = within(1.0, 6.0) as u32;
    let fraction = within(0.1, 1.5);
    let bytes = line * 1e6 / 8.0;
    // Greedy flows, closed loops or independent arrivals.
    let foreground = match number % 3 {
        0 => format!("kind = \"flows\"\nflows = [{}]", "{ source = 0, destination = 2 },".repeat(loops as usize)),
        1 => format!(
            "kind = \"closed-loop\"\nsource = 0\ndestination = 2\nloops = {loops}\nsize = \"{}B\"",
            mean_size as u64
        ),
        _ => {
            let rate = load * bytes / mean_size;
            format!(
                "kind = \"poisson\"\nsources = [0]\ndestinations = [2]\nrate_per_s = {rate:.3}\nsize = \"{}B\"",
                mean_size as u64
            )
        }
    };
    let text = format!(
        r#"
seed = {number}
duration = "120s"
warmup = "0s"
drain = "0s"
host_jitter = "20us"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = {{ rate = "1Gbit/s", delay = "10us" }}
bottleneck_link = {{ rate = "{}bit/s", delay = "{}us" }}
[queues]
plan = "drop-tail"
limit = "{}B"
[host_queues]
plan = "drop-tail"
limit = "10000 packets"
[traffic.background]
kind = "flows"
flows = [{{ source = 1, destination = 3, size = "{}B", start = "1s" }}]
transport = "bounded"
contract = {{ min_share = 0.0 }}
tcp = {{ min_rto = "200ms", rack = true, prr = true }}
[traffic.foreground]
{foreground}
transport = "kernel"
"#,
        (line * 1e6) as u64,
        (1000.0 * delay) as u64,
        (buffer * bytes).max(30_000.0) as u64,
        (4.0 * fraction * bytes) as u64,
    );
    (text, stream)
}

const NORMAL: [&str; 2] = ["traffic.background.transport=cubic", "traffic.background.contract={ min_share = 1.0 }"];

/// What became of a random scenario: seconds that a normal flow takes, the time that was given, and the seconds that it took.
fn outcome(number: u64) -> Option<(f64, f64, Option<f64>, Option<f64>)> {
    let (text, mut stream) = random(number);
    // A perfect scheduler that takes no more than a normal flow's part can be as fast as that, and no faster.
    let best = taken(&run_resolved(&resolve_with(&text, &NORMAL)))?;
    let given = best / 0.9 * (1.0 + 2.0 * stream.unit() * stream.unit());
    if given > 100.0 {
        return None;
    }
    let result = run_with(&text, &[&contract(&format!("done_by = \"{}us\"", (1e6 * given) as u64))]);
    let row = transfer(&result);
    let said = row.said_late.map(|at| at.since(row.start).as_secs_f64());
    Some((best, given, taken(&result), said))
}

/// Whether a normal flow that starts 50 ms later is done in that time.
fn a_later_normal_flow_keeps(number: u64, given: f64) -> bool {
    let text = random(number).0.replace("start = \"1s\"", "start = \"1050ms\"");
    taken(&run_resolved(&resolve_with(&text, &NORMAL))).is_some_and(|took| took <= given)
}

/// Of random networks in which a normal flow is done with a tenth of the time to spare, how many are kept. The goal, written
/// before the first run, is all of them, and it is not met by all seeds (docs/results/bounded.md): what is held here is that nine in ten are.
/// `PLIANT_DONE_BY=1000..1060` runs others, and tells in which of them a normal flow that starts 50 ms later would be late itself.
#[test]
fn what_a_perfect_scheduler_keeps_is_kept() {
    let asked = std::env::var("PLIANT_DONE_BY").ok();
    let ends = asked.as_deref().and_then(|text| text.split_once("..")).map(|(from, to)| [from, to].map(str::parse));
    let [from, to] = ends.map_or([0, 6], |ends| ends.map(|end| end.expect("PLIANT_DONE_BY is FROM..TO")));
    let (mut count, mut failed, mut alarms, mut normal_late) = (0, Vec::new(), Vec::new(), Vec::new());
    for number in from..to {
        let Some((best, given, took, said)) = outcome(number) else { continue };
        count += 1;
        let kept = took.is_some_and(|took| took <= given);
        println!(
            "{number}: normal {best:.2} s, given {given:.2} s, took {took:.2?}, said late {said:.2?}, kept {kept}"
        );
        if asked.is_some() && !a_later_normal_flow_keeps(number, given) {
            normal_late.push(number);
        }
        if !kept {
            failed.push(number);
        } else if said.is_some() {
            alarms.push(number);
        }
    }
    println!("{count} scenarios, not kept: {failed:?}; kept though it was said that they would be late: {alarms:?}");
    println!("a normal flow that starts 50 ms later is late in {normal_late:?}");
    assert!(count > 0 && 10 * failed.len() <= count, "{failed:?} of {count}");
}
