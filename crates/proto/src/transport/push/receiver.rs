//! The receiver of an object, and its ports for the sources.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use atomic_refcell::AtomicRefCell;

use super::config::{OPEN_BLOCKS, PushConfig};
use super::message::{PushRequest, ToController, ToReceiver};
use super::partition::{MAX_SYMBOL, Partition};
use crate::packet::{Body, Ecn, NO_CLAIM, Packet, SackBlocks};
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// One attempt to decode in this many fails (RFC 6330, section 1).
const FAILURES: u64 = 256;
/// Longest time between two tries of fetch or fin.
const RETRY_MAX: Span = Span::from_secs(5);
/// Fin is sent this often. After that the controller counts as gone.
const FIN_TRIES: u8 = 8;

/// Sources' rates are measured over about twice this time.
const RATES_INTERVAL: Span = Span::from_ms(50);
/// What a source may have in flight without losing it to claims, in halves of what it usually sends of a block. With more
/// it would hold the first open block back until the other sources have nothing left to send of the last one.
const LEFT_HALVES: u64 = 3;

/// The counters of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverCounts {
    /// Blocks complete without decoding, because all source symbols arrived.
    pub whole_blocks: u32,
    /// Blocks that had to be decoded.
    pub decoded_blocks: u32,
    /// Symbols that arrived for blocks already decoded, or arrived twice.
    pub excess_symbols: u64,
    /// Symbols that arrived after the K-th of a block and before it was decoded.
    pub overhead_symbols: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Fetch was sent.
    Requested,
    /// Symbols may come.
    Receiving,
    /// The object is complete; fin was sent.
    Finishing,
    /// The controller knows, or counts as gone.
    Closed,
}

/// How the receiver learns whether a block's symbols decode it.
#[derive(Debug)]
enum Decoding {
    /// Nobody has the payload. Attempts fail as often as RFC 6330 says, by this stream.
    Drawn(Stream),
    /// The holder of the payload is asked by [`PushRequest::Decode`] and answers by [`PushReceiver::handle_decoded`].
    Asked {
        /// Blocks to ask for.
        blocks: VecDeque<u32>,
    },
}

/// A block that is not decoded.
#[derive(Debug, Default)]
struct OpenBlock {
    /// Source symbols (K).
    symbols: u32,
    /// Different symbols that arrived.
    received: u32,
    /// Source symbols among them.
    sources: u32,
    /// Number of different symbols from which an attempt to decode is worthwhile: K, or more if some of those that
    /// arrived are of no use.
    wanted: u32,
    decoded: bool,
    /// Bit `i` of all words together: symbol `i` arrived.
    seen: Vec<u64>,
    /// What the source of each slot still has to send, with claims.
    shares: Vec<Share>,
    /// One past the largest place k in a slot of which a symbol arrived.
    next: u32,
}

/// What the source of a slot still has to send of a block. Its own source symbols have places in the slot, from 0 on.
/// It sends them from the first, and others claim them from the last.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Places before this one arrived, or are lost and will be sent again.
    came: u32,
    /// Places from this one on are claimed.
    end: u32,
    /// Symbols of others that it has claimed and that have not arrived.
    claimed: u32,
}

impl Share {
    fn own(self) -> u32 {
        self.end.saturating_sub(self.came)
    }

    fn left(self) -> u32 {
        self.own() + self.claimed
    }
}

impl OpenBlock {
    fn begin(&mut self, symbols: u32, slots: u8, claims: bool) {
        self.seen.clear();
        self.seen.resize(symbols.div_ceil(64) as usize, 0);
        self.shares.clear();
        let slots = u32::from(slots);
        if claims {
            let end = |slot: u32| symbols.saturating_sub(slot).div_ceil(slots);
            self.shares.extend((0..slots).map(|slot| Share { end: end(slot), ..Share::default() }));
        }
        *self = Self {
            symbols,
            // With claims the source symbols are on their way: few others are no reason to decode.
            wanted: symbols + if claims { 2 * slots } else { 0 },
            seen: core::mem::take(&mut self.seen),
            shares: core::mem::take(&mut self.shares),
            ..Self::default()
        };
    }

