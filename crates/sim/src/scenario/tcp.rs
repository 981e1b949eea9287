//! The tables `transport` and `traffic.NAME.tcp`: settings of the TCP family.

use pliant_proto::congestion::cubic::{Cubic, CubicConfig};
use pliant_proto::congestion::dctcp::{Dctcp, DctcpConfig};
use pliant_proto::congestion::hystart::HyStartConfig;
use pliant_proto::congestion::reno::{Reno, RenoConfig};
use pliant_proto::congestion::weighted_fair::{WeightedFair, WeightedFairConfig};
use pliant_proto::congestion::{AnyController, EcnMode};
use pliant_proto::contract::Contract;
use pliant_proto::time::Span;
use pliant_proto::transport::tcp::{PacingFactors, TcpConfig};
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::group::TransportName;
use super::queues::KeyError;
use crate::units_serde;

/// Settings of the TCP family. Defaults are for datacenters.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpSpec {
    /// Initial window in segments, 1 to 65535. Default: 10 (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u16>,
    /// Least retransmission timeout. Default: `"1ms"`, `"4ms"` for `flexpass`; RFC 6298 says 1 s, datacenters use 1 to 10 ms.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub min_rto: Option<Span>,
    /// Greatest retransmission timeout, at least 60 s (RFC 6298). Default: `"60s"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub max_rto: Option<Span>,
    /// Retransmission timeout before the first round-trip time. Default: `"10ms"`; RFC 6298 says 1 s.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub initial_rto: Option<Span>,
    /// Clock granularity G of RFC 6298, the least value of 4 RTTVAR. Default: `"1us"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub granularity: Option<Span>,
    /// Packets that one acknowledgement may answer, 1 to 255. Default: 2 (RFC 5681).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u8>,
    /// Longest delay of an acknowledgement. Default: `"500us"`; RFC 5681 allows 500 ms.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub delayed_ack: Option<Span>,
    /// Whether a connection is requested and granted before data. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<bool>,
    /// Selective acknowledgements (RFC 2018, RFC 6675). Default: true, false for `newreno`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// SACK blocks per acknowledgement, 1 to 4. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack_blocks: Option<u8>,
    /// Loss detection by time, and tail loss probes (RFC 8985); needs `sack`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<bool>,
    /// New data on the first two duplicate acknowledgements (RFC 3042). Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// How marks are echoed: `"off"`, `"classic"` (RFC 3168) or `"accurate"` (RFC 8257). Default: the controller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnEcho>,
    /// Spreads packets at 2 (slow start) or 1.2 times cwnd / SRTT, as Linux does. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Most bytes the sender holds, sent or not. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub send_buffer: Option<Bytes>,
    /// Most bytes the receiver holds. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub receive_buffer: Option<Bytes>,
    /// `dctcp`, `weighted-fair`: weight of the newest window in alpha, in (0, 1]. Default: 0.0625 (RFC 8257).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// `dctcp`, `weighted-fair`: alpha before the first window, in [0, 1]. Default: 1 (RFC 8257).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_alpha: Option<f64>,
    /// `dctcp`: marks cut no deeper than so many segments, at least 1. Default: 2 (Linux).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window: Option<u16>,
    /// `weighted-fair`: ignores losses on paths that never marked, as the paper does. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_blind: Option<bool>,
    /// `cubic`: what remains of the window after congestion, in (0, 1). Default: 0.7 (RFC 9438).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// `cubic`: whether a flow whose maximum shrinks gives way further. Default: true (RFC 9438).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_convergence: Option<bool>,
    /// `cubic`: leaves the initial slow start when delay rises (RFC 9406). Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hystart: Option<bool>,
    /// `cubic` with `hystart`: least rise of the round-trip time that counts. Default: `"4ms"` (RFC 9406), inert below.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub hystart_threshold: Option<Span>,
}

/// How congestion marks are echoed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnEcho {
    /// Packets are not ECN-capable.
    Off,
    /// The receiver repeats a mark until the sender has answered it (RFC 3168).
    Classic,
    /// The receiver echoes each mark (RFC 8257).
    Accurate,
}

