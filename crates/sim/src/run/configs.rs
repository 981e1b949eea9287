//! Makes the transports of flows whose settings are one value per group and class.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::packet::TrafficClass;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::dccp::{DccpConfig, DccpReceiver, DccpSender};
use pliant_proto::transport::ndp::{NdpConfig, NdpReceiver, NdpSender};

use crate::traffic::FlowSpec;

/// A group, and the class that its flows have asked for.
type Key = (u16, Option<u8>);

/// Settings of each group in each class that its flows have asked for.
#[derive(Default)]
pub(super) struct Configs {
    dccp: BTreeMap<Key, Arc<DccpConfig>>,
    ndp: BTreeMap<Key, Arc<NdpConfig>>,
}

impl Configs {
    /// Both sides of a flow by DCCP.
    pub(super) fn open_dccp(&mut self, config: &DccpConfig, flow: &FlowSpec) -> (AnyTransport, AnyTransport) {
        let config = self.dccp.entry((flow.group, flow.class)).or_insert_with(|| {
            let class = flow.class.map(TrafficClass::new);
            let data_class = class.unwrap_or(config.data_class);
            let ack_class = class.unwrap_or(config.ack_class);
            Arc::new(DccpConfig { data_class, ack_class, ..config.clone() })
        });
        (DccpSender::new(Arc::clone(config)).into(), DccpReceiver::new(Arc::clone(config)).into())
    }

    /// Both sides of a flow by NDP. The class that a trace asks for is that of data.
    pub(super) fn open_ndp(&mut self, config: &NdpConfig, flow: &FlowSpec) -> (AnyTransport, AnyTransport) {
        let config = self.ndp.entry((flow.group, flow.class)).or_insert_with(|| {
            let data_class = flow.class.map_or(config.data_class, TrafficClass::new);
            Arc::new(NdpConfig { data_class, ..config.clone() })
        });
        (NdpSender::new(Arc::clone(config)).into(), NdpReceiver::new(Arc::clone(config)).into())
    }
}
