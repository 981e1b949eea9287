//! Made-up results, with which a check computes every expression.

use pliant_proto::contract::reflex::{Phase, Standing};
use pliant_proto::switch::queue::{Occupancy, QueueCounters};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;

use crate::results::{
    FlowRow, FlowState, MessageCounts, PortRow, ReflexSample, RunResult, Share, ThroughputSample, WindowSample,
};

/// A result in which every group, queue and sample is there once, for checks of names and types.
pub(super) fn result(groups: u16) -> RunResult {
    let (start, end) = (Instant::ZERO, Instant::ZERO.after(Span::from_ms(1)));
    let flow = |group: u16| FlowRow {
        id: u64::from(group),
        group,
        destination: 1,
        bytes: 1,
        start,
        completed: Some(end),
        ideal_fct: Span::from_us(1),
        delivered_bytes: 1,
        state: FlowState::Completed,
        messages: Some(MessageCounts { total: 1, needed: 1, delivered: 1 }),
        record_error: Share::new(Some(1.0)),
        fair_share: Share::new(Some(1.0)),
        fluid_share: Share::new(Some(1.0)),
        object: Some(0),
        symbols: 1,
        whole_blocks: 1,
        ..FlowRow::default()
    };
    let standing = Standing {
        at: end,
        interval: Span::from_ms(1),
        acked_bytes: 1,
        fair_rate: Some(1.0),
        rate_budget: 0.0,
        delivery_budget: 0.0,
        phase: Phase::Exploit,
        low: false,
    };
    let window = WindowState { packets: 1.0, alpha: Some(1.0), rtt: Span::from_us(1) };
    let port = PortRow {
        port: 0,
        queue: 0,
        name: String::new(),
        queue_name: String::new(),
        counters: QueueCounters::default(),
        left: Occupancy::default(),
    };
    RunResult {
        scenario: String::new(),
        version: String::new(),
        seed: 0,
        digest: 0,
        simulated: Span::from_ms(1),
        wall_s: 0.0,
        cpu_s: 0.0,
        packet_hops: 0,
        events: 0,
        control_messages: 0,
        interrupted: false,
        overloaded: None,
        groups: Vec::new(),
        flows: (0..groups).map(flow).collect(),
        ports: vec![port],
        queue_samples: Vec::new(),
        throughput_samples: (0..groups)
            .map(|group| ThroughputSample { at: end, group, delivered_bytes: 1, reactive_bytes: 1 })
            .collect(),
        reflex_samples: (0..groups).map(|group| ReflexSample { flow: 0, group, standing }).collect(),
        window_samples: (0..groups).map(|group| WindowSample { at: end, flow: 0, group, window }).collect(),
    }
}
