//! The columns of every table but that of flows: ports, series over time, objects.

use pliant_proto::contract::reflex::{Phase, Standing};
use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;

use super::objects::ObjectRow;
use super::table::{Table, columns, computed, group, place};
use super::{PortRow, QueueSample, ReflexSample, ThroughputSample, WindowSample};

const EVERY_QUEUE: &str = "every queue";
const EVERY_SAMPLE: &str = "every row";

/// Packets refused for a reason.
macro_rules! dropped_packets {
    ($reason:ident) => {
        place!(u64, counters.dropped[DropReason::$reason as usize].packets)
    };
}

/// Bytes refused for a reason.
macro_rules! dropped_bytes {
    ($reason:ident) => {
        place!(u64, counters.dropped[DropReason::$reason as usize].bytes)
    };
}

/// `ports.csv`.
pub(crate) static PORTS: Table<PortRow> = Table {
    files: "ports.csv",
    columns: columns! { PortRow;
        "port" [place!(u32, port)] None, EVERY_QUEUE, "Index of the port.";
        "queue" [place!(u8, queue)] None, EVERY_QUEUE, "Index of the queue at the port.";
        "port_name" [place!(String, name)] None, EVERY_QUEUE, "Name of the port: `leaf 0 -> host 3`.";
        "queue_name" [place!(String, queue_name)] None, EVERY_QUEUE, "Name of the queue in its plan.";
        "enqueued_packets" [place!(u64, counters.admitted.packets)] Packets, EVERY_QUEUE,
            "Packets admitted.", titled("packets in");
        "enqueued_bytes" [place!(u64, counters.admitted.bytes)] Bytes, EVERY_QUEUE, "Bytes admitted.";
        "dequeued_packets" [computed!(Integer, |port| port.dequeued().packets)] Packets, EVERY_QUEUE,
            "Packets sent on: those admitted less those left.", sum("sent_packets");
        "dequeued_bytes" [computed!(Integer, |port| port.dequeued().bytes)] Bytes, EVERY_QUEUE,
            "Bytes sent on: those admitted less those left.", sum("sent_bytes");
        "marked_packets" [place!(u64, counters.marked_packets)] Packets, "queues with `ecn` or `red`",
            "Packets marked CE here.", sum("marked_packets"), titled("marked");
        "dropped_tail_packets" [dropped_packets!(Tail)] Packets, EVERY_QUEUE,
            "Packets refused by the limit of the queue.";
        "dropped_tail_bytes" [dropped_bytes!(Tail)] Bytes, EVERY_QUEUE, "Their bytes.";
        "dropped_colour_packets" [dropped_packets!(Colour)] Packets, "queues with a `colour_limit`",
            "Red packets refused by their limit.", sum("dropped_red_packets");
        "dropped_colour_bytes" [dropped_bytes!(Colour)] Bytes, "queues with a `colour_limit`", "Their bytes.";
        "dropped_shared_buffer_packets" [dropped_packets!(SharedBuffer)] Packets, "queues that share a buffer",
            "Packets refused by the buffer of the switch, or by its dynamic threshold.";
        "dropped_shared_buffer_bytes" [dropped_bytes!(SharedBuffer)] Bytes, "queues that share a buffer",
            "Their bytes.";
        "dropped_early_packets" [dropped_packets!(Early)] Packets, "queues with `ecn` or `red`",
            "Packets refused by the marker because they cannot be marked.";
        "dropped_early_bytes" [dropped_bytes!(Early)] Bytes, "queues with `ecn` or `red`", "Their bytes.";
        "dropped_loss_packets" [dropped_packets!(Loss)] Packets, "links with [losses](scenario.md#losses)",
            "Packets that the link itself lost.";
        "dropped_loss_bytes" [dropped_bytes!(Loss)] Bytes, "links with [losses](scenario.md#losses)", "Their bytes.";
        "left_packets" [place!(u32, left.packets)] Packets, EVERY_QUEUE,
            "Packets still queued at the end.", titled("left at end");
        "left_bytes" [place!(u64, left.bytes)] Bytes, EVERY_QUEUE, "Bytes still queued at the end.";
        "max_packets" [place!(u32, counters.max_packets)] Packets, EVERY_QUEUE,
            "Most packets that were ever queued.", titled("most queued");
        "trimmed_packets" [place!(u64, counters.trimmed_packets)] Packets, "queues with `trim`",
            "Packets trimmed here, arriving or already queued. What is left of them is admitted to another queue, \
             or goes back to its sender.";
        "returned_packets" [place!(u64, counters.returned_packets)] Packets, "queues of discipline `return-to-sender`",
            "Headers that found no room here and went back to their senders.";
    },
    blank: || PortRow {
        port: 0,
        queue: 0,
        name: String::new(),
        queue_name: String::new(),
        counters: QueueCounters::default(),
        left: Occupancy::default(),
    },
};

