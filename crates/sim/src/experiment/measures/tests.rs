//! Each measure on a small made-up run, whose answers are worked out by hand.

use pliant_proto::switch::queue::{Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};

use super::*;
use crate::experiment::{ClaimOutcome, Experiment, Library, Quantity, Size};
use crate::results::RunResult;
use crate::results::{FlowRow, GroupInfo, PortRow, QueueSample, Share, ThroughputSample, samples};

/// Two runs, `fast` and `slow`, with seeds 1 and 2. `slow` has twice the duration, by which the results tell them apart.
const FILE: &str = r#"
title = "made up"
section = "1"
setup = "made up"
seeds = [1, 2]

[scenario]
duration = "10ms"
topology = { kind = "star", hosts = 2, link = { rate = "10Gbit/s", delay = "1us" } }
packets = { mss = "1000B" }
traffic.web = { kind = "flows", flows = [{ source = 0, destination = 1, size = "1MB" }] }
traffic.bulk = { kind = "flows", flows = [{ source = 0, destination = 1, size = "1MB" }] }

[runs.fast]

[runs.slow]
set = { duration = "20ms" }

[parameters]
limit = 3000
names = ["a", "b"]

[[claims]]
claim = "it is so"
paper = "so"
ours = '''OURS'''
over_seeds = "OVER"
TOLERANCE
"#;

fn at(ms: f64) -> Instant {
    Instant::ZERO.after(Span::from_secs_f64(ms * 1e-3))
}

/// Ten web flows of 1 to 10 kB that start at 0 to 9 ms and take 100 to 1000 us, twice that if `slow`, plus 100 us per
/// seed beyond the first; one bulk flow that is never done.
fn result(slow: bool, seed: u64) -> RunResult {
    let web = |id: u64| {
        let fct = Span::from_us((id + 1) * 100 * (1 + u64::from(slow)) + 100 * (seed - 1));
        let start = at(id as f64);
        let completed = Some(start.after(fct));
        FlowRow { start, completed, ideal_fct: Span::from_us(50), ..samples::flow(id, (id + 1) * 1000) }
    };
    let bulk = FlowRow {
        group: 1,
        start: at(10.0),
        delivered_bytes: 250_000,
        retransmissions: 50,
        timeouts: 3,
        marks: 7,
        drops: 5,
        credits: 300,
        wasted_credits: 50,
        reactive_bytes: 4000,
        duplicate_bytes: 1460,
        reorder_bytes: 2920,
        given_up_bytes: 100_000,
        low_time: Span::from_ms(6),
        paused: Span::from_ms(1),
        fair_share: Share::new(Some(0.8)),
        fluid_share: Share::new(Some(0.7)),
        ..samples::unfinished(10, 1_000_000)
    };
    let tally = |packets| Tally { packets, bytes: packets * 100 };
    let port = |port, name: &str| PortRow {
        port,
        queue: 0,
        name: name.to_owned(),
        queue_name: "only".to_owned(),
        counters: QueueCounters {
            admitted: tally(40),
            dropped: [tally(2), tally(2), tally(0), tally(1), tally(0)],
            marked_packets: 6,
            max_packets: 9,
            ..QueueCounters::default()
        },
        left: Occupancy { packets: 2, bytes: 200 },
    };
    let sample = |(ms, group, delivered_bytes): (f64, u16, u64)| ThroughputSample {
        at: at(ms),
        group,
        delivered_bytes,
        reactive_bytes: delivered_bytes / 5,
    };
    let held = |ms, port, packets: u32| QueueSample {
        at: at(ms),
        port,
        queue: 0,
        packets,
        bytes: u64::from(packets) * 1000,
        red_bytes: u64::from(packets) * 500,
    };
    RunResult {
        seed,
        simulated: Span::from_ms(20),
        groups: ["web", "bulk"]
            .map(|name| GroupInfo {
                name: name.into(),
                transport: String::new(),
                class: String::new(),
                contract: String::new(),
                min_share: 1.0,
            })
            .to_vec(),
        flows: (0..10).map(web).chain([bulk]).collect(),
        ports: vec![port(0, "host 0 -> switch"), port(1, "switch -> host 1")],
        // 1, 2 and 3 Gbit/s for a millisecond each.
        throughput_samples: [(1.0, 0, 125_000), (1.0, 1, 0), (2.0, 0, 250_000), (2.0, 1, 0), (3.0, 0, 375_000)]
            .map(sample)
            .to_vec(),
        queue_samples: vec![held(1.0, 0, 4), held(2.0, 0, 2), held(2.0, 1, 6)],
        ..samples::run()
    }
}

