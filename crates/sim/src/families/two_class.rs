//! `bounded` where the network has two classes: a scavenger in the low one, a paced guarantee in the high one.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::congestion::{Algorithm, AnyController};
use pliant_proto::contract::policy::Policy;
use pliant_proto::host::fair_rates::LONGEST_INTERVAL;
use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::settings;
use pliant_proto::settings::{Range, Settings};
use pliant_proto::time::Span;
use pliant_proto::transport::two_class::{self, Bounds, TwoClassConfig, TwoClassReceiver, TwoClassSender};

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use super::tcp::{TCP_TABLE, Window, on_path};
use crate::tables::{self, KeyError, Tables, below};
use crate::topology::LinkId;
use crate::traffic::{FlowSpec, UNLIMITED_BYTES};

const TABLE: &str = "two_class";

settings! {
    /// Settings of the transport `bounded-two-class`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct TwoClassSettings {
        /// Traffic class of the guarantee, which must have another queue than `class`, in which the scavenger sends.
        pub guarantee_class: u8 = 0 => [range: Range::up_to(31)],
        /// The ledger is kept, and the guarantee's rate chosen, every so often, or each round trip, or each packet of the
        /// guarantee at its rate, if that is longer.
        pub interval: Span = TwoClassConfig::default().interval => [range: Range::above(Span::ZERO)],
        /// Least retransmission timeout of the scavenger, where that of `tcp` is shorter: the low class may stand still while the high
        /// one is busy, and that silence is no loss.
        pub scavenger_min_rto: Option<Span> = None => [default: "that of `tcp`", range: Range::above(Span::ZERO)],
        /// Least rate of the guarantee, as a part of the line's: the flow knows the high class by it.
        pub trickle: f64 = TwoClassConfig::default().trickle => [range: Range::above_to(0.0, 1.0)],
        /// What is aimed at above `min_share`.
        pub margin: f64 = Bounds::default().margin => [range: Range::closed(0.0, 1.0)],
        /// Which part of what it can still earn a flow whose end is written may owe.
        pub debt: f64 = Bounds::default().debt => [range: Range::closed(0.0, 1.0)],
        /// What is owed beyond that is paid back in so long.
        pub catch_up: Span = TwoClassConfig::default().catch_up => [range: Range::above(Span::ZERO)],
        /// Greatest rate of both sub-flows while they pay back, in fair rates.
        pub greatest_share: f64 = Bounds::default().greatest_share => [range: Range::from(1.0)],
        /// Greatest rate of the guarantee, in rates of a DCTCP flow that joined the high class now.
        pub greatest_weight: f64 = Bounds::default().greatest_weight => [range: Range::above(0.0)],
        /// Most by which the guarantee's rate grows in an interval, as a factor.
        pub growth: f64 = TwoClassConfig::default().growth => [range: Range::above(1.0)],
        /// Hosts tell each other so often which rate is fair on their links, and tell the flow; it then estimates nothing.
        pub host_reports: Option<Span> = None => [
            default: "hosts tell nothing", range: Range::closed(Span::from_us(10), LONGEST_INTERVAL), source: "Pliant, docs/bounded.md"
        ],
        /// How long a packet waits that finds its queue at the marking threshold while its class has the line alone. By it and
        /// by how long the scavenger's packets wait the flow knows what the low class has.
        pub marked_wait: Option<Span> = None => [default: "it is found", range: Range::above(Span::ZERO)],
    }
}

pub(super) struct TwoClassFamily;

