//! Makes the transports of flows whose settings are one value per group and class.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use pliant_proto::packet::TrafficClass;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::dccp::{DccpConfig, DccpReceiver, DccpSender};
use pliant_proto::transport::homa::{HomaConfig, HomaReceiver, HomaSender};
use pliant_proto::transport::ndp::{NdpConfig, NdpReceiver, NdpSender};
use pliant_proto::transport::scdp::{ScdpConfig, ScdpObject, ScdpReceiver, ScdpSender};

use crate::traffic::FlowSpec;

/// A group, and the class that its flows have asked for.
type Key = (u16, Option<u8>);

/// Settings of each group in each class that its flows have asked for.
#[derive(Default)]
pub(super) struct Configs {
    dccp: BTreeMap<Key, Arc<DccpConfig>>,
    ndp: BTreeMap<Key, Arc<NdpConfig>>,
    homa: BTreeMap<Key, Arc<HomaConfig>>,
    scdp: BTreeMap<Key, Arc<ScdpConfig>>,
    /// Objects of which not all flows are open, with how many are not.
    objects: BTreeMap<u64, (Rc<RefCell<ScdpObject>>, u32)>,
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

    /// Both sides of a flow by SCDP. So many flows of a group in a row, its `sources`, bring one object together.
    pub(super) fn open_scdp(
        &mut self,
        config: &ScdpConfig,
        flow: &FlowSpec,
        sources: u32,
    ) -> (AnyTransport, AnyTransport) {
        let config = self.scdp.entry((flow.group, flow.class)).or_insert_with(|| {
            let data_class = flow.class.map_or(config.data_class, TrafficClass::new);
            Arc::new(ScdpConfig { data_class, ..config.clone() })
        });
        let object = flow.sequence / u64::from(sources);
        let number = u64::from(flow.group) << 48 | object;
        let shared = self.objects.entry(number).or_insert_with(|| {
            let shared_as = (sources > 1).then_some(number);
            (Rc::new(RefCell::new(ScdpObject::new(config, flow.bytes, shared_as))), sources)
        });
        let object = Rc::clone(&shared.0);
        shared.1 -= 1;
        if shared.1 == 0 {
            self.objects.remove(&number);
        }
        let slot = (flow.sequence % u64::from(sources)) as u32;
        let sender = ScdpSender::new(Arc::clone(config), slot, sources);
        (sender.into(), ScdpReceiver::new(Arc::clone(config), object, sources).into())
    }

    /// Both sides of a flow by Homa, which is a message by itself. The class that a trace asks for is that of the highest
    /// level.
    pub(super) fn open_homa(&mut self, config: &HomaConfig, flow: &FlowSpec) -> (AnyTransport, AnyTransport) {
        let config = self.homa.entry((flow.group, flow.class)).or_insert_with(|| {
            let class = flow.class.map(TrafficClass::new);
            let data_class = class.unwrap_or(config.data_class);
            let control_class = class.unwrap_or(config.control_class);
            Arc::new(HomaConfig { data_class, control_class, ..config.clone() })
        });
        (HomaSender::new(Arc::clone(config)).into(), HomaReceiver::new(Arc::clone(config)).into())
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
