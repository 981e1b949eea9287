//! SCDP (Alasmar, Parisis, Crowcroft, arXiv 1909.08928): objects as rateless symbols over [NDP](super::ndp)'s switches
//! and pulls, from one source or from several at once.
//!
//! Any symbols will do. A trimmed symbol is replaced by a new one at the next pull and never sent again. Source `i` of
//! `n` sends the symbols `i, i + n, i + 2n, …`; the first `k` are the object itself. The receiver has the object once
//! it has all of these, or `k` symbols and [`extra_symbols`](ScdpConfig::extra_symbols) more from any sources. It pulls
//! from the source whose symbol or header arrived, so each source sends as fast as its path allows.
//!
//! The class of data grows with the number of symbols sent: five levels of strict priority (multi-level feedback
//! queues).
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | `initial_window` | 15 packets, at most the source symbols that are its own | PPUSH: one bandwidth-delay product |
//! | `thresholds` | 20, 204, 2048, 20480 packets | PPUSH, section V, on SCDP |
//! | `extra_symbols` | 2 | RaptorQ fails to decode then one time in 10⁶ (RFC 6330); that one is neglected |
//!
//! Symbols are only numbers here: nothing is encoded. The receiver has requested the object and knows its size.

mod object;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use object::ScdpObject;
pub use receiver::ScdpReceiver;
pub use sender::ScdpSender;

use core::fmt;

use crate::contract::Field;
use crate::packet::{CLASSES, TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[];

/// Levels of priority.
pub const LEVELS: usize = 5;

/// Settings that both sides of SCDP flows share; many flows share one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScdpConfig {
    /// Bytes of a symbol, one per packet, above 0; a full packet takes at most 65535 bytes on the wire. Default 1460.
    pub symbol: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of data at the first level; the others follow. Not-ECT. Default 0.
    pub data_class: TrafficClass,
    /// Class of acknowledgements and pulls, which is that of headers in switches. Default 31.
    pub control_class: TrafficClass,
    /// Symbols sent before the first pull, at least 1. Default 15.
    pub initial_window: u32,
    /// After this many symbols a source continues at the next level; never falling. Default 20, 204, 2048, 20480.
    pub thresholds: [u64; LEVELS - 1],
    /// Symbols beyond those of the object that are needed to decode it. Default 2.
    pub extra_symbols: u32,
    /// Bounds of the timeout.
    pub rto: RtoBounds,
}

impl Default for ScdpConfig {
    fn default() -> Self {
        Self {
            symbol: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::default(),
            control_class: TrafficClass::new(super::ndp::CONTROL_CLASS),
            initial_window: 15,
            thresholds: [20, 204, 2048, 20_480],
            extra_symbols: 2,
            rto: RtoBounds::default(),
        }
    }
}

impl ScdpConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), ScdpConfigError> {
        let RtoBounds { minimum, maximum, initial, .. } = self.rto;
        match self {
            _ if self.symbol == 0 || self.symbol.checked_add(self.wire.header_bytes).is_none() => {
                Err(ScdpConfigError::Symbol)
            }
            _ if self.data_class.class() + LEVELS > CLASSES => Err(ScdpConfigError::DataClass),
            _ if self.initial_window == 0 => Err(ScdpConfigError::InitialWindow),
            _ if !self.thresholds.is_sorted() => Err(ScdpConfigError::Thresholds),
            _ if minimum > maximum || initial == Span::ZERO => Err(ScdpConfigError::Rto),
            _ => Ok(()),
        }
    }

    /// Symbols of an object of this many bytes, at least one.
    pub fn symbols(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.symbol.into()).max(1)
    }

    /// Bytes of each symbol of an object of this many bytes. An object of one symbol needs no padding.
    pub fn symbol_bytes(&self, bytes: u64) -> u16 {
        bytes.min(self.symbol.into()) as u16
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScdpConfigError {
    /// `symbol` is zero, or a full packet exceeds 65535 bytes on the wire.
    Symbol,
    /// There are no four classes after `data_class`.
    DataClass,
    /// `initial_window` is zero.
    InitialWindow,
    /// `thresholds` fall.
    Thresholds,
    /// `rto`: the least timeout exceeds the greatest, or the first is zero.
    Rto,
}

impl fmt::Display for ScdpConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Symbol => "a symbol must be above 0 bytes, and its packet at most 65535 bytes on the wire",
            Self::DataClass => "data needs four more classes after its first: 27 is the last that has",
            Self::InitialWindow => "initial_window must be at least 1 packet",
            Self::Thresholds => "thresholds must not fall",
            Self::Rto => "the least timeout must not exceed the greatest, and the first must be above 0s",
        })
    }
}

impl core::error::Error for ScdpConfigError {}
