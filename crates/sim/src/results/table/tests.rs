use std::collections::BTreeSet;

use pliant_proto::contract::reflex::{Phase, Standing};
use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::transport::{Statistics, WindowState};

use super::*;
use crate::results::objects::ObjectRow;
use crate::results::{
    FLOWS, FlowEnd, FlowRow, MessageCounts, OBJECTS, PORTS, PortRow, QUEUE_SERIES, QueueSample, REFLEX_SERIES,
    ReflexSample, THROUGHPUT_SERIES, ThroughputSample, WINDOW_SERIES, WindowSample, samples,
};
use crate::traffic::FlowSpec;

fn names<R>(table: &Table<R>) -> BTreeSet<&'static str> {
    let names: BTreeSet<_> = table.columns.iter().map(|column| column.name).collect();
    assert_eq!(names.len(), table.columns.len(), "two columns of {} have one name", table.files);
    names
}

#[test]
fn no_table_has_a_name_twice() {
    names(&FLOWS);
    names(&QUEUE_SERIES);
    names(&THROUGHPUT_SERIES);
    names(&REFLEX_SERIES);
    names(&WINDOW_SERIES);
    names(&OBJECTS);
    let ports = names(&PORTS);
    for reason in DropReason::ALL {
        for unit in ["packets", "bytes"] {
            let name = format!("dropped_{}_{unit}", reason.name());
            assert!(ports.contains(&*name), "{name} is missing");
        }
    }
}

/// The value of each column of `row`, set in another row, gives the same row: every field has a column, and no two
/// columns share a field.
fn round_trip<R: PartialEq + std::fmt::Debug>(table: &Table<R>, row: &R, groups: &[GroupInfo]) {
    let mut copy = (table.blank)();
    for column in table.columns {
        let value = column.value(row, groups);
        if let Some(set) = column.access.set {
            set(&mut copy, &value, groups).unwrap();
        }
    }
    assert_eq!(copy, *row);
}

fn groups() -> Vec<GroupInfo> {
    vec![samples::group("search", "dctcp"), samples::group("training", "reflex")]
}

/// A flow whose fields all differ from each other and from those of a new one.
pub(crate) fn distinct_flow() -> FlowRow {
    let instant = |ps| Instant::ZERO.after(Span::from_ps(ps));
    FlowRow {
        id: 101,
        group: 1,
        request: 102,
        source: 103,
        destination: 104,
        bytes: 105,
        start: instant(106),
        completed: Some(instant(5_000_107)),
        ideal_fct: Span::from_ps(108),
        delivered_bytes: 109,
        given_up_bytes: 110,
        done_by: Some(Instant::from_ps(7)),
        said_late: Some(Instant::from_ps(8)),
        low_bytes: 111,
        low_time: Span::from_ps(112),
        state: FlowState::SentWithLoss,
        retransmissions: 113,
        timeouts: 114,
        marks: 115,
        drops: 116,
        fair_share: Share::new(Some(0.117)),
        fluid_share: Share::new(Some(1.118)),
        pauses: 119,
        paused: Span::from_ps(120),
        messages: Some(MessageCounts { total: 123, needed: 122, delivered: 121 }),
        record_error: Share::new(Some(-0.124)),
        credits: 125,
        wasted_credits: 126,
        reactive_bytes: 127,
        reorder_bytes: 128,
        duplicate_bytes: 129,
        overtaken: 135,
        object: Some(130),
        shares_object: true,
        symbols: 131,
        excess_symbols: 132,
        decoded_blocks: 133,
        whole_blocks: 134,
    }
}

/// A port whose counters all differ.
pub(crate) fn distinct_port() -> PortRow {
    let tally = |packets: u64| Tally { packets, bytes: 1000 * packets };
    PortRow {
        port: 1,
        queue: 2,
        name: "leaf 0 -> host 3, \"µ\"".into(),
        queue_name: "best_effort".into(),
        counters: QueueCounters {
            admitted: tally(99),
            dropped: [3, 4, 5, 6, 7].map(tally),
            marked_packets: 8,
            trimmed_packets: 9,
            returned_packets: 10,
            max_packets: 11,
        },
        left: Occupancy { packets: 12, bytes: 13 },
    }
}

