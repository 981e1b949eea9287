//! The messages of a flow at its sender: which packets were sent, arrived or lost, and what to send next.

use alloc::vec::Vec;

use super::order::{Link, Linked, Order, Queue, Schedule};

/// Most messages of a flow: the receiver keeps a few bytes for each.
pub const MAX_MESSAGES: u32 = 1 << 26;
/// Most packets of all messages of a flow together.
const MAX_FRAGMENTS: u64 = u32::MAX as u64 - 1;

/// Most messages for which memory is reserved in advance.
const RESERVED_MAX: u32 = 1 << 17;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unsent,
    /// In flight on the primary sub-flow.
    Primary,
    /// In flight on the backup sub-flow.
    Backup,
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Fragment {
    /// The next one in the message's list of lost fragments.
    next_lost: u32,
    state: State,
}

/// The state of a message, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Message {
    link: Link,
    bytes: u32,
    /// Index of its first fragment.
    first: u32,
    fragments: u32,
    /// Fragments that have not arrived, and their bytes.
    missing: u32,
    missing_bytes: u32,
    unsent: u32,
    lost: u32,
    /// No fragment before this one is unsent.
    cursor: u32,
    /// Lost fragments in the order of their loss. Some may have arrived since.
    lost_first: u32,
    lost_last: u32,
}

const _: () = assert!(size_of::<Message>() == 64);

impl Linked for Message {
    #[inline]
    fn link(&self) -> &Link {
        &self.link
    }

    #[inline]
    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// A packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pick {
    pub(super) message: u32,
    pub(super) fragment: u32,
    /// Bytes of the message.
    pub(super) length: u32,
    pub(super) len: u16,
    pub(super) last: bool,
    pub(super) retransmission: bool,
}

/// Messages of one size class at the end of a flow, as the sender knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeClass {
    /// Messages.
    pub messages: u32,
    /// Those known to have arrived whole.
    pub delivered: u32,
}

/// All messages of a flow.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    payload: u16,
    list: Vec<Message>,
    fragments: Vec<Fragment>,
    schedule: Schedule,
    /// Messages with unsent packets.
    unfinished: u32,
    /// Bytes that have not arrived.
    missing_bytes: u64,
}

impl Messages {
    pub(super) fn new(payload: u16, order: Order) -> Self {
        Self {
            payload,
            list: Vec::new(),
            fragments: Vec::new(),
            schedule: Schedule::new(order),
            unfinished: 0,
            missing_bytes: 0,
        }
    }

    /// Messages handed over.
    pub(super) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// Messages of which all packets were sent.
    pub(super) fn sent(&self) -> u32 {
        self.count() - self.unfinished
    }

    /// Bytes that have not arrived.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// Reserves memory for this many messages of one packet each, within reason.
    pub(super) fn reserve(&mut self, messages: u32) {
        let messages = messages.min(RESERVED_MAX) as usize;
        self.list.reserve(messages);
        self.fragments.reserve(messages);
    }

    /// Takes a message; false if it is empty or the flow can hold no more.
    #[inline]
    pub(super) fn push(&mut self, bytes: u32) -> bool {
        let fragments = bytes.div_ceil(u32::from(self.payload));
        let room = self.count() < MAX_MESSAGES && self.fragments.len() as u64 + u64::from(fragments) <= MAX_FRAGMENTS;
        if fragments == 0 || !room {
            return false;
        }
        let first = self.fragments.len() as u32;
        let unsent = Fragment { next_lost: NONE, state: State::Unsent };
        if fragments == 1 {
            self.fragments.push(unsent);
        } else {
            self.fragments.resize(self.fragments.len() + fragments as usize, unsent);
        }
        self.list.push(Message {
            link: Link::APART,
            bytes,
            first,
            fragments,
            missing: fragments,
            missing_bytes: bytes,
            unsent: fragments,
            lost: 0,
            cursor: 0,
            lost_first: NONE,
            lost_last: NONE,
        });
        self.unfinished += 1;
        self.missing_bytes += u64::from(bytes);
        self.place(self.count() - 1);
        true
    }

    /// Whether a new packet may be sent.
    #[inline]
    pub(super) fn has_fresh(&self) -> bool {
        self.schedule.first(Queue::Fresh).is_some()
    }

    /// Whether a packet may be sent; lost ones only if `repair`.
    #[inline]
    pub(super) fn has_next(&self, repair: bool) -> bool {
        self.schedule.first(Queue::Fresh).is_some() || repair && self.schedule.first(Queue::Repair).is_some()
    }