/// `queue_series.parquet`.
pub(crate) static QUEUE_SERIES: Table<QueueSample> = Table {
    files: "queue_series.parquet",
    columns: columns! { QueueSample;
        "at_ps" [place!(Instant, at)] Picoseconds, EVERY_SAMPLE, "When.";
        "port" [place!(u32, port)] None, EVERY_SAMPLE, "Index of the port, as in `ports.csv`.";
        "queue" [place!(u8, queue)] None, EVERY_SAMPLE, "Index of the queue at the port.";
        "packets" [place!(u32, packets)] Packets, EVERY_SAMPLE,
            "Packets that the queue held.", each("packets", |packets| packets);
        "bytes" [place!(u64, bytes)] Bytes, EVERY_SAMPLE, "Bytes that the queue held.", each("kb", |bytes| bytes / 1e3);
        "red_bytes" [place!(u64, red_bytes)] Bytes, "queues with a `colour_limit`",
            "Bytes of red packets among them.", each("red_kb", |bytes| bytes / 1e3);
    },
    blank: || QueueSample { at: Instant::ZERO, port: 0, queue: 0, packets: 0, bytes: 0, red_bytes: 0 },
};

/// `throughput_series.parquet`.
pub(crate) static THROUGHPUT_SERIES: Table<ThroughputSample> = Table {
    files: "throughput_series.parquet",
    columns: columns! { ThroughputSample;
        "at_ps" [place!(Instant, at)] Picoseconds, EVERY_SAMPLE,
            "End of the interval. It began at the row before of the same group, or at the start.";
        "group" [group!()] None, EVERY_SAMPLE, "Traffic group.";
        "delivered_bytes" [place!(u64, delivered_bytes)] Bytes, EVERY_SAMPLE,
            "Payload delivered to receiving applications in the interval.", each("throughput", |bytes| bytes);
        "reactive_bytes" [place!(u64, reactive_bytes)] Bytes, "`flexpass`",
            "Payload that arrived without a credit in the interval.", each("reactive_throughput", |bytes| bytes);
    },
    blank: || ThroughputSample { at: Instant::ZERO, group: 0, delivered_bytes: 0, reactive_bytes: 0 },
};

/// `reflex_series.parquet`.
pub(crate) static REFLEX_SERIES: Table<ReflexSample> = Table {
    files: "reflex_series.parquet",
    columns: columns! { ReflexSample;
        "at_ps" [place!(Instant, standing.at)] Picoseconds, EVERY_SAMPLE, "Boundary between two intervals of the flow.";
        "flow" [place!(u64, flow)] None, EVERY_SAMPLE, "Number of the flow, as in `flows.csv`.";
        "group" [group!()] None, EVERY_SAMPLE, "Traffic group of the flow.";
        "interval_ps" [place!(Span, standing.interval)] Picoseconds, EVERY_SAMPLE,
            "Length of the interval that ended. It is shorter for the first interval of a flow.";
        "acked_bytes" [place!(u64, standing.acked_bytes)] Bytes, EVERY_SAMPLE,
            "Payload acknowledged in that interval. Over `interval_ps` it is the rate of the flow.";
        "fair_rate_bytes_per_s" [place!(Option<f64>, standing.fair_rate)] BytesPerSecond, EVERY_SAMPLE,
            "Fair share as last measured (R_fair). Empty before the first measurement.",
            each("fair_gbit_per_s", |rate| rate * 8e-9);
        "rate_budget_bytes" [place!(f64, standing.rate_budget)] Bytes, EVERY_SAMPLE,
            "Rate budget (B_alpha). It may be negative.", each("rate_budget_mb", |bytes| bytes * 1e-6);
        "delivery_budget_bytes" [place!(f64, standing.delivery_budget)] Bytes, EVERY_SAMPLE,
            "Bytes that may yet be given up (B_r).", each("delivery_budget_mb", |bytes| bytes * 1e-6);
        "phase" [place!(Phase, standing.phase)] None, EVERY_SAMPLE,
            "Phase of the interval that begins: `warmup`, `measure` or `exploit`.";
        "low" [place!(bool, standing.low)] Flag, EVERY_SAMPLE,
            "1 if the flow gives way in that interval.", each("low", |low| low);
    },
    blank: || ReflexSample {
        flow: 0,
        group: 0,
        standing: Standing {
            at: Instant::ZERO,
            interval: Span::ZERO,
            acked_bytes: 0,
            fair_rate: None,
            rate_budget: 0.0,
            delivery_budget: 0.0,
            phase: Phase::Warmup,
            low: false,
        },
    },
};

