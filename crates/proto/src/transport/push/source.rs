//! One source of an object.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::allowance::Allowance;
use super::config::{OPEN_BLOCKS, PushConfig};
use super::message::{Order, PushRequest, ToController, ToSource};
use super::partition::{MAX_SYMBOL, Partition};
use crate::congestion::weighted_fair::WeightedFair;
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl};
use crate::contract::policy::{Policy, Progress};
use crate::packet::{Body, DataFlags, Ecn, NO_CLAIM, Packet, SackBlocks, TrafficClass};
use crate::recovery::flight::{Flight, Sent};
use crate::recovery::rtt::RttEstimator;
use crate::time::{Instant, Span};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport, WindowState};

/// Most claims that a source keeps per block. Further ones would be sent too late.
const CLAIMS_MAX: usize = 1024;
/// With claims, a source with nothing to send and nothing in flight asks this often whether something is needed.
const PROBE_INTERVAL: Span = Span::from_ms(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waits for an order, because none has come or nobody answered for too long.
    Idle,
    Active,
    Paused,
    /// Over. The application does not know yet.
    Stopped,
    /// Over, and the application knows.
    Told,
}

/// A block that is not decoded yet, as seen by its source.
#[derive(Debug)]
struct OpenBlock {
    /// Source symbols (K).
    symbols: u32,
    /// Place k of the next own symbol i + kM.
    next: u32,
    /// Packets sent that are neither acknowledged nor lost.
    outstanding: u32,
    /// What the receiver last needed from this source; zero once the block is decoded.
    needed: u32,
    /// Number of the packet with whose acknowledgement that came.
    needed_at: u64,
    /// Packets that arrived.
    arrived: u32,
    /// What this source sends of it in all, as far as acknowledgements have said.
    share: Option<u32>,
    /// Source symbols that were lost.
    lost: VecDeque<u32>,
    /// Source symbols of others that the receiver asks this source to send.
    claims: VecDeque<u32>,
}

/// Pushes symbols of one object to one receiver.
pub struct PushSource(Box<Source>);

struct Source {
    config: Arc<PushConfig>,
    partition: Partition,
    phase: Phase,
    slot: u8,
    slots: u8,
    sources: u8,
    /// Least number of an order that would be new.
    next_order: u32,
    accepted: Option<ToController>,
    /// Blocks decoded without a gap.
    decoded: u32,
    /// The open blocks, from there on.
    open: VecDeque<OpenBlock>,
    /// Number of blocks that this source has. The others follow.
    there: u32,
    /// What this source sent of the last full block, with claims.
    share: Option<u32>,
    window: WeightedFair,
    flight: Flight,
    allowance: Allowance,
    rtt: RttEstimator,
    /// Largest packet number acknowledged, and which packets before it were.
    acked: Option<(u64, u32)>,
    marks: u16,
    last_ack: Instant,
    /// When the receiver was last heard, or the source began to wait.
    heard_at: Instant,
    timed_out_at: Instant,
    probed_at: Instant,
    probe_due: bool,
    lost: Vec<Sent>,
    policy: Option<Bend>,
    statistics: Statistics,
}

/// A policy that bends the flow.
struct Bend {
    policy: Policy,
    /// Weight of the last order.
    ordered: f64,
    /// The policy's factor.
    factor: f64,
    /// Class according to the policy.
    class: Option<TrafficClass>,
    acked_bytes: u64,
    started: bool,
    asked_at: Instant,
}

impl PushSource {
    /// A source that waits for an order; `config` must pass [`PushConfig::check`].
    pub fn new(config: Arc<PushConfig>, partition: Partition) -> Self {
        Self::growing(config, partition, partition.blocks())
    }

