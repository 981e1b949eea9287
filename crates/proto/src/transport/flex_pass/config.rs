//! Settings of FlexPass.

use core::fmt;

use crate::congestion::dctcp::LossCut;
use crate::packet::TrafficClass;
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;
use crate::transport::express_pass::{CreditConfig, CreditConfigError};

/// Settings that FlexPass flows share; many flows share one. The initial window is the controller's.
#[derive(Clone, PartialEq, Debug)]
pub struct FlexPassConfig {
    /// The credit loop and the proactive sub-flow.
    pub credit: CreditConfig,
    /// The reactive sub-flow.
    pub reactive: Reactive,
    /// Which part of the flow each sub-flow sends. Default [`Splitting::SharedBuffer`].
    pub splitting: Splitting,
    /// Proactive packets that one acknowledgement answers, from 1. Gaps are reported at once, and a packet waits at most a
    /// quarter of [`CreditConfig::recovery_timeout`] for its acknowledgement. Default 1 (section 4.3).
    pub proactive_ack_every: u16,
    /// Most bytes that wait out of order at the receiver. Further bytes are refused as if lost, and a sender with the
    /// same setting sends them only on a credit. `None`, the default, limits only the number of separate ranges.
    pub reorder_buffer: Option<u64>,
}

/// How the reactive sub-flow sends.
#[derive(Clone, PartialEq, Debug)]
pub enum Reactive {
    /// By a window, as long as the flow lasts (FlexPass).
    Window(Window),
    /// Sends a burst of bytes before the first credit, then a probe, then nothing (Aeolus, SIGCOMM 2020).
    Burst {
        /// The bandwidth-delay product of the path, in bytes of payload.
        bytes: u64,
        /// Class of the burst.
        class: TrafficClass,
        /// Timeout in case the probe is lost.
        timeout: Span,
    },
}

/// A reactive sub-flow with a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Class of its data. Default: red, ECT(0), with the proactive data.
    pub class: TrafficClass,
    /// Bounds of its retransmission timeout. Default: at least 4 ms (section 6.2).
    pub rto: RtoBounds,
    /// Whether it first requests a connection, and so leaves the first round trip unused. Default false.
    pub handshake: bool,
    /// Largest window, in bytes. Default: no limit.
    pub maximum: Option<u64>,
    /// How a loss cuts the window, once per window of data. Default [`LossCut::Halve`], which is DCTCP's own answer
    /// (RFC 8257 section 3.5).
    pub loss_cut: LossCut,
    /// Whether its acknowledgements are red like its data. Default false.
    pub red_acks: bool,
}

/// Which part of the flow each sub-flow sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Splitting {
    /// Both send the next unsent byte.
    SharedBuffer,
    /// The proactive sub-flow begins at the front, the reactive one at the end of what was written (RC3, NSDI 2014).
    BothEnds,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            class: CreditConfig::default().data_class.with_red(true).with_ecn(crate::packet::Ecn::Ect0),
            rto: RtoBounds { minimum: Span::from_ms(4), ..RtoBounds::default() },
            handshake: false,
            maximum: None,
            loss_cut: LossCut::Halve,
            red_acks: false,
        }
    }
}

impl Default for FlexPassConfig {
    fn default() -> Self {
        Self {
            credit: CreditConfig::default(),
            reactive: Reactive::Window(Window::default()),
            splitting: Splitting::SharedBuffer,
            proactive_ack_every: 1,
            reorder_buffer: None,
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlexPassConfigError {
    /// A setting of the credit loop.
    Credit(CreditConfigError),
    /// `rto`: the least timeout exceeds the greatest, or the first is zero.
    Rto,
    /// `proactive_ack_every` is zero.
    AckEvery,
    /// A largest window, a burst or a reorder buffer below one packet.
    Bytes,
}

impl fmt::Display for FlexPassConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credit(why) => why.fmt(f),
            Self::Rto => f.write_str("rto.minimum must not exceed rto.maximum, and rto.initial must not be 0s"),
            Self::AckEvery => f.write_str("proactive_ack_every must be at least 1"),
            Self::Bytes => f.write_str("a largest window, a burst and a reorder buffer must hold a full packet"),
        }
    }
}

impl core::error::Error for FlexPassConfigError {}

impl FlexPassConfig {
    /// Longest time that a proactive packet waits for its acknowledgement. The sender's timer runs from one
    /// acknowledgement to the next, so the rest of the recovery timeout remains for the round trip.
    pub(super) fn longest_silence(&self) -> Span {
        self.credit.recovery_timeout.divided_by(4)
    }

    /// Checks every range.
    pub fn check(&self) -> Result<(), FlexPassConfigError> {
        let require = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        self.credit.check().map_err(FlexPassConfigError::Credit)?;
        let holds_packet = |bytes: u64| bytes >= u64::from(self.credit.mss);
        let (bytes, rto) = match &self.reactive {
            Reactive::Window(window) => (window.maximum, window.rto),
            Reactive::Burst { bytes, timeout, .. } => {
                (Some(*bytes), RtoBounds { initial: *timeout, ..RtoBounds::default() })
            }
        };
        require(rto.minimum <= rto.maximum && rto.initial > Span::ZERO, FlexPassConfigError::Rto)?;
        require(self.proactive_ack_every > 0, FlexPassConfigError::AckEvery)?;
        let bounded = bytes.is_none_or(holds_packet) && self.reorder_buffer.is_none_or(holds_packet);
        require(bounded, FlexPassConfigError::Bytes)
    }
}
