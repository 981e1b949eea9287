//! Makes the transports of flows that push objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::packet::TrafficClass;
use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use pliant_proto::transport::push::{Partition, PushConfig, PushPort, PushReceiver, PushSource, SharedReceiver};
use pliant_proto::units::Serializer;

use crate::engine::{HighWeight, PushFlow};
use crate::scenario::{PushCarrier, Resolved};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

/// A receiver that more flows of its object will share.
struct Shared {
    receiver: SharedReceiver,
    flows_left: u32,
}

/// Settings of groups, and receivers whose flows are not all open.
#[derive(Default)]
pub(super) struct PushTransports {
    configs: BTreeMap<(u16, Option<u8>), Arc<PushConfig>>,
    receivers: BTreeMap<u64, Shared>,
}

impl PushTransports {
    /// Both sides of `flow` on `path`, and what its controller must know of it.
    pub(super) fn open(
        &mut self,
        scenario: &Resolved,
        carrier: &PushCarrier,
        flow: &FlowSpec,
        path: &[LinkId],
    ) -> (PushSource, PushPort, PushFlow) {
        let config = self.configs.entry((flow.group, flow.class)).or_insert_with(|| {
            let class = |own: TrafficClass| flow.class.map_or(own, TrafficClass::new);
            let PushConfig { data_class, ack_class, .. } = carrier.config;
            let (data_class, ack_class) = (class(data_class), class(ack_class));
            Arc::new(PushConfig { data_class, ack_class, ..carrier.config.clone() })
        });
        // A flow without an end may have more blocks than are counted; no run carries so many.
        let most = u64::from(u32::MAX) * u64::from(config.block_symbols) * u64::from(config.symbol);
        let partition = Partition::new(flow.bytes.min(most), config.symbol, config.block_symbols);
        let partition = partition.expect("flows have bytes, and blocks can be counted");
        let number = |sequence: u64| u64::from(flow.group) << 48 | sequence;
        let delivery = number(flow.sequence / u64::from(carrier.fanout));
        let task = if carrier.splits { number(flow.sequence) } else { delivery };
        let shared = self.receivers.entry(task).or_insert_with(|| {
            let stream = Stream::named(scenario.spec.seed, &format!("decoder/{task}"));
            let receiver = PushReceiver::new(Arc::clone(config), partition, stream, flow.start);
            let flows_left = if carrier.splits { 1 } else { carrier.fanout };
            Shared { receiver: receiver.into_shared(), flows_left }
        });
        let peer = shared.receiver.borrow_mut().add_peer();
        let port = PushPort::new(Arc::clone(&shared.receiver), peer);
        shared.flows_left -= 1;
        if shared.flows_left == 0 {
            self.receivers.remove(&task);
        }
        let packet_bytes = config.wire.wire_bytes(config.symbol);
        let push = PushFlow {
            task,
            delivery,
            symbols: partition.symbols(),
            slots: config.slots,
            weighting: carrier.weighting,
            high: carrier.high_weight.map_or_else(
                || HighWeight::OfLink {
                    rtt: round_trip(scenario, path, packet_bytes, config.wire.wire_bytes(0)),
                    packet_bytes,
                    threshold: carrier.threshold,
                },
                HighWeight::Fixed,
            ),
            delay: carrier.control_delay,
        };
        (PushSource::new(Arc::clone(config), partition), port, push)
    }
}

/// Time that a packet and its acknowledgement take on a path without queues.
fn round_trip(scenario: &Resolved, path: &[LinkId], packet_bytes: u16, ack_bytes: u16) -> Span {
    path.iter().map(|&link| scenario.topology.link(link)).fold(Span::ZERO, |sum, link| {
        let mut wire = Serializer::new(link.rate);
        let sent = wire.transmit(packet_bytes.into()).plus(wire.transmit(ack_bytes.into()));
        sum.plus(sent).plus(link.delay.times(2))
    })
}