    /// Notes a symbol; false if it arrived before.
    #[inline]
    fn note(&mut self, symbol: u32, slots: u8) -> bool {
        let (word, bit) = ((symbol / 64) as usize, 1 << (symbol % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        self.received += u32::from(new);
        self.sources += u32::from(new && symbol < self.symbols);
        self.next = self.next.max(symbol / u32::from(slots) + 1);
        new
    }

    /// Notes that a symbol arrived from the source of slot `from`, with claims.
    fn note_share(&mut self, symbol: u32, from: u8) {
        if symbol >= self.symbols {
            return;
        }
        let slots = self.shares.len() as u32;
        let share = &mut self.shares[usize::from(from)];
        if symbol % slots == u32::from(from) {
            share.came = share.came.max(symbol / slots + 1);
        } else {
            share.claimed = share.claimed.saturating_sub(1);
        }
    }

    /// A source symbol that the source of slot `by` should send instead of its owner. The owner is the source that
    /// would finish last, if that is later than `by`. `rates` are in proportion to what the slots' sources send, and
    /// `left_alone` is how many symbols none of them loses.
    fn claim(&mut self, by: u8, rates: &[u32], left_alone: &[u32]) -> u32 {
        let slots = self.shares.len() as u32;
        let by = usize::from(by);
        while let Some(of) = self.last_to_finish(by, rates, left_alone) {
            self.shares[of].end -= 1;
            let symbol = self.shares[of].end * slots + of as u32;
            if self.seen[(symbol / 64) as usize] & 1 << (symbol % 64) == 0 {
                self.shares[by].claimed += 1;
                return symbol;
            }
        }
        NO_CLAIM
    }

    /// The slot whose source would finish last, later than that of slot `by` with one symbol more.
    fn last_to_finish(&self, by: usize, rates: &[u32], left_alone: &[u32]) -> Option<usize> {
        // Comparing left / rate without dividing.
        let later = |left: u32, rate: u32, than: u32, at: u32| {
            u64::from(left) * (u64::from(at) + 1) > u64::from(than) * (u64::from(rate) + 1)
        };
        let mut last: Option<usize> = None;
        for (slot, share) in self.shares.iter().enumerate().filter(|(slot, _)| *slot != by) {
            let claimable = share.own() > left_alone[slot];
            if claimable
                && last.is_none_or(|last| later(share.left(), rates[slot], self.shares[last].left(), rates[last]))
            {
                last = Some(slot);
            }
        }
        // A quarter of the time, so that sources of one speed do not claim each other's.
        last.filter(|slot| {
            later(4 * self.shares[*slot].left(), rates[*slot], 5 * (self.shares[by].left() + 1), rates[by])
        })
    }
}

/// The receiver's knowledge of one source.
#[derive(Debug, Default)]
struct Peer {
    /// The slot for which it sends, as its symbols show.
    slot: u8,
    /// Largest packet number that arrived, and which before it did.
    highest: Option<(u32, u32)>,
    marks: u64,
    heard_at: Option<Instant>,
    /// The answer that is due: packet number, what is needed, what is claimed.
    ack: Option<(u32, u32, u32)>,
    /// The answer is to a symbol of this block and waits for a due attempt to decode it.
    attempted: Option<u32>,
    fin_due: bool,
    /// Bytes of needed symbols that were not yet reported to the application.
    delivered: u32,
    told: bool,
    excess: u64,
    bytes: u64,
    packets: u64,
}

/// Receives one object from many sources.
pub struct PushReceiver {
    config: Arc<PushConfig>,
    partition: Partition,
    decoding: Decoding,
    phase: Phase,
    peers: Vec<Peer>,
    /// Blocks decoded without a gap.
    decoded: u32,
    open: VecDeque<OpenBlock>,
    /// Source symbols of the blocks before, and useful symbols of open blocks.
    useful_symbols: u64,
    undelivered: u64,
    /// Sources that sent lately, at least one.
    active: u32,
    /// Symbols that arrived lately for each slot. They are halved from time to time, so that they follow the sources'
    /// rates.
    rates: Vec<u32>,
    halve_rates_at: Instant,
    /// Symbols of the block of a claim that are left to the source of each slot.
    left_alone: Vec<u32>,
    outbox: VecDeque<ToController>,
    next_report: Instant,
    next_try: Option<Instant>,
    tries: u8,
    counts: ReceiverCounts,
}

impl PushReceiver {
    /// Makes the receiver shareable for the ends of its object.
    pub fn into_shared(self) -> SharedReceiver {
        Arc::new(AtomicRefCell::new(self))
    }

    /// A receiver that fetches at `now`. `stream` decides which attempts to decode fail.
    pub fn new(config: Arc<PushConfig>, partition: Partition, stream: Stream, now: Instant) -> Self {
        Self::with_decoding(config, partition, Decoding::Drawn(stream), 0, now)
    }

    /// The same with a real decoder: [`PushRequest::Decode`] says when an attempt is worthwhile, and
    /// [`handle_decoded`](Self::handle_decoded) reports success. The first `had` blocks are already there; a report
    /// before the fetch says so.
    pub fn beside_decoder(config: Arc<PushConfig>, partition: Partition, had: u32, now: Instant) -> Self {
        Self::with_decoding(config, partition, Decoding::Asked { blocks: VecDeque::new() }, had, now)
    }

    fn with_decoding(
        config: Arc<PushConfig>,
        partition: Partition,
        decoding: Decoding,
        had: u32,
        now: Instant,
    ) -> Self {
        let useful_symbols = (0..had).map(|block| u64::from(partition.symbols_of(block))).sum::<u64>();
        let had_bytes = useful_symbols * u64::from(config.symbol);
        let report =
            ToController::Report { decoded: had, remaining: partition.symbols() - useful_symbols, heard: 0, next: 0 };
        let mut receiver = Self {
            partition,
            decoding,
            phase: Phase::Requested,
            peers: Vec::new(),
            decoded: had,
            open: VecDeque::with_capacity(OPEN_BLOCKS as usize),
            useful_symbols,
            undelivered: partition.bytes().saturating_sub(had_bytes),
            active: 1,
            rates: alloc::vec![0; usize::from(config.slots)],
            left_alone: alloc::vec![0; usize::from(config.slots)],
            halve_rates_at: now.after(RATES_INTERVAL),
            outbox: (had > 0).then_some(report).into_iter().chain([ToController::Fetch]).collect(),
            next_report: now.after(config.report),
            next_try: Some(now.after(config.retry)),
            tries: 1,
            counts: ReceiverCounts::default(),
            config,
        };
        while receiver.open.len() < OPEN_BLOCKS as usize && receiver.open_next(OpenBlock::default()) {}
        receiver
    }

    /// Adds a source and returns its number here.
    pub fn add_peer(&mut self) -> usize {
        self.peers.push(Peer::default());
        self.peers.len() - 1
    }

    /// Whether the whole object has arrived.
    pub fn is_complete(&self) -> bool {
        self.decoded == self.partition.blocks()
    }

    /// Blocks decoded without a gap.
    pub fn decoded_blocks(&self) -> u32 {
        self.decoded
    }

    /// The counters.
    pub fn counts(&self) -> ReceiverCounts {
        self.counts
    }

    /// Symbols still needed for the object.
    pub fn remaining(&self) -> u64 {
        self.partition.symbols() - self.useful_symbols
    }

    fn open_next(&mut self, mut block: OpenBlock) -> bool {
        let symbols = self.partition.symbols_of(self.decoded + self.open.len() as u32);
        if symbols > 0 {
            block.begin(symbols, self.config.slots, self.config.claims);
            self.open.push_back(block);
        }
        symbols > 0
    }

    /// A symbol arrived from source number `peer`.
    pub fn handle_symbol(&mut self, now: Instant, peer: usize, packet: &Packet) {
        let Body::Symbol { number, block, symbol, .. } = packet.body() else { return };
        // No source that follows the acknowledgements sends from beyond the open blocks.
        if symbol > MAX_SYMBOL || u64::from(block) >= u64::from(self.decoded) + u64::from(OPEN_BLOCKS) {
            return;
        }
        if self.phase == Phase::Requested {
            // The controller's answer was lost, or is late.
            (self.phase, self.next_try) = (Phase::Receiving, None);
        }
        let source = &mut self.peers[peer];
        source.packets += 1;
        let slot = (symbol % u32::from(self.config.slots)) as u8;
        if source.heard_at.replace(now).is_none() {
            source.slot = slot;
            self.active = self.heard(now).count() as u32;
        } else if !self.config.claims {
            // A source that was silent may have another slot now. With claims symbols are no sign of it.
            source.slot = slot;
        }
        let source = &mut self.peers[peer];
        source.note_number(number);
        if packet.traffic_class.ecn() == Ecn::Ce {
            source.marks += 1;
        }
        source.attempted = None;
        let slot = source.slot;
        if self.config.claims {
            self.note_rate(now, slot);
        }
        let (needed, claim) = self.take(peer, block, symbol);
        self.peers[peer].ack = Some((number, needed, claim));
        if self.is_complete() && matches!(self.phase, Phase::Receiving) {
            self.complete(now);
        }
    }

    fn note_rate(&mut self, now: Instant, slot: u8) {
        if now >= self.halve_rates_at {
            let times = now.since(self.halve_rates_at).as_ps() / RATES_INTERVAL.as_ps() + 1;
            self.rates.iter_mut().for_each(|rate| *rate = rate.checked_shr(times.min(31) as u32).unwrap_or(0));
            self.halve_rates_at = now.after(RATES_INTERVAL);
        }
        self.rates[usize::from(slot)] += 1;
    }

    /// Puts a symbol into its block. Returns what its sender should still send of it, and what it may claim.
    #[inline]
    fn take(&mut self, peer: usize, number: u32, symbol: u32) -> (u32, u32) {
        let index = number.wrapping_sub(self.decoded) as usize;
        let slots = self.config.slots;
        let Some(block) = self.open.get_mut(index).filter(|block| !block.decoded) else {
            // Decoded already.
            self.counts.excess_symbols += 1;
            self.peers[peer].excess += 1;
            return (0, NO_CLAIM);
        };
        if self.config.claims {
            block.note_share(symbol, self.peers[peer].slot);
        }
        if block.note(symbol, slots) {
            if block.received <= block.symbols {
                let bytes = self.undelivered.min(self.config.symbol.into());
                self.undelivered -= bytes;
                self.useful_symbols += 1;
                self.peers[peer].delivered += bytes as u32;
                self.peers[peer].bytes += bytes;
            } else {
                self.counts.overhead_symbols += 1;
            }
        } else {
            self.counts.excess_symbols += 1;
            self.peers[peer].excess += 1;
        }
        let whole = block.sources == block.symbols;
        if whole || block.received >= block.wanted {
            let decodes = match &mut self.decoding {
                Decoding::Drawn(stream) => whole || stream.below(FAILURES) > 0,
                Decoding::Asked { blocks } => {
                    if !blocks.contains(&number) {
                        blocks.push_back(number);
                    }
                    self.peers[peer].attempted = Some(number);
                    false
                }
            };
            if decodes {
                self.note_decoded(index);
                return (0, NO_CLAIM);
            }
        }
        // The paper's estimate: two symbols more than K decode with near certainty. Somewhat is needed until the block is
        // known to be decoded, even if all of it has come: who hears that nothing is does not send for it again.
        let missing = (block.wanted + 2).saturating_sub(block.received);
        let fair = missing.div_ceil(self.active).max(1);
        // What is left of a share then is lost with the acknowledgements that claimed it. It may be long until the block is known
        // to be decoded: its hash may have to come on the way that symbols would fill.
        let enough = whole || block.received >= block.wanted;
        if !self.config.claims || enough {
            return (fair, NO_CLAIM);
        }
        let slot = self.peers[peer].slot;
        self.leave_alone(index);
        let block = &mut self.open[index];
        let claim = block.claim(slot, &self.rates, &self.left_alone);
        let left = |block: &OpenBlock| block.shares.get(usize::from(slot)).map_or(0, |share| share.left());
        let own = left(block);
        if own > 0 {
            return (own, claim);
        }
        // It has sent its share, and the others will send theirs: it helps them out if nothing else is left to do, with one more
        // than its part in case one is lost.
        let idle = self.open.iter().all(|block| block.decoded || left(block) == 0);
        (if idle { fair + 1 } else { 0 }, claim)
    }

    /// Finds what of the open block at `index` is left to the source of each slot, because it may be in flight. That is
    /// less if the source has something left of the blocks before, which it sends first.
    fn leave_alone(&mut self, index: usize) {
        let symbols = u64::from(self.open[index].symbols);
        let all = self.rates.iter().map(|rate| u64::from(*rate)).sum::<u64>().max(1);
        for (slot, left_alone) in self.left_alone.iter_mut().enumerate() {
            let before = self.open.iter().take(index).filter(|block| !block.decoded);
            let before: u32 = before.map(|block| block.shares[slot].left()).sum();
            let usual = symbols * u64::from(self.rates[slot]) / all;
            *left_alone = ((usual * LEFT_HALVES / 2) as u32).saturating_sub(before);
        }
    }

    /// The symbols of a block decode it, after a [`PushRequest::Decode`]. Blocks that are not open are ignored.
    pub fn handle_decoded(&mut self, now: Instant, block: u32) {
        let index = block.wrapping_sub(self.decoded) as usize;
        if self.open.get(index).is_none_or(|block| block.decoded) {
            return;
        }
        self.note_decoded(index);
        if self.is_complete() && self.phase == Phase::Receiving {
            self.complete(now);
        }
    }

    /// The symbols of a block do not decode it, because some of them are false. `missing` more are needed, at least
    /// one. Blocks that are not open are ignored.
    pub fn handle_missing(&mut self, block: u32, missing: u32) {
        let index = block.wrapping_sub(self.decoded) as usize;
        if let Some(block) = self.open.get_mut(index).filter(|block| !block.decoded) {
            block.wanted = block.received.saturating_add(missing.max(1)).min(MAX_SYMBOL);
        }
    }

    fn note_decoded(&mut self, index: usize) {
        let block = &mut self.open[index];
        block.decoded = true;
        // What came otherwise, and not by symbols, is not missing any more.
        self.useful_symbols += u64::from(block.symbols.saturating_sub(block.received));
        let whole = block.sources == block.symbols;
        self.counts.whole_blocks += u32::from(whole);
        self.counts.decoded_blocks += u32::from(!whole);
        self.close_decoded();
    }

    /// The next block whose symbols may decode it.
    fn poll_decode(&mut self) -> Option<u32> {
        match &mut self.decoding {
            Decoding::Drawn(_) => None,
            Decoding::Asked { blocks } => blocks.pop_front(),
        }
    }

    fn close_decoded(&mut self) {
        while self.open.front().is_some_and(|block| block.decoded) {
            let spent = self.open.pop_front().expect("there is a first");
            self.decoded += 1;
            self.open_next(spent);
        }
    }

    fn complete(&mut self, now: Instant) {
        (self.phase, self.tries, self.next_try) = (Phase::Finishing, 1, Some(now.after(self.config.retry)));
        self.outbox.push_back(ToController::Fin);
        for peer in &mut self.peers {
            peer.fin_due = true;
        }
    }

    /// Takes an answer of the controller.
    pub fn handle_message(&mut self, message: ToReceiver) {
        match message {
            ToReceiver::FetchAck if self.phase == Phase::Requested => {
                (self.phase, self.next_try) = (Phase::Receiving, None);
            }
            ToReceiver::FinAck if self.phase == Phase::Finishing => {
                (self.phase, self.next_try) = (Phase::Closed, None);
            }
            _ => {}
        }
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let report = (self.phase == Phase::Receiving).then_some(self.next_report);
        [report, self.next_try].into_iter().flatten().min()
    }

    /// A deadline may have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_try.is_some_and(|at| at <= now) {
            let fetches = self.phase == Phase::Requested;
            if !fetches && self.tries >= FIN_TRIES {
                (self.phase, self.next_try) = (Phase::Closed, None);
                return;
            }
            self.outbox.push_back(if fetches { ToController::Fetch } else { ToController::Fin });
            let wait = self.config.retry.times(1 << self.tries.min(16)).min(RETRY_MAX);
            (self.tries, self.next_try) = (self.tries.saturating_add(1), Some(now.after(wait)));
        }
        if self.phase == Phase::Receiving && self.next_report <= now {
            self.report(now);
        }
    }

