//! Made-up results for tests.

use pliant_proto::contract::reflex::{Phase, Standing};
use pliant_proto::switch::queue::{Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;

use super::{
    FlowRow, FlowState, GroupInfo, PortRow, QueueSample, ReflexSample, RunResult, Share, ThroughputSample, WindowSample,
};

const RUN: Span = Span::from_ms(20);
const INTERVAL: Span = Span::from_us(10);

/// A completed flow of group 0 whose ideal is 10 us plus its bytes at 10 Gbit/s, slowed down by half.
pub(crate) fn flow(id: u64, bytes: u64) -> FlowRow {
    let ideal_fct = Span::from_us(10).plus(Span::from_ps(bytes * 800));
    let start = Instant::ZERO.after(Span::from_us(id));
    FlowRow {
        id,
        group: 0,
        request: id,
        source: (id % 16) as u32,
        destination: (id % 15) as u32 + 16,
        bytes,
        start,
        completed: Some(start.after(ideal_fct.plus(ideal_fct.divided_by(2)))),
        ideal_fct,
        delivered_bytes: bytes,
        state: FlowState::Completed,
        ..FlowRow::default()
    }
}

/// A flow still under way after half of its bytes.
pub(crate) fn unfinished(id: u64, bytes: u64) -> FlowRow {
    FlowRow { completed: None, state: FlowState::Unfinished, delivered_bytes: bytes / 2, ..flow(id, bytes) }
}

/// A group with a name.
pub(crate) fn group(name: &str, transport: &str) -> GroupInfo {
    let contract = if transport == "reflex" { "min_share 0.3" } else { "none" };
    let min_share = if transport == "reflex" { 0.3 } else { 1.0 };
    let (name, transport, class) = (name.into(), transport.into(), "best_effort".into());
    GroupInfo { name, transport, class, contract: contract.into(), min_share }
}

/// A spread of numbers in [0, 1) without a random generator.
fn scatter(i: u64, salt: u64) -> f64 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(salt.wrapping_mul(0xD1B5_4A32_D192_ED03)) >> 11) as f64
        / (1u64 << 53) as f64
}

fn window_sample(i: u64) -> WindowSample {
    let alpha = i.is_multiple_of(2).then_some(1.0 / i as f64);
    let window = WindowState { packets: i as f64 / 3.0, alpha, rtt: Span::from_us(i) };
    WindowSample { at: Instant::ZERO.after(Span::from_us(i)), flow: i, group: (i % 2) as u16, window }
}

/// A run of `flows` flows in two groups, whose first group is slowed down in proportion to `load`.
pub(crate) fn run_with(flows: u64, load: f64) -> RunResult {
    RunResult {
        scenario: "leaf-spine <mix>".into(),
        version: "0.1.0".into(),
        seed: 7,
        digest: 0x00c0_ffee_1234_5678,
        simulated: RUN,
        wall_s: 1.5,
        cpu_s: 1.25,
        packet_hops: 12_345_678,
        events: 34_567_890,
        control_messages: 0,
        interrupted: false,
        overloaded: None,
        groups: vec![group("search", "dctcp"), group("training", "reflex")],
        flows: (0..flows).map(|id| scattered_flow(id, flows, load)).collect(),
        ports: (0..4).map(port).collect(),
        queue_samples: (1..=2000).flat_map(|i| (0..4).filter_map(move |port| queue_sample(i, port, load))).collect(),
        throughput_samples: (1..=2000)
            .flat_map(|i| (0..2).map(move |group| throughput_sample(i, group, load)))
            .collect(),
        reflex_samples: (1..=10).map(reflex_sample).collect(),
        window_samples: (1..=10).map(window_sample).collect(),
    }
}

/// A small run in which some flows are unfinished.
pub(crate) fn run() -> RunResult {
    run_with(400, 1.0)
}

