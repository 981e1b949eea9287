//! The table `traffic.NAME.scdp`.

use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::QueuePlan;
use pliant_proto::time::Span;
use pliant_proto::transport::ndp::NdpConfig;
use pliant_proto::transport::scdp::{LEVELS, ScdpConfig};
use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::ndp::{NdpSpec, check_trims};
use super::queues::KeyError;
use super::resolved::Carrier;
use super::spec::PacketsSpec;
use crate::units_serde;

/// Settings of the transport `scdp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScdpSpec {
    /// Traffic class of acknowledgements and pulls, 0 to 31: that of headers. Default: 31.
    pub class: u8,
    /// Symbols sent before the first pull, from 1. Default: 15.
    pub initial_window: u32,
    /// A source that has sent so many symbols goes on one class higher, up to four higher; never falling. Default: 20,
    /// 204, 2048, 20480.
    pub thresholds: [u64; LEVELS - 1],
    /// Symbols beyond those of the object that are needed to decode it. Default: 2.
    pub extra_symbols: u32,
    /// Least time after which an unanswered symbol is given up, at most 60 s. Default: `"1ms"`.
    #[serde(with = "units_serde")]
    pub min_rto: Span,
    /// The same before the first round-trip time, above 0s. Default: `"10ms"`.
    #[serde(with = "units_serde")]
    pub initial_rto: Span,
}

impl Default for ScdpSpec {
    fn default() -> Self {
        let NdpSpec { class, initial_window, min_rto, initial_rto } = NdpSpec::default();
        let ScdpConfig { thresholds, extra_symbols, .. } = ScdpConfig::default();
        Self { class, initial_window, thresholds, extra_symbols, min_rto, initial_rto }
    }
}

impl ScdpSpec {
    /// The classes of data above the first.
    pub(super) const MORE_CLASSES: u8 = LEVELS as u8 - 1;

    /// Writes a group's settings out and makes its transport from them.
    pub(super) fn carrier(
        group: &mut GroupSpec,
        packets: &PacketsSpec,
        switches: &QueuePlan,
    ) -> Result<Carrier, KeyError> {
        let spec = *group.scdp.get_or_insert_default();
        let Self { class, initial_window, thresholds, extra_symbols, min_rto, initial_rto } = spec;
        let pulled = NdpSpec { class, initial_window, min_rto, initial_rto };
        pulled.check().map_err(|(key, why)| (format!("scdp.{key}"), why.to_owned()))?;
        if !thresholds.is_sorted() {
            return Err(("scdp.thresholds".to_owned(), "must not fall".to_owned()));
        }
        for level in 0..=Self::MORE_CLASSES {
            check_trims(group, group.class + level, switches)?;
        }
        let NdpConfig { payload, wire, control_class, rto, .. } = pulled.config(group.class, packets);
        let data_class = TrafficClass::new(group.class);
        let config = ScdpConfig {
            symbol: payload,
            wire,
            data_class,
            control_class,
            initial_window,
            thresholds,
            extra_symbols,
            rto,
        };
        config.check().map_err(|why| ("scdp".to_owned(), why.to_string()))?;
        Ok(Carrier::Scdp(Box::new(config)))
    }
}
