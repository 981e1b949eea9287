//! Congestion controllers: they compute a window, and nothing else.
//!
//! Loss detection, retransmission and the ECN echo belong to the transport ([`crate::transport::tcp`]); a controller
//! hears of acknowledgements and congestion and answers how many bytes may be in flight. One file per controller; a
//! new one is its file, a line in the list at the end of this file and a name in [`crate::transport::tcp`]'s
//! configuration.

pub mod cubic;
pub mod dctcp;
pub mod hystart;
pub mod reno;
#[cfg(test)]
mod tests;

use crate::time::{Instant, Span};
use crate::units::Rate;

/// What one acknowledgement told, after the transport has worked out its meaning.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Instant,
    /// Bytes newly acknowledged in sequence; zero for a duplicate.
    pub acked: u64,
    /// First byte not yet acknowledged, after this acknowledgement (SND.UNA).
    pub unacked: u64,
    /// Next new byte to be sent (SND.NXT).
    pub next: u64,
    /// Bytes in flight before this acknowledgement was processed.
    pub flight: u64,
    /// Whether it echoes congestion (ECE).
    pub ece: bool,
    /// Round-trip time it measured, if it measured one.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time (RFC 6298), [`Span::ZERO`] before the first sample.
    pub smoothed_rtt: Span,
    /// Whether the window limited the sender before this acknowledgement: only then may it grow (RFC 7661's concern).
    pub window_limited: bool,
    /// Whether the sender is repairing a loss: windows do not grow then.
    pub in_recovery: bool,
}

/// Why the window must shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet was lost and is being retransmitted.
    Loss,
    /// A packet was marked; reported at most once per window of data.
    Ecn,
    /// The retransmission timer expired.
    Timeout,
}

/// A congestion event.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// When it was noticed.
    pub now: Instant,
    /// Why.
    pub cause: Cause,
    /// Bytes in flight when it was noticed, those sent by limited transmit excluded.
    pub flight: u64,
    /// First byte not yet acknowledged (SND.UNA).
    pub unacked: u64,
    /// Next new byte to be sent (SND.NXT).
    pub next: u64,
    /// For a timeout: whether the segment times out for the first time. ssthresh is set only then (RFC 5681).
    pub first: bool,
}

/// How a transport must treat ECN for a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    /// Sends Not-ECT.
    #[default]
    Off,
    /// RFC 3168: the receiver latches ECE until CWR; retransmissions are Not-ECT.
    Classic,
    /// RFC 8257: the receiver echoes each mark; every packet is ECT.
    Accurate,
}

/// A congestion controller of one flow.
///
/// The transport calls [`on_ack`](Self::on_ack) for every acknowledgement first and then, if it told of congestion,
/// [`on_congestion`](Self::on_congestion). Windows are in bytes.
pub trait CongestionControl {
    /// An acknowledgement arrived.
    fn on_ack(&mut self, sample: &AckSample);

    /// Congestion was noticed.
    fn on_congestion(&mut self, event: &Congestion);

    /// The transport takes these bytes for lost. Congestion is reported apart from it, once per recovery.
    fn on_lost(&mut self, _bytes: u64) {}

    /// Loss recovery ended with `flight` bytes in flight (RFC 6582 full acknowledgement).
    fn on_recovered(&mut self, _flight: u64) {}

    /// The sender was idle for longer than one RTO (RFC 5681 section 4.1).
    fn on_idle(&mut self) {}

    /// Bytes that may be in flight (cwnd).
    fn window(&self) -> u64;

    /// Slow start ends at this window (ssthresh); `u64::MAX` before any congestion.
    fn ssthresh(&self) -> u64;

    /// A rate to pace at; `None` leaves the choice to the transport.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// How the transport treats ECN for this controller, unless its configuration says otherwise.
    fn ecn_mode(&self) -> EcnMode;

    /// Changes the flow's weight while it runs; controllers without a weight ignore it.
    fn set_weight(&mut self, _weight: f64) {}
}
