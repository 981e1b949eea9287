//! The sending side: CCID 2.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::{AckRatio, DccpConfig};
use crate::packet::{Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks};
use crate::recovery::rtt::RttEstimator;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// A packet is lost when this many packets sent later have arrived (RFC 4341 section 5: NUMDUPACK).
const DUP_THRESH: usize = 3;
/// Packets whose marks an ack vector reports.
const MARKED_BITS: u64 = 32;

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    InFlight,
    Arrived,
    Lost,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    at: Instant,
    len: u16,
    state: State,
}

/// Sends one flow by DCCP.
pub struct DccpSender {
    config: Arc<DccpConfig>,
    rtt: RttEstimator,
    /// Windows are in packets.
    cwnd: u32,
    pub(super) ssthresh: u32,
    /// Packets that have arrived, counted towards the next step of avoidance.
    counted: u32,
    pipe: u32,
    ack_ratio: AckRatioControl,
    /// The packets from number `base` on; the first is in flight.
    log: VecDeque<Sent>,
    base: u64,
    /// Packets below were evaluated. Those that had not arrived are lost.
    judged: u64,
    /// The three highest numbers that have arrived, one more each, descending; zero for none.
    highest: [u64; DUP_THRESH],
    /// Packets from here on were sent after the window was cut last.
    recover: u64,
    timeout_at: Option<Instant>,
    next_seq: u64,
    written: u64,
    released: u64,
    finish: bool,
    fin_sent: bool,
    finished: bool,
    /// Lost bytes that wait to be given again.
    lost: VecDeque<ByteRange>,
    packets_sent: u64,
    bytes_sent: u64,
    repeated: u64,
    timeouts: u64,
    halvings: u64,
    marks: u64,
}

