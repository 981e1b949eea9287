//! The interface between transports and congestion controllers.

use crate::time::{Instant, OneWayDelay, Span};
use crate::units::Rate;

/// What one acknowledgement says, as interpreted by the transport.
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
    /// One-way delay that it reports: of the latest data packet to arrive before it was sent.
    pub delay: Option<OneWayDelay>,
    /// Time from the arrival of the echoed packet at the receiver to the departure of this acknowledgement. Only for a
    /// controller that [needs it](CongestionControl::needs_hold_time).
    pub hold: Option<Span>,
    /// Smoothed round-trip time (RFC 6298), [`Span::ZERO`] before the first sample.
    pub smoothed_rtt: Span,
    /// Whether the window limited the sender before this acknowledgement. Only then may the window grow (RFC 7661).
    pub window_limited: bool,
    /// Whether the sender is repairing a loss. Windows do not grow then.
    pub in_recovery: bool,
}

impl AckSample {
    /// The network's part of the round-trip time, in both directions: all but the time for which the receiver held the
    /// packet (fabric delay; Swift, SIGCOMM 2020, section 3.2). `None` if either is missing.
    pub fn fabric_delay(&self) -> Option<Span> {
        Some(self.rtt?.minus(self.hold?))
    }
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
    /// Bytes in flight when it was noticed, without those sent by limited transmit.
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

/// The congestion controller of one flow.
///
/// For every acknowledgement the transport first calls [`on_ack`](Self::on_ack). If the acknowledgement signals
/// congestion, it then calls [`on_congestion`](Self::on_congestion). Windows are in bytes.
pub trait CongestionControl {
    /// An acknowledgement arrived.
    fn on_ack(&mut self, sample: &AckSample);

    /// Congestion was noticed.
    fn on_congestion(&mut self, event: &Congestion);

    /// The transport considers these bytes lost. Congestion is reported separately, once per recovery.
    fn on_lost(&mut self, _bytes: u64) {}

    /// Loss recovery ended with `flight` bytes in flight (RFC 6582 full acknowledgement).
    fn on_recovered(&mut self, _flight: u64) {}

    /// The last [`Cause::Loss`] was none: packets had overtaken each other, and all that was sent again had arrived. Slow start leads
    /// back to `ssthresh` bytes: the window before it, or where slow start would have ended then (RFC 4015 section 3).
    /// Controllers without slow start ignore it.
    fn on_spurious_loss(&mut self, _ssthresh: u64) {}

    /// The sender was idle for longer than one RTO (RFC 5681 section 4.1).
    fn on_idle(&mut self) {}

    /// Bytes that may be in flight (cwnd). If a controller [needs pacing](Self::needs_pacing) and the window is below a
    /// segment, the transport sends one segment every `smoothed_rtt * mss / window`. For other controllers one segment
    /// is in flight.
    fn window(&self) -> u64;

    /// Most payload that may leave per second, above zero. `None` leaves that to the window alone. The transport asks
    /// before each packet, if the controller [needs pacing](Self::needs_pacing).
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Packets that leave together at [`pacing_rate`](Self::pacing_rate), at least 1. A pause for all of them follows.
    fn pacing_burst(&self) -> u8 {
        1
    }

    /// Slow start ends at this window (ssthresh); `u64::MAX` before any congestion.
    fn ssthresh(&self) -> u64;

    /// How the transport treats ECN for this controller, unless its configuration says otherwise.
    fn ecn_mode(&self) -> EcnMode;

    /// Whether the transport must measure one-way delays for this controller.
    fn needs_one_way_delay(&self) -> bool {
        false
    }

    /// Whether the receiver must report for how long it holds packets ([`AckSample::hold`]).
    fn needs_hold_time(&self) -> bool {
        false
    }

    /// Whether the transport must pace for this controller: at its [rate](Self::pacing_rate), and below a window of one
    /// segment. It is asked once, when the flow opens, so that packets of other controllers cost nothing more. Default:
    /// whether the controller has a rate then.
    fn needs_pacing(&self) -> bool {
        self.pacing_rate().is_some()
    }

    /// Sets the number of links between sender and receiver. A driver that knows the path calls it before the first
    /// packet: the simulator does, a socket does not.
    fn set_hops(&mut self, _hops: u8) {}

    /// Estimated fraction of marked bytes, in [0, 1]. `None` for controllers that do not estimate it.
    fn marked_fraction(&self) -> Option<f64> {
        None
    }

    /// Changes the flow's weight while it runs; controllers without a weight ignore it.
    fn set_weight(&mut self, _weight: f64) {}

    /// Sets the least share of a normal flow's rate that the flow keeps, in [0, 1]. Controllers without such a share
    /// ignore it.
    fn set_min_share(&mut self, _share: f64) {}

    /// Sets the least rate of payload that the flow keeps, as far as the path carries it. Controllers without such a
    /// rate ignore it.
    fn set_min_rate(&mut self, _rate: Rate) {}

    /// Sets the rate of payload that the flow needs to meet its deadline. The flow keeps this rate, but no more than a
    /// normal flow would have. With `u64::MAX` bits per second it is a normal flow. Controllers that do not give way
    /// this way ignore it.
    fn set_needed_rate(&mut self, _rate: Rate) {}

    /// Whether the controller measures how far apart the network brings packets that leave together. Then hosts hand each packet to
    /// the network by itself: a token bucket passes packets that are joined for segmentation offload as one.
    fn measures_gaps(&self) -> bool {
        false
    }

    /// The rate of payload that a normal flow would have, if the controller knows it.
    fn normal_rate(&self) -> Option<Rate> {
        None
    }
}
