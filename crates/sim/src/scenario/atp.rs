//! The tables `traffic.NAME.atp` and `traffic.NAME.pfabric`.

use pliant_proto::packet::{TrafficClass, WireFormat};
use pliant_proto::time::Span;
use pliant_proto::transport::atp::{
    AtpConfig, LossBound, LossDetection, Order, RateControlConfig, SharedPathConfig, WAN_TIMER,
};
use pliant_proto::transport::pfabric::{DEFAULT_RTO, PFabricConfig};
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use super::queues::KeyError;
use crate::units_serde;

/// Settings of the transport `atp`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AtpSpec {
    /// `"datacenter"` (the paper) or `"wan"`, for paths that are shared with others. Default: `"datacenter"`.
    pub profile: ProfileName,
    /// Which parts are on: `"base"`, `"rc"`, `"pri"` or `"full"`. Default: `"full"`.
    pub variant: VariantName,
    /// Largest rate of a flow on the wire, above zero. Default: the rate of the sender's link.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub rate: Option<Rate>,
    /// Target loss rate (TLR), in (0, 1). Default: 0.1; profile `wan` 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// Aims at no more loss than the flow may keep. Default: true; the paper: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_within_bound: Option<bool>,
    /// Weight m of the largest rate in an increase, in (0, 1]. Default: 0.0625.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increase: Option<f64>,
    /// Adapts m to the rate and its direction. Default: true; the paper: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<bool>,
    /// Cut of the rate after a window without any acknowledgement, in (0, 1). Default: 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_cut: Option<f64>,
    /// Least length of a window of rate control. Default: `"50us"`; profile `wan` `"1ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub min_window: Option<Span>,
    /// Least packets of a window, unless it has become four times as long. Default: 8; profile `wan` 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window_packets: Option<u32>,
    /// Number of priorities, 1 to 30. Default: the variant's, 6 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<u8>,
    /// Ratio of one priority's rate to the next, above 1. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_base: Option<f64>,
    /// Sends a backup sub-flow. Default: the variant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// Which message is sent next: `"fifo"`, `"mrdf"`, `"mrdf-exact"` or `"uniform"`. Default: the variant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderName>,
    /// A packet is lost when so many later ones have arrived, at least 1. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_threshold: Option<u32>,
    /// Profile `wan`: first window in packets, at least 1. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u16>,
    /// Profile `wan`: longest queueing delay. Default: `"5ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub delay_target: Option<Span>,
}

/// Where ATP runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileName {
    /// A datacenter with queues of its own.
    #[default]
    Datacenter,
    /// A path shared with others.
    Wan,
}

/// Which parts of ATP are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariantName {
    /// Line rate.
    Base,
    /// And loss-based rate control.
    Rc,
    /// And priorities by rate.
    Pri,
    /// And the backup sub-flow and minimal remaining data first.
    #[default]
    Full,
}

/// Which message is sent next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderName {
    /// As they came.
    Fifo,
    /// Minimal remaining data first, by powers of two.
    Mrdf,
    /// Minimal remaining data first, to the byte.
    MrdfExact,
    /// By a hash.
    Uniform,
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Fifo => Self::Fifo,
            OrderName::Mrdf => Self::Mrdf,
            OrderName::MrdfExact => Self::MrdfExact,
            OrderName::Uniform => Self::Uniform,
        }
    }
}

/// What ATP and pFabric take from elsewhere in the scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageTransport {
    pub(super) max_loss: LossBound,
    pub(super) payload: u16,
    pub(super) wire: WireFormat,
    pub(super) data_class: TrafficClass,
    pub(super) control_class: TrafficClass,
}

/// Stands for the rate of the sender's link until the flow's path is known.
pub(crate) const LINE_RATE: Rate = Rate::from_bits_per_sec(u64::MAX);

impl AtpSpec {
    /// These settings with every default written out.
    pub(super) fn explicit(&self) -> Self {
        let config = self.config_with_defaults();
        let (control, shared) = (config.rate_control, config.rate_control.and_then(|control| control.shared_path));
        Self {
            profile: self.profile,
            variant: self.variant,
            rate: self.rate,
            target_loss: control.map(|control| control.target_loss),
            target_within_bound: control.map(|control| control.target_within_bound),
            increase: control.map(|control| control.increase),
            adaptive: control.map(|control| control.adaptive),
            silence_cut: control.map(|control| control.silence_cut),
            min_window: control.map(|control| control.min_window),
            min_window_packets: control.map(|control| control.min_window_packets),
            priorities: Some(config.priorities),
            priority_base: control.map(|_| config.priority_base),
            backup: Some(config.backup),
            order: Some(self.order.unwrap_or(if self.variant == VariantName::Full {
                OrderName::Mrdf
            } else {
                OrderName::Fifo
            })),
            reorder_threshold: Some(self.reorder_threshold.unwrap_or(3)),
            initial_window: shared.map(|shared| shared.initial_window),
            delay_target: shared.map(|shared| shared.delay_target),
        }
    }

