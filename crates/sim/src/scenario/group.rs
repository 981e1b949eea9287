//! One traffic group: what it sends, by which transport, under which contract.

use pliant_proto::contract::{Contract, Field};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::atp::{AtpSpec, PFabricSpec};
use super::credit::CreditSpec;
use super::cross_queue::CrossQueueSpec;
use super::dccp::DccpSpec;
use super::homa::HomaSpec;
use super::kernel::KernelSpec;
use super::ndp::NdpSpec;
use super::near_opt::NearOptSpec;
use super::push::PushSpec;
use super::reflex::ReflexSpec;
use super::scdp::ScdpSpec;
use super::tcp::TcpSpec;
use super::udp::UdpSpec;
use crate::traffic::TrafficSpec;
use crate::workload::MessagesSpec;

/// Keys of a group beside those of its [`TrafficSpec`].
pub(super) const GROUP_KEYS: [&str; 24] = [
    "kind",
    "class",
    "ack_class",
    "pinned",
    "transport",
    "contract",
    "messages",
    "reflex",
    "tcp",
    "udp",
    "dccp",
    "ndp",
    "scdp",
    "homa",
    "atp",
    "pfabric",
    "cross_queue",
    "near_opt",
    "push",
    "credit",
    "legacy",
    "legacy_class",
    "legacy_tcp",
    "kernel",
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
    /// Keeps each of its flows on one path where `routing` spreads packets. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// What carries it. Default: `"dctcp"`.
    #[serde(default)]
    pub transport: TransportName,
    /// How far it may bend. Default: not at all.
    #[serde(default)]
    pub contract: ContractSpec,
    /// Lets its flows give way within `contract`, over any transport with a window. Default: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflex: Option<ReflexSpec>,
    /// The messages that its flows consist of. Default: of `atp` and `pfabric` one per packet, of others none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesSpec>,
    /// Settings of its TCP transport, in place of those in `[transport]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSpec>,
    /// Settings of its UDP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpSpec>,
    /// Settings of its NDP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ndp: Option<NdpSpec>,
    /// Settings of its SCDP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scdp: Option<ScdpSpec>,
    /// Settings of its Homa transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub homa: Option<HomaSpec>,
    /// Settings of its DCCP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dccp: Option<DccpSpec>,
    /// Pauses its flows while a queue above theirs is congested. Default: not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_queue: Option<CrossQueueSpec>,
    /// Settings of its `near-opt` transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_opt: Option<NearOptSpec>,
    /// Settings of its `push` transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushSpec>,
    /// Settings of its ATP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atp: Option<AtpSpec>,
    /// Settings of its pFabric transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfabric: Option<PFabricSpec>,
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
    /// Settings of the operating system's TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelSpec>,
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
    /// TCP-LP (INFOCOM 2003).
    TcpLp,
    /// LEDBAT (RFC 6817).
    Ledbat,
    /// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus).
    #[serde(rename = "ledbat++")]
    LedbatPlusPlus,
    /// DCTCP behind a sender that leaves a fixed share of the messages out.
    #[serde(rename = "dctcp-sd")]
    DctcpSenderDrop,
    /// DCTCP behind a sender that leaves messages out while the network is congested.
    #[serde(rename = "dctcp-bw")]
    DctcpBandwidth,
    /// Datagrams at a constant rate, without acknowledgements.
    Udp,
    /// TCP's window over packets that are never retransmitted (RFC 4341).
    Dccp,
    /// Bursts a window, then sends what the receiver pulls (NDP, SIGCOMM 2017).
    Ndp,
    /// An object's symbols over NDP's switches and pulls (SCDP, arXiv 1909.08928).
    Scdp,
    /// Messages that their receiver grants by what is left of them (Homa, SIGCOMM 2018).
    Homa,
    /// Approximate transmission: a bounded share of the messages may be missing.
    Atp,
    /// pFabric at the line rate.
    #[serde(rename = "pfabric")]
    PFabric,
    /// Told its rate and its losses by an oracle (arXiv 2401.08890).
    NearOpt,
    /// Data on credits of the receiver (ExpressPass).
    #[serde(rename = "expresspass")]
    ExpressPass,
    /// DCTCP's window under ExpressPass's credits (layering, ExpressPass+).
    #[serde(rename = "expresspass-layered")]
    Layered,
    /// Data on credits, and by DCTCP's window what is left (FlexPass).
    #[serde(rename = "flexpass")]
    FlexPass,
    /// Coded symbols of an object, from many sources at once (PPUSH).
    Push,
    /// The operating system's TCP, on a testbed; in the simulator a model of it.
    Kernel,
}