impl Family for TwoClassFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "bounded-two-class",
            description: "gives way in a low class, and adds in a high one what contract.min_share lacks (Pliant)",
            honours: two_class::HONOURS,
            traits: Traits { bundles: true, ..Traits::PLAIN },
        }]
    }

    fn tables(&self, member: TransportName) -> Vec<SettingsTable> {
        let defaults = tables::write(&TwoClassSettings::default());
        let own = SettingsTable { name: TABLE, title: "two classes", settings: TwoClassSettings::describe(), defaults };
        vec![own, Window::of(member, Algorithm::Dctcp.settings()).table()]
    }

    fn classes(&self, _: TransportName, _: u8, tables: &Tables) -> Vec<(String, u8)> {
        let given = tables.get(TABLE).and_then(|table| table.get("guarantee_class")).and_then(toml::Value::as_integer);
        let class =
            given.map_or(TwoClassSettings::default().guarantee_class, |class| u8::try_from(class).unwrap_or(u8::MAX));
        vec![(format!("{TABLE}.guarantee_class"), class)]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let of_table = |error| below(TABLE, error);
        let of_tcp = |error| below(TCP_TABLE, error);
        let settings: TwoClassSettings = tables::read_table(group.tables, TABLE)?;
        tables::check(&settings).map_err(of_table)?;
        for (place, plan) in [("host", group.network.host_plan), ("switch", group.network.switch_plan)] {
            let queue = |class: u8| plan.queue_of_class[usize::from(class)];
            if queue(group.class) == queue(settings.guarantee_class) {
                let why = format!(
                    "class {} and the group's class {} share a queue of the {place} ports: the guarantee needs another \
                     than the scavenger",
                    settings.guarantee_class, group.class
                );
                return Err(of_table(("guarantee_class".to_owned(), why)));
            }
        }
        let mut window = Window::of(group.transport, Algorithm::Dctcp.settings());
        window.lay_shared(group.network.shared_tcp).map_err(of_tcp)?;
        let own = group.tables.get(TCP_TABLE).cloned().unwrap_or_default();
        window.lay_own(&own).map_err(of_tcp)?;
        let (tcp, controller) = window.config(group)?;
        let config = TwoClassConfig {
            mss: tcp.mss,
            wire: tcp.wire,
            scavenger: TwoClassConfig::subflow(
                tcp.data_class,
                patient(tcp.rto, settings.scavenger_min_rto.unwrap_or_default()),
            ),
            guarantee: TwoClassConfig::subflow(TrafficClass::new(settings.guarantee_class), tcp.rto),
            ack_class: tcp.ack_class,
            ack_every: tcp.ack_every,
            max_ack_delay: tcp.max_ack_delay,
            reorder_buffer: None,
            interval: settings.interval,
            trickle: settings.trickle,
            bounds: Bounds {
                margin: settings.margin,
                debt: settings.debt,
                greatest_share: settings.greatest_share,
                greatest_weight: settings.greatest_weight,
            },
            bounds_when_told: None,
            catch_up: settings.catch_up,
            growth: settings.growth,
            marked_wait: settings.marked_wait,
        };
        config.check().map_err(|why| of_table((String::new(), why.to_string())))?;
        group.tables.insert(TABLE.to_owned(), tables::write(&settings));
        let TwoClassSettings { host_reports, .. } = settings;
        Ok(Arc::new(TwoClass { config, controller, share: group.contract.min_share, host_reports }))
    }
}

/// Bounds of which none is below `least`, but for a greatest that is.
fn patient(rto: RtoBounds, least: Span) -> RtoBounds {
    let least = least.min(rto.maximum);
    RtoBounds { minimum: rto.minimum.max(least), initial: rto.initial.max(least), ..rto }
}

#[derive(Clone, Debug)]
struct TwoClass {
    config: TwoClassConfig,
    /// The scavenger's, of a new flow.
    controller: AnyController,
    share: f64,
    host_reports: Option<Span>,
}

impl GroupTransport for TwoClass {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(TwoClassEndpoints { transport: self, run, configs: BTreeMap::new() })
    }

    fn facts(&self) -> Facts<'_> {
        Facts { host_reports: self.host_reports, ..Facts::default() }
    }
}

struct TwoClassEndpoints<'a> {
    transport: &'a TwoClass,
    run: RunSettings<'a>,
    /// For each class that flows have asked for.
    configs: BTreeMap<Option<u8>, Arc<TwoClassConfig>>,
}

impl Endpoints for TwoClassEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, path: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let TwoClass { config, controller, share, .. } = self.transport;
        let config = self.configs.entry(flow.class).or_insert_with(|| Arc::new(config.clone()));
        let topology = self.run.topology;
        let line = path.iter().map(|&link| topology.link(link).rate).min();
        let sender = TwoClassSender::new(Arc::clone(config), on_path(controller, path), *share, line);
        let sender = if flow.bytes == UNLIMITED_BYTES { sender.without_end() } else { sender };
        (Box::new(sender), TwoClassReceiver::new(Arc::clone(config))).into()
    }
}
