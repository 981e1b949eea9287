//! The columns of each table, from rows and back. Times that are computed with are whole picoseconds; columns for the
//! eye (`fct_us`, `slowdown`) are derived from them and ignored when read.

use std::borrow::Cow;

use pliant_proto::contract::reflex::{Phase, Standing};
use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;

use super::columns::{Column, Columns, Field, Kind};
use crate::results::objects::ObjectRow;
use crate::results::{
    FlowRow, FlowState, GroupInfo, MessageCounts, PortRow, QueueSample, ReflexSample, Share, ThroughputSample,
    WindowSample,
};

/// Columns of `flows.csv` and `flows.parquet`.
pub(super) const FLOWS: [Field; 39] = [
    ("flow", Kind::Integer),
    ("group", Kind::Text),
    ("request", Kind::Integer),
    ("source", Kind::Integer),
    ("destination", Kind::Integer),
    ("size_bytes", Kind::Integer),
    ("start_ps", Kind::Integer),
    ("completed_ps", Kind::OptionalInteger),
    ("fct_us", Kind::OptionalNumber),
    ("ideal_fct_ps", Kind::Integer),
    ("slowdown", Kind::OptionalNumber),
    ("delivered_bytes", Kind::Integer),
    ("given_up_bytes", Kind::Integer),
    ("low_sent_bytes", Kind::Integer),
    ("low_ps", Kind::Integer),
    ("state", Kind::Text),
    ("retransmitted_packets", Kind::Integer),
    ("timeouts", Kind::Integer),
    ("marked_packets", Kind::Integer),
    ("dropped_packets", Kind::Integer),
    ("fair_share", Kind::OptionalNumber),
    ("fluid_share", Kind::OptionalNumber),
    ("pauses", Kind::Integer),
    ("paused_ps", Kind::Integer),
    ("messages", Kind::OptionalInteger),
    ("needed_messages", Kind::OptionalInteger),
    ("delivered_messages", Kind::OptionalInteger),
    ("record_error", Kind::OptionalNumber),
    ("credits", Kind::Integer),
    ("wasted_credits", Kind::Integer),
    ("reactive_bytes", Kind::Integer),
    ("reorder_bytes", Kind::Integer),
    ("duplicate_bytes", Kind::Integer),
    ("object", Kind::OptionalInteger),
    ("shares_object", Kind::Integer),
    ("symbols", Kind::Integer),
    ("excess_symbols", Kind::Integer),
    ("decoded_blocks", Kind::Integer),
    ("whole_blocks", Kind::Integer),
];

/// Columns of `ports.csv`.
pub(super) const PORTS: [Field; 24] = [
    ("port", Kind::Integer),
    ("queue", Kind::Integer),
    ("port_name", Kind::Text),
    ("queue_name", Kind::Text),
    ("enqueued_packets", Kind::Integer),
    ("enqueued_bytes", Kind::Integer),
    ("dequeued_packets", Kind::Integer),
    ("dequeued_bytes", Kind::Integer),
    ("marked_packets", Kind::Integer),
    ("dropped_tail_packets", Kind::Integer),
    ("dropped_tail_bytes", Kind::Integer),
    ("dropped_colour_packets", Kind::Integer),
    ("dropped_colour_bytes", Kind::Integer),
    ("dropped_shared_buffer_packets", Kind::Integer),
    ("dropped_shared_buffer_bytes", Kind::Integer),
    ("dropped_early_packets", Kind::Integer),
    ("dropped_early_bytes", Kind::Integer),
    ("dropped_loss_packets", Kind::Integer),
    ("dropped_loss_bytes", Kind::Integer),
    ("left_packets", Kind::Integer),
    ("left_bytes", Kind::Integer),
    ("max_packets", Kind::Integer),
    ("trimmed_packets", Kind::Integer),
    ("returned_packets", Kind::Integer),
];