fn claim(expression: &str, over: &str) -> Result<ClaimOutcome, String> {
    let tolerance = if [" == ", " < ", " > "].iter().any(|truth| expression.contains(truth)) {
        ""
    } else {
        "tolerance = { at_least = -1e300 }"
    };
    let text = FILE.replace("OURS", expression).replace("OVER", over).replace("TOLERANCE", tolerance);
    let library = Library::embedded(&[("paper/fig.toml", &text)]);
    let experiment = Experiment::load(&library, "paper", "fig", Size::Quick).map_err(|error| error.to_string())?;
    let outcome = experiment.evaluate(|job| {
        let resolved = job.resolve().map_err(|error| error.to_string())?;
        Ok(result(resolved.spec.duration == Span::from_ms(20), resolved.spec.seed))
    });
    Ok(outcome.map_err(|error| error.to_string())?.claims.remove(0))
}

fn number_of(expression: &str, over: &str) -> f64 {
    match claim(expression, over).unwrap_or_else(|why| panic!("{expression}: {why}")).ours {
        Quantity::Number(Some(number)) => number,
        other => panic!("{expression} gives {other:?}"),
    }
}

/// Of the first seed, by pooling runs of which only one is looked at, or by sums that count both seeds.
#[test]
fn measures_give_the_answers_worked_out_by_hand() {
    for (expression, expected) in [
        // Means over seeds of 100 to 1000 us and of 200 to 1100 us.
        ("flows(run(\"fast\"), \"web\").fct_us(\"mean\")", 600.0),
        ("flows(run(\"fast\"), \"web\").fct_ms(\"p50\")", 0.55),
        ("flows(run(\"fast\"), \"web\").fct_s(\"max\")", 1.05e-3),
        ("flows(run(\"fast\"), \"web\").fct_us(\"min\")", 150.0),
        ("flows(run(\"fast\"), \"web\").fct_us(\"p99.9\")", 1050.0),
        (
            "flows(run(\"slow\"), \"web\").fct_us(\"mean\") / flows(run(\"fast\"), \"web\").fct_us(\"mean\")",
            f64::midpoint(2.0, 1200.0 / 650.0),
        ),
        ("flows(run(\"fast\"), \"web\").slowdown(\"p10\")", 3.0),
        // Sizes: at most and below differ at the limit; texts with units and numbers are alike.
        ("flows(run(\"fast\"), \"web\").size_at_most(limit).count()", 3.0),
        ("flows(run(\"fast\"), \"web\").size_below(\"3kB\").count()", 2.0),
        ("flows(run(\"fast\"), \"web\").size_at_least(3000).count()", 8.0),
        ("flows(run(\"fast\"), \"web\").size_above(\"3kB\").count()", 7.0),
        // [2 ms, 5 ms) has the flows 2, 3 and 4.
        ("flows(run(\"fast\"), \"web\").started(\"2ms\", 0.005).count()", 3.0),
        ("flows(run(\"fast\")).count()", 11.0),
        ("flows(run(\"fast\")).completed().count()", 10.0),
        ("flows(run(\"fast\")).unfinished()", 1.0),
        ("flows(run(\"fast\"), \"bulk\").delivered_fraction(\"mean\")", 0.25),
        ("flows(run(\"fast\"), \"bulk\").delivered_bytes()", 250_000.0),
        // 250 packets delivered, 50 sent again.
        ("flows(run(\"fast\"), \"bulk\").retransmission_rate(\"p80\")", 50.0 / 300.0),
        ("flows(run(\"fast\"), \"bulk\").retransmissions()", 50.0),
        ("flows(run(\"fast\"), \"bulk\").timeouts()", 3.0),
        ("flows(run(\"fast\"), \"bulk\").marks()", 7.0),
        ("flows(run(\"fast\"), \"bulk\").drops()", 5.0),
        // 250 kB in the 10 ms until the end.
        ("flows(run(\"fast\"), \"bulk\").rate_gbit_per_s(\"mean\")", 0.2),
        // The same flow takes twice as long with seed 1. With seed 2 the i-th takes (2 i + 3) / (i + 2) times as long: 3/2,
        // 5/3, and those behind it longer.
        ("flows(run(\"fast\"), \"web\").speed_ups(flows(run(\"slow\"), \"web\")).statistic(\"min\")", 1.75),
        ("flows(run(\"slow\"), \"web\").speed_ups(flows(run(\"fast\"), \"web\")).share_below(0.6)", 0.9),
        ("flows(run(\"fast\"), \"bulk\").given_up_fraction(\"mean\")", 0.1),
        // 6 ms and 1 ms of 10 ms.
        ("flows(run(\"fast\"), \"bulk\").low_time_fraction(\"mean\")", 0.6),
        ("flows(run(\"fast\"), \"bulk\").paused_fraction(\"mean\")", 0.1),
        ("flows(run(\"fast\"), \"bulk\").fair_share(\"min\")", 0.8),
        ("flows(run(\"fast\"), \"bulk\").fluid_share(\"min\")", 0.7),
        // One sample a 10 us: at the 8th to 10th R_fair is 5 Gbit/s, before it is not known.
        ("reflex_values(run(\"fast\"), \"bulk\", \"fair_gbit_per_s\", 0, \"100us\").len()", 2.0),
        ("reflex_values(run(\"fast\"), \"bulk\", \"fair_gbit_per_s\", 0, 1).statistic(\"mean\")", 5.0),
        // 12 kB in the first 10 us.
        ("reflex_values(run(\"fast\"), \"bulk\", \"rate_gbit_per_s\", 0, 1).statistic(\"min\")", 9.6),
        ("reflex_series(run(\"fast\"), \"bulk\", \"low\").map(|pair| pair[1]).sum()", 2.0),
        ("throughput_gbit_per_s(run(\"fast\"), \"web\", \"1ms\", \"3ms\")", 2.5),
        // Intervals that stick out of the window do not count.
        ("throughput_gbit_per_s(run(\"fast\"), \"web\", \"0.5ms\", \"2.5ms\")", 2.0),
        ("throughputs_gbit_per_s(run(\"fast\"), \"web\", 0, 1).statistic(\"max\")", 3.0),
        ("throughput_series(run(\"fast\"), \"web\")[2][1]", 3.0),
        // A fifth of it without credits.
        ("reactive_throughput_gbit_per_s(run(\"fast\"), \"web\", \"1ms\", \"3ms\")", 0.5),
        ("reactive_throughput_series(run(\"fast\"), \"web\")[2][1]", 0.6),
        // 4, 2 and 0: variances of 8/3.
        ("queues(run(\"fast\"), \"host*\").occupancy_packets(\"std\") ** 2", 8.0 / 3.0),
        ("flows(run(\"fast\"), \"bulk\").credits()", 300.0),
        ("flows(run(\"fast\"), \"bulk\").wasted_credits()", 50.0),
        ("flows(run(\"fast\"), \"bulk\").reactive_bytes()", 4000.0),
        ("flows(run(\"fast\"), \"bulk\").duplicate_bytes()", 1460.0),
        ("flows(run(\"fast\"), \"bulk\").reorder_kb(\"max\")", 2.92),
        ("queues(run(\"fast\"), \"*\").dropped_packets()", 10.0),
        ("queues(run(\"fast\"), \"*\").dropped_red_packets()", 4.0),
        ("queues(run(\"fast\"), \"host 0 -> switch\", \"only\").marked_packets()", 6.0),
        ("queues(run(\"fast\"), \"host*\").sent_packets()", 38.0),
        ("queues(run(\"fast\"), \"host*\").sent_bytes()", 3800.0),
        // 4, 2 and 0 at three looks; both queues together 4, 8 and 0.
        ("queues(run(\"fast\"), \"host*\").occupancy_packets(\"mean\")", 2.0),
        ("queues(run(\"fast\"), \"host*\").occupancy_kb(\"max\")", 4.0),
        ("queues(run(\"fast\"), \"host*\").occupancy_red_kb(\"max\")", 2.0),
        // 4 and 2 packets at two looks, nothing at the third.
        ("queues(run(\"fast\"), \"host*\").held_kb(\"mean\")", 3.0),
        ("queues(run(\"fast\"), \"host*\").held_red_kb(\"min\")", 1.0),
        ("queues(run(\"fast\"), \"*\").occupancy_series().map(|pair| pair[1]).statistic(\"max\")", 8.0),
        ("[1, 2, 3, 6].sum()", 12.0),
        ("[1, 2, 3, 6].statistic(\"p75\")", 3.0),
        ("[1, 1, 1, 0].jain()", 0.75),
        ("[1, 2, 3, 4].share_below(3)", 0.5),
        ("names.len()", 2.0),
        // Whole numbers are not cut off.
        ("1 / 4", 0.25),
        ("2 ** 10", 1024.0),
        ("seed", 1.5),
    ] {
        let got = number_of(expression, "mean");
        assert!((got - expected).abs() < 1e-9, "{expression} is {got}, not {expected}");
    }
}

