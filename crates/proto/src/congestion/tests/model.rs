//! Two small worlds for controllers: a path that loses packets, and a bottleneck that marks them. Every loss is
//! repaired at once, without a phase of recovery, so what is measured is the controller alone.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::super::{AckSample, Cause, Congestion, CongestionControl};
use crate::rng::Stream;
use crate::time::{Instant, Span};

pub(super) const MSS: u16 = 1000;
const SEGMENT: u64 = MSS as u64;

/// The transport around a controller, reduced to its bookkeeping.
pub(super) struct Sender<C> {
    pub(super) controller: C,
    unacked: u64,
    next: u64,
    lossy_window_end: u64,
    marked_window_end: u64,
    smoothed_rtt: Span,
    limited: bool,
}

impl<C: CongestionControl> Sender<C> {
    pub(super) fn new(controller: C) -> Self {
        Self {
            controller,
            unacked: 0,
            next: 0,
            lossy_window_end: 0,
            marked_window_end: 0,
            smoothed_rtt: Span::ZERO,
            limited: false,
        }
    }

    /// The window in segments.
    pub(super) fn cwnd(&self) -> f64 {
        self.controller.window() as f64 / SEGMENT as f64
    }

    fn flight(&self) -> u64 {
        self.next - self.unacked
    }

    /// Sends a segment if the window allows.
    fn send(&mut self) -> bool {
        self.limited = self.flight() + SEGMENT > self.controller.window();
        if !self.limited {
            self.next += SEGMENT;
        }
        !self.limited
    }

    fn congestion(&self, now: Instant, cause: Cause) -> Congestion {
        Congestion { now, cause, flight: self.flight(), unacked: self.unacked, next: self.next, first: true }
    }

    pub(super) fn acked(&mut self, now: Instant, segments: u64, ece: bool, rtt: Span) {
        let flight = self.flight();
        self.unacked += segments * SEGMENT;
        self.smoothed_rtt = match self.smoothed_rtt {
            Span::ZERO => rtt,
            old => old.times(7).plus(rtt).divided_by(8),
        };
        self.controller.on_ack(&AckSample {
            now,
            acked: segments * SEGMENT,
            unacked: self.unacked,
            next: self.next,
            flight,
            ece,
            rtt: Some(rtt),
            delay: None,
            hold: None,
            smoothed_rtt: self.smoothed_rtt,
            window_limited: self.limited,
            in_recovery: false,
        });
        if ece && self.unacked > self.marked_window_end {
            self.controller.on_congestion(&self.congestion(now, Cause::Ecn));
            self.marked_window_end = self.next;
        }
    }

    /// The oldest segment was lost. Further losses in the same window are no further congestion.
    pub(super) fn lost(&mut self, now: Instant) {
        self.controller.on_lost(SEGMENT);
        if self.unacked >= self.lossy_window_end {
            self.controller.on_congestion(&self.congestion(now, Cause::Loss));
            self.lossy_window_end = self.next;
        }
        self.unacked += SEGMENT;
    }
}

/// A path of fixed round-trip time and no queue.
pub(super) struct LossyPath {
    pub(super) rtt: Span,
    pub(super) segments_per_ack: usize,
}

impl LossyPath {
    /// Time-averaged window in segments while packets `from..to` are sent; `lost` says which never arrive, from the
    /// packet's number and the window at that moment.
    pub(super) fn mean_cwnd<C: CongestionControl>(
        &self,
        sender: &mut Sender<C>,
        from: u64,
        to: u64,
        mut lost: impl FnMut(u64, f64) -> bool,
    ) -> f64 {
        let mut wire = VecDeque::new();
        let (mut sent, mut now, mut area, mut time) = (0, Instant::ZERO, 0.0, 0.0);
        while sent < to {
            while sender.send() {
                wire.push_back((now.after(self.rtt), lost(sent, sender.cwnd())));
                sent += 1;
            }
            let (due, is_lost) = wire.pop_front().expect("the window is never below one segment");
            if sent >= from {
                area += sender.cwnd() * due.since(now).as_secs_f64();
                time += due.since(now).as_secs_f64();
            }
            now = due;
            if is_lost {
                sender.lost(now);
                continue;
            }
            let mut segments = 1;
            while segments < self.segments_per_ack && wire.front().is_some_and(|next| next.0 == due && !next.1) {
                wire.pop_front();
                segments += 1;
            }
            sender.acked(now, segments as u64, false, self.rtt);
        }
        area / time
    }
}

#[derive(Clone, Copy)]
struct InFlight {
    sender: usize,
    sent: u64,
    marked: bool,
    lost: bool,
}

