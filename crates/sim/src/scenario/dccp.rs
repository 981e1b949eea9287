//! The table `traffic.NAME.dccp`.

use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::time::Span;
use pliant_proto::transport::dccp::{AckRatio, DccpConfig};
use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::queues::KeyError;
use super::resolved::Carrier;
use super::spec::PacketsSpec;
use crate::units_serde;

/// Settings of the transport `dccp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DccpSpec {
    /// Packets that may be in flight at first, from 1. Default: 10.
    pub initial_window: u32,
    /// Whether marks halve the window as losses do. Default: false.
    pub ecn: bool,
    /// Packets that one acknowledgement answers, from 1, or `"adaptive"` (RFC 4341, 6.1.2). Default: 2.
    pub ack_ratio: AckRatioSpec,
    /// Longest delay of an acknowledgement. Default: `"500us"`.
    #[serde(with = "units_serde")]
    pub max_ack_delay: Span,
    /// Least time after which everything in flight is taken for lost, at most 60 s. Default: `"1ms"`.
    #[serde(with = "units_serde")]
    pub min_rto: Span,
    /// The same before the first round-trip time, above 0s. Default: `"10ms"`.
    #[serde(with = "units_serde")]
    pub initial_rto: Span,
    /// Whether what was lost is sent again behind everything else, in new packets. Default: false.
    pub repeat_lost: bool,
}

/// Packets that one acknowledgement answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a number of packets, 1 to 65535, or \"adaptive\"")]
pub enum AckRatioSpec {
    /// So many.
    Fixed(u16),
    /// By what follows.
    Following(AckRatioBy),
}

/// What the ack ratio follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckRatioBy {
    /// The loss of acknowledgements.
    Adaptive,
}

impl Default for DccpSpec {
    fn default() -> Self {
        let DccpConfig { initial_window, ecn, max_ack_delay, rto, repeat_lost, .. } = DccpConfig::default();
        let RtoBounds { minimum, initial, .. } = rto;
        let ack_ratio = AckRatioSpec::Fixed(2);
        Self { initial_window, ecn, ack_ratio, max_ack_delay, min_rto: minimum, initial_rto: initial, repeat_lost }
    }
}

impl DccpSpec {
    /// Writes a group's settings out and makes its transport from them.
    pub(super) fn carrier(group: &mut GroupSpec, packets: &PacketsSpec) -> Result<Carrier, KeyError> {
        let refuse = |key: &str, why: &str| Err((format!("dccp.{key}"), why.to_owned()));
        let class = TrafficClass::new(group.class);
        let ack_class = TrafficClass::new(group.ack_class.unwrap_or(group.class));
        let spec = group.dccp.get_or_insert_default();
        let bounds = RtoBounds::default();
        if spec.initial_window == 0 {
            return refuse("initial_window", "must be at least 1 packet");
        }
        if spec.ack_ratio == AckRatioSpec::Fixed(0) {
            return refuse("ack_ratio", "must be at least 1 packet, or \"adaptive\"");
        }
        if spec.min_rto > bounds.maximum {
            return refuse("min_rto", "must be at most 60s");
        }
        if spec.initial_rto == Span::ZERO {
            return refuse("initial_rto", "must be longer than 0s");
        }
        let config = DccpConfig {
            payload: packets.mss.0 as u16,
            wire: packets.framing.into(),
            data_class: class,
            ack_class,
            initial_window: spec.initial_window,
            ecn: spec.ecn,
            ack_ratio: match spec.ack_ratio {
                AckRatioSpec::Fixed(ratio) => AckRatio::Fixed(ratio),
                AckRatioSpec::Following(AckRatioBy::Adaptive) => AckRatio::Adaptive,
            },
            max_ack_delay: spec.max_ack_delay,
            rto: RtoBounds { minimum: spec.min_rto, initial: spec.initial_rto, ..bounds },
            repeat_lost: spec.repeat_lost,
        };
        config.check().map_err(|why| ("dccp".to_owned(), why.to_string()))?;
        Ok(Carrier::Dccp(Box::new(config)))
    }
}
