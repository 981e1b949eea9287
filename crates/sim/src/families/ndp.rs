//! NDP: a burst of a window, then what the receiver pulls (SIGCOMM 2017).

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::settings;
use pliant_proto::settings::{Range, Settings};
use pliant_proto::time::Span;
use pliant_proto::transport::ndp::{self, CONTROL_CLASS, NdpConfig, NdpReceiver, NdpSender};

use super::family::{
    Endpoints, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::tables::{KeyError, Tables, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

const TABLE: &str = "ndp";

settings! {
    /// Settings of the transport `ndp`, and of what builds on it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct NdpSettings {
        /// Traffic class of acknowledgements and pulls: that of headers.
        pub class: u8 = CONTROL_CLASS => [range: Range::up_to(31)],
        /// Packets sent before the first pull, and most that are under way: a bandwidth-delay product, several where a full
        /// network is to be used.
        pub initial_window: u32 = 15 => [range: Range::from(1).of("packet"), source: "SIGCOMM 2017"],
        /// Least time after which an unanswered packet is sent again, the last resort.
        pub min_rto: Span = RtoBounds::DEFAULT.minimum => [range: Range::up_to(RtoBounds::DEFAULT.maximum)],
        /// The same before the first round-trip time.
        pub initial_rto: Span = RtoBounds::DEFAULT.initial => [range: Range::above(Span::ZERO)],
    }
}

impl NdpSettings {
    /// What the settings describe, for the packets of a group.
    pub(super) fn config(&self, group: &GroupSettings<'_>) -> NdpConfig {
        NdpConfig {
            payload: group.network.mss,
            wire: group.network.wire,
            data_class: TrafficClass::new(group.class),
            control_class: TrafficClass::new(self.class),
            initial_window: self.initial_window,
            rto: RtoBounds { minimum: self.min_rto, initial: self.initial_rto, ..RtoBounds::DEFAULT },
        }
    }
}

/// The class of headers that the table `name` asks for, with its key. What is wrong in the table is told later.
pub(super) fn control_class(tables: &Tables, name: &str) -> (String, u8) {
    let given = tables.get(name).and_then(|table| table.get("class")?.as_integer());
    (format!("{name}.class"), given.map_or(CONTROL_CLASS, |class| u8::try_from(class).unwrap_or(u8::MAX)))
}

pub(super) struct NdpFamily;

impl Family for NdpFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "ndp",
            description: "NDP: begins at line rate, switches trim, receivers pull what is left (SIGCOMM 2017)",
            honours: ndp::HONOURS,
            traits: Traits::PLAIN,
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let defaults = write(&NdpSettings::default());
        vec![SettingsTable { name: TABLE, title: "NDP", settings: NdpSettings::describe(), defaults }]
    }

    fn classes(&self, _: TransportName, _: u8, tables: &Tables) -> Vec<(String, u8)> {
        vec![control_class(tables, TABLE)]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let settings: NdpSettings = read_table(group.tables, TABLE)?;
        group.check_trims(group.class)?;
        let config = settings.config(group);
        config.check().map_err(|why| (TABLE.to_owned(), why.to_string()))?;
        group.tables.insert(TABLE.to_owned(), write(&settings));
        Ok(Arc::new(Ndp { config }))
    }
}

#[derive(Clone, Debug)]
struct Ndp {
    config: NdpConfig,
}

impl GroupTransport for Ndp {
    fn endpoints<'a>(&'a self, _: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(NdpEndpoints { config: &self.config, configs: BTreeMap::new() })
    }
}

struct NdpEndpoints<'a> {
    config: &'a NdpConfig,
    /// For each class that flows have asked for: that of data.
    configs: BTreeMap<Option<u8>, Arc<NdpConfig>>,
}

impl Endpoints for NdpEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let data_class = flow.class.map_or(self.config.data_class, TrafficClass::new);
            Arc::new(NdpConfig { data_class, ..self.config.clone() })
        });
        (NdpSender::new(Arc::clone(config)), NdpReceiver::new(Arc::clone(config))).into()
    }
}
