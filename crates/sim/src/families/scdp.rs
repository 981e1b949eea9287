//! SCDP: an object's symbols over NDP's switches and pulls (arXiv 1909.08928).

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::settings;
use pliant_proto::settings::Settings;
use pliant_proto::transport::ndp::NdpConfig;
use pliant_proto::transport::scdp::{self, LEVELS, ScdpConfig, ScdpObject, ScdpReceiver, ScdpSender};

use super::family::{
    Endpoints, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use super::ndp::{NdpSettings, control_class};
use crate::tables::{KeyError, Tables, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

const TABLE: &str = "scdp";

/// The classes of data above the first.
const MORE_CLASSES: u8 = LEVELS as u8 - 1;

settings! {
    /// Settings of the transport `scdp`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ScdpSettings {
        /// A source that has sent so many symbols goes on in the next class: four thresholds, five classes from the group's
        /// `class` on.
        pub thresholds: [u64; LEVELS - 1] = [20, 204, 2048, 20480] => [limits: "never falling"],
        /// Symbols beyond those of the object that are needed to decode it, unless all of its own arrive.
        pub extra_symbols: u32 = 2 => [],
    }
    nested {
        /// Those of the pulls.
        pub pulled: NdpSettings
    }
}

pub(super) struct ScdpFamily;

impl Family for ScdpFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "scdp",
            description: "SCDP: rateless symbols of an object over NDP's switches and pulls (arXiv 1909.08928)",
            honours: scdp::HONOURS,
            traits: Traits { shares_objects: true, ..Traits::PLAIN },
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let defaults = write(&ScdpSettings::default());
        vec![SettingsTable { name: TABLE, title: "SCDP", settings: ScdpSettings::describe(), defaults }]
    }

    fn classes(&self, _: TransportName, class: u8, tables: &Tables) -> Vec<(String, u8)> {
        let levels = class..=class.saturating_add(MORE_CLASSES);
        let levels = levels.map(|class| ("class".to_owned(), class));
        levels.chain([control_class(tables, TABLE)]).collect()
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let settings: ScdpSettings = read_table(group.tables, TABLE)?;
        let ScdpSettings { thresholds, extra_symbols, pulled } = settings;
        if !thresholds.is_sorted() {
            return Err(("scdp.thresholds".to_owned(), "must not fall".to_owned()));
        }
        for level in 0..=MORE_CLASSES {
            group.check_trims(group.class + level)?;
        }
        let NdpConfig { payload, wire, control_class, rto, initial_window, .. } = pulled.config(group);
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
        config.check().map_err(|why| (TABLE.to_owned(), why.to_string()))?;
        group.tables.insert(TABLE.to_owned(), write(&settings));
        Ok(Arc::new(Scdp { config }))
    }
}

#[derive(Clone, Debug)]
struct Scdp {
    config: ScdpConfig,
}

impl GroupTransport for Scdp {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(ScdpEndpoints { config: &self.config, run, configs: BTreeMap::new(), objects: BTreeMap::new() })
    }
}

struct ScdpEndpoints<'a> {
    config: &'a ScdpConfig,
    run: RunSettings<'a>,
    /// For each class that flows have asked for.
    configs: BTreeMap<Option<u8>, Arc<ScdpConfig>>,
    /// Objects of which not all flows are open, with how many are not.
    objects: BTreeMap<u64, (Arc<ScdpObject>, u32)>,
}

impl Endpoints for ScdpEndpoints<'_> {
    /// So many flows of the group in a row as its object has sources bring one object together.
    fn open(&mut self, flow: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let data_class = flow.class.map_or(self.config.data_class, TrafficClass::new);
            Arc::new(ScdpConfig { data_class, ..self.config.clone() })
        });
        let sources = self.run.traffic.flows_that_share();
        let object = flow.sequence / u64::from(sources);
        let number = u64::from(self.run.group) << 48 | object;
        let shared = self.objects.entry(number).or_insert_with(|| {
            let shared_as = (sources > 1).then_some(number);
            (Arc::new(ScdpObject::new(config, flow.bytes, shared_as)), sources)
        });
        let object = Arc::clone(&shared.0);
        shared.1 -= 1;
        if shared.1 == 0 {
            self.objects.remove(&number);
        }
        let slot = (flow.sequence % u64::from(sources)) as u32;
        let sender = ScdpSender::new(Arc::clone(config), slot, sources);
        (sender, ScdpReceiver::new(Arc::clone(config), object, sources)).into()
    }
}
