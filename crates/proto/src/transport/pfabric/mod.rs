//! pFabric (Alizadeh et al., SIGCOMM 2013) as ATP's authors compare with it. A flow always sends at the line rate.
//! Switches keep the packets of the flow with the least remaining data
//! ([`PFabric`](crate::switch::plan::Discipline::PFabric) queues). The flow ends once enough of its messages have
//! arrived.
//!
//! It is the machine of [`atp`](super::atp) without rate control. Packets carry the flow's missing bytes as their
//! priority, acknowledgements name packets, and only a fixed timer of about three round-trip times finds losses.
//! pFabric's own window (slow start from a bandwidth-delay product, probes after five timeouts) is left out, as in that
//! comparison.

use super::atp::{AtpConfig, DATACENTER_TIMER, LossBound, LossDetection, Order};
use crate::contract::Field;
use crate::packet::{TrafficClass, WireFormat};
use crate::time::Span;
use crate::units::Rate;

/// The contract fields that it honours.
pub const HONOURS: &[Field] = &[Field::MinDelivery];

/// Retransmission timeout where round trips take about 15 us (pFabric, section 5: 45 us).
pub const DEFAULT_RTO: Span = Span::from_us(45);

/// Settings of a pFabric flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PFabricConfig {
    /// Maximum loss rate of the flow's messages.
    pub max_loss: LossBound,
    /// Most payload bytes per packet.
    pub payload: u16,
    /// Bytes around a payload.
    pub wire: WireFormat,
    /// Line rate of the sender's link.
    pub rate: Rate,
    /// Class of its data.
    pub data_class: TrafficClass,
    /// Class of its acknowledgements.
    pub control_class: TrafficClass,
    /// Time after which an unacknowledged packet counts as lost: three round-trip times.
    pub rto: Span,
}

impl From<PFabricConfig> for AtpConfig {
    fn from(config: PFabricConfig) -> Self {
        Self {
            payload: config.payload,
            wire: config.wire,
            data_class: config.data_class,
            control_class: config.control_class,
            order: Order::Fifo,
            loss: LossDetection::Timeout(config.rto),
            remaining_as_priority: true,
            timer: DATACENTER_TIMER,
            ..Self::base(config.max_loss, config.rate)
        }
    }
}
