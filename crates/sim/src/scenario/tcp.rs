//! The tables `transport` and `traffic.NAME.tcp`: settings of the TCP family.

use pliant_proto::congestion::cubic::{Cubic, CubicConfig};
use pliant_proto::congestion::dctcp::{Dctcp, DctcpConfig};
use pliant_proto::congestion::delay_history::{DelayHistoryConfig, MAX_BASE_HISTORY, MAX_NOISE_FILTER};
use pliant_proto::congestion::hystart::HyStartConfig;
use pliant_proto::congestion::ledbat::{Ledbat, LedbatConfig, MAX_TARGET};
use pliant_proto::congestion::ledbat_plus_plus::{LedbatPlusPlus, LedbatPlusPlusConfig};
use pliant_proto::congestion::reno::{Reno, RenoConfig};
use pliant_proto::congestion::tcp_lp::{Extremes, TcpLp, TcpLpConfig};
use pliant_proto::congestion::weighted_fair::{WeightedFair, WeightedFairConfig};
use pliant_proto::congestion::{AnyController, CongestionControl, EcnMode};
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
    /// Initial window in segments, 1 to 65535. Default: 10 (RFC 6928), 2 for `ledbat` and `ledbat++` (RFC 6817).
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
    /// Least retransmission timeout after a connection request was lost, until data is sampled; `"0s"`: no such rule, as
    /// in ns-3. Default: `"3s"` (RFC 6298, 5.7).
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub rto_after_lost_syn: Option<Span>,
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
    /// Sends in proportion to what arrives while losses are repaired (RFC 6937); needs `sack`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prr: Option<bool>,
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
    /// `ledbat`: growth without queueing delay in segments per round trip, in (0, 1]. Default: 1 (RFC 6817).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// `dctcp`, `weighted-fair`: alpha before the first window, in [0, 1]. Default: 1 (RFC 8257).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_alpha: Option<f64>,
    /// `dctcp`, `ledbat`, `ledbat++`: marks, and delays, cut no deeper than so many segments, at least 1. Default: 2
    /// (Linux, RFC 6817).
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
    /// `tcp-lp`: where between the least one-way delay (0) and the greatest (1) congestion begins, in (0, 1). Default:
    /// 0.15 (INFOCOM 2003).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_threshold: Option<f64>,
    /// `tcp-lp`: weight of the newest one-way delay in the smoothed one, in (0, 1]. Default: 0.125 (INFOCOM 2003).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_weight: Option<f64>,
    /// `tcp-lp`: round trips after an indication of congestion in which another leaves one segment, 1 to 255. Default:
    /// 3 (INFOCOM 2003).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_rtts: Option<u8>,
    /// `tcp-lp`: how the least and the greatest delay are found: `"paper"` (over the whole connection) or `"linux"`
    /// (without the greatest, anew after each cut). Default: `"paper"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_extremes: Option<DelayExtremes>,
    /// `ledbat`, `ledbat++`: queueing delay that is aimed at, 1 ns to 1 s. Default: `"100ms"` (RFC 6817), `"60ms"` for
    /// `ledbat++`; datacenters need one that their queues can reach.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub target: Option<Span>,
    /// `ledbat`, `ledbat++`: intervals whose least delays make the base delay, 1 to 10. Default: 10 (RFC 6817).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_history: Option<u8>,
    /// `ledbat`, `ledbat++`: length of such an interval. Default: `"60s"` (RFC 6817), longer than most runs.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub base_interval: Option<Span>,
    /// `ledbat`, `ledbat++`: the delay now is the least of so many samples, 1 to 8. Default: 4 (RFC 6817).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_filter: Option<u8>,
    /// `ledbat`: doubles the window each round trip until the target, or a loss. Default: false (RFC 6817).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<bool>,
    /// `ledbat++`: slows down now and then, so that all flows see the path without queue. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdowns: Option<bool>,
    /// `ledbat++`: time from one slowdown to the next in units of its length, 1 to 65535. Default: 9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown_ratio: Option<u16>,
}

/// How TCP-LP finds the least and the greatest delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayExtremes {
    /// Over the whole connection.
    Paper,
    /// Without the greatest, and anew after each cut.
    Linux,
}