#[test]
fn every_field_has_a_column() {
    let groups = groups();
    let at = Instant::from_ps(17);
    round_trip(&FLOWS, &distinct_flow(), &groups);
    round_trip(&FLOWS, &FlowRow::default(), &groups);
    round_trip(&PORTS, &distinct_port(), &groups);
    let sample = QueueSample { at, port: 1, queue: 2, packets: 3, bytes: 4, red_bytes: 5 };
    round_trip(&QUEUE_SERIES, &sample, &groups);
    round_trip(&THROUGHPUT_SERIES, &ThroughputSample { at, group: 1, delivered_bytes: 2, reactive_bytes: 3 }, &groups);
    let standing = Standing {
        at,
        interval: Span::from_ps(1),
        acked_bytes: 2,
        fair_rate: Some(3.5),
        rate_budget: -4.5,
        delivery_budget: 5.5,
        phase: Phase::Exploit,
        low: true,
    };
    round_trip(&REFLEX_SERIES, &ReflexSample { flow: 6, group: 1, standing }, &groups);
    let window = WindowState { packets: 1.5, alpha: Some(0.25), rtt: Span::from_ps(2) };
    round_trip(&WINDOW_SERIES, &WindowSample { at, flow: 3, group: 1, window }, &groups);
    let object = ObjectRow {
        group: 1,
        object: 2,
        receiver: 3,
        sources: 4,
        bytes: 5,
        start: at,
        completed: Some(Instant::from_ps(18)),
        delivered_bytes: 6,
        largest_part: 0.7,
        symbols: 8,
        excess_symbols: 9,
        decoded_blocks: 10,
        whole_blocks: 11,
        // Of measures only.
        timeouts: 0,
    };
    round_trip(&OBJECTS, &object, &groups);
}

/// What the transports counted reaches the column of the same meaning, each from its side.
#[test]
fn counters_reach_their_columns() {
    let words = Statistics::default().to_words().len() as u64;
    let counted = |from: u64| Statistics::from_words(&(from..from + words).collect::<Vec<_>>()).unwrap();
    let (sender, receiver) = (counted(100), counted(500));
    let spec = FlowSpec {
        start: Instant::ZERO,
        source: 0,
        destination: 1,
        bytes: 9,
        group: 0,
        class: None,
        sequence: 0,
        again: None,
    };
    let end = FlowEnd {
        id: 0,
        group: 0,
        spec: &spec,
        ideal_fct: Span::ZERO,
        object: None,
        received: None,
        delivered_bytes: 0,
        finished: false,
        drops: 1,
        messages: None,
        record_error: None,
        sender,
        receiver,
    };
    let row = end.row();
    let of = |name| FLOWS.column(name).count(&row);
    for (name, expected) in [
        ("given_up_bytes", sender.given_up_bytes),
        ("low_sent_bytes", sender.policy.low_bytes),
        ("low_ps", sender.policy.low_ps),
        ("retransmitted_packets", sender.retransmissions),
        ("timeouts", sender.timeouts),
        ("marked_packets", receiver.marks),
        ("dropped_packets", 1),
        ("pauses", sender.pauses),
        ("paused_ps", sender.paused.as_ps()),
        ("credits", receiver.credits_sent),
        ("wasted_credits", sender.wasted_credits),
        ("reactive_bytes", receiver.reactive_bytes),
        ("reorder_bytes", receiver.reorder_bytes),
        ("duplicate_bytes", receiver.duplicate_bytes),
        ("overtaken_packets", receiver.overtaken),
        ("symbols", receiver.symbols),
        ("excess_symbols", receiver.excess_symbols),
        ("decoded_blocks", receiver.decoded_blocks.into()),
        ("whole_blocks", receiver.whole_blocks.into()),
    ] {
        assert_eq!(of(name), expected, "{name}");
    }
}

#[test]
fn values_that_do_not_fit_are_named() {
    let mut row = FlowRow::default();
    let mut set = |name, value: Value<'_>| {
        let set = FLOWS.column(name).access.set.expect("a column that is kept");
        set(&mut row, &value, &groups()).unwrap_err()
    };
    assert_eq!(set("source", Value::Integer(1 << 32)), "4294967296 is too large");
    assert_eq!(set("messages", Value::OptionalInteger(Some(1 << 32))), "4294967296 is too large");
    assert_eq!(set("state", Value::Text("asleep".into())), "no state \"asleep\"");
    assert_eq!(set("group", Value::Text("nobody".into())), "\"nobody\" is no group of the summary");
    assert_eq!(set("fair_share", Value::OptionalNumber(Some(f64::NAN))), "not a number");
}