/// Pooled, the flows of all seeds are one set.
#[test]
fn seeds_are_pooled_where_asked_for() {
    assert_eq!(number_of("flows(run(\"fast\"), \"web\").count()", "pooled"), 20.0);
    assert_eq!(number_of("flows(run(\"fast\"), \"web\").fct_us(\"max\")", "pooled"), 1100.0);
    assert_eq!(
        number_of("flows(run(\"fast\"), \"web\").speed_ups(flows(run(\"slow\"), \"web\")).len()", "pooled"),
        20.0
    );
    let mean = claim("flows(run(\"fast\"), \"web\").fct_us(\"mean\")", "mean").unwrap();
    assert_eq!(mean.spread, Some((550.0, 650.0)), "the seeds' range");
    assert_eq!(claim("1 < 2", "mean").unwrap().ours, Quantity::Truth(true));
    assert_eq!(claim("seed < 2", "mean").unwrap().ours, Quantity::Truth(false), "one seed does not hold");
}

/// Flows still under way enter with the time they have taken, and the claim says so.
#[test]
fn unfinished_flows_are_told_of() {
    let all = claim("flows(run(\"fast\")).fct_ms(\"max\")", "mean").unwrap();
    assert_eq!((all.ours, all.lower_bound), (Quantity::Number(Some(10.0)), true));
    assert!(!claim("flows(run(\"fast\"), \"web\").fct_ms(\"max\")", "mean").unwrap().lower_bound);
}