impl From<DelayExtremes> for Extremes {
    fn from(name: DelayExtremes) -> Self {
        match name {
            DelayExtremes::Paper => Self::Paper,
            DelayExtremes::Linux => Self::Linux,
        }
    }
}

/// The transports that aim at a queueing delay.
const LEDBATS: &[TransportName] = &[TransportName::Ledbat, TransportName::LedbatPlusPlus];

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
    (
        "gain",
        &[
            TransportName::Dctcp,
            TransportName::DctcpSenderDrop,
            TransportName::DctcpBandwidth,
            TransportName::Layered,
            TransportName::FlexPass,
            TransportName::WeightedFair,
            TransportName::Ledbat,
        ],
    ),
    (
        "initial_alpha",
        &[
            TransportName::Dctcp,
            TransportName::DctcpSenderDrop,
            TransportName::DctcpBandwidth,
            TransportName::Layered,
            TransportName::FlexPass,
            TransportName::WeightedFair,
        ],
    ),
    (
        "min_window",
        &[
            TransportName::Dctcp,
            TransportName::DctcpSenderDrop,
            TransportName::DctcpBandwidth,
            TransportName::Layered,
            TransportName::FlexPass,
            TransportName::Ledbat,
            TransportName::LedbatPlusPlus,
        ],
    ),
    ("loss_blind", &[TransportName::WeightedFair]),
    ("beta", &[TransportName::Cubic]),
    ("fast_convergence", &[TransportName::Cubic]),
    ("hystart", &[TransportName::Cubic]),
    ("hystart_threshold", &[TransportName::Cubic]),
    ("delay_threshold", &[TransportName::TcpLp]),
    ("delay_weight", &[TransportName::TcpLp]),
    ("inference_rtts", &[TransportName::TcpLp]),
    ("delay_extremes", &[TransportName::TcpLp]),
    ("target", LEDBATS),
    ("base_history", LEDBATS),
    ("base_interval", LEDBATS),
    ("noise_filter", LEDBATS),
    ("slow_start", &[TransportName::Ledbat]),
    ("slowdowns", &[TransportName::LedbatPlusPlus]),
    ("slowdown_ratio", &[TransportName::LedbatPlusPlus]),
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
        let (dctcp, cubic, tcp_lp) = (DctcpConfig::default(), CubicConfig::default(), TcpLpConfig::default());
        let (ledbat, plus_plus) = (LedbatConfig::default(), LedbatPlusPlusConfig::default());
        let is_ledbat = transport == TransportName::Ledbat;
        Self {
            initial_window: Some(default_window(transport)),
            // FlexPass's section 6.2.
            min_rto: Some(if transport == TransportName::FlexPass { Span::from_ms(4) } else { tcp.rto.minimum }),
            max_rto: Some(tcp.rto.maximum),
            initial_rto: Some(tcp.rto.initial),
            rto_after_lost_syn: Some(tcp.rto.after_lost_syn),
            granularity: Some(tcp.rto.granularity),
            ack_every: Some(tcp.ack_every),
            delayed_ack: Some(tcp.max_ack_delay),
            handshake: Some(tcp.handshake),
            sack: Some(transport != TransportName::NewReno),
            sack_blocks: Some(tcp.sack_blocks),
            rack: Some(tcp.rack),
            prr: Some(tcp.prr),
            limited_transmit: Some(tcp.limited_transmit),
            ecn: None,
            pacing: Some(false),
            send_buffer: tcp.send_buffer.map(Bytes),
            receive_buffer: tcp.receive_buffer.map(Bytes),
            gain: Some(if is_ledbat { ledbat.gain } else { dctcp.gain }),
            initial_alpha: Some(dctcp.initial_alpha),
            min_window: Some(dctcp.minimum_window),
            loss_blind: Some(false),
            beta: Some(cubic.beta),
            fast_convergence: Some(cubic.fast_convergence),
            hystart: Some(false),
            hystart_threshold: Some(HyStartConfig::default().minimum_threshold),
            delay_threshold: Some(tcp_lp.threshold),
            delay_weight: Some(tcp_lp.delay_weight),
            inference_rtts: Some(tcp_lp.inference_rtts),
            delay_extremes: Some(DelayExtremes::Paper),
            target: Some(if is_ledbat { ledbat.target } else { plus_plus.target }),
            base_history: Some(ledbat.history.base_history),
            base_interval: Some(ledbat.history.base_interval),
            noise_filter: Some(ledbat.history.noise_filter),
            slow_start: Some(ledbat.slow_start),
            slowdowns: Some(plus_plus.slowdowns),
            slowdown_ratio: Some(plus_plus.slowdown_ratio),
        }
    }

    /// The configuration that [explicit](Self::explicit) settings describe, but for packets and classes.
    pub(super) fn config(&self, controller: &AnyController) -> TcpConfig {
        let default = TcpConfig::default();
        let mut rto = default.rto;
        rto.minimum = self.min_rto.unwrap_or(rto.minimum);
        rto.maximum = self.max_rto.unwrap_or(rto.maximum);
        rto.initial = self.initial_rto.unwrap_or(rto.initial);
        rto.after_lost_syn = self.rto_after_lost_syn.unwrap_or(rto.after_lost_syn);
        rto.granularity = self.granularity.unwrap_or(rto.granularity);
        TcpConfig {
            handshake: self.handshake.unwrap_or(default.handshake),
            sack: self.sack.unwrap_or(default.sack),
            sack_blocks: self.sack_blocks.unwrap_or(default.sack_blocks),
            rack: self.rack.unwrap_or(default.rack),
            prr: self.prr.unwrap_or(default.prr),
            limited_transmit: self.limited_transmit.unwrap_or(default.limited_transmit),
            ack_every: self.ack_every.unwrap_or(default.ack_every),
            max_ack_delay: self.delayed_ack.unwrap_or(default.max_ack_delay),
            ecn: self.ecn.map_or(controller.ecn_mode(), EcnEcho::mode),
            one_way_delay: controller.needs_one_way_delay(),
            rto,
            send_buffer: self.send_buffer.map(|bytes| bytes.0),
            receive_buffer: self.receive_buffer.map(|bytes| bytes.0),
            pacing: (self.pacing == Some(true)).then(PacingFactors::default),
            ..default
        }
    }

    /// A new controller as [explicit](Self::explicit) settings describe it; `None` if `transport` has none.
    pub(super) fn controller(&self, transport: TransportName, contract: &Contract, mss: u16) -> Option<AnyController> {
        let initial_window = self.initial_window.unwrap_or(default_window(transport));
        let reno = RenoConfig { initial_window, ..RenoConfig::default() };
        Some(match transport {
            TransportName::Reno | TransportName::NewReno => Reno::new(reno, mss).into(),
            TransportName::Cubic => Cubic::new(self.cubic(initial_window), mss).into(),
            TransportName::Dctcp
            | TransportName::DctcpSenderDrop
            | TransportName::DctcpBandwidth
            | TransportName::Layered
            | TransportName::FlexPass => Dctcp::new(self.dctcp(reno), mss).into(),
            TransportName::WeightedFair => {
                WeightedFair::new(self.weighted_fair(initial_window, contract.weight), mss).into()
            }
            TransportName::TcpLp => TcpLp::new(self.tcp_lp(reno), mss).into(),
            TransportName::Ledbat => Ledbat::new(self.ledbat(initial_window), mss).into(),
            TransportName::LedbatPlusPlus => LedbatPlusPlus::new(self.ledbat_plus_plus(initial_window), mss).into(),
            TransportName::Udp
            | TransportName::Dccp
            | TransportName::Ndp
            | TransportName::Scdp
            | TransportName::Homa
            | TransportName::NearOpt
            | TransportName::Push
            | TransportName::Atp
            | TransportName::PFabric
            | TransportName::Kernel
            | TransportName::ExpressPass => return None,
        })
    }

    fn cubic(&self, initial_window: u16) -> CubicConfig {
        let default = CubicConfig::default();
        let minimum_threshold = self.hystart_threshold.unwrap_or(HyStartConfig::default().minimum_threshold);
        let maximum_threshold = HyStartConfig::default().maximum_threshold.max(minimum_threshold);
        let hystart = HyStartConfig { minimum_threshold, maximum_threshold, ..HyStartConfig::default() };
        CubicConfig {
            initial_window,
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

    fn weighted_fair(&self, initial_window: u16, weight: f64) -> WeightedFairConfig {
        let default = WeightedFairConfig::default();
        WeightedFairConfig {
            weight,
            initial_window,
            gain: self.gain.unwrap_or(default.gain),
            initial_alpha: self.initial_alpha.unwrap_or(default.initial_alpha),
            loss_blind: self.loss_blind.unwrap_or(default.loss_blind),
            ..default
        }
    }

    fn tcp_lp(&self, reno: RenoConfig) -> TcpLpConfig {
        let default = TcpLpConfig::default();
        TcpLpConfig {
            reno,
            threshold: self.delay_threshold.unwrap_or(default.threshold),
            delay_weight: self.delay_weight.unwrap_or(default.delay_weight),
            inference_rtts: self.inference_rtts.unwrap_or(default.inference_rtts),
            extremes: self.delay_extremes.map_or(default.extremes, Extremes::from),
        }
    }

    fn delay_history(&self) -> DelayHistoryConfig {
        let default = DelayHistoryConfig::default();
        DelayHistoryConfig {
            base_history: self.base_history.unwrap_or(default.base_history),
            base_interval: self.base_interval.unwrap_or(default.base_interval),
            noise_filter: self.noise_filter.unwrap_or(default.noise_filter),
        }
    }

    fn ledbat(&self, initial_window: u16) -> LedbatConfig {
        let default = LedbatConfig::default();
        LedbatConfig {
            target: self.target.unwrap_or(default.target),
            gain: self.gain.unwrap_or(default.gain),
            history: self.delay_history(),
            initial_window,
            minimum_window: self.min_window.unwrap_or(default.minimum_window),
            slow_start: self.slow_start.unwrap_or(default.slow_start),
        }
    }

    fn ledbat_plus_plus(&self, initial_window: u16) -> LedbatPlusPlusConfig {
        let default = LedbatPlusPlusConfig::default();
        LedbatPlusPlusConfig {
            target: self.target.unwrap_or(default.target),
            history: self.delay_history(),
            initial_window,
            minimum_window: self.min_window.unwrap_or(default.minimum_window),
            slowdowns: self.slowdowns.unwrap_or(default.slowdowns),
            slowdown_ratio: self.slowdown_ratio.unwrap_or(default.slowdown_ratio),
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
        self.check_delay_ranges()
    }

    fn check_delay_ranges(&self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if self.delay_threshold.is_some_and(|threshold| !(threshold > 0.0 && threshold < 1.0)) {
            return refuse("delay_threshold", "must lie in (0, 1)");
        }
        if self.delay_weight.is_some_and(|weight| !(weight > 0.0 && weight <= 1.0)) {
            return refuse("delay_weight", "must lie in (0, 1]");
        }
        if self.inference_rtts == Some(0) {
            return refuse("inference_rtts", "must be at least 1 round trip");
        }
        if self.target.is_some_and(|target| !(Span::from_ns(1)..=MAX_TARGET).contains(&target)) {
            return refuse("target", "must be between 1ns and 1s");
        }
        if self.base_history.is_some_and(|intervals| !(1..=MAX_BASE_HISTORY).contains(&intervals)) {
            return refuse("base_history", "must be 1 to 10 intervals");
        }
        if self.base_interval == Some(Span::ZERO) {
            return refuse("base_interval", "must be longer than 0s");
        }
        if self.noise_filter.is_some_and(|samples| !(1..=MAX_NOISE_FILTER).contains(&samples)) {
            return refuse("noise_filter", "must be 1 to 8 samples");
        }
        if self.slowdown_ratio == Some(0) {
            return refuse("slowdown_ratio", "must be at least 1");
        }
        Ok(())
    }
}

/// Initial window in segments where a scenario does not say.
fn default_window(transport: TransportName) -> u16 {
    match transport {
        TransportName::Ledbat => LedbatConfig::default().initial_window,
        TransportName::LedbatPlusPlus => LedbatPlusPlusConfig::default().initial_window,
        _ => RenoConfig::default().initial_window,
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
