//! DCCP: TCP's window over packets that are never retransmitted (CCID 2, RFC 4341).

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::settings;
use pliant_proto::settings::{Range, ReadError, SettingValue, Settings, Value};
use pliant_proto::time::Span;
use pliant_proto::transport::dccp::{self, AckRatio, DccpConfig, DccpReceiver, DccpSender};

use super::family::{
    Endpoints, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::tables::{KeyError, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

const TABLE: &str = "dccp";

settings! {
    /// Settings of the transport `dccp`.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub(super) struct DccpSettings {
        /// Packets that may be in flight at first.
        pub initial_window: u32 = 10 => [range: Range::from(1).of("packet"), source: "RFC 6928"],
        /// Whether data is ECN-capable, and marks halve the window as losses do.
        pub ecn: bool = false => [source: "RFC 4341"],
        /// Packets that one acknowledgement answers: a number, or `"adaptive"`, which is 2 at first and more while
        /// acknowledgements are lost.
        pub ack_ratio: AckRatioSetting = AckRatioSetting(AckRatio::Fixed(2)) => [source: "RFC 4341, 6.1.2"],
        /// Longest delay of an acknowledgement.
        pub max_ack_delay: Span = Span::from_us(500) => [],
        /// Least time after which everything in flight is taken for lost.
        pub min_rto: Span = RtoBounds::DEFAULT.minimum => [range: Range::up_to(RtoBounds::DEFAULT.maximum)],
        /// The same before the first round-trip time.
        pub initial_rto: Span = RtoBounds::DEFAULT.initial => [range: Range::above(Span::ZERO)],
        /// Whether what was lost is sent again behind everything else, in new packets, until all has arrived. Otherwise a
        /// flow with losses ends without it.
        pub repeat_lost: bool = false => [],
    }
}

/// Packets that one acknowledgement answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct AckRatioSetting(AckRatio);

const ADAPTIVE: &str = "adaptive";

impl SettingValue for AckRatioSetting {
    type Bound = u16;

    fn kind() -> String {
        format!("whole number from 1 to 65535, or `\"{ADAPTIVE}\"`")
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        let ratio = match value {
            Value::Text(text) if text == ADAPTIVE => Some(AckRatio::Adaptive),
            Value::Integer(number) => u16::try_from(*number).ok().filter(|ratio| *ratio > 0).map(AckRatio::Fixed),
            _ => None,
        };
        let why = || format!("must be a number of packets, 1 to 65535, or \"{ADAPTIVE}\"");
        ratio.map(Self).ok_or_else(|| ReadError::Wrong(why()))
    }

    fn write(&self) -> Option<Value> {
        Some(match self.0 {
            AckRatio::Fixed(ratio) => Value::Integer(ratio.into()),
            AckRatio::Adaptive => Value::Text(ADAPTIVE.to_owned()),
        })
    }

    fn bound(&self) -> Option<&u16> {
        None
    }
}

pub(super) struct DccpFamily;

impl Family for DccpFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "dccp",
            description: "DCCP: TCP's window over packets that are never retransmitted (CCID 2, RFC 4341)",
            honours: dccp::HONOURS,
            traits: Traits::PLAIN,
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let defaults = write(&DccpSettings::default());
        vec![SettingsTable { name: TABLE, title: "DCCP", settings: DccpSettings::describe(), defaults }]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let settings: DccpSettings = read_table(group.tables, TABLE)?;
        let config = DccpConfig {
            payload: group.network.mss,
            wire: group.network.wire,
            data_class: TrafficClass::new(group.class),
            ack_class: TrafficClass::new(group.ack_class),
            initial_window: settings.initial_window,
            ecn: settings.ecn,
            ack_ratio: settings.ack_ratio.0,
            max_ack_delay: settings.max_ack_delay,
            rto: RtoBounds { minimum: settings.min_rto, initial: settings.initial_rto, ..RtoBounds::DEFAULT },
            repeat_lost: settings.repeat_lost,
        };
        config.check().map_err(|why| (TABLE.to_owned(), why.to_string()))?;
        group.tables.insert(TABLE.to_owned(), write(&settings));
        Ok(Arc::new(Dccp { config }))
    }
}

#[derive(Clone, Debug)]
struct Dccp {
    config: DccpConfig,
}

impl GroupTransport for Dccp {
    fn endpoints<'a>(&'a self, _: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(DccpEndpoints { config: &self.config, configs: BTreeMap::new() })
    }
}

struct DccpEndpoints<'a> {
    config: &'a DccpConfig,
    /// For each class that flows have asked for.
    configs: BTreeMap<Option<u8>, Arc<DccpConfig>>,
}

impl Endpoints for DccpEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let class = flow.class.map(TrafficClass::new);
            let data_class = class.unwrap_or(self.config.data_class);
            let ack_class = class.unwrap_or(self.config.ack_class);
            Arc::new(DccpConfig { data_class, ack_class, ..self.config.clone() })
        });
        (DccpSender::new(Arc::clone(config)), DccpReceiver::new(Arc::clone(config))).into()
    }
}