/// Columns of `queue_series.parquet`.
pub(super) const QUEUE_SERIES: [Field; 6] = [
    ("at_ps", Kind::Integer),
    ("port", Kind::Integer),
    ("queue", Kind::Integer),
    ("packets", Kind::Integer),
    ("bytes", Kind::Integer),
    ("red_bytes", Kind::Integer),
];

/// Columns of `throughput_series.parquet`.
pub(super) const THROUGHPUT_SERIES: [Field; 4] = [
    ("at_ps", Kind::Integer),
    ("group", Kind::Text),
    ("delivered_bytes", Kind::Integer),
    ("reactive_bytes", Kind::Integer),
];

/// Columns of `reflex_series.parquet`.
pub(super) const REFLEX_SERIES: [Field; 10] = [
    ("at_ps", Kind::Integer),
    ("flow", Kind::Integer),
    ("group", Kind::Text),
    ("interval_ps", Kind::Integer),
    ("acked_bytes", Kind::Integer),
    ("fair_rate_bytes_per_s", Kind::OptionalNumber),
    ("rate_budget_bytes", Kind::OptionalNumber),
    ("delivery_budget_bytes", Kind::OptionalNumber),
    ("phase", Kind::Text),
    ("low", Kind::Integer),
];

/// Columns of `window_series.parquet`.
pub(super) const WINDOW_SERIES: [Field; 6] = [
    ("at_ps", Kind::Integer),
    ("flow", Kind::Integer),
    ("group", Kind::Text),
    ("window_packets", Kind::OptionalNumber),
    ("alpha", Kind::OptionalNumber),
    ("rtt_ps", Kind::Integer),
];

/// Columns of `objects.csv`.
pub(super) const OBJECTS: [Field; 14] = [
    ("object", Kind::Integer),
    ("group", Kind::Text),
    ("receiver", Kind::Integer),
    ("sources", Kind::Integer),
    ("size_bytes", Kind::Integer),
    ("start_ps", Kind::Integer),
    ("completed_ps", Kind::OptionalInteger),
    ("completion_time_us", Kind::OptionalNumber),
    ("delivered_bytes", Kind::Integer),
    ("largest_part", Kind::OptionalNumber),
    ("symbols", Kind::Integer),
    ("excess_symbols", Kind::Integer),
    ("decoded_blocks", Kind::Integer),
    ("whole_blocks", Kind::Integer),
];

fn integers<T>(rows: &[T], value: impl Fn(&T) -> u64) -> Column<'static> {
    Column::Integer(rows.iter().map(value).collect())
}

fn text<'a, T>(rows: &'a [T], value: impl Fn(&'a T) -> &'a str) -> Column<'a> {
    Column::Text(rows.iter().map(|row| Cow::Borrowed(value(row))).collect())
}

fn of_messages(rows: &[FlowRow], value: impl Fn(MessageCounts) -> u32) -> Column<'static> {
    Column::OptionalInteger(rows.iter().map(|flow| flow.messages.map(|counts| value(counts).into())).collect())
}