    /// The next packet of the primary sub-flow; lost ones only if `repair`, and after all others.
    #[inline]
    pub(super) fn next(&mut self, repair: bool) -> Option<Pick> {
        let fresh = self.schedule.first(Queue::Fresh);
        let number = fresh.or_else(|| if repair { self.schedule.first(Queue::Repair) } else { None })?;
        let message = &self.list[number as usize];
        let retransmission = message.unsent == 0;
        let fragment = if retransmission { self.take_lost(number) } else { self.take_unsent(number) };
        self.fragments[(self.list[number as usize].first + fragment) as usize].state = State::Primary;
        self.place(number);
        Some(self.pick(number, fragment, retransmission))
    }

    /// The next packet of the backup sub-flow: an unsent one from the other end of the schedule, so that the two
    /// sub-flows meet.
    pub(super) fn next_backup(&mut self) -> Option<Pick> {
        let number = self.schedule.last(Queue::Fresh).filter(|&last| self.list[last as usize].unsent > 0)?;
        let fragment = self.take_unsent(number);
        self.fragments[(self.list[number as usize].first + fragment) as usize].state = State::Backup;
        self.place(number);
        Some(self.pick(number, fragment, false))
    }

    /// Whether the backup sub-flow has something to send.
    pub(super) fn has_next_backup(&self) -> bool {
        self.schedule.last(Queue::Fresh).is_some_and(|last| self.list[last as usize].unsent > 0)
    }

    fn pick(&self, number: u32, fragment: u32, retransmission: bool) -> Pick {
        let message = &self.list[number as usize];
        Pick {
            message: number,
            fragment,
            length: message.bytes,
            len: self.fragment_bytes(message, fragment) as u16,
            last: fragment + 1 == message.fragments,
            retransmission,
        }
    }

    fn fragment_bytes(&self, message: &Message, fragment: u32) -> u32 {
        (message.bytes - fragment * u32::from(self.payload)).min(u32::from(self.payload))
    }

    fn take_unsent(&mut self, number: u32) -> u32 {
        let message = &mut self.list[number as usize];
        while self.fragments[(message.first + message.cursor) as usize].state != State::Unsent {
            message.cursor += 1;
        }
        message.unsent -= 1;
        self.unfinished -= u32::from(message.unsent == 0);
        message.cursor
    }

    fn take_lost(&mut self, number: u32) -> u32 {
        let message = &mut self.list[number as usize];
        loop {
            let fragment = message.lost_first;
            let Fragment { next_lost, state } = self.fragments[(message.first + fragment) as usize];
            message.lost_first = next_lost;
            if next_lost == NONE {
                message.lost_last = NONE;
            }
            if state == State::Lost {
                message.lost -= 1;
                return fragment;
            }
        }
    }

    /// A packet has arrived.
    #[inline]
    pub(super) fn arrived(&mut self, number: u32, fragment: u32) {
        let message = &mut self.list[number as usize];
        let state = &mut self.fragments[(message.first + fragment) as usize].state;
        let was = core::mem::replace(state, State::Arrived);
        let was_queued = matches!(was, State::Lost | State::Unsent);
        match was {
            State::Arrived => return,
            State::Lost => message.lost -= 1,
            State::Unsent => {
                message.unsent -= 1;
                self.unfinished -= u32::from(message.unsent == 0);
            }
            State::Primary | State::Backup => {}
        }
        let bytes = self.fragment_bytes(&self.list[number as usize], fragment);
        let message = &mut self.list[number as usize];
        message.missing -= 1;
        message.missing_bytes -= bytes;
        self.missing_bytes -= u64::from(bytes);
        // A message of one packet that was under way stands in no queue, and stays there.
        if message.fragments > 1 || was_queued {
            self.place(number);
        }
    }

    /// A packet of the primary sub-flow is lost. It counts if it was the latest with this fragment.
    pub(super) fn lost(&mut self, number: u32, fragment: u32) {
        let message = &mut self.list[number as usize];
        let index = (message.first + fragment) as usize;
        if self.fragments[index].state != State::Primary {
            return;
        }
        self.fragments[index] = Fragment { next_lost: NONE, state: State::Lost };
        if message.lost_last == NONE {
            message.lost_first = fragment;
        } else {
            self.fragments[(message.first + message.lost_last) as usize].next_lost = fragment;
        }
        message.lost_last = fragment;
        message.lost += 1;
        self.place(number);
    }

    /// A packet of the backup sub-flow is lost. It was sent speculatively and counts as unsent again.
    pub(super) fn lost_backup(&mut self, number: u32, fragment: u32) {
        let message = &mut self.list[number as usize];
        let state = &mut self.fragments[(message.first + fragment) as usize].state;
        if *state != State::Backup {
            return;
        }
        *state = State::Unsent;
        self.unfinished += u32::from(message.unsent == 0);
        message.unsent += 1;
        message.cursor = message.cursor.min(fragment);
        self.place(number);
    }