    /// The same for an object of which only the first `there` blocks exist. Each [`Command::SendMessage`] adds one
    /// block, whatever bytes it names.
    pub fn growing(config: Arc<PushConfig>, partition: Partition, there: u32) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        let mut source = Source {
            partition,
            phase: Phase::Idle,
            slot: 0,
            slots: config.slots,
            sources: 1,
            next_order: 0,
            accepted: None,
            decoded: 0,
            open: VecDeque::with_capacity(OPEN_BLOCKS as usize),
            there: there.min(partition.blocks()),
            share: None,
            window: WeightedFair::new(config.window, config.symbol),
            flight: Flight::new(config.reorder_threshold),
            allowance: Allowance::new(config.max_under_way, config.largest_under_way),
            rtt: RttEstimator::new(&config.rto),
            acked: None,
            marks: 0,
            last_ack: Instant::ZERO,
            heard_at: Instant::ZERO,
            timed_out_at: Instant::ZERO,
            probed_at: Instant::ZERO,
            probe_due: false,
            lost: Vec::new(),
            policy: None,
            statistics: Statistics::default(),
            config,
        };
        source.open_blocks();
        Self(Box::new(source))
    }

    /// Adds a policy that may lower the weight or change the class of its packets for a while. It gives no bytes up,
    /// because the receiver decides which symbols an object can do without.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        let ordered = self.0.config.window.weight;
        let (class, started) = (None, false);
        self.0.policy =
            Some(Bend { policy, ordered, factor: 1.0, class, acked_bytes: 0, started, asked_at: Instant::ZERO });
        self
    }

    /// The flow's weight (theta).
    pub fn weight(&self) -> f64 {
        self.0.window.weight()
    }
}

impl Source {
    fn segments(&self, packets: u64) -> u64 {
        packets * u64::from(self.config.symbol)
    }

    /// Sets the controller's weight, as far as the policy allows.
    fn set_weight(&mut self, weight: f64) {
        let bent = self.policy.as_mut().map_or(weight, |bend| {
            bend.ordered = weight;
            weight * bend.factor
        });
        self.window.set_weight(bent);
    }

    fn progress(&self) -> Progress {
        let acked_bytes = self.policy.as_ref().map_or(0, |bend| bend.acked_bytes);
        Progress { acked_bytes, sent_bytes: self.statistics.bytes_sent }
    }

    /// Asks the policy if its deadline has come.
    fn ask_policy(&mut self, now: Instant) {
        let (progress, usual) = (self.progress(), self.config.window.weight);
        let Some(bend) = self.policy.as_mut().filter(|bend| bend.started) else { return };
        if bend.policy.deadline().is_none_or(|at| at > now) {
            return;
        }
        let directive = bend.policy.on_deadline(now, progress);
        bend.asked_at = now;
        bend.class = directive.class.or(bend.class);
        if let Some(weight) = directive.weight {
            bend.factor = weight / usual;
        }
        let weight = bend.ordered * bend.factor;
        self.window.set_weight(weight);
    }

    /// Opens as many blocks after the first as allowed.
    fn open_blocks(&mut self) {
        while self.open.len() < OPEN_BLOCKS as usize {
            let block = self.decoded + self.open.len() as u32;
            let symbols = self.partition.symbols_of(block);
            if symbols == 0 {
                break;
            }
            let fair = (symbols + 2).div_ceil(u32::from(self.sources).max(1));
            // Until the block's first acknowledgement a whole flight is sent, which may be more than its share.
            let needed = self.share.map_or(fair, |share| share.min(fair));
            let (lost, claims) = (VecDeque::new(), VecDeque::new());
            let (arrived, share) = (0, None);
            self.open.push_back(OpenBlock {
                symbols,
                next: 0,
                outstanding: 0,
                needed,
                needed_at: 0,
                arrived,
                share,
                lost,
                claims,
            });
        }
    }

    fn forget_decoded(&mut self, decoded: u32) {
        while self.decoded < decoded && self.decoded < self.partition.blocks() {
            let decoded = self.open.pop_front();
            self.share = decoded.and_then(|block| block.share).or(self.share);
            self.decoded += 1;
            self.open_blocks();
        }
    }

    fn open_block(&mut self, block: u32) -> Option<&mut OpenBlock> {
        self.open.get_mut(block.checked_sub(self.decoded)? as usize)
    }