/// What is wrong with an expression is found without a run, and says where and what would be right.
#[test]
fn mistakes_in_expressions_are_named() {
    for (expression, expected) in [
        ("flows(run(\"fats\")).count()", "unknown run `fats`, did you mean `fast`?"),
        ("flows(run(\"fast\"), \"wbe\").count()", "unknown traffic group `wbe`, did you mean `web`?"),
        ("flows(run(\"fast\")).fct_mss(\"p99\")", "unknown function `fct_mss`, did you mean `fct_ms`?"),
        ("if false { frobnicate(1) } else { 2 }", "unknown function `frobnicate`"),
        ("flows(run(\"fast\")).fct_ms(\"p101\")", "`p101` is no statistic"),
        ("flows(run(\"fast\")).fct_ms(5)", "no function takes these: fct_ms"),
        ("limt + 1", "unknown name `limt`, did you mean `limit`?"),
        ("flows(run(\"fast\")).size_below(\"3kg\").count()", "`3kg` is not a size"),
        ("run(\"fast\", #{ load: 3 })", "does not go over an axis `load`"),
        ("\"text\"", "gives string, not a number"),
        ("1 +", "Script is incomplete"),
        ("flows(run(\"fast\"), \"web\").started(1, 2).fct_ms(\"p99\")", "run `fast` has no such flows"),
        ("[].statistic(\"mean\")", "the list is empty"),
        ("throughput_gbit_per_s(run(\"fast\"), \"bulk\", \"8ms\", \"9ms\")", "no whole sample"),
        ("queues(run(\"fast\"), \"leaf*\").sent_packets()", "no such queue at a port `leaf*`"),
    ] {
        let why = claim(expression, "mean").expect_err(expression);
        assert!(why.starts_with("experiments/paper/fig.toml:26: `claims.0.ours`: "), "{why}");
        assert!(why.contains(expected) && !why.contains('\n'), "{expression}: {why}\nshould contain {expected}");
    }
}

/// Every measure and every function of the language is in the reference, in backquotes.
#[test]
fn every_measure_is_documented() {
    let reference = include_str!("../../../../../docs/experiments.md");
    for name in names() {
        let written = [format!("`{name}("), format!("`.{name}(")];
        assert!(written.iter().any(|text| reference.contains(text)), "{name} is missing");
    }
    for name in crate::experiment::evaluate::LANGUAGE {
        assert!(reference.contains(&format!("`{name}`")), "{name} is missing");
    }
}