    /// Sources that sent since the report before the last.
    fn heard(&self, now: Instant) -> impl Iterator<Item = &Peer> {
        let since = now.before(self.config.report.times(2));
        self.peers.iter().filter(move |peer| peer.heard_at.is_some_and(|at| at >= since))
    }

    fn report(&mut self, now: Instant) {
        self.active = (self.heard(now).count() as u32).max(1);
        let bits = self.heard(now).fold(0, |bits, peer| bits | 1 << peer.slot);
        self.outbox.push_back(ToController::Report {
            decoded: self.decoded,
            remaining: self.remaining(),
            heard: bits,
            next: self.open.front().map_or(0, |block| block.next),
        });
        self.next_report = now.after(self.config.report);
    }

    /// The next message to the controller.
    pub fn poll_message(&mut self) -> Option<ToController> {
        self.outbox.pop_front()
    }

    /// The next packet to source number `peer`.
    #[inline]
    pub fn poll_transmit(&mut self, peer: usize) -> Option<Packet> {
        if let Some(block) = self.peers[peer].attempted {
            if matches!(&self.decoding, Decoding::Asked { blocks } if blocks.contains(&block)) {
                return None;
            }
            let index = block.wrapping_sub(self.decoded) as usize;
            let is_open = self.open.get(index).is_some_and(|open| !open.decoded);
            if let Some(ack) = self.peers[peer].ack.as_mut().filter(|_| !is_open) {
                (ack.1, ack.2) = (0, NO_CLAIM);
            }
            self.peers[peer].attempted = None;
        }
        let complete = self.is_complete();
        let source = &mut self.peers[peer];
        let fin = core::mem::take(&mut source.fin_due);
        let (number, needed, claim) = match source.ack.take() {
            Some(ack) => ack,
            None if fin => (source.highest.map_or(0, |(number, _)| number), 0, NO_CLAIM),
            None => return None,
        };
        let received = source.received_before(number);
        let (decoded, marks) = (self.decoded, source.marks as u16);
        let body = Body::SymbolAck { number, received, decoded, needed, claim, marks, complete };
        // As DCTCP's: a queue that marks drops what cannot be marked.
        Some(Packet::new(self.config.ack_class.with_ecn(Ecn::Ect0), self.config.wire.wire_bytes(0), body))
    }
}

