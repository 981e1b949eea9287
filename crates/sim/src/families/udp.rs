//! UDP: datagrams at a constant rate, without acknowledgements.

use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::settings;
use pliant_proto::settings::Range;
use pliant_proto::settings::Settings;
use pliant_proto::transport::udp::{self, UdpConfig, UdpReceiver, UdpSender};
use pliant_proto::units::Rate;
use toml::Table;

use super::family::{
    Endpoints, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::tables::{KeyError, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

const TABLE: &str = "udp";

settings! {
    /// Settings of the transport `udp`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UdpSettings {
        /// Rate at which a flow sends, on the wire.
        pub rate: Option<Rate> = None => [range: Range::above(Rate::from_bits_per_sec(0)), default: "must be given"],
    }
}

pub(super) struct UdpFamily;

impl Family for UdpFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "udp",
            description: "datagrams at a constant rate, never repeated",
            honours: udp::HONOURS,
            traits: Traits::PLAIN,
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        // There is no default rate: an example stands in its place.
        let defaults = Table::from_iter([("rate".to_owned(), toml::Value::from("1Gbit/s"))]);
        vec![SettingsTable { name: TABLE, title: "UDP", settings: UdpSettings::describe(), defaults }]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let settings: UdpSettings = read_table(group.tables, TABLE)?;
        let Some(rate) = settings.rate else {
            return Err(("udp.rate".to_owned(), "is missing: udp needs a rate".to_owned()));
        };
        group.tables.insert(TABLE.to_owned(), write(&settings));
        Ok(Arc::new(Udp { rate }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Udp {
    rate: Rate,
}

impl GroupTransport for Udp {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(UdpEndpoints { rate: self.rate, run })
    }
}

struct UdpEndpoints<'a> {
    rate: Rate,
    run: RunSettings<'a>,
}

impl Endpoints for UdpEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let class = TrafficClass::new(flow.class.unwrap_or(self.run.class));
        let config = UdpConfig { rate: self.rate, payload: self.run.mss, wire: self.run.wire, class };
        (UdpSender::new(config), UdpReceiver::new()).into()
    }
}