pub(super) fn flows<'a>(rows: &'a [FlowRow], groups: &'a [GroupInfo]) -> Columns<'a> {
    vec![
        integers(rows, |flow| flow.id),
        text(rows, |flow| &groups[usize::from(flow.group)].name),
        integers(rows, |flow| flow.request),
        integers(rows, |flow| u64::from(flow.source)),
        integers(rows, |flow| u64::from(flow.destination)),
        integers(rows, |flow| flow.bytes),
        integers(rows, |flow| flow.start.as_ps()),
        Column::OptionalInteger(rows.iter().map(|flow| flow.completed.map(Instant::as_ps)).collect()),
        Column::OptionalNumber(rows.iter().map(|flow| flow.fct().map(Span::as_us_f64)).collect()),
        integers(rows, |flow| flow.ideal_fct.as_ps()),
        Column::OptionalNumber(rows.iter().map(FlowRow::slowdown).collect()),
        integers(rows, |flow| flow.delivered_bytes),
        integers(rows, |flow| flow.given_up_bytes),
        integers(rows, |flow| flow.low_bytes),
        integers(rows, |flow| flow.low_time.as_ps()),
        text(rows, |flow| flow.state.name()),
        integers(rows, |flow| u64::from(flow.retransmissions)),
        integers(rows, |flow| u64::from(flow.timeouts)),
        integers(rows, |flow| u64::from(flow.marks)),
        integers(rows, |flow| u64::from(flow.drops)),
        Column::OptionalNumber(rows.iter().map(|flow| flow.fair_share.get()).collect()),
        Column::OptionalNumber(rows.iter().map(|flow| flow.fluid_share.get()).collect()),
        integers(rows, |flow| u64::from(flow.pauses)),
        integers(rows, |flow| flow.paused.as_ps()),
        of_messages(rows, |counts| counts.total),
        of_messages(rows, |counts| counts.needed),
        of_messages(rows, |counts| counts.delivered),
        Column::OptionalNumber(rows.iter().map(|flow| flow.record_error.get()).collect()),
        integers(rows, |flow| flow.credits),
        integers(rows, |flow| flow.wasted_credits),
        integers(rows, |flow| flow.reactive_bytes),
        integers(rows, |flow| flow.reorder_bytes),
        integers(rows, |flow| flow.duplicate_bytes),
        Column::OptionalInteger(rows.iter().map(|flow| flow.object).collect()),
        integers(rows, |flow| u64::from(flow.shares_object)),
        integers(rows, |flow| flow.symbols),
        integers(rows, |flow| flow.excess_symbols),
        integers(rows, |flow| u64::from(flow.decoded_blocks)),
        integers(rows, |flow| u64::from(flow.whole_blocks)),
    ]
}

pub(super) fn ports(rows: &[PortRow]) -> Columns<'_> {
    let mut columns = vec![
        integers(rows, |port| u64::from(port.port)),
        integers(rows, |port| u64::from(port.queue)),
        text(rows, |port| &port.name),
        text(rows, |port| &port.queue_name),
        integers(rows, |port| port.counters.admitted.packets),
        integers(rows, |port| port.counters.admitted.bytes),
        integers(rows, |port| port.dequeued().packets),
        integers(rows, |port| port.dequeued().bytes),
        integers(rows, |port| port.counters.marked_packets),
    ];
    for reason in DropReason::ALL {
        columns.push(integers(rows, |port| port.dropped(reason).packets));
        columns.push(integers(rows, |port| port.dropped(reason).bytes));
    }
    columns.extend([
        integers(rows, |port| u64::from(port.left.packets)),
        integers(rows, |port| port.left.bytes),
        integers(rows, |port| u64::from(port.counters.max_packets)),
        integers(rows, |port| port.counters.trimmed_packets),
        integers(rows, |port| port.counters.returned_packets),
    ]);
    columns
}

pub(super) fn queue_series(rows: &[QueueSample]) -> Columns<'static> {
    vec![
        integers(rows, |sample| sample.at.as_ps()),
        integers(rows, |sample| u64::from(sample.port)),
        integers(rows, |sample| u64::from(sample.queue)),
        integers(rows, |sample| u64::from(sample.packets)),
        integers(rows, |sample| sample.bytes),
        integers(rows, |sample| sample.red_bytes),
    ]
}

pub(super) fn throughput_series<'a>(rows: &'a [ThroughputSample], groups: &'a [GroupInfo]) -> Columns<'a> {
    vec![
        integers(rows, |sample| sample.at.as_ps()),
        text(rows, |sample| &groups[usize::from(sample.group)].name),
        integers(rows, |sample| sample.delivered_bytes),
        integers(rows, |sample| sample.reactive_bytes),
    ]
}

