//! The table `traffic.NAME.ndp`.

use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::switch::{Discipline, QueuePlan};
use pliant_proto::time::Span;
use pliant_proto::transport::ndp::{CONTROL_CLASS, NdpConfig};
use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::queues::KeyError;
use super::resolved::Carrier;
use super::spec::PacketsSpec;
use crate::units_serde;

/// Settings of the transport `ndp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NdpSpec {
    /// Traffic class of acknowledgements and pulls, 0 to 31: that of headers. Default: 31.
    pub class: u8,
    /// Packets sent before the first pull, from 1. Default: 15.
    pub initial_window: u32,
    /// Least time after which an unanswered packet is sent again, at most 60 s. Default: `"1ms"`.
    #[serde(with = "units_serde")]
    pub min_rto: Span,
    /// The same before the first round-trip time, above 0s. Default: `"10ms"`.
    #[serde(with = "units_serde")]
    pub initial_rto: Span,
}

impl Default for NdpSpec {
    fn default() -> Self {
        let RtoBounds { minimum, initial, .. } = RtoBounds::default();
        let NdpConfig { initial_window, .. } = NdpConfig::default();
        Self { class: CONTROL_CLASS, initial_window, min_rto: minimum, initial_rto: initial }
    }
}

impl NdpSpec {
    /// What is wrong with a value, and the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match self {
            Self { initial_window: 0, .. } => Err(("initial_window", "must be at least 1 packet")),
            _ if self.min_rto > RtoBounds::default().maximum => Err(("min_rto", "must be at most 60s")),
            Self { initial_rto: Span::ZERO, .. } => Err(("initial_rto", "must be longer than 0s")),
            _ => Ok(()),
        }
    }

    /// What the settings describe, for data of `class`.
    pub(super) fn config(&self, class: u8, packets: &PacketsSpec) -> NdpConfig {
        NdpConfig {
            payload: packets.mss.0 as u16,
            wire: packets.framing.into(),
            data_class: TrafficClass::new(class),
            control_class: TrafficClass::new(self.class),
            initial_window: self.initial_window,
            rto: RtoBounds { minimum: self.min_rto, initial: self.initial_rto, ..RtoBounds::default() },
        }
    }

    /// Writes a group's settings out and makes its transport from them.
    pub(super) fn carrier(
        group: &mut GroupSpec,
        packets: &PacketsSpec,
        switches: &QueuePlan,
    ) -> Result<Carrier, KeyError> {
        let spec = *group.ndp.get_or_insert_default();
        spec.check().map_err(|(key, why)| (format!("ndp.{key}"), why.to_owned()))?;
        check_trims(group, group.class, switches)?;
        let config = spec.config(group.class, packets);
        config.check().map_err(|why| ("ndp".to_owned(), why.to_string()))?;
        Ok(Carrier::Ndp(Box::new(config)))
    }
}

/// Refuses a transport whose data of `class` switches do not trim.
pub(super) fn check_trims(group: &GroupSpec, class: u8, switches: &QueuePlan) -> Result<(), KeyError> {
    let queue = &switches.queues[usize::from(switches.queue_of_class[usize::from(class)])];
    if matches!(queue.discipline, Discipline::Trim { .. }) {
        return Ok(());
    }
    let transport = group.transport.name();
    let why = format!(
        "{transport} needs switches that trim, and queue \"{}\", which takes class {class}, does not: see the plans ndp \
         and scdp",
        queue.name
    );
    Err(("transport".to_owned(), why))
}