impl Peer {
    #[inline]
    fn note_number(&mut self, number: u32) {
        self.highest = Some(match self.highest {
            None => (number, 0),
            Some((highest, bits)) => {
                let ahead = number.wrapping_sub(highest);
                match ahead {
                    0 => (highest, bits),
                    1..=32 => (number, (((u64::from(bits) << 1) | 1) << (ahead - 1)) as u32),
                    _ if ahead < 1 << 31 => (number, 0),
                    _ => {
                        let behind = highest.wrapping_sub(number) - 1;
                        (highest, if behind < 32 { bits | 1 << behind } else { bits })
                    }
                }
            }
        });
    }

    /// Bit `i`: the packet `number - 1 - i` has arrived.
    #[inline]
    fn received_before(&self, number: u32) -> u32 {
        let Some((highest, bits)) = self.highest else { return 0 };
        bits.checked_shr(highest.wrapping_sub(number)).unwrap_or(0)
    }
}

/// A receiver shared by the ends of its object. They belong to one driver. The cell is atomic so that the driver may
/// move to another thread; it panics if two use it at once.
pub type SharedReceiver = Arc<AtomicRefCell<PushReceiver>>;

/// A receiver's end for one source, as a [`Transport`]. All ends of one object share the receiver.
pub struct PushPort {
    receiver: SharedReceiver,
    peer: usize,
}

