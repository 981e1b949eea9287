//! What has arrived of an object, from all its sources.

use core::sync::atomic::{AtomicU64, Ordering};

use super::ScdpConfig;

const RELAXED: Ordering = Ordering::Relaxed;

/// An object under way: its receiver's ends towards all sources share one. They belong to one driver; the counters are
/// atomic so that it may move them to another thread, not so that two may change them at once.
#[derive(Debug)]
pub struct ScdpObject {
    bytes: u64,
    /// Source symbols: those with smaller numbers are the object itself.
    symbols: u64,
    /// Symbols that suffice to decode.
    sufficient: u64,
    symbol_bytes: u64,
    arrived: AtomicU64,
    source_symbols: AtomicU64,
    delivered: AtomicU64,
    /// Number of the object among those of its receiver's host; `None` if it has one source only.
    pub(super) shared_as: Option<u64>,
}

impl ScdpObject {
    /// An object of so many bytes of which nothing has arrived. Its receiver's host knows it by the number `shared_as` if
    /// it has several sources.
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

    /// Whether it can be decoded, or need not be.
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

    /// Takes a symbol that has not arrived before; gives the bytes of the object that it stands for. A byte is kept back
    /// until the object is complete.
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
