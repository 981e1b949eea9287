//! The table `traffic.NAME.credit`: settings of transports with credits.

use pliant_proto::congestion::AnyController;
use pliant_proto::packet::{Ecn, TrafficClass};
use pliant_proto::time::Span;
use pliant_proto::transport::express_pass::{CreditConfig, FeedbackConfig, FeedbackLaw};
use pliant_proto::transport::flex_pass::{FlexPassConfig, LossCut, Reactive, Splitting, Window};
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::group::TransportName;
use super::presets::CREDIT_CLASS;
use super::queues::KeyError;
use crate::units_serde;

/// Settings of transports with credits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CreditSpec {
    /// Which defaults: what the papers say, or what FlexPass's published simulator does. Default: `"paper"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// Traffic class of credits, 0 to 31; its queue must be shaped at every port. Default: 31.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    /// Least size of a credit on the wire. Default: `"84B"`; `artifact`: `"78B"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub min_size: Option<Bytes>,
    /// Greatest size of a credit on the wire; each is drawn evenly. Default: `"84B"`; `artifact`: `"90B"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub max_size: Option<Bytes>,
    /// How far the gap between credits varies, as a fraction, in [0, 1). Default: 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// How the credit rate follows the loss of credits. Default: `"bic"`; `artifact`: `"delivered"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<FeedbackName>,
    /// First credit rate as a fraction of the greatest, in (0, 1]. Default: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rate: Option<f64>,
    /// `delivered`, `multiplicative`: first weight of a step up. Default: 0.0625.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_weight: Option<f64>,
    /// `delivered`, `multiplicative`: least weight. Default: 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_weight: Option<f64>,
    /// `delivered`, `multiplicative`: greatest weight. Default: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_weight: Option<f64>,
    /// Loss of credits that is accepted when the rate is far below its greatest, in (0, 1). Default: 0.125.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// `bic`: how much faster than doubling the rate leaves the last one that was too much, from 0. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggressiveness: Option<f64>,
    /// `bic`: least change of the rate, in credits per round trip. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_step_credits: Option<f64>,
    /// `bic`: greatest change of the rate. Default: `"50Mbit/s"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub max_step: Option<Rate>,
    /// `bic`: rate of credits from which on the accepted loss is `target_loss`. Default: that of 10 Gbit/s of data.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub base_rate: Option<Rate>,
    /// Starts flows of fewer than 40 packets at a rate that much lower. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_start: Option<bool>,
    /// `expresspass`: stops credits once those of a round trip cover what is left. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<bool>,
    /// Greatest credit rate of a flow as a fraction of what its host's port lets through, in (0, 1]. Default: 1;
    /// `artifact`: the reserved share of the link once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_scale: Option<f64>,
    /// A request for credits is repeated after this. Default: `"100us"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub request_timeout: Option<Span>,
    /// A stop is repeated after twice the round-trip time, or after this without one. Default: `"1ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub stop_timeout: Option<Span>,
    /// `expresspass`: missing data is asked for again after this. Default: `"100us"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub nack_interval: Option<Span>,
    /// A sender with data that hears nothing for so long asks for credits anew. Default: `"4ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub recovery_timeout: Option<Span>,
    /// `expresspass`: bytes of payload sent at once before the first credit, droppable first (Aeolus). Default: none.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub pre_credit: Option<Bytes>,
    /// `flexpass`: which part of a flow each sub-flow takes. Default: `"shared-buffer"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splitting: Option<SplittingName>,
    /// `flexpass`: traffic class of reactive data. Default: the group's `class`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reactive_class: Option<u8>,
    /// `flexpass`: largest reactive window, in segments. Default: no limit; `artifact`: 180.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_window: Option<u32>,
    /// `flexpass`: how a loss cuts the reactive window. Default: `"halve"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_cut: Option<LossCutName>,
    /// `flexpass`: whether acknowledgements of reactive data are dropped first, as that is. Default: false; `artifact`:
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red_acks: Option<bool>,
    /// `flexpass`: proactive packets per acknowledgement, from 1; gaps are told at once. Default: 1; `artifact`: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proactive_ack_every: Option<u16>,
    /// `flexpass`: most bytes that wait out of order at the receiver. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub reorder_buffer: Option<Bytes>,
}