pub(super) fn reflex_series<'a>(rows: &'a [ReflexSample], groups: &'a [GroupInfo]) -> Columns<'a> {
    let budget = |value: fn(&Standing) -> f64| {
        Column::OptionalNumber(rows.iter().map(|sample| Some(value(&sample.standing))).collect())
    };
    vec![
        integers(rows, |sample| sample.standing.at.as_ps()),
        integers(rows, |sample| sample.flow),
        text(rows, |sample| &groups[usize::from(sample.group)].name),
        integers(rows, |sample| sample.standing.interval.as_ps()),
        integers(rows, |sample| sample.standing.acked_bytes),
        Column::OptionalNumber(rows.iter().map(|sample| sample.standing.fair_rate).collect()),
        budget(|standing| standing.rate_budget),
        budget(|standing| standing.delivery_budget),
        text(rows, |sample| sample.standing.phase.name()),
        integers(rows, |sample| u64::from(sample.standing.low)),
    ]
}

pub(super) fn window_series<'a>(rows: &'a [WindowSample], groups: &'a [GroupInfo]) -> Columns<'a> {
    vec![
        integers(rows, |sample| sample.at.as_ps()),
        integers(rows, |sample| sample.flow),
        text(rows, |sample| &groups[usize::from(sample.group)].name),
        Column::OptionalNumber(rows.iter().map(|sample| Some(sample.window.packets)).collect()),
        Column::OptionalNumber(rows.iter().map(|sample| sample.window.alpha).collect()),
        integers(rows, |sample| sample.window.rtt.as_ps()),
    ]
}

pub(super) fn objects<'a>(rows: &'a [ObjectRow], groups: &'a [GroupInfo]) -> Columns<'a> {
    vec![
        integers(rows, |object| object.object),
        text(rows, |object| &groups[usize::from(object.group)].name),
        integers(rows, |object| u64::from(object.receiver)),
        integers(rows, |object| u64::from(object.sources)),
        integers(rows, |object| object.bytes),
        integers(rows, |object| object.start.as_ps()),
        Column::OptionalInteger(rows.iter().map(|object| object.completed.map(Instant::as_ps)).collect()),
        Column::OptionalNumber(rows.iter().map(|object| object.completion_time().map(Span::as_us_f64)).collect()),
        integers(rows, |object| object.delivered_bytes),
        Column::OptionalNumber(rows.iter().map(|object| Some(object.largest_part)).collect()),
        integers(rows, |object| object.symbols),
        integers(rows, |object| object.excess_symbols),
        integers(rows, |object| u64::from(object.decoded_blocks)),
        integers(rows, |object| u64::from(object.whole_blocks)),
    ]
}

/// Columns of a table that was read, by name.
struct Named<'a> {
    fields: &'a [Field],
    columns: &'a Columns<'static>,
}

impl Named<'_> {
    fn column(&self, name: &str) -> &Column<'static> {
        let position = self.fields.iter().position(|(field, _)| *field == name);
        &self.columns[position.expect("a column of the schema")]
    }

    fn rows(&self) -> usize {
        match &self.columns[0] {
            Column::Integer(values) => values.len(),
            _ => unreachable!("every table starts with an integer"),
        }
    }

    fn integer(&self, name: &str, row: usize) -> u64 {
        match self.column(name) {
            Column::Integer(values) => values[row],
            _ => unreachable!("{name} is an integer in the schema"),
        }
    }

    /// An integer that fits into `T`.
    fn small<T: TryFrom<u64>>(&self, name: &str, row: usize) -> Result<T, String> {
        let value = self.integer(name, row);
        T::try_from(value).map_err(|_| format!("row {}, column {name}: {value} is too large", row + 1))
    }

    fn optional(&self, name: &str, row: usize) -> Option<u64> {
        match self.column(name) {
            Column::OptionalInteger(values) => values[row],
            _ => unreachable!("{name} is an optional integer in the schema"),
        }
    }

    fn optional_small(&self, name: &str, row: usize) -> Result<Option<u32>, String> {
        let small = |value: u64| {
            u32::try_from(value).map_err(|_| format!("row {}, column {name}: {value} is too large", row + 1))
        };
        self.optional(name, row).map(small).transpose()
    }

    fn share(&self, name: &str, row: usize) -> Result<Share, String> {
        match self.column(name) {
            Column::OptionalNumber(values) if values[row].is_some_and(f64::is_nan) => {
                Err(format!("row {}, column {name}: not a number", row + 1))
            }
            Column::OptionalNumber(values) => Ok(Share::new(values[row])),
            _ => unreachable!("{name} is an optional number in the schema"),
        }
    }

    fn number(&self, name: &str, row: usize) -> Option<f64> {
        match self.column(name) {
            Column::OptionalNumber(values) => values[row],
            _ => unreachable!("{name} is a number in the schema"),
        }
    }

    fn text(&self, name: &str, row: usize) -> &str {
        match self.column(name) {
            Column::Text(values) => &values[row],
            _ => unreachable!("{name} is text in the schema"),
        }
    }

    fn group(&self, row: usize, groups: &[GroupInfo]) -> Result<u16, String> {
        let name = self.text("group", row);
        let position = groups.iter().position(|group| group.name == name);
        position
            .map(|index| index as u16)
            .ok_or_else(|| format!("row {}: \"{name}\" is no group of the summary", row + 1))
    }
}