    /// Classes that it uses from that of its data on.
    pub(super) fn classes(&self) -> u8 {
        let config = self.config_with_defaults();
        config.priorities.saturating_add(u8::from(config.backup))
    }

    /// The transport's settings, or the first key that is wrong.
    pub(super) fn config(&self, of: MessageTransport) -> Result<AtpConfig, KeyError> {
        self.check_keys()?;
        let ecn = if self.profile == ProfileName::Wan {
            pliant_proto::packet::Ecn::Ect0
        } else {
            pliant_proto::packet::Ecn::NotEct
        };
        let config = AtpConfig {
            max_loss: of.max_loss,
            payload: of.payload,
            wire: of.wire,
            data_class: of.data_class.with_ecn(ecn),
            control_class: of.control_class,
            ..self.config_with_defaults()
        };
        config.check().map_err(|error| (error.key.to_owned(), error.why.to_owned()))?;
        Ok(config)
    }

    /// Refuses settings of parts that are off.
    fn check_keys(&self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        let of_control = [
            ("target_loss", self.target_loss.is_some()),
            ("target_within_bound", self.target_within_bound.is_some()),
            ("increase", self.increase.is_some()),
            ("adaptive", self.adaptive.is_some()),
            ("silence_cut", self.silence_cut.is_some()),
            ("min_window", self.min_window.is_some()),
            ("min_window_packets", self.min_window_packets.is_some()),
            ("priority_base", self.priority_base.is_some()),
        ];
        if self.variant == VariantName::Base {
            if let Some((key, _)) = of_control.iter().find(|(_, given)| *given) {
                return refuse(key, "variant base has no rate control");
            }
            if self.profile == ProfileName::Wan {
                return refuse("variant", "the profile wan needs rate control: base would flood the path");
            }
        }
        let of_wan = [("initial_window", self.initial_window.is_some()), ("delay_target", self.delay_target.is_some())];
        match of_wan.iter().find(|(_, given)| *given) {
            Some((key, _)) if self.profile != ProfileName::Wan => refuse(key, "only the profile wan has it"),
            _ => Ok(()),
        }
    }

    fn config_with_defaults(&self) -> AtpConfig {
        let full = AtpConfig::full(LossBound::RELIABLE, self.rate.unwrap_or(LINE_RATE));
        let wan = self.profile == ProfileName::Wan;
        let control = if wan { RateControlConfig::wan() } else { RateControlConfig::default() };
        let shared = control.shared_path.map(|shared| SharedPathConfig {
            initial_window: self.initial_window.unwrap_or(shared.initial_window),
            delay_target: self.delay_target.unwrap_or(shared.delay_target),
        });
        let control = RateControlConfig {
            target_loss: self.target_loss.unwrap_or(control.target_loss),
            target_within_bound: self.target_within_bound.unwrap_or(control.target_within_bound),
            increase: self.increase.unwrap_or(control.increase),
            adaptive: self.adaptive.unwrap_or(control.adaptive),
            silence_cut: self.silence_cut.unwrap_or(control.silence_cut),
            min_window: self.min_window.unwrap_or(control.min_window),
            min_window_packets: self.min_window_packets.unwrap_or(control.min_window_packets),
            shared_path: shared,
        };
        // On a shared path nothing looks at priorities, and a backup would go beside the careful rate.
        let (priorities, backup, order) = match self.variant {
            VariantName::Base | VariantName::Rc => (1, false, Order::Fifo),
            VariantName::Pri => (6, false, Order::Fifo),
            VariantName::Full => (6, true, Order::Mrdf),
        };
        AtpConfig {
            rate_control: (self.variant != VariantName::Base).then_some(control),
            priorities: self.priorities.unwrap_or(if wan { 1 } else { priorities }),
            priority_base: self.priority_base.unwrap_or(full.priority_base),
            backup: self.backup.unwrap_or(backup && !wan),
            order: self.order.map_or(order, Order::from),
            loss: LossDetection::Order { threshold: self.reorder_threshold.unwrap_or(3) },
            timer: if wan { WAN_TIMER } else { full.timer },
            ..full
        }
    }
}

/// Settings of the transport `pfabric`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PFabricSpec {
    /// Time after which a packet that was not acknowledged is lost: three round-trip times, above zero. Default: `"45us"`.
    #[serde(with = "units_serde")]
    pub rto: Span,
}

impl Default for PFabricSpec {
    fn default() -> Self {
        Self { rto: DEFAULT_RTO }
    }
}

impl PFabricSpec {
    pub(super) fn config(self, of: MessageTransport) -> Result<AtpConfig, KeyError> {
        let MessageTransport { max_loss, payload, wire, data_class, control_class } = of;
        let rate = LINE_RATE;
        let config =
            AtpConfig::from(PFabricConfig { max_loss, payload, wire, rate, data_class, control_class, rto: self.rto });
        config.check().map_err(|error| (error.key.to_owned(), error.why.to_owned()))?;
        Ok(config)
    }
}
