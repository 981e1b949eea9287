//! One traffic group: what it sends, by which transport, under which contract.

use pliant_proto::contract::Contract;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use toml::{Table, Value};

use crate::cross_queue::CROSS_QUEUE_TABLE;
use crate::families::{self, TransportName};
use crate::tables::Tables;
use crate::traffic::TrafficSpec;
use crate::workload::MessagesSpec;

/// The table of REFLEX's settings.
pub(crate) const REFLEX_TABLE: &str = "reflex";
/// The table of TCP's settings for flows whose ends are not both deployed.
pub(crate) const LEGACY_TABLE: &str = "legacy_tcp";

/// Keys of a group beside those of its [`TrafficSpec`] and its tables of settings.
pub(crate) const GROUP_KEYS: [&str; 10] =
    ["kind", "class", "ack_class", "pinned", "bundle", "transport", "contract", "messages", "legacy", "legacy_class"];

/// All of them with the tables of settings.
pub(crate) fn group_keys() -> Vec<&'static str> {
    GROUP_KEYS.into_iter().chain(table_names()).collect()
}

/// The tables of settings that a group may have.
pub(crate) fn table_names() -> impl Iterator<Item = &'static str> {
    families::tables().into_iter().chain([CROSS_QUEUE_TABLE, REFLEX_TABLE, LEGACY_TABLE])
}

/// A table `[traffic.NAME]`. The keys of its [`TrafficSpec`] and its tables of settings stand beside these.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupSpec {
    /// Everything but its tables of settings.
    pub keys: GroupKeys,
    /// Its tables of settings: those of its transport's family, `cross_queue` and `reflex`.
    pub tables: Tables,
}

/// The keys of a table `[traffic.NAME]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupKeys {
    /// Traffic class of its data, 0 to 31; the queue plan says which queue takes it. Default: 0.
    #[serde(default)]
    pub class: u8,
    /// Traffic class of its acknowledgements. Default: `class`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_class: Option<u8>,
    /// Keeps each of its flows on one path where `routing` spreads packets. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Lets its flows between the same two hosts share one, under one contract. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bundle: bool,
    /// What carries it. Default: `"dctcp"`.
    #[serde(default)]
    pub transport: TransportName,
    /// How far it may bend. Default: not at all.
    #[serde(default)]
    pub contract: ContractSpec,
    /// The messages that its flows consist of. Default: of `atp` and `pfabric` one per packet, of others none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesSpec>,
    /// What carries flows whose ends are not both deployed: a member of the TCP family. Default: `"dctcp"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy: Option<TransportName>,
    /// Traffic class of those flows. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_class: Option<u8>,
    /// What it sends.
    #[serde(flatten)]
    pub traffic: TrafficSpec,
}

impl<'de> Deserialize<'de> for GroupSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Table::deserialize(deserializer)?;
        let mut tables = Tables::new();
        for name in table_names() {
            match table.remove(name) {
                None => {}
                Some(Value::Table(settings)) => _ = tables.insert(name.to_owned(), settings),
                Some(other) => {
                    let why = format!("a {} where a table should be: `{name}`", other.type_str());
                    return Err(de::Error::custom(why));
                }
            }
        }
        let keys = GroupKeys::deserialize(table).map_err(|error| de::Error::custom(error.message()))?;
        Ok(Self { keys, tables })
    }
}

impl Serialize for GroupSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Table::try_from(&self.keys).map_err(ser::Error::custom)?;
        table.extend(self.tables.iter().map(|(name, settings)| (name.clone(), settings.clone().into())));
        table.serialize(serializer)
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
    /// Least rate of payload that the flow keeps, as far as the path carries it. Default: none.
    #[serde(with = "crate::units_serde", skip_serializing_if = "is_none")]
    pub min_rate: Rate,
    /// Greatest rate on the wire, above 0. Default: none.
    #[serde(with = "crate::units_serde::optional", skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<Rate>,
    /// How long after its start a flow must be done. Default: no bound.
    #[serde(with = "crate::units_serde::optional", skip_serializing_if = "Option::is_none")]
    pub done_by: Option<Span>,
    /// Relative weight against other flows, above 0. Default: 1.
    pub weight: f64,
    /// Rank among objects whose flows are weighed by what remains: the greatest goes first. Default: 0.
    pub priority: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_none(rate: &Rate) -> bool {
    *rate == Rate::default()
}

impl Default for ContractSpec {
    fn default() -> Self {
        let Contract { min_delivery, min_share, min_rate, max_rate, done_by, weight, priority } = Contract::default();
        Self { min_delivery, min_share, min_rate, max_rate, done_by, weight, priority }
    }
}

impl From<ContractSpec> for Contract {
    fn from(spec: ContractSpec) -> Self {
        let ContractSpec { min_delivery, min_share, min_rate, max_rate, done_by, weight, priority } = spec;
        Self { min_delivery, min_share, min_rate, max_rate, done_by, weight, priority }
    }
}
