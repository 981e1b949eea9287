//! A sender that never exceeds a rate, whatever its transport allows.

use super::{Command, Deadline, Event, Statistics, Timer, Transport, WindowState};
use crate::contract::policy::Policy;
use crate::packet::{Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::units::Rate;

/// How far packets may run ahead of the rate. They leave in bursts, because a wake-up for each would cost more than
/// sending it.
const TOLERANCE: Span = Span::from_ms(2);
/// A burst begins when packets run ahead by no more than this, because a driver's timer may be this late.
const LATENESS: Span = Span::from_us(500);
/// Longest burst. A longer one saves nothing, because the kernel takes this many bytes at once.
const MAX_BURST_BYTES: u64 = 64 << 10;

/// The state of a capped sender.
#[derive(Clone, Copy, Debug)]
struct Cap {
    rate: Rate,
    /// How far packets may run ahead at this rate.
    tolerance: Span,
    /// When everything sent would be over at the rate (the theoretical arrival time of ITU-T I.371's cell rate
    /// algorithm).
    sent_until: Instant,
    /// Because of the rate, the transport was not asked for a packet.
    held: bool,
}

impl Cap {
    fn new(rate: Rate, sent_until: Instant) -> Self {
        assert!(rate.bits_per_sec() > 0, "nothing can be sent at no rate");
        let tolerance = rate.time_for(MAX_BURST_BYTES).plus(LATENESS).min(TOLERANCE);
        Self { rate, tolerance, sent_until, held: false }
    }
}

/// A transport whose packets keep to a rate on the wire, or an unchanged transport.
///
/// Packets have the length that the transport gives ([`Packet::wire_bytes`]). At any time, the bytes sent since the
/// start are at most the rate times the time, two milliseconds' worth, and one packet.
#[derive(Clone, Debug)]
pub struct RateCap<T> {
    inner: T,
    cap: Option<Cap>,
}

impl<T: Transport> RateCap<T> {
    /// `inner` at no more than `rate`, which must be above zero. Without a rate it is unchanged.
    pub fn new(inner: T, rate: Option<Rate>) -> Self {
        Self { inner, cap: rate.map(|rate| Cap::new(rate, Instant::ZERO)) }
    }

    /// Sets another rate, or none, from `now` on. Bytes sent ahead of the old rate also count as sent ahead of the new
    /// one.
    fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        let ahead = self.cap.map_or(0, |cap| cap.rate.bytes_in(cap.sent_until.max(now).since(now)));
        self.cap = rate.map(|rate| Cap { held: true, ..Cap::new(rate, now.after(rate.time_for(ahead))) });
    }

    /// The inner transport.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

impl<T: Transport> Transport for RateCap<T> {
    type Request = T::Request;
    type Answer = T::Answer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.inner.handle_packet(now, packet, sack);
    }

    fn handle_command(&mut self, now: Instant, command: Command<T::Answer>) {
        if let Command::SetMaxRate(rate) = command {
            self.set_rate(now, (rate != Rate::default()).then_some(rate));
        }
        self.inner.handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn handle_new_path(&mut self, now: Instant) {
        self.inner.handle_new_path(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let Some(cap) = &mut self.cap else { return self.inner.poll_transmit(now) };
        let ahead = if cap.held { LATENESS } else { cap.tolerance };
        cap.held = cap.sent_until > now.after(ahead);
        if cap.held {
            return None;
        }
        let packet = self.inner.poll_transmit(now)?;
        cap.sent_until = cap.sent_until.max(now).after(cap.rate.time_for(u64::from(packet.wire_bytes)));
        Some(packet)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.inner.sack_blocks()
    }

    fn poll_event(&mut self) -> Option<Event<T::Request>> {
        self.inner.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let inner = self.inner.poll_timeout();
        let Some(cap) = self.cap.filter(|cap| cap.held) else { return inner };
        let at = cap.sent_until.before(LATENESS);
        match inner {
            // What is due already waits for the rate, too.
            Some(deadline) if deadline.at < at && deadline.why != Timer::Pace => inner,
            _ => Some(Deadline { at, why: Timer::Pace }),
        }
    }

    fn send_space(&self) -> u64 {
        self.inner.send_space()
    }

    fn unsent(&self) -> u64 {
        self.inner.unsent()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn policy(&self) -> Option<&Policy> {
        self.inner.policy()
    }

    fn window_state(&self) -> Option<WindowState> {
        self.inner.window_state()
    }

    fn measures_gaps(&self) -> bool {
        self.inner.measures_gaps()
    }

    fn normal_rate(&self) -> Option<Rate> {
        self.inner.normal_rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
    use alloc::sync::Arc;
    use core::convert::Infallible;
    use proptest::prelude::*;

    /// Bytes on the wire until each time, with a sender that has more than it may send and no delay.
    fn run(rate: Rate, nap: Span, until: Span) -> u64 {
        let config = Arc::new(TcpConfig::default());
        let mut sender =
            RateCap::new(TcpSender::new(config.clone(), Algorithm::NewReno.controller(config.mss)), Some(rate));
        let mut receiver = TcpReceiver::new(config);
        let (mut now, mut bytes) = (Instant::ZERO, 0);
        sender.handle_command(now, Command::Send { bytes: 1 << 40 });
        while now < Instant::ZERO.after(until) {
            loop {
                if let Some(packet) = sender.poll_transmit(now) {
                    bytes += u64::from(packet.wire_bytes);
                    receiver.handle_packet(now, &packet, &SackBlocks::EMPTY);
                } else if let Some(ack) = receiver.poll_transmit(now) {
                    let sack = *receiver.sack_blocks();
                    sender.handle_packet(now, &ack, &sack);
                } else {
                    break;
                }
            }
            while sender.poll_event().is_some() || receiver.poll_event().is_some() {}
            let allowed = rate.bytes_in(now.since(Instant::ZERO).plus(TOLERANCE)) + 1538 + 1;
            assert!(bytes <= allowed, "{bytes} bytes of {allowed} at {now:?}");
            let deadlines = [sender.poll_timeout(), receiver.poll_timeout()].into_iter().flatten();
            let at = deadlines.map(|deadline| deadline.at).min().expect("there is more to send");
            now = at.max(now).after(nap);
            receiver.handle_timeout(now);
            sender.handle_timeout(now);
        }
        bytes
    }

    proptest! {
        /// The rate is never exceeded by more than the tolerance and a packet, and it is reached within 2 % however late,
        /// up to half a millisecond, the sender is called.
        #[test]
        fn the_rate_is_kept_and_reached(mbit in 10u64..10_000, late_us in 0u64..500) {
            let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
            let span = Span::from_ms(400);
            let bytes = run(rate, Span::from_us(late_us), span);
            prop_assert!(bytes as f64 >= 0.98 * rate.bytes_in(span) as f64, "{bytes} bytes");
        }
    }

    fn sent_at<T: Transport>(sender: &mut RateCap<T>, now: Instant) -> u64 {
        core::iter::from_fn(|| sender.poll_transmit(now)).map(|packet| u64::from(packet.wire_bytes)).sum()
    }

    /// A rate that changes counts from then on.
    #[test]
    fn a_rate_that_changes_counts_from_then_on() {
        let config = Arc::new(TcpConfig::default());
        let slow = Rate::from_bits_per_sec(1_000_000);
        let mut sender =
            RateCap::new(TcpSender::new(config.clone(), Algorithm::NewReno.controller(config.mss)), Some(slow));
        sender.handle_command(Instant::ZERO, Command::Send { bytes: 1 << 20 });
        let first = sent_at(&mut sender, Instant::ZERO);
        // A packet of 12 ms at the old rate is one of 1.2 ms at the new one.
        let fast = Rate::from_bits_per_sec(10_000_000);
        sender.handle_command(Instant::ZERO, Command::SetMaxRate(fast));
        let at = sender.poll_timeout().expect("it waits for the rate").at;
        assert_eq!(at, Instant::ZERO.after(fast.time_for(first)).before(LATENESS));
        assert_eq!(sent_at(&mut sender, at.before(Span::from_ns(1))), 0);
        assert!(sent_at(&mut sender, at) > 0);
        sender.handle_command(at, Command::SetMaxRate(Rate::default()));
        assert!(sent_at(&mut sender, at) > 10_000);
    }

    /// Without a rate it is the transport itself.
    #[test]
    fn no_rate_changes_nothing() {
        let config = Arc::new(TcpConfig::default());
        let sender = || TcpSender::new(config.clone(), Algorithm::Dctcp.controller(config.mss));
        let (mut plain, mut capped) = (sender(), RateCap::new(sender(), None));
        for sender in [&mut plain as &mut dyn Transport<Request = Infallible, Answer = Infallible>, &mut capped] {
            sender.handle_command(Instant::ZERO, Command::Send { bytes: 100_000 });
        }
        while let Some(packet) = plain.poll_transmit(Instant::ZERO) {
            assert_eq!(capped.poll_transmit(Instant::ZERO), Some(packet));
        }
        assert_eq!(capped.poll_transmit(Instant::ZERO), None);
        assert_eq!(capped.poll_timeout(), plain.poll_timeout());
    }
}
