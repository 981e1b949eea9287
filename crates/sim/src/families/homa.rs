//! Homa: messages that their receiver grants, by priorities, the shortest first (SIGCOMM 2018).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::settings;
use pliant_proto::settings::{Range, Settings};
use pliant_proto::time::Span;
use pliant_proto::transport::homa::{self, HomaConfig, HomaReceiver, HomaSender, Levels};
use pliant_proto::units::Bytes;

use super::family::{
    Endpoints, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::tables::{KeyError, Tables, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;
use crate::workload::Size;

const TABLE: &str = "homa";

/// Quantiles of a distribution from which levels follow.
const QUANTILES: u32 = 10_000;

settings! {
    /// Settings of the transport `homa`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct HomaSettings {
        /// Payload that a sender sends unasked, and that is granted ahead: a round trip at the line rate.
        pub rtt_bytes: Bytes = Bytes(10_000) => [range: Range::above(Bytes(0)), source: "SIGCOMM 2018, 10 Gbit/s"],
        /// Levels of priority: classes from the group's `class` on.
        pub levels: u8 = 8 => [range: Range::closed(2, 8), source: "SIGCOMM 2018"],
        /// Sizes in bytes from which on unscheduled data goes one level lower. The levels left are for granted data.
        pub cutoffs: Option<Vec<u64>> = None => [
            default: "none: one level for unscheduled data", limits: "rising, at least two fewer than `levels`"
        ],
        /// In place of `cutoffs`: the name or path of the distribution of sizes from which they follow, equal bytes per
        /// level.
        pub workload: Option<String> = None => [],
        /// Messages granted at once, each of another sender.
        pub overcommit: Option<u8> = None => [
            range: Range::closed(1, 8).of("messages"), default: "as many as levels for granted data"
        ],
        /// Missing data is asked for again after this, then twice as late each time, up to 16 times. Data that only waits
        /// behind higher levels for longer is sent twice.
        pub resend_interval: Span = Span::from_ms(5) => [range: Range::above(Span::ZERO)],
    }
}

impl HomaSettings {
    /// These settings with what follows written out: sizes at which levels begin, and messages granted at once.
    fn explicit(mut self) -> Result<(Self, Vec<u64>, u8), KeyError> {
        let refuse = |key: &str, why: &str| Err((format!("{TABLE}.{key}"), why.to_owned()));
        let cutoffs = match (self.cutoffs.take(), self.workload.take()) {
            (Some(_), Some(_)) => return refuse("workload", "give either cutoffs or a workload, not both"),
            (None, Some(name)) => {
                let sizes = Size::Workload(name).distribution(Path::new(""));
                let sizes = sizes.map_err(|error| ("homa.workload".to_owned(), error.to_string()))?;
                let quantile = |number| sizes.quantile((f64::from(number) + 0.5) / f64::from(QUANTILES));
                let sizes: Vec<u64> = (0..QUANTILES).map(quantile).collect();
                Levels::for_sizes(self.levels, self.rtt_bytes.0, &sizes).cutoffs
            }
            (cutoffs, None) => cutoffs.unwrap_or_default(),
        };
        if !cutoffs.is_sorted() {
            return refuse("cutoffs", "must not fall");
        }
        let scheduled = usize::from(self.levels).checked_sub(cutoffs.len() + 1).filter(|left| *left > 0);
        let Some(scheduled) = scheduled else {
            return refuse("cutoffs", "must be fewer than levels by two at least: granted data needs a level");
        };
        let overcommit = *self.overcommit.get_or_insert(scheduled as u8);
        self.cutoffs = Some(cutoffs.clone());
        Ok((self, cutoffs, overcommit))
    }
}

pub(super) struct HomaFamily;

impl Family for HomaFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "homa",
            description: "Homa: messages that the receiver grants, by priorities, the shortest first (SIGCOMM 2018)",
            honours: homa::HONOURS,
            traits: Traits::PLAIN,
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let defaults = write(&HomaSettings::default());
        vec![SettingsTable { name: TABLE, title: "Homa", settings: HomaSettings::describe(), defaults }]
    }

    fn classes(&self, _: TransportName, class: u8, tables: &Tables) -> Vec<(String, u8)> {
        let given = tables.get(TABLE).and_then(|table| table.get("levels")?.as_integer());
        let levels = given.map_or(HomaSettings::default().levels, |levels| u8::try_from(levels).unwrap_or(u8::MAX));
        let last = class.saturating_add(levels.saturating_sub(1));
        (class..=last).map(|class| ("class".to_owned(), class)).collect()
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let (settings, cutoffs, overcommit) = read_table::<HomaSettings>(group.tables, TABLE)?.explicit()?;
        let config = HomaConfig {
            payload: group.network.mss,
            wire: group.network.wire,
            data_class: TrafficClass::new(group.class),
            control_class: TrafficClass::new(group.ack_class),
            rtt_bytes: settings.rtt_bytes.0,
            levels: Levels { count: settings.levels, cutoffs },
            overcommit,
            resend_interval: settings.resend_interval,
        };
        config.check().map_err(|why| (TABLE.to_owned(), why.to_string()))?;
        group.tables.insert(TABLE.to_owned(), write(&settings));
        Ok(Arc::new(Homa { config }))
    }
}

#[derive(Clone, Debug)]
struct Homa {
    config: HomaConfig,
}

impl GroupTransport for Homa {
    fn endpoints<'a>(&'a self, _: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(HomaEndpoints { config: &self.config, configs: BTreeMap::new() })
    }
}

struct HomaEndpoints<'a> {
    config: &'a HomaConfig,
    /// For each class that flows have asked for: that of the highest level.
    configs: BTreeMap<Option<u8>, Arc<HomaConfig>>,
}

impl Endpoints for HomaEndpoints<'_> {
    /// A flow is a message.
    fn open(&mut self, flow: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let class = flow.class.map(TrafficClass::new);
            let data_class = class.unwrap_or(self.config.data_class);
            let control_class = class.unwrap_or(self.config.control_class);
            Arc::new(HomaConfig { data_class, control_class, ..self.config.clone() })
        });
        (HomaSender::new(Arc::clone(config)), HomaReceiver::new(Arc::clone(config))).into()
    }
}