/// Which defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// What FlexPass's text says.
    #[default]
    Paper,
    /// What its published simulator does.
    Artifact,
}

/// A law of credit feedback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackName {
    /// Cuts to the rate at which credits arrived.
    Delivered,
    /// Cuts by the loss.
    Multiplicative,
    /// Searches for the last rate that was too much.
    Bic,
}

/// Which part of a flow each sub-flow takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplittingName {
    /// Both take what comes next.
    SharedBuffer,
    /// The proactive sub-flow begins at the front, the reactive one at the end.
    BothEnds,
}

/// How a loss cuts the reactive window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossCutName {
    /// By half.
    Halve,
    /// By the fraction of marked packets.
    AsMark,
}

/// Settings that only one transport has.
const OF_ONE: &[(&str, TransportName)] = &[
    ("early_stop", TransportName::ExpressPass),
    ("nack_interval", TransportName::ExpressPass),
    ("pre_credit", TransportName::ExpressPass),
    ("splitting", TransportName::FlexPass),
    ("reactive_class", TransportName::FlexPass),
    ("max_window", TransportName::FlexPass),
    ("loss_cut", TransportName::FlexPass),
    ("red_acks", TransportName::FlexPass),
    ("proactive_ack_every", TransportName::FlexPass),
    ("reorder_buffer", TransportName::FlexPass),
];

/// Payload segments of the published simulator's largest window.
const ARTIFACT_WINDOW: u32 = 180;
/// The published simulator never acknowledges proactive data; a sender that hears nothing at all would remember it all.
const ARTIFACT_ACK_EVERY: u16 = 64;

impl CreditSpec {
    /// Refuses settings that `transport` does not have.
    pub(super) fn check_keys(&self, transport: TransportName) -> Result<(), KeyError> {
        let given = self.to_table();
        let foreign = OF_ONE.iter().find(|(key, owner)| given.contains_key(*key) && *owner != transport);
        foreign.map_or(Ok(()), |(key, owner)| {
            Err(((*key).to_owned(), format!("{} does not have it, only {}", transport.name(), owner.name())))
        })
    }

    /// These settings with defaults where they say nothing. `reserve` is the share of a link that is there for credits.
    pub(super) fn explicit(&self, transport: TransportName, reserve: f64) -> Self {
        let mut table = Self::built_in(self.variant.unwrap_or_default(), reserve).to_table();
        table.extend(self.to_table());
        for (key, owner) in OF_ONE {
            if *owner != transport {
                table.remove(*key);
            }
        }
        table.try_into().expect("what was written can be read")
    }

    fn to_table(&self) -> Table {
        Table::try_from(self).expect("settings are plain values")
    }

