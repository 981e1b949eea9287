//! One traffic group: what it sends, by which transport, under which contract.

use pliant_proto::contract::{Contract, Field};
use serde::{Deserialize, Serialize};

use super::credit::CreditSpec;
use super::tcp::TcpSpec;
use super::udp::UdpSpec;
use crate::traffic::TrafficSpec;

/// Keys of a group beside those of its [`TrafficSpec`].
pub(super) const GROUP_KEYS: [&str; 11] = [
    "kind",
    "class",
    "ack_class",
    "transport",
    "contract",
    "tcp",
    "udp",
    "credit",
    "legacy",
    "legacy_class",
    "legacy_tcp",
];

/// A table `[traffic.NAME]`. The keys of its [`TrafficSpec`] stand beside these.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Traffic class of its data, 0 to 31; the queue plan says which queue takes it. Default: 0.
    #[serde(default)]
    pub class: u8,
    /// Traffic class of its acknowledgements. Default: `class`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_class: Option<u8>,
    /// What carries it. Default: `"dctcp"`.
    #[serde(default)]
    pub transport: TransportName,
    /// How far it may bend. Default: not at all.
    #[serde(default)]
    pub contract: ContractSpec,
    /// Settings of its TCP transport, in place of those in `[transport]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSpec>,
    /// Settings of its UDP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpSpec>,
    /// Settings of its transport with credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<CreditSpec>,
    /// What carries flows whose ends are not both deployed: a member of the TCP family. Default: `"dctcp"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy: Option<TransportName>,
    /// Traffic class of those flows. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_class: Option<u8>,
    /// Settings of TCP for those flows, in place of those in `[transport]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_tcp: Option<TcpSpec>,
    /// What it sends.
    #[serde(flatten)]
    pub traffic: TrafficSpec,
}

/// A transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportName {
    /// Reno's window with SACK (RFC 5681, RFC 6675).
    Reno,
    /// Reno's window without SACK (RFC 6582).
    #[serde(rename = "newreno")]
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// DCTCP (RFC 8257).
    #[default]
    Dctcp,
    /// DCTCP's marks with a weight (PPUSH's WFCC).
    WeightedFair,
    /// Datagrams at a constant rate, without acknowledgements.
    Udp,
    /// Data on credits of the receiver (ExpressPass).
    #[serde(rename = "expresspass")]
    ExpressPass,
    /// DCTCP's window under ExpressPass's credits (layering, ExpressPass+).
    #[serde(rename = "expresspass-layered")]
    Layered,
    /// Data on credits, and by DCTCP's window what is left (FlexPass).
    #[serde(rename = "flexpass")]
    FlexPass,
}

impl TransportName {
    /// Every transport.
    pub const ALL: [Self; 9] = [
        Self::Reno,
        Self::NewReno,
        Self::Cubic,
        Self::Dctcp,
        Self::WeightedFair,
        Self::Udp,
        Self::ExpressPass,
        Self::Layered,
        Self::FlexPass,
    ];

    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
            Self::WeightedFair => "weighted-fair",
            Self::Udp => "udp",
            Self::ExpressPass => "expresspass",
            Self::Layered => "expresspass-layered",
            Self::FlexPass => "flexpass",
        }
    }

    /// What it is, in a line.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Reno => "TCP Reno with selective acknowledgements (RFC 5681, RFC 6675)",
            Self::NewReno => "TCP NewReno, without selective acknowledgements (RFC 6582)",
            Self::Cubic => "TCP CUBIC, with HyStart++ if asked (RFC 9438, RFC 9406)",
            Self::Dctcp => "Data Center TCP: gives way by the fraction of marked packets (RFC 8257)",
            Self::WeightedFair => "weighted fair congestion control: shares a link by contract.weight (PPUSH)",
            Self::Udp => "datagrams at a constant rate, never repeated",
            Self::ExpressPass => "ExpressPass: data on credits, which the receiver sends and every port limits",
            Self::Layered => "layering: data on credits as far as DCTCP's window lets it (ExpressPass+)",
            Self::FlexPass => "FlexPass: a part on credits, and by DCTCP's window what others leave",
        }
    }

    /// Its settings of TCP at their defaults, as a scenario writes them; `None` if it is no TCP in any part.
    pub fn default_settings(self) -> Option<TcpSpec> {
        let none = matches!(self, Self::Udp | Self::ExpressPass);
        (!none).then(|| TcpSpec::default().explicit(&TcpSpec::default(), self))
    }

    /// Its settings of credits at their defaults; `None` if it has no credits.
    pub fn default_credit_settings(self) -> Option<CreditSpec> {
        self.has_credits().then(|| CreditSpec::default().explicit(self, 1.0))
    }

    /// Whether its receivers send credits.
    pub const fn has_credits(self) -> bool {
        matches!(self, Self::ExpressPass | Self::Layered | Self::FlexPass)
    }

    /// Whether it is a member of the TCP family and nothing else.
    pub const fn is_tcp(self) -> bool {
        !matches!(self, Self::Udp | Self::ExpressPass | Self::Layered | Self::FlexPass)
    }

    /// Fields of the contract that it honours.
    pub const fn honours(self) -> &'static [Field] {
        match self {
            Self::WeightedFair => &[Field::Weight],
            _ => &[],
        }
    }
}

/// A table `contract`: what the application accepts. Asking for what the transport does not honour is an error.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContractSpec {
    /// Least fraction of the bytes that must arrive, in [0, 1]. Default: 1.
    pub min_delivery: f64,
    /// Least share of the flow's fair rate, in [0, 1]. Default: 1.
    pub min_share: f64,
    /// Relative weight against other flows, above 0. Default: 1.
    pub weight: f64,
}

impl Default for ContractSpec {
    fn default() -> Self {
        let Contract { min_delivery, min_share, weight } = Contract::default();
        Self { min_delivery, min_share, weight }
    }
}

impl From<ContractSpec> for Contract {
    fn from(spec: ContractSpec) -> Self {
        let ContractSpec { min_delivery, min_share, weight } = spec;
        Self { min_delivery, min_share, weight }
    }
}