    fn follow(&mut self, now: Instant, ToSource { number, order }: ToSource) {
        if matches!(self.phase, Phase::Stopped | Phase::Told) {
            return;
        }
        self.heard_at = self.heard_at.max(now);
        self.accepted = Some(ToController::Accepted { slot: self.slot, number });
        if number < self.next_order {
            return;
        }
        self.next_order = number.saturating_add(1);
        match order {
            Order::Push { slot, slots, sources, block, start, weight } => {
                let moved = self.slot != slot;
                (self.slot, self.slots, self.sources) = (slot, slots.max(1), sources.max(1));
                self.accepted = Some(ToController::Accepted { slot, number });
                self.set_weight(weight);
                if let Some(bend) = self.policy.as_mut().filter(|bend| !bend.started) {
                    bend.started = true;
                    bend.policy.on_start(now);
                }
                if self.phase == Phase::Idle {
                    // What was sent before belongs to blocks as they were.
                    self.flight.judge_time(now, |_, _| {});
                    self.open.clear();
                    self.decoded = block.min(self.partition.blocks());
                    self.open_blocks();
                    if let Some(first) = self.open.front_mut() {
                        first.next = start;
                    }
                } else if moved {
                    self.move_to_slot(block, start);
                } else if self.phase == Phase::Paused {
                    // Others went on meanwhile.
                    self.forget_decoded(block);
                }
                self.phase = Phase::Active;
            }
            Order::Theta { weight } => self.set_weight(weight),
            Order::Pause if self.phase == Phase::Active => self.phase = Phase::Paused,
            Order::Pause => {}
            Order::Stop => self.phase = Phase::Stopped,
        }
    }

    /// The slot has changed. Its symbols of the first block up to place `start` may have been sent.
    #[cold]
    fn move_to_slot(&mut self, block: u32, start: u32) {
        for open in &mut self.open {
            open.lost.clear();
        }
        if let Some(first) = self.open_block(block) {
            first.next = first.next.max(start);
        }
    }

    /// Notes that a packet arrived. Returns its content the first time.
    fn arrive(&mut self, number: u64) -> Option<Sent> {
        let before = self.flight.under_way();
        let sent = self.flight.arrived(number)?;
        let was_under_way = self.flight.under_way() < before;
        if let Some(block) = self.open_block(sent.message).filter(|_| was_under_way) {
            block.outstanding -= 1;
            block.arrived += 1;
        }
        Some(sent)
    }

    /// Notes the packets that an acknowledgement reports. Returns how many were new, and the content of the answered
    /// one.
    fn arrivals(&mut self, number: u64, received: u32) -> (u64, Option<Sent>) {
        let answered = self.arrive(number);
        let known = match self.acked {
            // Bit `i` stands for number − 1 − i: what was known of the older number moves up.
            Some((highest, bits)) if highest < number => {
                let distance = number - highest;
                let moved = if distance >= 64 { 0 } else { (u64::from(bits) << 1 | 1) << (distance - 1) };
                moved as u32
            }
            // An older packet: look at each bit again.
            _ => 0,
        };
        let mut news = received & !known;
        let mut count = u64::from(answered.is_some());
        while news != 0 {
            let bit = news.trailing_zeros();
            news &= news - 1;
            if let Some(number) = number.checked_sub(1 + u64::from(bit)) {
                count += u64::from(self.arrive(number).is_some());
            }
        }
        if self.acked.is_none_or(|(highest, _)| highest <= number) {
            self.acked = Some((number, received | known));
        }
        (count, answered)
    }

    fn handle_ack(&mut self, now: Instant, packet: &Packet) {
        let Body::SymbolAck { number, received, decoded, needed, claim, marks, complete } = packet.body() else {
            return;
        };
        if matches!(self.phase, Phase::Stopped | Phase::Told) {
            return;
        }
        if complete {
            self.phase = Phase::Stopped;
            return;
        }
        let Some(number) = self.flight.expand(number) else { return };
        let limited = self.flight.under_way() + 1 >= self.window.window() / u64::from(self.config.symbol);
        let in_flight = self.segments(self.flight.under_way());
        let (count, answered) = self.arrivals(number, received);
        let acked = self.segments(count);
        if let Some(bend) = &mut self.policy {
            bend.acked_bytes += acked;
        }
        (self.last_ack, self.heard_at) = (now, now);
        self.forget_decoded(decoded);
        let mut rtt = None;
        if let Some(Sent { at, message: block, .. }) = answered {
            let sample = now.since(at);
            self.rtt.sample(&self.config.rto, sample);
            self.allowance.on_sample(number, self.flight.next_number(), sample);
            rtt = Some(sample);
            let claims = self.config.claims;
            if let Some(block) = self.open_block(block).filter(|block| block.needed_at <= number) {
                (block.needed, block.needed_at) = (needed, number);
                if claims && needed > 0 {
                    block.share = Some(block.arrived.saturating_add(needed));
                }
                if claim != NO_CLAIM && claim < block.symbols && block.claims.len() < CLAIMS_MAX {
                    block.claims.push_back(claim);
                }
            }
        }
        // A count that runs backwards belongs to an acknowledgement that was overtaken.
        let new_marks = u64::from(marks.wrapping_sub(self.marks));
        let marked = if new_marks <= 1 << 15 { new_marks.min(count) } else { 0 };
        if new_marks <= 1 << 15 {
            self.marks = marks;
        }
        self.statistics.marks += marked;
        let lost = self.judge_order();
        let sample = AckSample {
            now,
            acked: 0,
            unacked: self.segments(self.flight.settled()),
            next: self.segments(self.flight.next_number()),
            flight: in_flight,
            ece: false,
            rtt,
            delay: None,
            hold: None,
            smoothed_rtt: self.rtt.smoothed(),
            window_limited: limited,
            in_recovery: false,
        };
        for (packets, ece) in [(count - marked, false), (marked, true)] {
            if packets > 0 {
                self.window.on_ack(&AckSample { acked: self.segments(packets), ece, ..sample });
            }
        }
        if lost > 0 {
            self.report(now, Cause::Loss);
        }
    }

