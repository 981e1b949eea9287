//! Near-Opt: told its rate and its losses by an oracle (arXiv 2401.08890). It exists in the simulator only.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::settings;
use pliant_proto::settings::{Range, Settings};
use pliant_proto::time::Span;
use pliant_proto::transport::near_opt::{self, NearOptConfig, NearOptReceiver, NearOptSender};
use serde::{Deserialize, Serialize};

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::tables::{KeyError, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;
use crate::units_serde;

/// The name of Near-Opt in scenario files.
pub const NEAR_OPT: &str = "near-opt";
const TABLE: &str = "near_opt";

/// Intervals of the oracle; below, one packet more or less in an interval would decide.
const INTERVALS: std::ops::RangeInclusive<Span> = Span::from_us(10)..=Span::from_secs(1);

/// The table `oracle`: what the transport `near-opt` is told, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OracleSpec {
    /// How often every link computes the rate that it offers, 10 us to 1 s. Default: `"25us"`, a link delay of the
    /// paper's network.
    #[serde(with = "units_serde")]
    pub interval: Span,
}

impl Default for OracleSpec {
    fn default() -> Self {
        Self { interval: Span::from_us(25) }
    }
}

impl OracleSpec {
    /// Checks every range.
    pub(crate) fn check(self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if INTERVALS.contains(&self.interval) { Ok(()) } else { refuse("interval", "must be between 10us and 1s") }
    }
}

settings! {
    /// Settings of the transport `near-opt`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct NearOptSettings {
        /// Least time after which the oracle is asked about an unacknowledged packet. It is also asked when an
        /// acknowledgement skips one.
        pub min_rto: Span = RtoBounds::DEFAULT.minimum => [range: Range::up_to(RtoBounds::DEFAULT.maximum)],
        /// The same before the first round-trip time.
        pub initial_rto: Span = RtoBounds::DEFAULT.initial => [range: Range::above(Span::ZERO)],
    }
}

pub(super) struct NearOptFamily;

impl Family for NearOptFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: NEAR_OPT,
            description: "Near-Opt: an oracle tells it its rate and its losses; in the simulator only (low-priority TCP)",
            honours: near_opt::HONOURS,
            traits: Traits::PLAIN,
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let defaults = write(&NearOptSettings::default());
        vec![SettingsTable { name: TABLE, title: "Near-Opt", settings: NearOptSettings::describe(), defaults }]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        if !group.network.one_path {
            let why = "near-opt needs routing = \"ecmp\": its oracle follows the one path of a flow";
            return Err(("transport".to_owned(), why.to_owned()));
        }
        let settings: NearOptSettings = read_table(group.tables, TABLE)?;
        group.tables.insert(TABLE.to_owned(), write(&settings));
        let NearOptSettings { min_rto: minimum, initial_rto: initial } = settings;
        Ok(Arc::new(NearOpt { rto: RtoBounds { minimum, initial, ..RtoBounds::DEFAULT } }))
    }
}

#[derive(Clone, Copy, Debug)]
struct NearOpt {
    rto: RtoBounds,
}

impl GroupTransport for NearOpt {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(NearOptEndpoints { rto: self.rto, run, configs: BTreeMap::new() })
    }

    fn facts(&self) -> Facts<'_> {
        let simulator_only = Some("near-opt exists in the simulator only: a testbed has no oracle");
        Facts { asks_oracle: true, simulator_only, ..Facts::default() }
    }
}

struct NearOptEndpoints<'a> {
    rto: RtoBounds,
    run: RunSettings<'a>,
    /// For each class that flows have asked for.
    configs: BTreeMap<Option<u8>, Arc<NearOptConfig>>,
}

impl Endpoints for NearOptEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let RunSettings { mss, wire, class, ack_class, .. } = self.run;
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let data_class = TrafficClass::new(flow.class.unwrap_or(class));
            let ack_class = TrafficClass::new(flow.class.unwrap_or(ack_class));
            Arc::new(NearOptConfig { mss, wire, data_class, ack_class, rto: self.rto })
        });
        (NearOptSender::new(Arc::clone(config)), NearOptReceiver::new(Arc::clone(config))).into()
    }
}
