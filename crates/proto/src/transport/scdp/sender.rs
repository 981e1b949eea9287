//! A source.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::ScdpConfig;
use crate::packet::{Body, ByteRange, Ecn, Packet, PulledFlags, SackBlocks, TrafficClass};
use crate::recovery::rtt::RttEstimator;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// How many timeouts a source with nothing in flight waits for a pull, because a receiver of many flows takes its time.
const PULL_PATIENCE: u64 = 8;

/// One of the sources of an object.
pub struct ScdpSender {
    config: Arc<ScdpConfig>,
    rtt: RttEstimator,
    slot: u64,
    slots: u64,
    bytes: u64,
    finish: bool,
    /// Symbols sent and not known to be answered, from the `base`-th of this source on: when they were sent, and
    /// whether they are still in flight. The first is.
    log: VecDeque<(Instant, bool)>,
    base: u64,
    under_way: u32,
    /// Symbols that pulls have allowed and that were not sent.
    allowed: u32,
    burst_sent: bool,
    pulled: u32,
    answered: u32,
    heard_at: Instant,
    complete: bool,
    finished: bool,
    timeouts: u64,
}

impl ScdpSender {
    /// Source `slot` of `slots` with nothing to send yet; `config` must pass [`ScdpConfig::check`].
    pub fn new(config: Arc<ScdpConfig>, slot: u32, slots: u32) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        assert!(slot < slots, "sources are numbered from 0");
        Self {
            rtt: RttEstimator::new(&config.rto),
            config,
            slot: slot.into(),
            slots: slots.into(),
            bytes: 0,
            finish: false,
            log: VecDeque::new(),
            base: 0,
            under_way: 0,
            allowed: 0,
            burst_sent: false,
            pulled: 0,
            answered: 0,
            heard_at: Instant::ZERO,
            complete: false,
            finished: false,
            timeouts: 0,
        }
    }

    /// Symbols sent so far.
    fn sent(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    /// Source symbols that are this source's to send.
    fn own_symbols(&self) -> u64 {
        self.config.symbols(self.bytes).saturating_sub(self.slot).div_ceil(self.slots)
    }

    /// The symbol is no longer in flight. Returns when it was sent, if that is news.
    fn settle(&mut self, number: u64) -> Option<Instant> {
        let index = number.checked_sub(self.slot).filter(|offset| offset % self.slots == 0)? / self.slots;
        let (at, under_way) = self.log.get_mut(usize::try_from(index.checked_sub(self.base)?).ok()?)?;
        if !core::mem::take(under_way) {
            return None;
        }
        let at = *at;
        self.under_way -= 1;
        while self.log.front().is_some_and(|(_, under_way)| !under_way) {
            self.log.pop_front();
            self.base += 1;
        }
        Some(at)
    }

    fn class(&self) -> TrafficClass {
        let level = self.config.thresholds.partition_point(|threshold| *threshold <= self.sent());
        TrafficClass::new(self.config.data_class.class() as u8 + level as u8).with_ecn(Ecn::NotEct)
    }
}

impl Transport for ScdpSender {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::PulledAck { seq, echo, complete, .. } if echo <= now => {
                self.answered = self.answered.wrapping_add(1);
                self.complete |= complete;
                if let Some(at) = self.settle(seq) {
                    self.rtt.sample(&self.config.rto, now.since(at));
                }
            }
            Body::Pull { count } => {
                let more = count.wrapping_sub(self.pulled);
                if more > u32::MAX / 2 {
                    return;
                }
                self.pulled = count;
                self.allowed = self.allowed.saturating_add(more);
            }
            Body::Pulled { seq, flags, .. } if flags.contains(PulledFlags::RETURNED) => {
                let pulls_due = self.answered.wrapping_sub(self.pulled);
                let none_due = pulls_due == 0 || pulls_due > u32::MAX / 2;
                if self.settle(seq).is_some() && self.under_way == 0 && none_due {
                    self.allowed = self.allowed.max(1);
                }
            }
            _ => return,
        }
        self.heard_at = now;
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        if command == Command::Finish {
            self.finish = true;
        } else if let Some(bytes) = command.bytes().filter(|_| !self.finish) {
            self.bytes = self.bytes.saturating_add(bytes).min(MAX_STREAM);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| deadline.at > now) {
            return;
        }
        let rto = self.rtt.rto();
        self.timeouts += 1;
        let mut expired = 0;
        while let Some((at, _)) = self.log.front().filter(|(at, _)| at.after(rto) <= now) {
            let _ = at;
            self.settle(self.slot + self.base * self.slots);
            expired += 1;
        }
        self.allowed = self.allowed.max(expired.clamp(1, self.config.initial_window));
        self.rtt.back_off(&self.config.rto);
        self.heard_at = now;
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        // Symbols are made of the whole object.
        if !self.finish || self.complete {
            return None;
        }
        if !self.burst_sent {
            self.burst_sent = true;
            self.allowed = u64::from(self.config.initial_window).min(self.own_symbols()) as u32;
            self.heard_at = now;
        }
        self.allowed = self.allowed.checked_sub(1)?;
        let class = self.class();
        let number = self.slot + self.sent() * self.slots;
        self.log.push_back((now, true));
        self.under_way += 1;
        let len = self.config.symbol_bytes(self.bytes);
        let body = Body::Pulled { seq: number, sent_at: now, len, flags: PulledFlags::NONE };
        Some(Packet::new(class, self.config.wire.wire_bytes(len), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if !self.complete || self.finished {
            return None;
        }
        if self.bytes > 0 {
            let range = ByteRange::new(0, self.bytes);
            self.bytes = 0;
            return Some(Event::Release(range));
        }
        self.finished = true;
        Some(Event::Finished)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        if self.complete || !self.burst_sent {
            return None;
        }
        let at = match self.log.front() {
            Some((at, _)) => at.after(self.rtt.rto()),
            None => self.heard_at.after(self.rtt.rto().times(PULL_PATIENCE)),
        };
        Some(Deadline { at, why: Timer::Retransmit })
    }

    fn statistics(&self) -> Statistics {
        let sent = self.sent();
        Statistics {
            packets_sent: sent,
            bytes_sent: sent * u64::from(self.config.symbol),
            timeouts: self.timeouts,
            ..Statistics::default()
        }
    }
}
