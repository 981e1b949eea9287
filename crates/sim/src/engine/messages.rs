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
    tally: StreamTally,
}

impl FlowMessages {
    /// The `total` messages of `source`, `None` without an end, of which as many must arrive as `bound` says. The sender
    /// is told their number in advance if `announce`.
    pub fn new(mut source: MessageSource, total: Option<u32>, bound: LossBound, announce: bool) -> Self {
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
            tally: StreamTally::default(),
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
            self.handed += 1;
            self.tally.handed.push_back((bytes, false));
            transport.handle_command(now, Command::SendMessage { bytes });
            self.next = self.source.next();
        }
        if self.next.is_none() {
            transport.handle_command(now, Command::Finish);
        }
    }

    /// When the application has another message.
    pub fn next_at(&self) -> Option<Instant> {
        self.next.map(|message| self.start.after(message.after))
    }

    /// A message arrived whole. Whether it was the last one needed.
    pub fn on_message(&mut self) -> bool {
        self.delivered += 1;
        self.total.is_some_and(|total| self.delivered == self.bound.needed(total))
    }

    /// Bytes of a stream arrived.
    pub fn on_bytes(&mut self, range: ByteRange) {
        self.delivered += self.tally.deliver(range);
    }

    /// The sender leaves a message out.
    pub fn on_given_up(&mut self, message: u32) {
        self.tally.give_up(message);
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
    /// End in the stream, and bytes missing, of the other messages that are not whole.
    ends: VecDeque<(u64, u32)>,
    /// One past the last byte of these.
    placed: u64,
}

impl StreamTally {
    fn give_up(&mut self, message: u32) {
        if let Some(entry) = message.checked_sub(self.first).and_then(|index| self.handed.get_mut(index as usize)) {
            entry.1 = true;
        }
    }

    /// Messages that `range` completes. No byte comes twice.
    fn deliver(&mut self, range: ByteRange) -> u32 {
        while self.placed < range.end {
            let Some((bytes, left_out)) = self.handed.pop_front() else { break };
            self.first += 1;
            if !left_out {
                self.placed += u64::from(bytes);
                self.ends.push_back((self.placed, bytes));
            }
        }
        let (mut whole, mut start) = (0, range.start);
        let first = self.ends.partition_point(|(end, _)| *end <= start);
        for (end, missing) in self.ends.range_mut(first..) {
            if start >= range.end {
                break;
            }
            *missing -= (range.end.min(*end) - start) as u32;
            whole += u32::from(*missing == 0);
            start = *end;
        }
        while self.ends.front().is_some_and(|(_, missing)| *missing == 0) {
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
        let mut deliver = |start, end| tally.deliver(ByteRange::new(start, end));
        assert_eq!(deliver(0, 99), 0);
        assert_eq!(deliver(200, 310), 1, "the last, after one of 200 without its first half");
        assert_eq!(deliver(99, 200), 2);
    }
}