    fn built_in(variant: Variant, reserve: f64) -> Self {
        let artifact = variant == Variant::Artifact;
        let credit = CreditConfig::default();
        let feedback = FeedbackConfig::default();
        let rate = |bytes_per_sec: f64| Some(Rate::from_bits_per_sec((bytes_per_sec * 8.0) as u64));
        Self {
            variant: Some(variant),
            class: Some(CREDIT_CLASS),
            min_size: Some(Bytes(if artifact { 78 } else { u64::from(credit.credit_bytes.0) })),
            max_size: Some(Bytes(if artifact { 90 } else { u64::from(credit.credit_bytes.1) })),
            jitter: Some(credit.jitter),
            feedback: Some(if artifact { FeedbackName::Delivered } else { FeedbackName::Bic }),
            initial_rate: Some(feedback.initial_rate),
            initial_weight: Some(feedback.initial_weight),
            min_weight: Some(feedback.minimum_weight),
            max_weight: Some(feedback.maximum_weight),
            target_loss: Some(feedback.target_loss),
            aggressiveness: Some(feedback.aggressiveness),
            min_step_credits: Some(feedback.minimum_step_credits),
            max_step: rate(feedback.maximum_step),
            base_rate: rate(feedback.base_rate),
            scale_start: Some(credit.scale_start),
            early_stop: Some(credit.early_stop),
            pacing_scale: Some(if artifact { reserve.min(1.0) } else { credit.pacing_scale }),
            request_timeout: Some(credit.request_timeout),
            stop_timeout: Some(credit.stop_timeout),
            nack_interval: Some(credit.nack_interval),
            recovery_timeout: Some(credit.recovery_timeout),
            pre_credit: None,
            splitting: Some(SplittingName::SharedBuffer),
            reactive_class: None,
            max_window: artifact.then_some(ARTIFACT_WINDOW),
            loss_cut: Some(LossCutName::Halve),
            red_acks: Some(artifact),
            proactive_ack_every: Some(if artifact { ARTIFACT_ACK_EVERY } else { 1 }),
            reorder_buffer: None,
        }
    }

    /// The credit loop that [explicit](Self::explicit) settings describe, for the packets and data class of `tcp`.
    pub(super) fn config(&self, tcp: &TcpConfig) -> Result<CreditConfig, KeyError> {
        let (default, law) = (CreditConfig::default(), FeedbackConfig::default());
        let size = |key: &str, bytes: Option<Bytes>, default: u16| {
            let bytes = bytes.map_or(u64::from(default), |bytes| bytes.0);
            u16::try_from(bytes).map_err(|_| (key.to_owned(), "must be at most 65535B".to_owned()))
        };
        let config = CreditConfig {
            mss: tcp.mss,
            wire: tcp.wire,
            data_class: tcp.data_class,
            credit_class: TrafficClass::new(self.class.unwrap_or(CREDIT_CLASS)),
            credit_bytes: (
                size("min_size", self.min_size, default.credit_bytes.0)?,
                size("max_size", self.max_size, default.credit_bytes.1)?,
            ),
            jitter: self.jitter.unwrap_or(default.jitter),
            feedback: FeedbackConfig {
                law: self.feedback.map_or(law.law, FeedbackName::law),
                initial_rate: self.initial_rate.unwrap_or(law.initial_rate),
                initial_weight: self.initial_weight.unwrap_or(law.initial_weight),
                minimum_weight: self.min_weight.unwrap_or(law.minimum_weight),
                maximum_weight: self.max_weight.unwrap_or(law.maximum_weight),
                target_loss: self.target_loss.unwrap_or(law.target_loss),
                aggressiveness: self.aggressiveness.unwrap_or(law.aggressiveness),
                minimum_step_credits: self.min_step_credits.unwrap_or(law.minimum_step_credits),
                maximum_step: self.max_step.map_or(law.maximum_step, Rate::bytes_per_sec_f64),
                base_rate: self.base_rate.map_or(law.base_rate, Rate::bytes_per_sec_f64),
            },
            scale_start: self.scale_start.unwrap_or(default.scale_start),
            early_stop: self.early_stop.unwrap_or(default.early_stop),
            pacing_scale: self.pacing_scale.unwrap_or(default.pacing_scale),
            request_timeout: self.request_timeout.unwrap_or(default.request_timeout),
            stop_timeout: self.stop_timeout.unwrap_or(default.stop_timeout),
            nack_interval: self.nack_interval.unwrap_or(default.nack_interval),
            recovery_timeout: self.recovery_timeout.unwrap_or(default.recovery_timeout),
        };
        config.check().map_err(|why| (String::new(), why.to_string()))?;
        Ok(config)
    }