/// One queue that serves a segment per slot, marks arrivals that find `mark_at` queued and drops those that find
/// `limit`. What leaves it in slot s is acknowledged in slot s + `rtt`.
pub(super) struct Bottleneck<C> {
    pub(super) senders: Vec<Sender<C>>,
    pub(super) mark_at: usize,
    pub(super) limit: usize,
    rtt: u64,
    /// Acknowledgements come up to this many slots less one later, in order.
    pub(super) jitter: u64,
    stream: Stream,
    slot: u64,
    length: Span,
    queued: usize,
    queue: VecDeque<InFlight>,
    wire: VecDeque<(u64, InFlight)>,
}

/// What a bottleneck saw.
pub(super) struct Observed {
    slots: u64,
    served: u64,
    pub(super) dropped: u64,
    pub(super) delivered: Vec<u64>,
    /// Slots by queue length.
    histogram: Vec<u64>,
}

impl Observed {
    pub(super) fn utilisation(&self) -> f64 {
        self.served as f64 / self.slots as f64
    }

    pub(super) fn loss_rate(&self) -> f64 {
        self.dropped as f64 / (self.dropped + self.served) as f64
    }

    pub(super) fn mean_queue(&self) -> f64 {
        self.histogram.iter().enumerate().map(|(queue, &slots)| queue as f64 * slots as f64).sum::<f64>()
            / self.slots as f64
    }

    /// Queue length that is not exceeded in `fraction` of the slots.
    pub(super) fn queue_quantile(&self, fraction: f64) -> usize {
        let mut left = fraction * self.slots as f64;
        self.histogram
            .iter()
            .position(|&slots| {
                left -= slots as f64;
                left <= 0.0
            })
            .unwrap_or(0)
    }

    pub(super) fn longest_queue(&self) -> usize {
        self.histogram.iter().rposition(|&slots| slots > 0).unwrap_or(0)
    }
}

impl<C: CongestionControl> Bottleneck<C> {
    /// `rtt` in slots of `length`.
    pub(super) fn new(controllers: impl Iterator<Item = C>, rtt: u64, length: Span, mark_at: usize) -> Self {
        Self {
            senders: controllers.map(Sender::new).collect(),
            mark_at,
            limit: usize::MAX,
            rtt,
            jitter: 1,
            stream: Stream::named(1, "jitter"),
            slot: 0,
            length,
            queued: 0,
            queue: VecDeque::new(),
            wire: VecDeque::new(),
        }
    }

    /// Runs for `slots`, showing the senders to `each_slot` after every slot.
    pub(super) fn run(&mut self, slots: u64, mut each_slot: impl FnMut(&[Sender<C>])) -> Observed {
        let mut seen =
            Observed { slots, served: 0, dropped: 0, delivered: vec![0; self.senders.len()], histogram: vec![0; 1] };
        if self.slot == 0 {
            (0..self.senders.len()).for_each(|sender| self.send(sender, &mut seen));
        }
        for _ in 0..slots {
            self.acknowledge(&mut seen);
            if seen.histogram.len() <= self.queued {
                seen.histogram.resize(self.queued + 1, 0);
            }
            seen.histogram[self.queued] += 1;
            self.serve(&mut seen);
            each_slot(&self.senders);
            self.slot += 1;
        }
        seen
    }

    fn now(&self) -> Instant {
        Instant::ZERO.after(self.length.times(self.slot))
    }

    fn acknowledge(&mut self, seen: &mut Observed) {
        while let Some(&(due, packet)) = self.wire.front()
            && due <= self.slot
        {
            self.wire.pop_front();
            let now = self.now();
            let sender = &mut self.senders[packet.sender];
            if packet.lost {
                sender.lost(now);
            } else {
                sender.acked(now, 1, packet.marked, self.length.times(self.slot - packet.sent));
                seen.delivered[packet.sender] += 1;
            }
            self.send(packet.sender, seen);
        }
    }

    fn send(&mut self, sender: usize, seen: &mut Observed) {
        while self.senders[sender].send() {
            let lost = self.queued >= self.limit;
            seen.dropped += u64::from(lost);
            self.queue.push_back(InFlight { sender, sent: self.slot, marked: self.queued >= self.mark_at, lost });
            self.queued += usize::from(!lost);
        }
    }

    /// Lost packets stay in line, so that their loss is noticed in order, but take no slot.
    fn serve(&mut self, seen: &mut Observed) {
        while let Some(packet) = self.queue.pop_front() {
            let due = self.slot + self.rtt + self.stream.below(self.jitter);
            let due = self.wire.back().map_or(due, |last| due.max(last.0));
            self.wire.push_back((due, packet));
            if !packet.lost {
                self.queued -= 1;
                seen.served += 1;
                break;
            }
        }
    }
}
