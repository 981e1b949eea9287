//! Flows: the row of one, and the columns of `flows.csv` and `flows.parquet`.

use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::Statistics;

use super::flow_facts::{FlowState, MessageCounts, ObjectPart, Share};
use super::table::{Access, Kind, Table, Value, columns, computed, group, place};
use crate::traffic::FlowSpec;

const EVERY_FLOW: &str = "every flow";
/// Transports that send data again.
const REPAIRING: &str = "all but `scdp`, `udp`";
const WITH_TIMEOUTS: &str = "all but `expresspass`, `udp`";
const MARKED: &str = "all but `homa`, `ndp`, `scdp`";
const WITH_DUPLICATES: &str = "all but `push`";
const TCP_FAMILY: &str = "the TCP family";
const REFLEX: &str = "`reflex`";
const DONE_BY: &str = "[`done_by`](scenario.md)";
const MESSAGES: &str = "flows of messages";
const SHARES: &str = "[`shares`](#shares)";
const CROSS_QUEUE: &str = "`cross_queue`";
const CREDITS: &str = "`expresspass`, `expresspass-layered`, `flexpass`; `homa` (grants); `ndp`, `scdp` (pulls)";
const FLEX_PASS: &str = "`flexpass`";
const OBJECTS: &str = "flows of objects";
const SYMBOLS: &str = "`push`, `scdp`";

/// Declares the columns of flows once. A column that a row keeps is a field of [`FlowRow`]. A column that a transport
/// counts says which of the statistics of sender and receiver it is; nothing else has to know of it.
///
/// `"NAME" [ACCESS] => FIELD: TYPE = COUNTED, UNIT, OF, MEANING, MORE;` declares a column. ACCESS is needed where the
/// column is not simply its field. A computed column has no field. COUNTED takes the statistics of sender and receiver.
/// The rest is as in [`columns`].
macro_rules! flow_columns {
    ($(
        $name:literal $([$access:expr])? $(=> $field:ident: $type:ty $(= $counted:expr)?)?,
        $unit:ident, $of:expr, $meaning:literal $(, $more:ident($($argument:expr),+))*;
    )+) => {
        /// One flow that started, finished or not. `group` is the index of the traffic group in the groups of the run;
        /// `messages` has all three counts of messages.
        #[derive(Clone, Copy, PartialEq, Debug, Default)]
        pub struct FlowRow {
            $($(
                #[doc = $meaning]
                pub $field: $type,
            )?)+
        }

        impl FlowRow {
            /// Takes over what the transports of the sender and of the receiver counted.
            fn count(&mut self, sender: &Statistics, receiver: &Statistics) {
                $($($(
                    self.$field = counted::<$type>($counted, sender, receiver);
                )?)?)+
            }
        }

        /// `flows.csv` and `flows.parquet`.
        pub(crate) static FLOWS: Table<FlowRow> = Table {
            files: "flows.csv, flows.parquet",
            columns: columns! { FlowRow; $(
                $name [access!([$($access)?] $($type, $field)?)] $unit, $of, $meaning $(, $more($($argument),+))*;
            )+ },
            blank: FlowRow::default,
        };
    };
}

/// The access that a column names, or else that to its field.
macro_rules! access {
    ([$access:expr] $($field:tt)*) => {
        $access
    };
    ([] $type:ty, $field:ident) => {
        place!($type, $field)
    };
}