    /// Moves a message to its place after a change. If little is left to repair, and new messages are sent by remaining
    /// data, it goes among the new ones, because finishing it is cheaper than starting another.
    #[inline]
    fn place(&mut self, number: u32) {
        let message = &self.list[number as usize];
        let nearly_whole = self.schedule.by_remaining() && 2 * message.missing <= message.fragments;
        let queue = match (message.unsent, message.lost) {
            (1.., _) => Some(Queue::Fresh),
            (0, 1..) if nearly_whole => Some(Queue::Fresh),
            (0, 1..) => Some(Queue::Repair),
            (0, 0) => None,
        };
        let (packets, bytes) = (message.missing, message.missing_bytes);
        self.schedule.place(&mut self.list, number, queue, packets, bytes);
    }

    /// Messages by size: class `i` holds those of up to 2^i packets.
    pub(super) fn by_size(&self) -> [SizeClass; 16] {
        let mut classes = [SizeClass::default(); 16];
        for message in &self.list {
            let class = &mut classes[(u32::BITS - (message.fragments - 1).leading_zeros()).min(15) as usize];
            class.messages += 1;
            class.delivered += u32::from(message.missing == 0);
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(order: Order, sizes: &[u32]) -> Messages {
        let mut messages = Messages::new(1000, order);
        for &bytes in sizes {
            assert!(messages.push(bytes));
        }
        messages
    }

    fn sent(messages: &mut Messages, repair: bool) -> Vec<(u32, u32, u16)> {
        core::iter::from_fn(|| messages.next(repair)).map(|pick| (pick.message, pick.fragment, pick.len)).collect()
    }

    #[test]
    fn messages_are_cut_into_full_packets_and_a_rest() {
        let mut messages = messages(Order::Fifo, &[2500, 1000]);
        assert_eq!(sent(&mut messages, false), [(0, 0, 1000), (0, 1, 1000), (0, 2, 500), (1, 0, 1000)]);
        assert_eq!((messages.sent(), messages.missing_bytes()), (2, 3500));
        assert!(!messages.push(0), "an empty message is none");
    }

    /// Lost packets wait for their turn, in the order of their loss; what arrives after all is not sent again.
    #[test]
    fn repair_is_first_in_first_out() {
        let mut messages = messages(Order::Fifo, &[3000, 1000, 1000]);
        sent(&mut messages, false);
        for (message, fragment) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            messages.lost(message, fragment);
        }
        assert_eq!(sent(&mut messages, false), []);
        messages.arrived(0, 1);
        assert_eq!(sent(&mut messages, true), [(0, 2, 1000), (1, 0, 1000), (2, 0, 1000)]);
        messages.lost(2, 0);
        messages.lost(2, 0);
        assert_eq!(sent(&mut messages, true), [(2, 0, 1000)], "a packet is lost once");
    }

    /// A message that is nearly whole is finished before another one is begun, if messages go by remaining data.
    #[test]
    fn nearly_whole_messages_are_finished_first() {
        for (order, first) in [(Order::Mrdf, (0, 1, 1000)), (Order::Fifo, (1, 0, 1000))] {
            let mut messages = messages(order, &[2000, 3000]);
            (0..2).for_each(|_| _ = messages.next(false));
            messages.arrived(0, 0);
            messages.lost(0, 1);
            assert_eq!(sent(&mut messages, false)[0], first, "{order:?}");
        }
    }

    /// The backup sub-flow takes from the end; what it loses is unsent again.
    #[test]
    fn primary_and_backup_meet() {
        let mut messages = messages(Order::Fifo, &[1000; 4]);
        let next = |messages: &mut Messages| messages.next(false).map(|pick| pick.message);
        let backup = |messages: &mut Messages| messages.next_backup().map(|pick| pick.message);
        assert_eq!((next(&mut messages), backup(&mut messages)), (Some(0), Some(3)));
        assert_eq!((next(&mut messages), backup(&mut messages)), (Some(1), Some(2)));
        assert_eq!((next(&mut messages), backup(&mut messages)), (None, None));
        assert_eq!(messages.sent(), 4);
        messages.lost_backup(3, 0);
        assert_eq!(messages.sent(), 3);
        assert_eq!(next(&mut messages), Some(3));
        messages.lost_backup(3, 0);
        assert_eq!(next(&mut messages), None, "it is the primary's now");
    }
}
