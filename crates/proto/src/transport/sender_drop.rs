//! Dropping messages at the sender, before a reliable transport: the baselines of ATP's authors.
//!
//! *DCTCP-SD* leaves out a fixed share of the messages, whatever the network does: exactly ⌊N · MLR⌋ of them, chosen at
//! random (Knuth's selection sampling), so that its guarantee equals ATP's. *DCTCP-BW* leaves messages out only while
//! the network is congested, each with the probability MLR, up to the same total. The paper does not define congestion.
//! Here the network is congested if the last window had a mark, or ended smaller than the one before.
//!
//! The decision on a message is made when its first byte could be sent, so that it is as late as possible.

use alloc::collections::VecDeque;
use core::convert::Infallible;

use super::atp::LossBound;
use super::tcp::TcpSender;
use super::{Command, Deadline, Event, Statistics, Transport};
use crate::congestion::CongestionControl;
use crate::contract::Field;
use crate::packet::{Packet, SackBlocks};
use crate::rng::Stream;
use crate::time::Instant;

/// The contract fields that it honours.
pub const HONOURS: &[Field] = &[Field::MinDelivery, Field::MaxRate];

/// When messages are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropPolicy {
    /// Always as many messages as the bound allows.
    Fixed,
    /// While the network is congested.
    Congested,
}

/// A TCP sender in front of which messages are left out.
pub struct SenderDrop<C> {
    tcp: TcpSender<C>,
    policy: DropPolicy,
    bound: LossBound,
    stream: Stream,
    /// Messages without a decision yet, and the number of the first of them.
    waiting: VecDeque<u32>,
    decided: u32,
    dropped: u32,
    announced: Option<u32>,
    finish: bool,
    /// Bytes given to TCP.
    given: u64,
    given_up: VecDeque<u32>,
    /// The observed window ends with this byte.
    window_end: u64,
    marks: u64,
    window: u64,
    congested: bool,
    mss: u64,
}

impl<C: CongestionControl> SenderDrop<C> {
    /// Leaves out at most what `bound` allows before `tcp`, whose segments hold `mss` bytes. `stream` makes the random
    /// choices.
    pub fn new(tcp: TcpSender<C>, mss: u16, policy: DropPolicy, bound: LossBound, stream: Stream) -> Self {
        let window = tcp.controller().window();
        Self {
            tcp,
            policy,
            bound,
            stream,
            waiting: VecDeque::new(),
            decided: 0,
            dropped: 0,
            announced: None,
            finish: false,
            given: 0,
            given_up: VecDeque::new(),
            window_end: 0,
            marks: 0,
            window,
            congested: false,
            mss: mss.into(),
        }
    }

    /// Evaluates each window of data once.
    fn watch(&mut self) {
        if self.tcp.unacked() < self.window_end {
            return;
        }
        let (marks, window) = (self.tcp.statistics().marks, self.tcp.controller().window());
        self.congested = marks > self.marks || window < self.window;
        (self.marks, self.window) = (marks, window);
        self.window_end = self.tcp.next() + 1;
    }

    /// Decides on messages until TCP has a segment to send, or none is left.
    fn feed(&mut self, now: Instant) {
        self.watch();
        while self.given < self.tcp.next() + self.mss
            && let Some(bytes) = self.waiting.pop_front()
        {
            if self.drops_next() {
                self.given_up.push_back(self.decided);
                self.dropped += 1;
            } else {
                self.given += u64::from(bytes);
                self.tcp.handle_command(now, Command::SendMessage { bytes });
            }
            self.decided += 1;
        }
        if self.finish && self.waiting.is_empty() {
            self.tcp.handle_command(now, Command::Finish);
        }
    }

    fn drops_next(&mut self) -> bool {
        // Of a stream only the messages so far are known.
        let known = self.decided + 1 + self.waiting.len() as u32;
        let total = self.announced.map_or(known, |announced| announced.max(known));
        let left = (total - self.bound.needed(total)).saturating_sub(self.dropped);
        match self.policy {
            _ if left == 0 => false,
            DropPolicy::Fixed if self.announced.is_none() && !self.finish => true,
            DropPolicy::Fixed => self.stream.below(u64::from(total - self.decided)) < u64::from(left),
            DropPolicy::Congested => self.congested && self.stream.unit() < self.bound.fraction(),
        }
    }
}

