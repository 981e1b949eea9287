//! Makes the transports of flows with credits.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::congestion::AnyController;
use pliant_proto::rng::Stream;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::express_pass::{CreditConfig, ExpressPassReceiver, ExpressPassSender};
use pliant_proto::transport::flex_pass::{FlexPassConfig, FlexPassReceiver, FlexPassSender};
use pliant_proto::transport::layering::{LayeredReceiver, LayeredSender};
use pliant_proto::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};

use crate::scenario::{CreditCarrier, CreditKind, Resolved, TcpCarrier};
use crate::topology::NodeId;
use crate::traffic::FlowSpec;

/// Settings that many flows share.
#[derive(Clone)]
enum Shared {
    ExpressPass(Arc<CreditConfig>),
    FlexPass(Arc<FlexPassConfig>, AnyController),
    Layered(Arc<CreditConfig>, Arc<TcpConfig>, AnyController),
}

/// Settings of each group in each class that its flows have asked for.
#[derive(Default)]
pub(super) struct CreditTransports {
    shared: BTreeMap<(u16, Option<u8>), Shared>,
    legacy: BTreeMap<u16, Arc<TcpConfig>>,
}

impl CreditTransports {
    /// Both sides of `flow`, whose ends are not both deployed.
    pub(super) fn open_legacy(&mut self, carrier: &TcpCarrier, flow: &FlowSpec) -> (AnyTransport, AnyTransport) {
        let config = self.legacy.entry(flow.group).or_insert_with(|| Arc::new(carrier.config.clone()));
        let sender = TcpSender::new(Arc::clone(config), carrier.controller);
        (sender.into(), TcpReceiver::new(Arc::clone(config)).into())
    }

    /// Both sides of `flow`.
    pub(super) fn open(
        &mut self,
        scenario: &Resolved,
        carrier: &CreditCarrier,
        flow: &FlowSpec,
    ) -> (AnyTransport, AnyTransport) {
        // Credits leave by the receiver's port: it bounds their rate.
        let uplink = scenario.topology.uplink(NodeId(flow.destination));
        let rate = scenario.credit_rate(carrier.kind.credit(), scenario.topology.link(uplink).rate);
        let greatest = rate.expect("a scenario with credits shapes their queue").bytes_per_sec_f64();
        let group = &scenario.groups[usize::from(flow.group)].name;
        let stream = Stream::named(scenario.spec.seed, &format!("credits/{group}/{}", flow.sequence));
        let shared =
            self.shared.entry((flow.group, flow.class)).or_insert_with(|| match carrier.kind.in_class(flow.class) {
                CreditKind::ExpressPass(credit) => Shared::ExpressPass(Arc::new(credit)),
                CreditKind::FlexPass(config) => Shared::FlexPass(Arc::new(config), carrier.controller),
                CreditKind::Layered(credit, tcp) => {
                    Shared::Layered(Arc::new(credit), Arc::new(tcp), carrier.controller)
                }
            });
        match shared.clone() {
            Shared::ExpressPass(config) => (
                ExpressPassSender::new(Arc::clone(&config)).into(),
                ExpressPassReceiver::new(config, greatest, stream).into(),
            ),
            Shared::FlexPass(config, controller) => (
                FlexPassSender::new(Arc::clone(&config), controller).into(),
                FlexPassReceiver::new(config, greatest, stream).into(),
            ),
            Shared::Layered(config, tcp, controller) => {
                let receiver = TcpReceiver::new(Arc::clone(&tcp));
                (
                    LayeredSender::new(Arc::clone(&config), TcpSender::new(tcp, controller)).into(),
                    LayeredReceiver::new(config, greatest, stream, receiver).into(),
                )
            }
        }
    }
}