    /// FlexPass as [explicit](Self::explicit) settings describe it, with the handshake and timeouts of `tcp`.
    pub(super) fn flex_pass(&self, credit: CreditConfig, tcp: &TcpConfig) -> Result<FlexPassConfig, KeyError> {
        let class = self.reactive_class.map_or(credit.data_class, TrafficClass::new);
        let window = Window {
            class: class.with_red(true).with_ecn(Ecn::Ect0),
            rto: tcp.rto,
            handshake: tcp.handshake,
            maximum: self.max_window.map(|segments| u64::from(segments) * u64::from(credit.mss)),
            loss_cut: match self.loss_cut {
                Some(LossCutName::AsMark) => LossCut::AsMark,
                Some(LossCutName::Halve) | None => LossCut::Halve,
            },
            red_acks: self.red_acks == Some(true),
        };
        checked(FlexPassConfig {
            credit,
            reactive: Reactive::Window(window),
            splitting: match self.splitting {
                Some(SplittingName::BothEnds) => Splitting::BothEnds,
                Some(SplittingName::SharedBuffer) | None => Splitting::SharedBuffer,
            },
            proactive_ack_every: self.proactive_ack_every.unwrap_or(1),
            reorder_buffer: self.reorder_buffer.map(|bytes| bytes.0),
        })
    }

    /// ExpressPass with a burst before the first credit, if one is asked for: sub-flows as FlexPass has them.
    pub(super) fn aeolus(&self, credit: &CreditConfig) -> Result<Option<FlexPassConfig>, KeyError> {
        let Some(bytes) = self.pre_credit else { return Ok(None) };
        let class = credit.data_class.with_red(true);
        let reactive = Reactive::Burst { bytes: bytes.0, class, timeout: credit.recovery_timeout };
        checked(FlexPassConfig { credit: credit.clone(), reactive, ..FlexPassConfig::default() }).map(Some)
    }
}

fn checked(config: FlexPassConfig) -> Result<FlexPassConfig, KeyError> {
    config.check().map_err(|why| (String::new(), why.to_string()))?;
    Ok(config)
}

impl FeedbackName {
    fn law(self) -> FeedbackLaw {
        match self {
            Self::Delivered => FeedbackLaw::Delivered,
            Self::Multiplicative => FeedbackLaw::Multiplicative,
            Self::Bic => FeedbackLaw::Bic,
        }
    }
}

/// A transport with credits and its settings.
#[derive(Clone, Debug)]
pub struct CreditCarrier {
    /// What it is.
    pub kind: CreditKind,
    /// The controller of a new window; of ExpressPass none has any.
    pub controller: AnyController,
}

/// Which transport with credits.
#[derive(Clone, Debug)]
pub enum CreditKind {
    /// ExpressPass.
    ExpressPass(CreditConfig),
    /// FlexPass, or ExpressPass with Aeolus' burst.
    FlexPass(FlexPassConfig),
    /// TCP's window under credits.
    Layered(CreditConfig, TcpConfig),
}

impl CreditKind {
    /// The credit loop's settings.
    pub fn credit(&self) -> &CreditConfig {
        match self {
            Self::ExpressPass(credit) | Self::Layered(credit, _) => credit,
            Self::FlexPass(config) => &config.credit,
        }
    }

    /// The same with data in another class.
    pub(crate) fn in_class(&self, class: Option<u8>) -> Self {
        let mut moved = self.clone();
        let Some(class) = class.map(TrafficClass::new) else { return moved };
        match &mut moved {
            Self::ExpressPass(credit) => credit.data_class = class,
            Self::Layered(credit, tcp) => {
                (credit.data_class, tcp.data_class, tcp.ack_class) = (class, class, class);
            }
            Self::FlexPass(config) => {
                config.credit.data_class = class;
                match &mut config.reactive {
                    Reactive::Window(window) => window.class = class.with_red(true).with_ecn(Ecn::Ect0),
                    Reactive::Burst { class: burst, .. } => *burst = class.with_red(true),
                }
            }
        }
        moved
    }
}