impl<C: CongestionControl> Transport for SenderDrop<C> {
    type Request = Infallible;
    type Answer = Infallible;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.tcp.handle_packet(now, packet, sack);
        self.feed(now);
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::SendMessage { bytes } => self.waiting.push_back(bytes),
            Command::AnnounceMessages { messages } => self.announced = Some(messages),
            Command::Finish => self.finish = true,
            other => self.tcp.handle_command(now, other),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.tcp.handle_timeout(now);
        self.feed(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.feed(now);
        self.tcp.poll_transmit(now)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let given_up = self.given_up.pop_front().map(|message| Event::GiveUp { message });
        given_up.or_else(|| self.tcp.poll_event())
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.tcp.poll_timeout()
    }

    fn statistics(&self) -> Statistics {
        self.tcp.statistics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::EcnMode;
    use crate::congestion::dctcp::{Dctcp, DctcpConfig};
    use crate::time::Span;
    use crate::transport::pair::{Fate, Pair, Path};
    use crate::transport::tcp::{TcpConfig, TcpReceiver};
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    type DropPair = Pair<SenderDrop<Dctcp>, TcpReceiver>;

    fn pair(policy: DropPolicy, max_loss: u32, forth: Path) -> DropPair {
        let config = Arc::new(TcpConfig { ecn: EcnMode::Accurate, ..TcpConfig::default() });
        let tcp = TcpSender::new(Arc::clone(&config), Dctcp::new(DctcpConfig::default(), config.mss));
        let bound = LossBound::from_millionths(max_loss).unwrap();
        let sender = SenderDrop::new(tcp, config.mss, policy, bound, Stream::named(1, "drop"));
        Pair::new(sender, TcpReceiver::new(config), forth, Path::new(Span::from_us(10)))
    }

    /// Hands over `messages` of 1000 bytes; gives those left out, after checking that all others arrived.
    fn left_out(mut pair: DropPair, messages: u32, announce: bool) -> Vec<u32> {
        if announce {
            pair.command_sender(Command::AnnounceMessages { messages });
        }
        (0..messages).for_each(|_| pair.command_sender(Command::SendMessage { bytes: 1000 }));
        pair.command_sender(Command::Finish);
        assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(10))));
        let given_up = |event: &(Instant, Event)| match event.1 {
            Event::GiveUp { message } => Some(message),
            _ => None,
        };
        let left_out: Vec<u32> = pair.sender.events.iter().filter_map(given_up).collect();
        assert_eq!(pair.receiver.delivered(), 1000 * (u64::from(messages) - left_out.len() as u64));
        assert!(pair.receiver.time_of(Event::Received).is_some() && pair.sender.time_of(Event::Finished).is_some());
        left_out
    }

    fn path() -> Path {
        Path::new(Span::from_us(10))
    }

    /// Exactly floor(N * MLR), announced or not, and not always the same ones.
    #[test]
    fn a_fixed_share_is_left_out() {
        for (max_loss, expected) in [(0, 0), (150_000, 15), (500_000, 50), (999_999, 99)] {
            for announce in [true, false] {
                let left_out = left_out(pair(DropPolicy::Fixed, max_loss, path()), 100, announce);
                assert_eq!(left_out.len(), expected, "{max_loss}, announced {announce}");
            }
        }
        let chosen = left_out(pair(DropPolicy::Fixed, 500_000, path()), 100, true);
        assert!(
            chosen.windows(2).any(|pair| pair[1] - pair[0] > 2) && chosen.windows(2).any(|pair| pair[1] - pair[0] == 1)
        );
    }

    /// Without congestion everything is sent; where every packet is marked, the share is left out and never more.
    #[test]
    fn congestion_leaves_messages_out() {
        assert_eq!(left_out(pair(DropPolicy::Congested, 300_000, path()), 1000, true), []);
        let marked = pair(DropPolicy::Congested, 300_000, path().with_fate(|_, _, _| Fate::Mark));
        let left_out = left_out(marked, 1000, true);
        assert!((200..=300).contains(&left_out.len()), "{}", left_out.len());
    }
}