pub(super) fn read_flows(columns: &Columns<'static>, groups: &[GroupInfo]) -> Result<Vec<FlowRow>, String> {
    let table = Named { fields: &FLOWS, columns };
    let row = |row: usize| {
        let state = table.text("state", row);
        Ok(FlowRow {
            id: table.integer("flow", row),
            group: table.group(row, groups)?,
            request: table.integer("request", row),
            source: table.small("source", row)?,
            destination: table.small("destination", row)?,
            bytes: table.integer("size_bytes", row),
            start: Instant::from_ps(table.integer("start_ps", row)),
            completed: table.optional("completed_ps", row).map(Instant::from_ps),
            ideal_fct: Span::from_ps(table.integer("ideal_fct_ps", row)),
            delivered_bytes: table.integer("delivered_bytes", row),
            given_up_bytes: table.integer("given_up_bytes", row),
            low_bytes: table.integer("low_sent_bytes", row),
            low_time: Span::from_ps(table.integer("low_ps", row)),
            state: FlowState::from_name(state).ok_or_else(|| format!("row {}: no state \"{state}\"", row + 1))?,
            retransmissions: table.small("retransmitted_packets", row)?,
            timeouts: table.small("timeouts", row)?,
            marks: table.small("marked_packets", row)?,
            drops: table.small("dropped_packets", row)?,
            fair_share: table.share("fair_share", row)?,
            fluid_share: table.share("fluid_share", row)?,
            pauses: table.small("pauses", row)?,
            paused: Span::from_ps(table.integer("paused_ps", row)),
            messages: match table.optional_small("messages", row)? {
                None => None,
                Some(total) => Some(MessageCounts {
                    total,
                    needed: table.optional_small("needed_messages", row)?.unwrap_or(total),
                    delivered: table.optional_small("delivered_messages", row)?.unwrap_or(0),
                }),
            },
            record_error: table.share("record_error", row)?,
            credits: table.integer("credits", row),
            wasted_credits: table.integer("wasted_credits", row),
            reactive_bytes: table.integer("reactive_bytes", row),
            reorder_bytes: table.integer("reorder_bytes", row),
            duplicate_bytes: table.integer("duplicate_bytes", row),
            object: table.optional("object", row),
            shares_object: table.integer("shares_object", row) != 0,
            symbols: table.integer("symbols", row),
            excess_symbols: table.integer("excess_symbols", row),
            decoded_blocks: table.small("decoded_blocks", row)?,
            whole_blocks: table.small("whole_blocks", row)?,
        })
    };
    (0..table.rows()).map(row).collect()
}