/// `window_series.parquet`.
pub(crate) static WINDOW_SERIES: Table<WindowSample> = Table {
    files: "window_series.parquet",
    columns: columns! { WindowSample;
        "at_ps" [place!(Instant, at)] Picoseconds, EVERY_SAMPLE, "When.";
        "flow" [place!(u64, flow)] None, EVERY_SAMPLE, "Number of the flow, as in `flows.csv`.";
        "group" [group!()] None, EVERY_SAMPLE, "Traffic group of the flow.";
        "window_packets" [place!(f64, window.packets)] Packets, EVERY_SAMPLE,
            "Congestion window, in full packets.", each("packets", |packets| packets);
        "alpha" [place!(Option<f64>, window.alpha)] Ratio, "controllers that estimate it",
            "Estimated fraction of marked packets.", each("alpha", |alpha| alpha);
        "rtt_ps" [place!(Span, window.rtt)] Picoseconds, EVERY_SAMPLE,
            "Smoothed round-trip time; 0 before the first sample.", each("rtt_us", |ps| ps / 1e6);
    },
    blank: || WindowSample {
        at: Instant::ZERO,
        flow: 0,
        group: 0,
        window: WindowState { packets: 0.0, alpha: None, rtt: Span::ZERO },
    },
};

const EVERY_OBJECT: &str = "every object";
const SYMBOLS: &str = "`push`, `scdp`";

/// `objects.csv`.
pub(crate) static OBJECTS: Table<ObjectRow> = Table {
    files: "objects.csv",
    columns: columns! { ObjectRow;
        "object" [place!(u64, object)] None, EVERY_OBJECT, "Number of the object within its traffic group.";
        "group" [group!()] None, EVERY_OBJECT, "Traffic group of the object.";
        "receiver" [place!(u32, receiver)] None, EVERY_OBJECT, "Number of the receiving host.";
        "sources" [place!(u32, sources)] Count, EVERY_OBJECT, "Hosts that sent.";
        "size_bytes" [place!(u64, bytes)] Bytes, EVERY_OBJECT,
            "Payload of the object.", each("object_mb", |bytes| bytes * 1e-6);
        "start_ps" [place!(Instant, start)] Picoseconds, EVERY_OBJECT, "When it was asked for.";
        "completed_ps" [place!(Option<Instant>, completed)] Picoseconds, EVERY_OBJECT,
            "When the receiver had all of it. Empty until then.";
        "completion_time_us" [computed!(OptionalNumber, |object| object.completion_time().map(Span::as_us_f64))]
            Microseconds, EVERY_OBJECT,
            "Completion time: `completed_ps` − `start_ps`.";
        "delivered_bytes" [place!(u64, delivered_bytes)] Bytes, EVERY_OBJECT, "Payload that arrived.";
        "largest_part" [place!(f64, largest_part)] Ratio, EVERY_OBJECT,
            "Part of what arrived that the busiest source sent, 0 to 1.";
        "symbols" [place!(u64, symbols)] Count, SYMBOLS, "Sum over its flows.";
        "excess_symbols" [place!(u64, excess_symbols)] Count, SYMBOLS, "Sum over its flows.";
        "decoded_blocks" [place!(u32, decoded_blocks)] Count, SYMBOLS, "Blocks that had to be decoded.";
        "whole_blocks" [place!(u32, whole_blocks)] Count, SYMBOLS, "Blocks that needed no decoding.";
    },
    blank: || ObjectRow {
        group: 0,
        object: 0,
        receiver: 0,
        sources: 0,
        bytes: 0,
        start: Instant::ZERO,
        completed: None,
        delivered_bytes: 0,
        largest_part: 0.0,
        symbols: 0,
        excess_symbols: 0,
        decoded_blocks: 0,
        whole_blocks: 0,
        timeouts: 0,
    },
};