impl DccpSender {
    /// A sender with nothing to send yet; `config` must pass [`DccpConfig::check`].
    pub fn new(config: Arc<DccpConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            rtt: RttEstimator::new(&config.rto),
            cwnd: config.initial_window,
            ssthresh: u32::MAX,
            counted: 0,
            pipe: 0,
            ack_ratio: AckRatioControl::new(config.ack_ratio),
            config,
            log: VecDeque::new(),
            base: 0,
            judged: 0,
            highest: [0; DUP_THRESH],
            recover: 0,
            timeout_at: None,
            next_seq: 0,
            written: 0,
            released: 0,
            finish: false,
            fin_sent: false,
            finished: false,
            lost: VecDeque::new(),
            packets_sent: 0,
            bytes_sent: 0,
            repeated: 0,
            timeouts: 0,
            halvings: 0,
            marks: 0,
        }
    }

    /// The congestion window, in packets.
    pub fn window(&self) -> u32 {
        self.cwnd
    }

    /// Packets in flight.
    pub fn pipe(&self) -> u32 {
        self.pipe
    }

    /// Number of the next packet.
    fn next_number(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    fn has_new(&self) -> bool {
        self.next_seq < self.written || self.finish && !self.fin_sent
    }

    fn has_more(&self) -> bool {
        self.has_new() || !self.lost.is_empty()
    }

    /// A packet has arrived. Returns whether that is news.
    fn arrived(&mut self, now: Instant, number: u64, measure: bool) -> bool {
        let Some(sent) = number.checked_sub(self.base).and_then(|index| self.log.get_mut(index as usize)) else {
            return false;
        };
        let was = core::mem::replace(&mut sent.state, State::Arrived);
        if was == State::Arrived {
            return false;
        }
        if was == State::Lost {
            // It was late: nothing of it needs to be handed in again.
            let start = sent.seq;
            self.lost.retain(|range| range.start != start);
            return false;
        }
        if measure {
            self.rtt.sample(&self.config.rto, now.since(sent.at));
        }
        self.pipe -= 1;
        if number >= self.highest[DUP_THRESH - 1] {
            self.highest[DUP_THRESH - 1] = number + 1;
            self.highest.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    /// Finds packets that three later ones have overtaken: they are lost. Returns whether one of them was sent after
    /// the last cut.
    fn judge(&mut self) -> bool {
        // Of three arrived, the lowest is the third.
        let until = self.highest[DUP_THRESH - 1].saturating_sub(1);
        let mut congested = false;
        while self.judged < until {
            congested |= self.give_up(self.judged) && self.judged >= self.recover;
            self.judged += 1;
        }
        congested
    }

    /// A packet in flight is lost. Returns false if it was not in flight.
    fn give_up(&mut self, number: u64) -> bool {
        let Some(sent) = number.checked_sub(self.base).and_then(|index| self.log.get_mut(index as usize)) else {
            return false;
        };
        let lost = sent.state == State::InFlight;
        if lost {
            sent.state = State::Lost;
            let range = ByteRange::new(sent.seq, sent.seq + u64::from(sent.len));
            self.pipe -= 1;
            if self.config.repeat_lost {
                self.lost.push_back(range);
            }
        }
        lost
    }

    /// Forgets the packets before the first that is in flight.
    fn forget(&mut self) {
        while self.log.front().is_some_and(|sent| sent.state != State::InFlight) && self.base < self.judged {
            self.log.pop_front();
            self.base += 1;
        }
    }

    fn halve(&mut self) {
        self.halvings += 1;
        self.cwnd = (self.cwnd / 2).max(1);
        self.ssthresh = self.cwnd.max(2);
        self.counted = 0;
        self.recover = self.next_number();
    }

    fn grow(&mut self, arrived: u32) {
        if self.cwnd < self.ssthresh {
            self.cwnd = self.cwnd.saturating_add(arrived);
            return;
        }
        self.counted += arrived;
        if self.counted >= self.cwnd {
            self.counted -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(1);
        }
    }

    fn handle_vector(&mut self, now: Instant, number: u32, received: u64, marked: u32, count: u16) {
        let next = self.next_number();
        // The full number nearest below what was sent last.
        let behind = u64::from((next as u32).wrapping_sub(number));
        let Some(number) = next.checked_sub(behind).filter(|number| *number < next) else { return };
        let limited = self.pipe >= self.cwnd;
        let (mut news, mut congested) = (0, false);
        let mut bits = u128::from(received) << 1 | 1;
        while bits != 0 {
            let back = u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            let Some(packet) = number.checked_sub(back) else { break };
            if self.arrived(now, packet, back == 0) {
                news += 1;
                if back < MARKED_BITS && marked >> back & 1 == 1 {
                    self.marks += 1;
                    congested |= packet >= self.recover;
                }
            }
        }
        congested |= self.judge();
        self.ack_ratio.on_ack(count, number, next, self.cwnd);
        if news > 0 {
            self.timeout_at = (self.pipe > 0).then(|| now.after(self.rtt.rto()));
        }
        if congested {
            self.halve();
        } else if limited && news > 0 {
            self.grow(news);
        }
        self.forget();
    }
}

impl Transport for DccpSender {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        if let Body::AckVector { number, received, marked, count } = packet.body() {
            self.handle_vector(now, number, received, marked, count);
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        if command == Command::Finish {
            self.finish = true;
        } else if let Some(bytes) = command.bytes().filter(|_| !self.finish) {
            self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.timeout_at.is_none_or(|at| at > now) {
            return;
        }
        self.timeouts += 1;
        while self.judged < self.next_number() {
            self.give_up(self.judged);
            self.judged += 1;
        }
        assert_eq!(self.pipe, 0, "all that was in flight was judged");
        self.forget();
        self.ssthresh = (self.cwnd / 2).max(2);
        (self.cwnd, self.counted) = (1, 0);
        self.recover = self.next_number();
        self.rtt.back_off(&self.config.rto);
        self.timeout_at = None;
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if self.pipe >= self.cwnd || !self.has_more() {
            return None;
        }
        let range = if self.has_new() {
            let range = ByteRange::new(self.next_seq, self.written.min(self.next_seq + u64::from(self.config.payload)));
            self.next_seq = range.end;
            self.fin_sent = self.finish && range.end == self.written;
            range
        } else {
            self.repeated += 1;
            self.lost.pop_front().expect("there is more to send")
        };
        let number = self.next_number();
        let len = range.len() as u16;
        self.log.push_back(Sent { seq: range.start, at: now, len, state: State::InFlight });
        self.pipe += 1;
        self.timeout_at.get_or_insert(now.after(self.rtt.rto()));
        self.packets_sent += 1;
        self.bytes_sent += range.len();
        let fin = self.finish && range.end == self.written;
        let body = Body::Datagram {
            seq: range.start,
            number: number as u32,
            ack_ratio: self.ack_ratio.ratio,
            len,
            flags: DataFlags::NONE.with_if(DataFlags::FIN, fin),
        };
        let ecn = if self.config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        Some(Packet::new(self.config.data_class.with_ecn(ecn), self.config.wire.wire_bytes(len), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        // What is not handed in again need not be kept.
        let over = self.pipe == 0 && !self.has_more();
        let kept = if self.config.repeat_lost && !over { self.released } else { self.next_seq };
        if self.released < kept {
            let range = ByteRange::new(self.released, kept);
            self.released = kept;
            return Some(Event::Release(range));
        }
        if over && self.finish && !self.finished {
            self.finished = true;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        Some(Deadline { at: self.timeout_at?, why: Timer::Retransmit })
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            retransmissions: self.repeated,
            timeouts: self.timeouts,
            fast_recoveries: self.halvings,
            marks: self.marks,
            ..Statistics::default()
        }
    }
}

/// Congestion control of acknowledgements (RFC 4341 section 6.1.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRatioControl {
    pub(super) ratio: u16,
    adaptive: bool,
    /// Number that the next acknowledgement should have.
    expected: u16,
    /// An acknowledgement was lost in this window of data.
    lost: bool,
    /// Windows in a row without a lost acknowledgement.
    quiet: u32,
    /// The window of data ends when this packet is acknowledged.
    window_end: u64,
}

impl AckRatioControl {
    pub(super) fn new(config: AckRatio) -> Self {
        let (ratio, adaptive) = match config {
            AckRatio::Fixed(ratio) => (ratio, false),
            AckRatio::Adaptive => (2, true),
        };
        Self { ratio, adaptive, expected: 0, lost: false, quiet: 0, window_end: 0 }
    }

    /// Acknowledgement `count` arrived, for packet `number`; `next` is the next to be sent.
    pub(super) fn on_ack(&mut self, count: u16, number: u64, next: u64, cwnd: u32) {
        let skipped = count.wrapping_sub(self.expected);
        if !self.adaptive || skipped > u16::MAX / 2 {
            return;
        }
        self.expected = count.wrapping_add(1);
        self.lost |= skipped > 0;
        if number >= self.window_end {
            self.window_end = next;
            let ratio = u32::from(self.ratio);
            if core::mem::take(&mut self.lost) {
                self.ratio = self.ratio.saturating_mul(2);
                self.quiet = 0;
            } else {
                self.quiet += 1;
                if ratio > 1 && self.quiet >= cwnd / (ratio * ratio - ratio) {
                    self.ratio -= 1;
                    self.quiet = 0;
                }
            }
        }
        self.ratio = self.ratio.min(cwnd.div_ceil(2).min(u32::from(u16::MAX)) as u16).max(1);
    }
}