flow_columns! {
    "flow" => id: u64, None, EVERY_FLOW, "Number of the flow, by start time.";
    "group" [group!()] => group: u16, None, EVERY_FLOW,
        "Traffic group.";
    "request" => request: u64, None, EVERY_FLOW,
        "Number of the flow within its group, from 0, over the whole run. A duplicate has the number of its original, \
         which joins the two.";
    "source" => source: u32, None, EVERY_FLOW, "Number of the sending host.";
    "destination" => destination: u32, None, EVERY_FLOW, "Number of the receiving host.";
    "size_bytes" => bytes: u64, Bytes, EVERY_FLOW, "Payload that the application sent.";
    "start_ps" => start: Instant, Picoseconds, EVERY_FLOW, "When the application started the flow.";
    "completed_ps" => completed: Option<Instant>, Picoseconds, EVERY_FLOW,
        "When the receiver had the last byte, or message, that it needs. Empty until then.";
    "fct_us" [computed!(OptionalNumber, |flow| flow.fct().map(Span::as_us_f64))], Microseconds, EVERY_FLOW,
        "Flow completion time: `completed_ps` − `start_ps`.";
    "ideal_fct_ps" => ideal_fct: Span, Picoseconds, EVERY_FLOW,
        "Time that the flow would take alone on its path. 0 of a flow without an end.";
    "slowdown" [computed!(OptionalNumber, |flow| flow.slowdown())], Ratio, EVERY_FLOW,
        "Completion time over the ideal one. It is below 1 only for a flow that gave up part of its bytes, or whose \
         messages make packets smaller than full ones.";
    "delivered_bytes" => delivered_bytes: u64, Bytes, EVERY_FLOW,
        "Distinct payload that reached the receiving application.", sum("delivered_bytes");
    "given_up_bytes" => given_up_bytes: u64 = |sender, _| sender.given_up_bytes, Bytes, REFLEX,
        "Payload that the contract of the flow let the sender give up, unsent.";
    "low_sent_bytes" => low_bytes: u64 = |sender, _| sender.policy.low_bytes, Bytes, REFLEX,
        "Payload sent while the flow gave way, retransmissions included.";
    "low_ps" => low_time: Span = |sender, _| Span::from_ps(sender.policy.low_ps), Picoseconds, REFLEX,
        "Time that the flow spent giving way.";
    "done_by_ps" => done_by: Option<Instant> = |sender, _| sender.done_by, Picoseconds, DONE_BY,
        "When the flow had to be done: its start and `done_by`.";
    "said_late_ps" => said_late: Option<Instant> = |sender, _| sender.said_late, Picoseconds, DONE_BY,
        "When the sender said that the flow would not be done by then. Empty if it never did.";
    "state" => state: FlowState, None, EVERY_FLOW,
        "`completed`, `unfinished` (under way at the end), `sent_with_loss` (sent, but bytes are lost for good) or \
         `ran_to_end` (a flow without an end).";
    "retransmitted_packets" => retransmissions: u32 = |sender, _| sender.retransmissions as u32, Packets, REPAIRING,
        "Data packets sent again.", sum("retransmissions"), titled("sent again");
    "timeouts" => timeouts: u32 = |sender, _| sender.timeouts as u32, Count, WITH_TIMEOUTS,
        "Retransmission timeouts.", sum("timeouts"), titled("timeouts");
    "marked_packets" => marks: u32 = |_, receiver| receiver.marks as u32, Packets, MARKED,
        "Data packets that arrived with the mark CE.", sum("marks"), titled("marks");
    "dropped_packets" => drops: u32, Packets, "every flow; 0 on a testbed",
        "Packets of both directions that a queue refused.", sum("drops"), titled("drops");
    "fair_share" => fair_share: Share, Ratio, SHARES,
        "Bytes delivered over the max-min fair rate of the flow, integrated while the flow was open.",
        each("fair_share", |share| share);
    "fluid_share" => fluid_share: Share, Ratio, SHARES,
        "Completion time if all flows had their max-min fair rates, over the completion time of the flow.",
        each("fluid_share", |share| share);
    "pauses" => pauses: u32 = |sender, _| sender.pauses as u32, Count, CROSS_QUEUE,
        "Times that the sender stood still for congestion in a queue above its own.";
    "paused_ps" => paused: Span = |sender, _| sender.paused, Picoseconds, CROSS_QUEUE,
        "Time for which the sender stood still, in the pauses that are over.";
    "messages" [Access {
        kind: Kind::OptionalInteger,
        get: |flow, _| of_messages(flow, |counts| counts.total),
        fill: None,
        set: Some(|flow, value, _| {
            let counts = |total| MessageCounts { total, needed: total, delivered: 0 };
            flow.messages = value.optional_small()?.map(counts);
            Ok(())
        }),
    }] => messages: Option<MessageCounts>, Count, MESSAGES,
        "Messages of the flow; of a flow without an end, those handed over.",
        sum("messages");
    "needed_messages" [Access {
        kind: Kind::OptionalInteger,
        get: |flow, _| of_messages(flow, |counts| counts.needed),
        fill: None,
        set: Some(|flow, value, _| {
            set_messages(flow, value.optional_small()?, |counts| &mut counts.needed);
            Ok(())
        }),
    }], Count, MESSAGES,
        "How many must arrive under the contract: messages − ⌊messages · (1 − `min_delivery`)⌋.";
    "delivered_messages" [Access {
        kind: Kind::OptionalInteger,
        get: |flow, _| of_messages(flow, |counts| counts.delivered),
        fill: None,
        set: Some(|flow, value, _| {
            set_messages(flow, value.optional_small()?, |counts| &mut counts.delivered);
            Ok(())
        }),
    }], Count, MESSAGES, "How many arrived whole.", sum("delivered_messages");
    "record_error" => record_error: Share, Ratio, "flows of messages that are `records`",
        "Mean of the `value` of the records that arrived, over the mean of all, − 1.",
        each("record_error", f64::abs);
    "credits" => credits: u64 = |_, receiver| receiver.credits_sent, Count, CREDITS,
        "Credits that the receiver sent.", sum("credits");
    "wasted_credits" => wasted_credits: u64 = |sender, _| sender.wasted_credits, Count,
        "`expresspass`, `expresspass-layered`, `flexpass`",
        "Credits that reached the sender when it had nothing to send.", sum("wasted_credits");
    "reactive_bytes" => reactive_bytes: u64 = |_, receiver| receiver.reactive_bytes, Bytes, FLEX_PASS,
        "Of the bytes that arrived, those without a credit: FlexPass's reactive sub-flow.", sum("reactive_bytes");
    "reorder_bytes" => reorder_bytes: u64 = |_, receiver| receiver.reorder_bytes, Bytes, FLEX_PASS,
        "Largest stretch that the receiver of two sub-flows held beyond a gap.",
        each("reorder_kb", |bytes| bytes / 1e3);
    "duplicate_bytes" => duplicate_bytes: u64 = |_, receiver| receiver.duplicate_bytes, Bytes, WITH_DUPLICATES,
        "Payload that arrived though it had arrived before.", sum("duplicate_bytes");
    "overtaken_packets" => overtaken: u32 = |_, receiver| receiver.overtaken as u32, Packets, TCP_FAMILY,
        "Data packets that arrived after one that was sent later: the network reordered them. Packets sent again are none of these.",
        sum("overtaken"), titled("overtaken");
    "object" => object: Option<u64>, None, OBJECTS,
        "Number, within its group, of the object that the flow brings a part of.";
    "shares_object" => shares_object: bool, Flag, OBJECTS,
        "1 if `size_bytes` is that of the whole object, which the flows of the object share (`push`, `scdp`).";
    "symbols" => symbols: u64 = |_, receiver| receiver.symbols, Count, SYMBOLS,
        "Packets with symbols that arrived.";
    "excess_symbols" => excess_symbols: u64 = |_, receiver| receiver.excess_symbols, Count, SYMBOLS,
        "Of these, those of a block already decoded, and those that came twice.";
    "decoded_blocks" => decoded_blocks: u32 = |_, receiver| receiver.decoded_blocks, Count, SYMBOLS,
        "Blocks that had to be decoded: of the whole object, in the row of one of its flows.";
    "whole_blocks" => whole_blocks: u32 = |_, receiver| receiver.whole_blocks, Count, SYMBOLS,
        "Blocks whose source symbols all came, which need no decoding: of the whole object, in the row of one of its \
         flows.";
}

