//! Settings of the TCP family.

use core::fmt;

use crate::congestion::EcnMode;
use crate::packet::{MAX_SACK_BLOCKS, TrafficClass, WINDOW_UNIT, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;

/// How much faster than `cwnd / SRTT` a paced sender sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PacingFactors {
    /// While the window is below ssthresh. Default 2, at least 1 (Linux `tcp_pacing_ss_ratio`).
    pub slow_start: f64,
    /// From ssthresh on. Default 1.2, at least 1 (Linux `tcp_pacing_ca_ratio`).
    pub avoidance: f64,
}

impl Default for PacingFactors {
    fn default() -> Self {
        Self { slow_start: 2.0, avoidance: 1.2 }
    }
}

/// Settings that both sides of TCP flows share; many flows share one. The initial window is the controller's.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Most payload bytes per packet. Default 1460 (a 1500-byte IP packet without options), at least 1.
    pub mss: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of the sender's packets; its ECN bits follow from `ecn`. Default 0.
    pub data_class: TrafficClass,
    /// Class of the receiver's packets; its ECN bits follow from `ecn`. Default 0.
    pub ack_class: TrafficClass,
    /// Whether a connection is requested and granted first. Otherwise it is established from the start, as in most
    /// simulations of datacenters. Default false.
    pub handshake: bool,
    /// Selective acknowledgements (RFC 2018, RFC 6675). Without them NewReno repairs losses (RFC 6582). Default true.
    pub sack: bool,
    /// SACK blocks per acknowledgement, 1 to 4. Default 3, the number that fits with timestamps (RFC 2018 section 3).
    pub sack_blocks: u8,
    /// Loss detection by time and tail loss probes (RFC 8985); needs `sack`. Default false.
    pub rack: bool,
    /// Whether the sender notices that packets overtake each other: if all that a fast recovery sent again had arrived (RFC 3708),
    /// the window returns to what it was (RFC 4015), and twice as many SACKed segments make the next one lost (RFC 4653 has a
    /// window's worth). It needs `sack`. Default false.
    pub adapt_to_reordering: bool,
    /// Whether sending the first unacknowledged segment again restarts the retransmission timer, as in Linux and in QUIC (RFC 9002
    /// section 6.2.1). RFC 6298 restarts it at acknowledgements of new data only, and none comes while a loss is repaired: where a
    /// queue makes most of the round-trip time, the timer runs out before the repair is acknowledged. Default false.
    pub restart_timer: bool,
    /// When a [policy](crate::contract::policy::Directive::overtakes) moves the flow to a higher class, whether packets
    /// sent before in a lower class count as lost only two round trips after the move: one until the first packet that
    /// overtook them is acknowledged, and one for the largest reordering window (RFC 8985 section 6.2). Otherwise the
    /// flow takes its own overtaking for loss. Default false.
    pub expect_overtaking: bool,
    /// Sends in proportion to what arrives while losses are repaired (RFC 6937); needs `sack`. Default false.
    pub prr: bool,
    /// Sends new data on the first two duplicate acknowledgements (RFC 3042). Default true.
    pub limited_transmit: bool,
    /// Data packets that one acknowledgement may answer, 1 to 255. Default 2 (RFC 5681 section 4.2).
    pub ack_every: u8,
    /// Longest delay of an acknowledgement. Default 500 us (datacenters up to 1 ms); RFC 5681 allows 500 ms.
    pub max_ack_delay: Span,
    /// How congestion marks are echoed. Default off.
    pub ecn: EcnMode,
    /// Whether the sender asks for the one-way delays of its packets. Controllers that [need
    /// them](crate::congestion::CongestionControl::needs_one_way_delay) do not work without them. A receiver answers
    /// every sender that asks. Default false.
    pub one_way_delay: bool,
    /// Whether an acknowledgement of data that was sent again is a sample of the round-trip time, too: its echo says which of
    /// the two packets it answers (RFC 7323 section 4.1). Otherwise it is none, as without timestamps (Karn's algorithm, RFC
    /// 6298 section 3), and a backoff lasts until data is acknowledged that was sent once. Default true.
    pub time_retransmissions: bool,
    /// Bounds of the retransmission timeout.
    pub rto: RtoBounds,
    /// Most bytes that the sender holds, sent or not; `None` is no limit. Default `None`.
    pub send_buffer: Option<u64>,
    /// Most bytes that the receiver holds. It limits the window when it is below twice the bandwidth-delay product.
    /// `None`, the default, is no limit. At least 256; advertised in units of 256 bytes, at most 16 776 704.
    pub receive_buffer: Option<u64>,
    /// What `receive_buffer` may grow to. It doubles when the sender had to wait for the window, and a window's bytes took more
    /// than 5 ms to come: a long path, or one with a long queue. `None`, the default: it does not grow.
    pub largest_receive_buffer: Option<u64>,
    /// Whether the receiving application reads everything at once. Otherwise it reports reads by `Command::Consume`.
    /// Default true.
    pub auto_consume: bool,
    /// Paces data packets at `factor * cwnd / SRTT` instead of sending as the window opens. A controller with its own
    /// rate is paced at that rate in any case. Default `None`.
    pub pacing: Option<PacingFactors>,
    /// Round-trip time that pacing assumes before the first sample; `None` sends the initial window unpaced. Default
    /// `None`; REFLEX's ns-3 assumes 2 ms.
    pub initial_rtt: Option<Span>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::default(),
            ack_class: TrafficClass::default(),
            handshake: false,
            sack: true,
            sack_blocks: 3,
            rack: false,
            adapt_to_reordering: false,
            restart_timer: false,
            expect_overtaking: false,
            prr: false,
            limited_transmit: true,
            ack_every: 2,
            max_ack_delay: Span::from_us(500),
            ecn: EcnMode::Off,
            one_way_delay: false,
            time_retransmissions: true,
            rto: RtoBounds::default(),
            send_buffer: None,
            receive_buffer: None,
            largest_receive_buffer: None,
            auto_consume: true,
            pacing: None,
            initial_rtt: None,
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpConfigError {
    /// `mss` is zero, or a full packet exceeds 65535 bytes on the wire.
    Mss,
    /// `sack_blocks` is not 1 to 4.
    SackBlocks,
    /// `adapt_to_reordering` without `sack`.
    ReorderingWithoutSack,
    /// `rack` without `sack`.
    RackWithoutSack,
    /// `prr` without `sack`.
    PrrWithoutSack,
    /// `ack_every` is zero.
    AckEvery,
    /// `rto`: the least timeout exceeds the greatest, or the greatest is below 60 s, or the first is zero.
    Rto,
    /// A send buffer of zero bytes, or a receive buffer below 256.
    Buffer,
    /// `pacing`: a factor is below 1 or not a number.
    Pacing,
}