/// Settings that only some controllers have, and those.
const OF_SOME: &[(&str, &[TransportName])] = &[
    ("gain", &[TransportName::Dctcp, TransportName::WeightedFair, TransportName::Layered, TransportName::FlexPass]),
    (
        "initial_alpha",
        &[TransportName::Dctcp, TransportName::WeightedFair, TransportName::Layered, TransportName::FlexPass],
    ),
    ("min_window", &[TransportName::Dctcp, TransportName::Layered, TransportName::FlexPass]),
    ("loss_blind", &[TransportName::WeightedFair]),
    ("beta", &[TransportName::Cubic]),
    ("fast_convergence", &[TransportName::Cubic]),
    ("hystart", &[TransportName::Cubic]),
    ("hystart_threshold", &[TransportName::Cubic]),
];

impl TcpSpec {
    /// Refuses settings that `transport` does not have.
    pub(super) fn check_keys(&self, transport: TransportName) -> Result<(), KeyError> {
        let given = self.to_table();
        let foreign = OF_SOME.iter().find(|(key, owners)| given.contains_key(*key) && !owners.contains(&transport));
        match foreign {
            Some((key, owners)) => {
                let owners: Vec<_> = owners.iter().map(|owner| owner.name()).collect();
                Err(((*key).to_owned(), format!("{} does not have it, only {}", transport.name(), owners.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// These settings, with `defaults` where they say nothing and built-in defaults where both do; settings that
    /// `transport` does not have are left out.
    pub(super) fn explicit(&self, defaults: &Self, transport: TransportName) -> Self {
        let mut table = Self::built_in(transport).to_table();
        table.extend(defaults.to_table());
        table.extend(self.to_table());
        for (key, owners) in OF_SOME {
            if !owners.contains(&transport) {
                table.remove(*key);
            }
        }
        table.try_into().expect("what was written can be read")
    }

    /// These settings, and those of `others` where they say nothing.
    pub(super) fn over(&self, others: &Self) -> Self {
        let mut table = others.to_table();
        table.extend(self.to_table());
        table.try_into().expect("what was written can be read")
    }

    /// What FlexPass's published simulator sets for DCTCP.
    pub(super) fn flexpass_artifact() -> Self {
        Self {
            initial_window: Some(5),
            min_rto: Some(Span::from_ms(4)),
            initial_rto: Some(Span::from_ms(1)),
            handshake: Some(true),
            initial_alpha: Some(0.0),
            ack_every: Some(1),
            ..Self::default()
        }
    }

    fn to_table(&self) -> Table {
        Table::try_from(self).expect("settings are plain values")
    }

    /// Every setting that has a default, at its default.
    fn built_in(transport: TransportName) -> Self {
        let tcp = TcpConfig::default();
        let (dctcp, cubic) = (DctcpConfig::default(), CubicConfig::default());
        Self {
            initial_window: Some(RenoConfig::default().initial_window),
            // FlexPass's section 6.2.
            min_rto: Some(if transport == TransportName::FlexPass { Span::from_ms(4) } else { tcp.rto.minimum }),
            max_rto: Some(tcp.rto.maximum),
            initial_rto: Some(tcp.rto.initial),
            granularity: Some(tcp.rto.granularity),
            ack_every: Some(tcp.ack_every),
            delayed_ack: Some(tcp.max_ack_delay),
            handshake: Some(tcp.handshake),
            sack: Some(transport != TransportName::NewReno),
            sack_blocks: Some(tcp.sack_blocks),
            rack: Some(tcp.rack),
            limited_transmit: Some(tcp.limited_transmit),
            ecn: None,
            pacing: Some(false),
            send_buffer: tcp.send_buffer.map(Bytes),
            receive_buffer: tcp.receive_buffer.map(Bytes),
            gain: Some(dctcp.gain),
            initial_alpha: Some(dctcp.initial_alpha),
            min_window: Some(dctcp.minimum_window),
            loss_blind: Some(false),
            beta: Some(cubic.beta),
            fast_convergence: Some(cubic.fast_convergence),
            hystart: Some(false),
            hystart_threshold: Some(HyStartConfig::default().minimum_threshold),
        }
    }

    /// The configuration that [explicit](Self::explicit) settings describe, but for packets and classes.
    pub(super) fn config(&self, ecn: EcnMode) -> TcpConfig {
        let default = TcpConfig::default();
        let mut rto = default.rto;
        rto.minimum = self.min_rto.unwrap_or(rto.minimum);
        rto.maximum = self.max_rto.unwrap_or(rto.maximum);
        rto.initial = self.initial_rto.unwrap_or(rto.initial);
        rto.granularity = self.granularity.unwrap_or(rto.granularity);
        TcpConfig {
            handshake: self.handshake.unwrap_or(default.handshake),
            sack: self.sack.unwrap_or(default.sack),
            sack_blocks: self.sack_blocks.unwrap_or(default.sack_blocks),
            rack: self.rack.unwrap_or(default.rack),
            limited_transmit: self.limited_transmit.unwrap_or(default.limited_transmit),
            ack_every: self.ack_every.unwrap_or(default.ack_every),
            max_ack_delay: self.delayed_ack.unwrap_or(default.max_ack_delay),
            ecn: self.ecn.map_or(ecn, EcnEcho::mode),
            rto,
            send_buffer: self.send_buffer.map(|bytes| bytes.0),
            receive_buffer: self.receive_buffer.map(|bytes| bytes.0),
            pacing: (self.pacing == Some(true)).then(PacingFactors::default),
            ..default
        }
    }

    /// A new controller as [explicit](Self::explicit) settings describe it; `None` if `transport` has none.
    pub(super) fn controller(&self, transport: TransportName, contract: &Contract, mss: u16) -> Option<AnyController> {
        let reno = RenoConfig { initial_window: self.window(), ..RenoConfig::default() };
        Some(match transport {
            TransportName::Reno | TransportName::NewReno => Reno::new(reno, mss).into(),
            TransportName::Cubic => Cubic::new(self.cubic(), mss).into(),
            TransportName::Dctcp | TransportName::Layered | TransportName::FlexPass => {
                Dctcp::new(self.dctcp(reno), mss).into()
            }
            TransportName::WeightedFair => WeightedFair::new(self.weighted_fair(contract.weight), mss).into(),
            TransportName::Udp | TransportName::ExpressPass => return None,
        })
    }

    fn window(&self) -> u16 {
        self.initial_window.unwrap_or(RenoConfig::default().initial_window)
    }

    fn cubic(&self) -> CubicConfig {
        let default = CubicConfig::default();
        let minimum_threshold = self.hystart_threshold.unwrap_or(HyStartConfig::default().minimum_threshold);
        let maximum_threshold = HyStartConfig::default().maximum_threshold.max(minimum_threshold);
        let hystart = HyStartConfig { minimum_threshold, maximum_threshold, ..HyStartConfig::default() };
        CubicConfig {
            initial_window: self.window(),
            beta: self.beta.unwrap_or(default.beta),
            fast_convergence: self.fast_convergence.unwrap_or(default.fast_convergence),
            hystart: (self.hystart == Some(true)).then_some(hystart),
            ..default
        }
    }

    fn dctcp(&self, reno: RenoConfig) -> DctcpConfig {
        let default = DctcpConfig::default();
        DctcpConfig {
            reno,
            gain: self.gain.unwrap_or(default.gain),
            initial_alpha: self.initial_alpha.unwrap_or(default.initial_alpha),
            minimum_window: self.min_window.unwrap_or(default.minimum_window),
        }
    }

    fn weighted_fair(&self, weight: f64) -> WeightedFairConfig {
        let default = WeightedFairConfig::default();
        WeightedFairConfig {
            weight,
            initial_window: self.window(),
            gain: self.gain.unwrap_or(default.gain),
            initial_alpha: self.initial_alpha.unwrap_or(default.initial_alpha),
            loss_blind: self.loss_blind.unwrap_or(default.loss_blind),
            ..default
        }
    }

    /// Refuses values outside the ranges that the controllers assert.
    pub(super) fn check_ranges(&self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if self.initial_window == Some(0) {
            return refuse("initial_window", "must be at least 1 segment");
        }
        if self.gain.is_some_and(|gain| !(gain > 0.0 && gain <= 1.0)) {
            return refuse("gain", "must lie in (0, 1]");
        }
        if self.initial_alpha.is_some_and(|alpha| !(0.0..=1.0).contains(&alpha)) {
            return refuse("initial_alpha", "must lie in [0, 1]");
        }
        if self.min_window == Some(0) {
            return refuse("min_window", "must be at least 1 segment");
        }
        if self.beta.is_some_and(|beta| !(beta > 0.0 && beta < 1.0)) {
            return refuse("beta", "must lie in (0, 1)");
        }
        Ok(())
    }
}

impl EcnEcho {
    fn mode(self) -> EcnMode {
        match self {
            Self::Off => EcnMode::Off,
            Self::Classic => EcnMode::Classic,
            Self::Accurate => EcnMode::Accurate,
        }
    }
}
