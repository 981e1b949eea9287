//! What has arrived of an object, from all its sources.

use super::ScdpConfig;

/// An object under way: its receiver's ends towards all sources share one.
#[derive(Clone, Debug)]
pub struct ScdpObject {
    bytes: u64,
    /// Source symbols: those with smaller numbers are the object itself.
    symbols: u64,
    /// Symbols that suffice to decode.
    sufficient: u64,
    symbol_bytes: u64,
    arrived: u64,
    source_symbols: u64,
    delivered: u64,
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
            arrived: 0,
            source_symbols: 0,
            delivered: 0,
            shared_as,
        }
    }

    /// Whether it can be decoded, or need not be.
    pub fn is_complete(&self) -> bool {
        self.source_symbols == self.symbols || self.arrived >= self.sufficient
    }

    /// Symbols that have arrived so far, from all sources.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether it had to be decoded; until it is complete, false.
    pub fn was_decoded(&self) -> bool {
        self.is_complete() && self.source_symbols < self.symbols
    }

    /// Takes a symbol that has not arrived before; gives the bytes of the object that it stands for. A byte is kept back
    /// until the object is complete.
    pub(super) fn take(&mut self, number: u64) -> u64 {
        if self.is_complete() {
            return 0;
        }
        self.arrived += 1;
        self.source_symbols += u64::from(number < self.symbols);
        let most = if self.is_complete() { u64::MAX } else { self.symbol_bytes };
        let kept = u64::from(!self.is_complete());
        let bytes = most.min(self.bytes.saturating_sub(self.delivered + kept));
        self.delivered += bytes;
        bytes
    }
}