impl fmt::Display for TcpConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mss => "mss must be at least 1, and a full packet at most 65535 bytes on the wire",
            Self::SackBlocks => "sack_blocks must be 1 to 4",
            Self::ReorderingWithoutSack => "adapt_to_reordering needs sack",
            Self::RackWithoutSack => "rack needs sack",
            Self::PrrWithoutSack => "prr needs sack",
            Self::AckEvery => "ack_every must be at least 1",
            Self::Rto => {
                "rto.minimum must not exceed rto.maximum, which must be at least 60s; rto.initial must not be 0s"
            }
            Self::Buffer => "send_buffer must be at least 1 byte and receive_buffer at least 256",
            Self::Pacing => "pacing factors must be at least 1",
        })
    }
}

impl core::error::Error for TcpConfigError {}

impl TcpConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), TcpConfigError> {
        let require = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        require(self.mss > 0 && self.mss.checked_add(self.wire.header_bytes).is_some(), TcpConfigError::Mss)?;
        require((1..=MAX_SACK_BLOCKS).contains(&usize::from(self.sack_blocks)), TcpConfigError::SackBlocks)?;
        require(self.sack || !self.adapt_to_reordering, TcpConfigError::ReorderingWithoutSack)?;
        require(self.sack || !self.rack, TcpConfigError::RackWithoutSack)?;
        require(self.sack || !self.prr, TcpConfigError::PrrWithoutSack)?;
        require(self.ack_every > 0, TcpConfigError::AckEvery)?;
        let rto = &self.rto;
        require(rto.minimum <= rto.maximum && rto.maximum >= Span::from_secs(60), TcpConfigError::Rto)?;
        require(rto.initial > Span::ZERO, TcpConfigError::Rto)?;
        let receives = self.receive_buffer.is_none_or(|bytes| bytes >= WINDOW_UNIT);
        require(receives && self.send_buffer != Some(0), TcpConfigError::Buffer)?;
        let factors = self.pacing.unwrap_or_default();
        require(factors.slow_start >= 1.0 && factors.avoidance >= 1.0, TcpConfigError::Pacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_is_checked() {
        let base = TcpConfig::default();
        assert_eq!(base.check(), Ok(()));
        let slow = PacingFactors { slow_start: f64::NAN, avoidance: 1.2 };
        let short = RtoBounds { maximum: Span::from_secs(59), ..RtoBounds::default() };
        for (config, error) in [
            (TcpConfig { mss: 0, ..base.clone() }, TcpConfigError::Mss),
            (TcpConfig { mss: u16::MAX, ..base.clone() }, TcpConfigError::Mss),
            (TcpConfig { sack_blocks: 5, ..base.clone() }, TcpConfigError::SackBlocks),
            (
                TcpConfig { sack: false, adapt_to_reordering: true, ..base.clone() },
                TcpConfigError::ReorderingWithoutSack,
            ),
            (TcpConfig { sack: false, rack: true, ..base.clone() }, TcpConfigError::RackWithoutSack),
            (TcpConfig { sack: false, prr: true, ..base.clone() }, TcpConfigError::PrrWithoutSack),
            (TcpConfig { ack_every: 0, ..base.clone() }, TcpConfigError::AckEvery),
            (TcpConfig { rto: short, ..base.clone() }, TcpConfigError::Rto),
            (TcpConfig { receive_buffer: Some(255), ..base.clone() }, TcpConfigError::Buffer),
            (TcpConfig { pacing: Some(slow), ..base }, TcpConfigError::Pacing),
        ] {
            assert_eq!(config.check(), Err(error));
        }
    }
}