    /// Finds losses by the order of packets. Returns their number.
    fn judge_order(&mut self) -> u64 {
        let mut lost = core::mem::take(&mut self.lost);
        self.flight.judge_order(|_, sent| lost.push(sent));
        let count = lost.len() as u64;
        self.requeue(&mut lost);
        self.lost = lost;
        if count > 0 {
            self.statistics.fast_recoveries += 1;
            self.window.on_lost(self.segments(count));
        }
        count
    }

    /// A lost source symbol is sent again. For a lost repair symbol the next one serves as well.
    fn requeue(&mut self, lost: &mut Vec<Sent>) {
        for sent in lost.drain(..) {
            if let Some(block) = self.open_block(sent.message) {
                block.outstanding -= 1;
                if sent.fragment < block.symbols {
                    block.lost.push_back(sent.fragment);
                }
            }
        }
    }

    fn report(&mut self, now: Instant, cause: Cause) {
        let event = Congestion {
            now,
            cause,
            flight: self.segments(self.flight.under_way()),
            unacked: self.segments(self.flight.settled()),
            next: self.segments(self.flight.next_number()),
            first: true,
        };
        self.window.on_congestion(&event);
    }

    fn timeout_at(&self) -> Option<Instant> {
        let oldest = self.flight.oldest()?;
        Some(oldest.max(self.last_ack).max(self.timed_out_at).after(self.rtt.rto()))
    }

    /// When it asks whether something is needed, if it cannot learn this otherwise.
    fn probe_at(&self) -> Option<Instant> {
        let silent = self.config.claims && self.phase == Phase::Active && self.flight.under_way() == 0;
        (silent && self.decoded < self.there).then(|| self.last_ack.max(self.probed_at).after(PROBE_INTERVAL))
    }

    /// The next block and symbol to send.
    #[inline]
    fn pick(&mut self) -> Option<(u32, u32, bool)> {
        let (slot, slots) = (u32::from(self.slot), u32::from(self.slots));
        // The first block is asked for, whatever is needed.
        let mut probe = core::mem::take(&mut self.probe_due);
        let there = self.there.saturating_sub(self.decoded) as usize;
        for (index, block) in self.open.iter_mut().enumerate().take(there) {
            // With claims, what a source has left of a block does not count what was lost: nobody else sends that.
            let resends = self.config.claims && !block.lost.is_empty();
            let number = self.decoded + index as u32;
            // Without claims one more may be under way than is needed, in case one is lost. With them it would be a repair symbol,
            // for which the whole block must be encoded, and what follows shows a loss.
            let spare = u32::from(!self.config.claims);
            let wanted = block.needed > 0 && block.outstanding < block.needed + spare;
            let due = resends || core::mem::take(&mut probe) || wanted;
            if !due {
                continue;
            }
            block.outstanding += 1;
            if let Some(symbol) = block.lost.pop_front() {
                return Some((number, symbol, true));
            }
            // At once, as its owner may come to it; nobody else sends its own meanwhile.
            if let Some(claim) = block.claims.pop_front() {
                return Some((number, claim, false));
            }
            let mut symbol = block.next.saturating_mul(slots).saturating_add(slot);
            if symbol > MAX_SYMBOL {
                // Symbols are used up: those sent first serve again.
                (block.next, symbol) = (0, slot);
            }
            block.next += 1;
            return Some((number, symbol, false));
        }
        None
    }
}