pub(super) fn read_ports(columns: &Columns<'static>) -> Result<Vec<PortRow>, String> {
    let table = Named { fields: &PORTS, columns };
    let tally = |what: &str, row| Tally {
        packets: table.integer(&format!("{what}_packets"), row),
        bytes: table.integer(&format!("{what}_bytes"), row),
    };
    let row = |row: usize| {
        Ok(PortRow {
            port: table.small("port", row)?,
            queue: table.small("queue", row)?,
            name: table.text("port_name", row).to_owned(),
            queue_name: table.text("queue_name", row).to_owned(),
            counters: QueueCounters {
                admitted: tally("enqueued", row),
                dropped: DropReason::ALL.map(|reason| tally(&format!("dropped_{}", reason.name()), row)),
                marked_packets: table.integer("marked_packets", row),
                trimmed_packets: table.integer("trimmed_packets", row),
                returned_packets: table.integer("returned_packets", row),
                max_packets: table.small("max_packets", row)?,
            },
            left: Occupancy { packets: table.small("left_packets", row)?, bytes: table.integer("left_bytes", row) },
        })
    };
    (0..table.rows()).map(row).collect()
}

pub(super) fn read_queue_series(columns: &Columns<'static>) -> Result<Vec<QueueSample>, String> {
    let table = Named { fields: &QUEUE_SERIES, columns };
    let row = |row: usize| {
        Ok(QueueSample {
            at: Instant::from_ps(table.integer("at_ps", row)),
            port: table.small("port", row)?,
            queue: table.small("queue", row)?,
            packets: table.small("packets", row)?,
            bytes: table.integer("bytes", row),
            red_bytes: table.integer("red_bytes", row),
        })
    };
    (0..table.rows()).map(row).collect()
}

pub(super) fn read_throughput_series(
    columns: &Columns<'static>,
    groups: &[GroupInfo],
) -> Result<Vec<ThroughputSample>, String> {
    let table = Named { fields: &THROUGHPUT_SERIES, columns };
    let row = |row: usize| {
        Ok(ThroughputSample {
            at: Instant::from_ps(table.integer("at_ps", row)),
            group: table.group(row, groups)?,
            delivered_bytes: table.integer("delivered_bytes", row),
            reactive_bytes: table.integer("reactive_bytes", row),
        })
    };
    (0..table.rows()).map(row).collect()
}

pub(super) fn read_window_series(
    columns: &Columns<'static>,
    groups: &[GroupInfo],
) -> Result<Vec<WindowSample>, String> {
    let table = Named { fields: &WINDOW_SERIES, columns };
    let row = |row: usize| {
        let packets = table.number("window_packets", row);
        Ok(WindowSample {
            at: Instant::from_ps(table.integer("at_ps", row)),
            flow: table.integer("flow", row),
            group: table.group(row, groups)?,
            window: WindowState {
                packets: packets.ok_or_else(|| format!("row {}: window_packets is missing", row + 1))?,
                alpha: table.number("alpha", row),
                rtt: Span::from_ps(table.integer("rtt_ps", row)),
            },
        })
    };
    (0..table.rows()).map(row).collect()
}

pub(super) fn read_reflex_series(
    columns: &Columns<'static>,
    groups: &[GroupInfo],
) -> Result<Vec<ReflexSample>, String> {
    let table = Named { fields: &REFLEX_SERIES, columns };
    let row = |row: usize| {
        let budget = |name| table.number(name, row).ok_or_else(|| format!("row {}: {name} is missing", row + 1));
        let phase = table.text("phase", row);
        let standing = Standing {
            at: Instant::from_ps(table.integer("at_ps", row)),
            interval: Span::from_ps(table.integer("interval_ps", row)),
            acked_bytes: table.integer("acked_bytes", row),
            fair_rate: table.number("fair_rate_bytes_per_s", row),
            rate_budget: budget("rate_budget_bytes")?,
            delivery_budget: budget("delivery_budget_bytes")?,
            phase: Phase::from_name(phase).ok_or_else(|| format!("row {}: no phase \"{phase}\"", row + 1))?,
            low: table.integer("low", row) != 0,
        };
        Ok(ReflexSample { flow: table.integer("flow", row), group: table.group(row, groups)?, standing })
    };
    (0..table.rows()).map(row).collect()
}
