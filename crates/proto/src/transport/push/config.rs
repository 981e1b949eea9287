//! Settings on which the source and the receiver of a push flow must agree, and those of each side.

use core::fmt;

use super::partition::MAX_BLOCK_SYMBOLS;
use super::weights::LOW_WEIGHT;
use crate::congestion::weighted_fair::WeightedFairConfig;
use crate::packet::{TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;

/// Most slots of a task: reports have a bit for each.
pub(super) const MAX_SLOTS: u8 = 32;
/// Blocks that may be open at once.
pub const OPEN_BLOCKS: u32 = 4;

/// Settings of both sides of a push flow.
#[derive(Clone, PartialEq, Debug)]
pub struct PushConfig {
    /// Bytes of a symbol, above 0. Every packet carries one.
    pub symbol: u16,
    /// Bytes around a symbol.
    pub wire: WireFormat,
    /// Class of symbols; they are ECT(0).
    pub data_class: TrafficClass,
    /// Class of acknowledgements; they are ECT(0), too.
    pub ack_class: TrafficClass,
    /// Source symbols of a full block (K), 1 to [`MAX_BLOCK_SYMBOLS`].
    pub block_symbols: u32,
    /// Slots of a task (M): the most sources that push it at once, 1 to 32.
    pub slots: u8,
    /// A packet is lost when this many packets sent after it have arrived, at least 1. Default 3.
    pub reorder_threshold: u32,
    /// The window.
    pub window: WeightedFairConfig,
    /// Most bytes of symbols that one source may have in flight, whatever its window. Symbols in flight when a block is
    /// complete were sent for nothing. `None`, the default, is no limit.
    pub max_under_way: Option<u64>,
    /// What `max_under_way` may grow to while packets do not wait: a long path takes more. `None`, the default: it does not grow.
    pub largest_under_way: Option<u64>,
    /// How long a source waits for any acknowledgement.
    pub rto: RtoBounds,
    /// A source that receives nothing for this long stops until the next order. Default 10 s.
    pub give_up: Span,
    /// How often a receiver reports. Default 50 ms.
    pub report: Span,
    /// How long a receiver first waits for an answer to fetch and fin. The time doubles each time, up to 5 s. Default
    /// 200 ms.
    pub retry: Span,
    /// Whether any source may send a missing source symbol named by the receiver. Default false.
    pub claims: bool,
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PushConfigError {
    /// The field.
    pub key: &'static str,
    /// What it must be.
    pub why: &'static str,
}

impl fmt::Display for PushConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.why)
    }
}

impl core::error::Error for PushConfigError {}

impl PushConfig {
    /// The defaults for symbols of `symbol` bytes, in one slot.
    pub fn new(symbol: u16, wire: WireFormat) -> Self {
        Self {
            symbol,
            wire,
            data_class: TrafficClass::default(),
            ack_class: TrafficClass::default(),
            block_symbols: 3333,
            slots: 1,
            reorder_threshold: 3,
            window: WeightedFairConfig::default(),
            max_under_way: None,
            largest_under_way: None,
            rto: RtoBounds::default(),
            give_up: Span::from_secs(10),
            report: Span::from_ms(50),
            retry: Span::from_ms(200),
            claims: false,
        }
    }

    /// Checks every range.
    pub fn check(&self) -> Result<(), PushConfigError> {
        let require = |holds: bool, key, why| if holds { Ok(()) } else { Err(PushConfigError { key, why }) };
        let fits = self.symbol > 0 && self.symbol.checked_add(self.wire.header_bytes).is_some();
        require(fits, "symbol", "must be above 0 and fit a packet")?;
        let symbols = (1..=MAX_BLOCK_SYMBOLS).contains(&self.block_symbols);
        require(symbols, "block_symbols", "must lie in 1..=56403, the symbols of the largest block (RFC 6330)")?;
        require((1..=MAX_SLOTS).contains(&self.slots), "slots", "must lie in 1..=32")?;
        require(self.reorder_threshold > 0, "reorder_threshold", "must be at least 1")?;
        let weight = self.window.weight;
        require((LOW_WEIGHT..=1e9).contains(&weight), "weight", "must lie in 0.5..=1e9: 0.5 is theta's floor")?;
        require(self.window.initial_window > 0, "initial_window", "must be at least 1")?;
        let gain = self.window.gain;
        require(gain > 0.0 && gain <= 1.0, "gain", "must lie in (0, 1]")?;
        require((0.0..=1.0).contains(&self.window.initial_alpha), "initial_alpha", "must lie in [0, 1]")?;
        require((0.0..=1.0).contains(&self.window.tolerated_loss), "tolerated_loss", "must lie in [0, 1]")?;
        require(self.rto.initial > Span::ZERO, "initial_rto", "must be longer than 0s")?;
        let waits = [("give_up", self.give_up), ("report", self.report), ("retry", self.retry)];
        waits.into_iter().try_for_each(|(key, span)| require(span > Span::ZERO, key, "must be longer than 0s"))
    }
}