impl Transport for PushSource {
    type Request = PushRequest;
    type Answer = ToSource;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        self.0.handle_ack(now, packet);
    }

    fn handle_command(&mut self, now: Instant, command: Command<ToSource>) {
        match command {
            Command::Answer(order) => self.0.follow(now, order),
            Command::SetWeight(weight) => self.0.set_weight(weight),
            Command::SendMessage { .. } => self.0.there = (self.0.there + 1).min(self.0.partition.blocks()),
            _ => {}
        }
    }

    fn handle_new_path(&mut self, _now: Instant) {
        self.0.window.on_idle();
        self.0.rtt = RttEstimator::new(&self.0.config.rto);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let source = &mut *self.0;
        if source.phase != Phase::Active && source.phase != Phase::Paused {
            return;
        }
        if source.heard_at.after(source.config.give_up) <= now {
            source.phase = Phase::Idle;
            return;
        }
        source.ask_policy(now);
        if source.probe_at().is_some_and(|at| at <= now) {
            (source.probe_due, source.probed_at) = (true, now);
        }
        if source.timeout_at().is_some_and(|at| at <= now) {
            let mut lost = core::mem::take(&mut source.lost);
            source.flight.judge_time(now, |_, sent| lost.push(sent));
            source.requeue(&mut lost);
            source.lost = lost;
            source.statistics.timeouts += 1;
            source.timed_out_at = now;
            source.rtt.back_off(&source.config.rto);
            source.report(now, Cause::Timeout);
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let source = &mut *self.0;
        let under_way = source.segments(source.flight.under_way());
        // One packet is always let go.
        let full = under_way >= source.window.window().max(1) || under_way > 0 && source.allowance.is_full(under_way);
        if source.phase != Phase::Active || full {
            return None;
        }
        let (block, symbol, again) = source.pick()?;
        let PushConfig { symbol: len, wire, data_class, .. } = *source.config;
        let class = source.policy.as_ref().and_then(|bend| bend.class).unwrap_or(data_class).with_ecn(Ecn::Ect0);
        let sent = Sent { at: now, message: block, fragment: symbol, class: class.class() as u8 };
        let number = source.flight.push(sent) as u32;
        source.statistics.packets_sent += 1;
        source.statistics.bytes_sent += u64::from(len);
        source.statistics.retransmissions += u64::from(again);
        let flags = DataFlags::NONE.with_if(DataFlags::RETRANSMISSION, again);
        Some(Packet::new(class, wire.wire_bytes(len), Body::Symbol { number, block, symbol, len, flags }))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<PushRequest>> {
        let source = &mut *self.0;
        if source.phase == Phase::Stopped {
            source.phase = Phase::Told;
            return Some(Event::Finished);
        }
        source.accepted.take().map(|message| Event::Ask(PushRequest::Controller(message)))
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let source = &*self.0;
        if source.phase != Phase::Active && source.phase != Phase::Paused {
            return None;
        }
        let give_up = Deadline { at: source.heard_at.after(source.config.give_up), why: Timer::Persist };
        let timeout = source.timeout_at().map(|at| Deadline { at, why: Timer::Retransmit });
        let asked = source.policy.as_ref().filter(|bend| bend.started).and_then(|bend| bend.policy.deadline());
        let asked = asked.map(|at| Deadline { at, why: Timer::Policy });
        let probe = source.probe_at().map(|at| Deadline { at, why: Timer::Persist });
        [timeout, asked, probe, Some(give_up)].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    fn statistics(&self) -> Statistics {
        let Source { statistics, policy, .. } = &*self.0;
        let counts = policy.as_ref().map(|bend| bend.policy.counts(bend.asked_at, self.0.progress()));
        Statistics { policy: counts.unwrap_or_default(), ..*statistics }
    }

    fn policy(&self) -> Option<&Policy> {
        self.0.policy.as_ref().map(|bend| &bend.policy)
    }

    fn window_state(&self) -> Option<WindowState> {
        let Source { window, rtt, .. } = &*self.0;
        Some(WindowState { packets: window.cwnd(), alpha: window.marked_fraction(), rtt: rtt.smoothed() })
    }
}