/// What `count` takes of the statistics of both sides.
fn counted<T>(count: fn(&Statistics, &Statistics) -> T, sender: &Statistics, receiver: &Statistics) -> T {
    count(sender, receiver)
}

fn of_messages(flow: &FlowRow, count: fn(MessageCounts) -> u32) -> Value<'static> {
    Value::OptionalInteger(flow.messages.map(|counts| count(counts).into()))
}

/// Sets a count of messages that the flow has.
fn set_messages(flow: &mut FlowRow, count: Option<u32>, of: fn(&mut MessageCounts) -> &mut u32) {
    if let (Some(counts), Some(count)) = (&mut flow.messages, count) {
        *of(counts) = count;
    }
}

impl FlowRow {
    /// Flow completion time: from the application's start to the receiver's last needed byte.
    pub fn fct(&self) -> Option<Span> {
        self.completed.map(|completed| completed.since(self.start))
    }

    /// Completion time over the ideal one on the same path; `None` until completed.
    pub fn slowdown(&self) -> Option<f64> {
        self.fct().and_then(|fct| self.slowdown_of(fct))
    }

    /// `time` over the ideal completion time; `None` for a flow without an ideal.
    pub fn slowdown_of(&self, time: Span) -> Option<f64> {
        (self.ideal_fct > Span::ZERO).then(|| time.as_ps() as f64 / self.ideal_fct.as_ps() as f64)
    }
}