impl PushPort {
    /// The end for source number `peer`.
    pub fn new(receiver: SharedReceiver, peer: usize) -> Self {
        Self { receiver, peer }
    }
}

impl Transport for PushPort {
    type Request = PushRequest;
    type Answer = ToReceiver;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        self.receiver.borrow_mut().handle_symbol(now, self.peer, packet);
    }

    fn handle_command(&mut self, _now: Instant, command: Command<ToReceiver>) {
        if let Command::Answer(message) = command {
            self.receiver.borrow_mut().handle_message(message);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.receiver.borrow_mut().handle_timeout(now);
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        self.receiver.borrow_mut().poll_transmit(self.peer)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<PushRequest>> {
        let mut receiver = self.receiver.borrow_mut();
        if let Some(block) = receiver.poll_decode() {
            return Some(Event::Ask(PushRequest::Decode { block }));
        }
        let complete = receiver.is_complete();
        let peer = &mut receiver.peers[self.peer];
        if peer.delivered > 0 {
            return Some(Event::DeliverSymbol { bytes: core::mem::take(&mut peer.delivered) });
        }
        if complete && !peer.told {
            peer.told = true;
            return Some(Event::Received);
        }
        receiver.poll_message().map(|message| Event::Ask(PushRequest::Controller(message)))
    }

    /// Only one end keeps the receiver's deadline.
    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        if self.peer > 0 {
            return None;
        }
        self.receiver.borrow().poll_timeout().map(|at| Deadline { at, why: Timer::Report })
    }

    fn statistics(&self) -> Statistics {
        let receiver = self.receiver.borrow();
        let peer = &receiver.peers[self.peer];
        let counts = if self.peer == 0 { receiver.counts } else { ReceiverCounts::default() };
        Statistics {
            marks: peer.marks,
            symbols: peer.packets,
            excess_symbols: peer.excess,
            decoded_blocks: counts.decoded_blocks,
            whole_blocks: counts.whole_blocks,
            ..Statistics::default()
        }
    }
}
