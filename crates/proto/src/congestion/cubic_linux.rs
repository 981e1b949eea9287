//! How CUBIC grows in Linux (`bictcp_update`, `bictcp_recalc_ssthresh` and `bictcp_reset` in `net/ipv4/tcp_cubic.c`), and in
//! ns-3, which copied a part of it: in whole segments.
//!
//! | constant | value | name there |
//! |---|---|---|
//! | beta | in 1024ths, 717 by default | `beta` |
//! | acknowledged segments for one more | 2 at least | `max(ca->cnt, 2U)` |
//! | while no loss has shown the largest window | 20 at most | `ca->cnt > 20` |
//! | where the curve lies below the next segment | 100 windows | `100 * cwnd` |
//!
//! Differences from RFC 9438. Most of them show at datacenter round trips, where the curve stands still:
//! - The window, its cuts, the curve's distance from its plateau and Reno's line are whole segments. So the curve stands
//!   still while it is less than a segment from its plateau.
//! - Until a loss has shown the largest window, it grows by a twentieth per round trip, where Reno's line adds half a
//!   segment. A timeout makes it forget that window.
//! - Reno's line never becomes steeper. The window follows it: a window of acknowledgements is worth what it is behind.
//! - All acknowledged packets count, and cuts are from the window, not from the flight.
//! - The curve is looked up a least round-trip time ahead, not a smoothed one.
//!
//! Not copied: Linux counts time in jiffies, and computes `cnt` anew after 1/32 s at the latest while the window stays.
//! Acknowledged bytes are rounded up to segments, where Linux counts packets.
//!
//! ns-3's variant ([`Variant::Ns3`]; 3.37, `tcp-cubic.cc`):
//! - It has no line of Reno, which later versions have. At datacenter round trips, where the curve stands still, the window
//!   does, too.
//! - What was acknowledged while the curve stood still pays for several segments, one with each acknowledgement. A cut does
//!   not take it away.
//! - beta is not rounded.
//!
//! Not copied: ns-3 ignores round-trip times in the first 10 ms of a curve. Its slow start takes a whole acknowledgement, beyond
//! ssthresh, but of what was in flight at a timeout only what is acknowledged before the last of it, which a controller does not
//! know.

use super::AckSample;
use super::hystart_linux::Variant;
use crate::time::Span;

/// Acknowledged segments for one more: at least, at most while no loss has shown the largest window, and windows of them
/// where the curve lies below the next segment.
const LEAST: f64 = 2.0;
const MOST_UNKNOWN: f64 = 20.0;
const FLAT_WINDOWS: f64 = 100.0;
/// Unit of beta.
const BETA_SCALE: f64 = 1024.0;

/// What Linux remembers beside the curve. Windows are whole segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LinuxGrowth {
    /// Acknowledged segments that count towards the next of Reno's line (`ack_cnt`), and of the window (`snd_cwnd_cnt`).
    towards_reno: u32,
    towards_window: u32,
    /// Least round-trip time since the connection's beginning or its last timeout (`delay_min`).
    least_rtt: Span,
    /// A loss has shown the curve's plateau (`last_max_cwnd` is not 0).
    plateau_is_known: bool,
    variant: Variant,
}

impl LinuxGrowth {
    /// Before the first packet.
    pub(super) fn new(variant: Variant) -> Self {
        Self { towards_reno: 0, towards_window: 0, least_rtt: Span::MAX, plateau_is_known: false, variant }
    }

    /// What remains after a cut, where `beta` should.
    pub(super) fn beta(&self, beta: f64) -> f64 {
        match self.variant {
            Variant::Linux => libm::round(beta * BETA_SCALE).clamp(1.0, BETA_SCALE - 1.0) / BETA_SCALE,
            Variant::Ns3 => beta,
        }
    }

    /// A distance from the plateau in whole segments, rounded towards it.
    pub(super) fn whole(distance: f64) -> f64 {
        libm::trunc(distance)
    }

    /// Takes the round-trip time of an acknowledgement.
    #[inline]
    pub(super) fn note(&mut self, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            self.least_rtt = self.least_rtt.min(rtt);
        }
    }

    /// Where the curve is looked up, `elapsed` after its start.
    pub(super) fn ahead(&self, elapsed: Span) -> Span {
        if self.least_rtt == Span::MAX { elapsed } else { elapsed.plus(self.least_rtt) }
    }

    /// A curve starts.
    pub(super) fn on_epoch(&mut self) {
        self.towards_reno = 0;
    }

    /// A loss or a mark cuts the window.
    pub(super) fn on_cut(&mut self) {
        self.plateau_is_known = true;
        if self.variant == Variant::Linux {
            self.towards_window = 0;
        }
    }

    pub(super) fn on_timeout(&mut self) {
        let counted = if self.variant == Variant::Ns3 { self.towards_window } else { 0 };
        *self = Self { towards_window: counted, ..Self::new(self.variant) };
    }

    /// Segments that Reno's line gains where `packets` of a window of `cwnd` segments are acknowledged.
    pub(super) fn reno_segments(&mut self, cwnd: f64, beta: f64, packets: u64) -> f64 {
        if self.variant == Variant::Ns3 {
            return 0.0;
        }
        // `beta_scale`: eighths of a window for a segment.
        let eighths = libm::floor(8.0 * (1.0 + beta) / (3.0 * (1.0 - beta)));
        let price = (libm::floor(cwnd * eighths / 8.0) as u32).max(1);
        self.towards_reno = counted(self.towards_reno, packets);
        // What just pays for a segment gains it with the next packet (`ack_cnt > delta`).
        let segments = self.towards_reno.saturating_sub(1) / price;
        self.towards_reno -= segments * price;
        f64::from(segments)
    }

    /// Segments that the window gains where `packets` of its `cwnd` segments are acknowledged, and the curve would have
    /// `target`, and Reno `reno_window`.
    pub(super) fn segments(&mut self, cwnd: f64, target: f64, reno_window: f64, packets: u64) -> f64 {
        let price_to = |window: f64| libm::floor(cwnd / (window - cwnd));
        let mut price = if target > cwnd { price_to(target) } else { FLAT_WINDOWS * cwnd };
        if !self.plateau_is_known {
            price = price.min(MOST_UNKNOWN);
        }
        if reno_window > cwnd {
            price = price.min(price_to(reno_window));
        }
        self.pay(price.max(LEAST) as u32, packets)
    }

    /// `tcp_cong_avoid_ai`; in ns-3 `IncreaseWindow`
    fn pay(&mut self, price: u32, packets: u64) -> f64 {
        if self.variant == Variant::Ns3 {
            self.towards_window = counted(self.towards_window, packets);
            let pays = self.towards_window >= price;
            self.towards_window -= if pays { price } else { 0 };
            return f64::from(u8::from(pays));
        }
        let mut segments = 0;
        if self.towards_window >= price {
            // Counted while a segment cost more: all of it is worth one.
            (self.towards_window, segments) = (0, 1);
        }
        self.towards_window = counted(self.towards_window, packets);
        segments += self.towards_window / price;
        self.towards_window %= price;
        f64::from(segments)
    }
}

fn counted(before: u32, packets: u64) -> u32 {
    before.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX))
}
