//! The arrived part of an object, from all its sources.

use core::sync::atomic::{AtomicU64, Ordering};

use super::ScdpConfig;

const RELAXED: Ordering = Ordering::Relaxed;

/// An object in transfer. Its receiver's ends for all sources share it. They belong to one driver. The counters are
/// atomic so that it may move them to another thread, not so that two may change them at once.
#[derive(Debug)]
pub struct ScdpObject {
    bytes: u64,
    /// Number of source symbols. Those with smaller numbers are the object itself.
    symbols: u64,
    /// Number of symbols that suffices to decode.
    sufficient: u64,
    symbol_bytes: u64,
    arrived: AtomicU64,
    source_symbols: AtomicU64,
    delivered: AtomicU64,
    /// Number of the object at its receiver's host; `None` if it has only one source.
    pub(super) shared_as: Option<u64>,
}

impl ScdpObject {
    /// An object of this many bytes of which nothing has arrived. If it has several sources, its receiver's host knows
    /// it by the number `shared_as`.
    pub fn new(config: &ScdpConfig, bytes: u64, shared_as: Option<u64>) -> Self {
        let symbols = config.symbols(bytes);
        Self {
            bytes,
            symbols,
            sufficient: symbols.saturating_add(config.extra_symbols.into()),
            symbol_bytes: config.symbol_bytes(bytes).into(),
            arrived: AtomicU64::new(0),
            source_symbols: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            shared_as,
        }
    }

    /// Whether it can be decoded, or needs no decoding.
    pub fn is_complete(&self) -> bool {
        self.source_symbols.load(RELAXED) == self.symbols || self.arrived() >= self.sufficient
    }

    /// Symbols that have arrived so far, from all sources.
    pub fn arrived(&self) -> u64 {
        self.arrived.load(RELAXED)
    }

    /// Whether it had to be decoded; until it is complete, false.
    pub fn was_decoded(&self) -> bool {
        self.is_complete() && self.source_symbols.load(RELAXED) < self.symbols
    }

    /// Takes a symbol that has not arrived before. Returns the bytes of the object that it stands for. One byte is held
    /// back until the object is complete.
    pub(super) fn take(&self, number: u64) -> u64 {
        if self.is_complete() {
            return 0;
        }
        self.arrived.fetch_add(1, RELAXED);
        self.source_symbols.fetch_add(u64::from(number < self.symbols), RELAXED);
        let most = if self.is_complete() { u64::MAX } else { self.symbol_bytes };
        let kept = u64::from(!self.is_complete());
        let bytes = most.min(self.bytes.saturating_sub(self.delivered.load(RELAXED) + kept));
        self.delivered.fetch_add(bytes, RELAXED);
        bytes
    }
}