impl TransportName {
    /// Every transport.
    pub const ALL: [Self; 23] = [
        Self::Reno,
        Self::NewReno,
        Self::Cubic,
        Self::Dctcp,
        Self::WeightedFair,
        Self::TcpLp,
        Self::Ledbat,
        Self::LedbatPlusPlus,
        Self::DctcpSenderDrop,
        Self::DctcpBandwidth,
        Self::Udp,
        Self::Dccp,
        Self::Ndp,
        Self::Scdp,
        Self::Homa,
        Self::Atp,
        Self::PFabric,
        Self::NearOpt,
        Self::ExpressPass,
        Self::Layered,
        Self::FlexPass,
        Self::Push,
        Self::Kernel,
    ];

    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
            Self::WeightedFair => "weighted-fair",
            Self::TcpLp => "tcp-lp",
            Self::Ledbat => "ledbat",
            Self::LedbatPlusPlus => "ledbat++",
            Self::DctcpSenderDrop => "dctcp-sd",
            Self::DctcpBandwidth => "dctcp-bw",
            Self::Udp => "udp",
            Self::Dccp => "dccp",
            Self::Ndp => "ndp",
            Self::Scdp => "scdp",
            Self::Homa => "homa",
            Self::Atp => "atp",
            Self::PFabric => "pfabric",
            Self::NearOpt => "near-opt",
            Self::ExpressPass => "expresspass",
            Self::Layered => "expresspass-layered",
            Self::FlexPass => "flexpass",
            Self::Push => "push",
            Self::Kernel => "kernel",
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
            Self::DctcpSenderDrop => {
                "DCTCP; the sender leaves out a share 1 - min_delivery of the messages (ATP's DCTCP-SD)"
            }
            Self::DctcpBandwidth => "DCTCP; the sender leaves messages out while it sees congestion (ATP's DCTCP-BW)",
            Self::TcpLp => "TCP Low Priority: leaves bandwidth to others when one-way delays rise (INFOCOM 2003)",
            Self::Ledbat => "background transport that holds its queueing delay at a target (RFC 6817)",
            Self::LedbatPlusPlus => "LEDBAT by round-trip times, with slowdowns in place of the latecomer's advantage",
            Self::Udp => "datagrams at a constant rate, never repeated",
            Self::Dccp => "DCCP: TCP's window over packets that are never retransmitted (CCID 2, RFC 4341)",
            Self::Ndp => "NDP: begins at line rate, switches trim, receivers pull what is left (SIGCOMM 2017)",
            Self::Scdp => "SCDP: rateless symbols of an object over NDP's switches and pulls (arXiv 1909.08928)",
            Self::Homa => "Homa: messages that the receiver grants, by priorities, the shortest first (SIGCOMM 2018)",
            Self::ExpressPass => "ExpressPass: data on credits, which the receiver sends and every port limits",
            Self::Layered => "layering: data on credits as far as DCTCP's window lets it (ExpressPass+)",
            Self::Kernel => "the operating system's TCP on a testbed, and a model of it in the simulator",
            Self::FlexPass => "FlexPass: a part on credits, and by DCTCP's window what others leave",
            Self::Push => "PPUSH: coded symbols of an object from many sources at once, weighted by remaining size",
            Self::Atp => "approximate transmission: a share of the messages may be missing (ATP)",
            Self::PFabric => "pFabric at the line rate, ends once enough messages have arrived (SIGCOMM 2013, ATP)",
            Self::NearOpt => {
                "Near-Opt: an oracle tells it its rate and its losses; in the simulator only (low-priority TCP)"
            }
        }
    }

    /// Whether its receivers send credits.
    pub const fn has_credits(self) -> bool {
        matches!(self, Self::ExpressPass | Self::Layered | Self::FlexPass)
    }

    /// Whether it is a member of the TCP family and nothing else.
    pub const fn is_tcp(self) -> bool {
        let other = matches!(self, Self::Udp | Self::Dccp | Self::Ndp | Self::Scdp | Self::Homa)
            || matches!(self, Self::Atp | Self::PFabric | Self::NearOpt | Self::Push | Self::Kernel);
        !other && !self.has_credits()
    }

    /// Whether it sends messages and nothing else.
    pub const fn sends_messages(self) -> bool {
        matches!(self, Self::DctcpSenderDrop | Self::DctcpBandwidth | Self::Atp | Self::PFabric)
    }

    /// The table of its settings below a group.
    pub const fn settings_table(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Dccp => "dccp",
            Self::Ndp => "ndp",
            Self::Scdp => "scdp",
            Self::Homa => "homa",
            Self::Atp => "atp",
            Self::PFabric => "pfabric",
            Self::NearOpt => "near_opt",
            Self::Push => "push",
            Self::Kernel => "kernel",
            Self::ExpressPass | Self::Layered | Self::FlexPass => "credit",
            _ => "tcp",
        }
    }

    /// Its settings at their defaults, as a scenario writes them; `None` for `udp`, which has no default rate.
    pub fn default_settings(self) -> Option<Table> {
        let settings = match self {
            Self::Udp => return None,
            Self::Dccp => Table::try_from(DccpSpec::default()),
            Self::Ndp => Table::try_from(NdpSpec::default()),
            Self::Scdp => Table::try_from(ScdpSpec::default()),
            Self::Homa => Table::try_from(HomaSpec::default()),
            Self::Atp => Table::try_from(AtpSpec::default().explicit()),
            Self::PFabric => Table::try_from(PFabricSpec::default()),
            Self::NearOpt => Table::try_from(NearOptSpec::default()),
            Self::Push => Table::try_from(PushSpec::default().explicit(&Contract::default(), 1, true)),
            Self::Kernel => Table::try_from(KernelSpec::default()),
            _ if self.has_credits() => Table::try_from(CreditSpec::default().explicit(self, 1.0)),
            _ => Table::try_from(TcpSpec::default().explicit(&TcpSpec::default(), self)),
        };
        Some(settings.expect("settings are plain values"))
    }

    /// Settings of the TCP that is a part of a transport with credits, at their defaults, as `[traffic.NAME.tcp]` writes
    /// them; `None` of transports that are TCP or have none.
    pub fn default_tcp_part(self) -> Option<Table> {
        let has = matches!(self, Self::FlexPass | Self::Layered);
        let explicit = has.then(|| Table::try_from(TcpSpec::default().explicit(&TcpSpec::default(), self)));
        explicit.map(|settings| settings.expect("settings are plain values"))
    }

    /// Whether the sources of an object can share it out among them while they send.
    pub const fn shares_objects_out(self) -> bool {
        matches!(self, Self::Push | Self::Scdp)
    }

    /// Fields of the contract that it honours by itself; REFLEX over it honours the others too.
    pub const fn honours(self) -> &'static [Field] {
        match self {
            Self::WeightedFair => &[Field::Weight],
            Self::Push => &[Field::Weight, Field::Priority],
            _ if self.sends_messages() => &[Field::MinDelivery],
            _ => &[],
        }
    }
}

/// A table `contract`: what the application accepts. Asking for what the transport does not honour is an error.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContractSpec {
    /// Least fraction of the bytes, of flows of messages of the messages, that must arrive, in [0, 1]. Default: 1.
    pub min_delivery: f64,
    /// Least share of the flow's fair rate, in [0, 1]. Default: 1.
    pub min_share: f64,
    /// Relative weight against other flows, above 0. Default: 1.
    pub weight: f64,
    /// Rank among objects whose flows are weighed by what remains: the greatest goes first. Default: 0.
    pub priority: u8,
}

impl Default for ContractSpec {
    fn default() -> Self {
        let Contract { min_delivery, min_share, weight, priority } = Contract::default();
        Self { min_delivery, min_share, weight, priority }
    }
}

impl From<ContractSpec> for Contract {
    fn from(spec: ContractSpec) -> Self {
        let ContractSpec { min_delivery, min_share, weight, priority } = spec;
        Self { min_delivery, min_share, weight, priority }
    }
}