fn scattered_flow(id: u64, flows: u64, load: f64) -> FlowRow {
    let training = id.is_multiple_of(5);
    let bytes = if training { 2_000_000 } else { 10f64.powf(3.0 + 4.0 * scatter(id, 1).powi(2)) as u64 };
    let congestion = load * -2.0 * (1.0 - scatter(id, 2)).ln();
    let mut row = flow(id, bytes);
    row.group = u16::from(training);
    row.start = Instant::ZERO.after(Span::from_ps(RUN.as_ps() / flows * id));
    let completed = row.start.after(Span::from_ps((row.ideal_fct.as_ps() as f64 * (1.0 + congestion)) as u64));
    row.completed = Some(completed);
    row.marks = (congestion * 10.0) as u32;
    row.retransmissions = (congestion * 0.7) as u32;
    row.drops = row.retransmissions;
    row.timeouts = u32::from(congestion > 7.0);
    // Shares as they would be computed: of some flows, any value.
    row.fair_share = Share::new((!id.is_multiple_of(7)).then(|| 1.0 / (1.0 + congestion)));
    row.fluid_share = Share::new((!id.is_multiple_of(11)).then(|| 1.1 / (1.0 + congestion)));
    row.low_bytes = if training { bytes / 3 } else { 0 };
    row.low_time = Span::from_us(3 * row.low_bytes);
    if completed.since(Instant::ZERO) > RUN {
        row.completed = None;
        row.state = FlowState::Unfinished;
        row.delivered_bytes = bytes / 3;
    }
    row
}

fn port(port: u32) -> PortRow {
    let admitted = Tally { packets: 100_000 / (u64::from(port) + 1), bytes: 153_800_000 / (u64::from(port) + 1) };
    let mut dropped = [Tally::default(); 5];
    dropped[0] = Tally { packets: 120 / (u64::from(port) + 1), bytes: 180_000 };
    dropped[2] = Tally { packets: 7, bytes: 10_766 };
    PortRow {
        port,
        queue: 0,
        name: format!("leaf 0 -> host {port}"),
        queue_name: "best_effort".into(),
        counters: QueueCounters { admitted, dropped, marked_packets: 321, max_packets: 65, ..QueueCounters::default() },
        left: Occupancy { packets: 2, bytes: 3076 },
    }
}

fn queue_sample(i: u64, port: u32, load: f64) -> Option<QueueSample> {
    let wave = ((i as f64) / (90.0 + 40.0 * f64::from(port))).sin().max(0.0);
    let packets = (load * 60.0 * wave * (0.6 + 0.4 * scatter(i, u64::from(port)))) as u32 / (port + 1);
    let at = Instant::ZERO.after(INTERVAL.times(i));
    (packets > 0).then(|| QueueSample {
        at,
        port,
        queue: 0,
        packets,
        bytes: u64::from(packets) * 1538,
        red_bytes: u64::from(packets / 2) * 1538,
    })
}

fn reflex_sample(i: u64) -> ReflexSample {
    let standing = Standing {
        at: Instant::ZERO.after(INTERVAL.times(i)),
        interval: INTERVAL,
        acked_bytes: 12_000 * i,
        fair_rate: (i > 7).then_some(6.25e8),
        rate_budget: 1.5 * i as f64 - 7.0,
        delivery_budget: 1e6 / i as f64,
        phase: [Phase::Warmup, Phase::Measure, Phase::Exploit, Phase::Exploit, Phase::Exploit][(i % 5) as usize],
        low: i % 5 > 1 && i > 7,
    };
    ReflexSample { flow: 0, group: 1, standing }
}

fn throughput_sample(i: u64, group: u16, load: f64) -> ThroughputSample {
    let wave = 0.5 + 0.4 * ((i as f64) / 160.0).sin();
    let part = if group == 0 { wave } else { (1.0 - wave) * load };
    let bytes = 12_500.0 * part * (0.8 + 0.2 * scatter(i, 9));
    ThroughputSample {
        at: Instant::ZERO.after(INTERVAL.times(i)),
        group,
        delivered_bytes: bytes as u64,
        reactive_bytes: 0,
    }
}
