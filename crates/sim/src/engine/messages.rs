//! A flow of messages: what the application still has to hand over, and what has arrived whole.

use std::collections::VecDeque;

use pliant_proto::packet::ByteRange;
use pliant_proto::time::Instant;
use pliant_proto::transport::atp::LossBound;
use pliant_proto::transport::{Command, Transport};

use crate::results::MessageCounts;
use crate::workload::{Message, MessageSource};

/// The messages of a flow that starts.
pub struct FlowMessages {
    source: MessageSource,
    next: Option<Message>,
    start: Instant,
    /// How many there will be; `None` if the flow has no end.
    total: Option<u32>,
    announce: bool,
    handed: u32,
    bound: LossBound,
    delivered: u32,
    /// Sum of the values of the records among these.
    delivered_value: f64,
    /// `None` if the transport itself delivers whole messages.
    tally: Option<StreamTally>,
    /// Bytes of the messages that [`on_remote_bytes`](Self::on_remote_bytes) has taken from the source.
    expected: u64,
}

impl FlowMessages {
    /// The `total` messages of `source`, `None` without an end, of which as many must arrive as `bound` says. The sender
    /// is told their number in advance if `announce`. The transport delivers them `whole`, or as bytes of a stream.
    pub fn new(mut source: MessageSource, total: Option<u32>, bound: LossBound, announce: bool, whole: bool) -> Self {
        let next = source.next();
        Self {
            source,
            next,
            start: Instant::ZERO,
            total,
            announce,
            handed: 0,
            bound,
            delivered: 0,
            delivered_value: 0.0,
            tally: (!whole).then(StreamTally::default),
            expected: 0,
        }
    }

    /// The flow starts.
    pub fn begin<T: Transport>(&mut self, transport: &mut T, now: Instant) {
        self.start = now;
        if let Some(messages) = self.total.filter(|_| self.announce) {
            transport.handle_command(now, Command::AnnounceMessages { messages });
        }
        self.hand_over(transport, now);
    }

    /// Hands over what is due, and the end after the last message.
    pub fn hand_over<T: Transport>(&mut self, transport: &mut T, now: Instant) {
        if self.next_at().is_none() {
            return;
        }
        while let Some(Message { bytes, .. }) = self.next.filter(|message| self.start.after(message.after) <= now) {
            self.note_handed(bytes);
            transport.handle_command(now, Command::SendMessage { bytes });
            self.next = self.source.next();
        }
        if self.next.is_none() {
            transport.handle_command(now, Command::Finish);
        }
    }

    fn note_handed(&mut self, bytes: u32) {
        self.handed += 1;
        if let Some(tally) = &mut self.tally {
            tally.handed.push_back((bytes, false));
        }
    }

    /// When the application has another message.
    pub fn next_at(&self) -> Option<Instant> {
        self.next.map(|message| self.start.after(message.after))
    }

    /// A message arrived whole. Whether it was the last one needed.
    pub fn on_message(&mut self, message: u32) -> bool {
        self.delivered += 1;
        if let Some(records) = self.source.records() {
            self.delivered_value += records.value(message);
        }
        self.total.is_some_and(|total| self.delivered == self.bound.needed(total))
    }

    /// Bytes of a stream arrived. Whether they brought the last message needed.
    pub fn on_bytes(&mut self, range: ByteRange) -> bool {
        let Some(tally) = &mut self.tally else { return false };
        let before = self.delivered;
        let (records, value) = (self.source.records(), &mut self.delivered_value);
        self.delivered += tally.deliver(range, |message| {
            if let Some(records) = records {
                *value += records.value(message);
            }
        });
        let needed = self.total.map(|total| self.bound.needed(total));
        needed.is_some_and(|needed| before < needed && self.delivered >= needed)
    }

    /// How far the mean of the records that arrived is off that of all, as a part of it.
    pub fn record_error(&self) -> Option<f64> {
        let records = self.source.records().filter(|_| self.delivered > 0)?;
        Some(self.delivered_value / f64::from(self.delivered) / records.mean() - 1.0)
    }

    /// The same where the sender is elsewhere and leaves no message out: messages are known from their source.
    pub fn on_remote_bytes(&mut self, range: ByteRange) -> bool {
        while self.expected < range.end {
            let Some(Message { bytes, .. }) = self.next else { break };
            self.expected += u64::from(bytes);
            self.note_handed(bytes);
            self.next = self.source.next();
        }
        self.on_bytes(range)
    }

    /// The sender leaves a message out.
    pub fn on_given_up(&mut self, message: u32) {
        if let Some(tally) = &mut self.tally {
            tally.give_up(message);
        }
    }

    /// What was counted.
    pub fn counts(&self) -> MessageCounts {
        let total = self.total.unwrap_or(self.handed);
        MessageCounts { total, needed: self.bound.needed(total), delivered: self.delivered }
    }
}

/// Finds the whole messages in a stream of bytes, which may arrive in any order.
#[derive(Default)]
struct StreamTally {
    /// Messages whose place in the stream is not known yet, and whether the sender left them out. It decides before it
    /// sends what comes after them.
    handed: VecDeque<(u32, bool)>,
    /// Number of the first of these.
    first: u32,
    /// End in the stream, bytes missing and number of the other messages that are not whole.
    ends: VecDeque<(u64, u32, u32)>,
    /// One past the last byte of these.
    placed: u64,
}

impl StreamTally {
    fn give_up(&mut self, message: u32) {
        if let Some(entry) = message.checked_sub(self.first).and_then(|index| self.handed.get_mut(index as usize)) {
            entry.1 = true;
        }
    }

    /// How many messages `range` completes, and which. No byte comes twice.
    fn deliver(&mut self, range: ByteRange, mut completed: impl FnMut(u32)) -> u32 {
        while self.placed < range.end {
            let Some((bytes, left_out)) = self.handed.pop_front() else { break };
            if !left_out {
                self.placed += u64::from(bytes);
                self.ends.push_back((self.placed, bytes, self.first));
            }
            self.first += 1;
        }
        let (mut whole, mut start) = (0, range.start);
        let first = self.ends.partition_point(|(end, ..)| *end <= start);
        for (end, missing, message) in self.ends.range_mut(first..) {
            if start >= range.end {
                break;
            }
            *missing -= (range.end.min(*end) - start) as u32;
            if *missing == 0 {
                whole += 1;
                completed(*message);
            }
            start = *end;
        }
        while self.ends.front().is_some_and(|(_, missing, _)| *missing == 0) {
            self.ends.pop_front();
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_are_found_in_a_stream() {
        let mut tally = StreamTally::default();
        tally.handed.extend([(100, false), (50, false), (200, false), (10, false)]);
        tally.give_up(1);
        let mut deliver = |start, end| {
            let mut whole = Vec::new();
            tally.deliver(ByteRange::new(start, end), |message| whole.push(message));
            whole
        };
        assert_eq!(deliver(0, 99), [0; 0]);
        assert_eq!(deliver(200, 310), [3], "the last, after one of 200 without its first half");
        assert_eq!(deliver(99, 200), [0, 2]);
    }
}