/// What a driver knows of a flow at its end, or at the end of the run. The simulator and the testbed make their rows of
/// it.
#[derive(Clone, Debug)]
pub struct FlowEnd<'a> {
    /// Number of the flow, by start time.
    pub id: u64,
    /// Index of the traffic group that the row counts for.
    pub group: u16,
    /// What started the flow.
    pub spec: &'a FlowSpec,
    /// Time that the flow would take alone on its path.
    pub ideal_fct: Span,
    /// The object that it brings a part of.
    pub object: Option<ObjectPart>,
    /// When the receiver had all it needs.
    pub received: Option<Instant>,
    /// Distinct payload bytes that reached the receiving application.
    pub delivered_bytes: u64,
    /// Whether the sender has no more to do.
    pub finished: bool,
    /// Packets of both directions that a queue refused.
    pub drops: u32,
    /// Its messages; `None` of a plain sequence of bytes.
    pub messages: Option<MessageCounts>,
    /// How far the mean of the records that arrived is off that of all, as a part of it; `None` without records.
    pub record_error: Option<f64>,
    /// What the sender's transport counted.
    pub sender: Statistics,
    /// What the receiver's transport counted.
    pub receiver: Statistics,
}

impl FlowEnd<'_> {
    /// The row of the flow. Its shares are computed once the whole run is known.
    pub fn row(&self) -> FlowRow {
        let all_arrived = self.received.is_some() || self.delivered_bytes == self.spec.bytes;
        let mut row = FlowRow {
            id: self.id,
            group: self.group,
            request: self.spec.sequence,
            source: self.spec.source,
            destination: self.spec.destination,
            bytes: self.spec.bytes,
            start: self.spec.start,
            completed: self.received,
            ideal_fct: self.ideal_fct,
            delivered_bytes: self.delivered_bytes,
            state: FlowState::of(all_arrived, self.finished),
            drops: self.drops,
            messages: self.messages,
            record_error: Share::new(self.record_error),
            object: self.object.map(|part| part.number),
            shares_object: self.object.is_some_and(|part| part.shares),
            ..FlowRow::default()
        };
        row.count(&self.sender, &self.receiver);
        row
    }
}
