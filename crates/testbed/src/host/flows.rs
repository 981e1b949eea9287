//! The flows of a host, as its transports' application: their payload, and what they came to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pliant_net::host::HostApplication;
use pliant_proto::packet::{Body, EndpointId, Packet, Side};
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::push::{PushRequest, TaskId};
use pliant_proto::transport::{Command, Event, Transport};
use pliant_sim::engine::FlowMessages;
use pliant_sim::traffic::FlowSpec;

use crate::mail::HostMessage;
use crate::messages::Parent;
use crate::pattern::Pattern;

/// A flow that this host sends or receives.
pub(super) struct Flow {
    pub(super) number: u64,
    pub(super) spec: FlowSpec,
    /// Row of the results that it counts for.
    pub(super) group: u16,
    pub(super) messages: Option<Box<FlowMessages>>,
    /// Task that the flow pushes a part of.
    pub(super) task: Option<TaskId>,
    /// Bytes for which the send buffer had no room yet.
    pub(super) unwritten: u64,
    pub(super) finished: bool,
    pub(super) delivered: u64,
    pub(super) received: Option<Instant>,
    pub(super) wrong: u64,
}

impl Flow {
    pub(super) fn new(number: u64, spec: FlowSpec) -> Self {
        Self {
            number,
            spec,
            group: spec.group,
            messages: None,
            task: None,
            unwritten: 0,
            finished: false,
            delivered: 0,
            received: None,
            wrong: 0,
        }
    }
}

/// All flows of this host, as its transports' application.
pub(super) struct Flows {
    pub(super) pattern: Arc<Pattern>,
    pub(super) senders: HashMap<u64, Flow>,
    pub(super) receivers: HashMap<u64, Flow>,
    /// Tasks of which all has arrived, until their other flows have heard of it.
    pub(super) complete: Vec<TaskId>,
    /// Bytes delivered since the sample before, by group, and bytes that arrived without a credit.
    pub(super) delivered: BTreeMap<u16, [u64; 2]>,
}

impl Flows {
    fn of(&mut self, endpoint: EndpointId) -> Option<&mut Flow> {
        let flows = if endpoint.side() == Side::Initiator { &mut self.senders } else { &mut self.receivers };
        flows.get_mut(&u64::from(endpoint.flow()))
    }

    fn delivered(&mut self, endpoint: EndpointId, bytes: u64) {
        if let Some(flow) = self.of(endpoint) {
            flow.delivered += bytes;
            let group = flow.group;
            self.delivered.entry(group).or_default()[0] += bytes;
        }
    }
}

/// Where a packet's payload lies in its flow, as the pattern counts.
fn pattern_offset(packet: &Packet) -> u64 {
    match packet.body() {
        Body::Data { seq, .. }
        | Body::Scheduled { seq, .. }
        | Body::Unscheduled { seq, .. }
        | Body::HomaData { seq, .. }
        | Body::Datagram { seq, .. } => seq,
        Body::Message { message, fragment, .. } => u64::from(message) * 4099 + u64::from(fragment) * 1031,
        Body::Symbol { block, symbol, .. } => u64::from(block) * 4099 + u64::from(symbol) * 1031,
        // Symbols of SCDP and packets of NDP, whose switches trim, begin where they like in the pattern.
        Body::Pulled { .. }
        // And what carries no payload.
        | Body::Ack { .. }
        | Body::Syn { .. }
        | Body::SynAck { .. }
        | Body::Probe { .. }
        | Body::ProbeEcho { .. }
        | Body::MessageAck { .. }
        | Body::Close { .. }
        | Body::CloseAck { .. }
        | Body::CreditRequest { .. }
        | Body::Credit(_)
        | Body::CreditStop { .. }
        | Body::SubflowAck { .. }
        | Body::SymbolAck { .. }
        | Body::AckVector { .. }
        | Body::PulledAck { .. }
        | Body::Pull { .. }
        | Body::Grant { .. }
        | Body::Resend { .. }
        | Body::Busy
        | Body::Done => 0,
    }
}

impl HostApplication<AnyTransport> for Flows {
    fn fill(&mut self, endpoint: EndpointId, packet: &Packet, payload: &mut [u8]) {
        self.pattern.fill(endpoint.flow().into(), pattern_offset(packet), payload);
    }

    fn arrived(&mut self, endpoint: EndpointId, packet: &Packet, payload: &[u8]) {
        let wrong = self.pattern.wrong(endpoint.flow().into(), pattern_offset(packet), payload);
        let Some(flow) = self.of(endpoint) else { return };
        flow.wrong += wrong;
        let group = flow.group;
        if let Body::Unscheduled { len, .. } = packet.body() {
            self.delivered.entry(group).or_default()[1] += u64::from(len);
        }
    }

    fn event(&mut self, now: Instant, endpoint: EndpointId, event: Event<AnyRequest>) {
        match event {
            Event::Deliver(range) => {
                self.delivered(endpoint, range.len());
                if let Some(flow) = self.of(endpoint)
                    && flow.messages.as_mut().is_some_and(|messages| messages.on_remote_bytes(range))
                {
                    flow.received.get_or_insert(now);
                }
            }
            Event::DeliverMessage { message, bytes } => {
                self.delivered(endpoint, bytes.into());
                if let Some(flow) = self.of(endpoint)
                    && flow.messages.as_mut().is_some_and(|messages| messages.on_message(message))
                {
                    flow.received = Some(now);
                }
            }
            Event::Received => {
                if let Some(flow) = self.of(endpoint) {
                    flow.received.get_or_insert(now);
                    if let Some(task) = flow.task {
                        self.complete.push(task);
                    }
                }
            }
            Event::DeliverSymbol { bytes } => self.delivered(endpoint, bytes.into()),
            Event::Ask(AnyRequest::Push(PushRequest::Controller(message))) => {
                Parent::post(&HostMessage { flow: endpoint.flow().into(), message });
            }
            Event::Finished => {
                if let Some(flow) = self.of(endpoint) {
                    flow.finished = true;
                }
            }
            Event::GiveUp { .. } | Event::Connected | Event::Release(_) | Event::Ask(_) | Event::WillBeLate { .. } => {}
        }
    }

    fn refill(&mut self, now: Instant, endpoint: EndpointId, transport: &mut AnyTransport) -> bool {
        match self.of(endpoint) {
            Some(flow) if endpoint.side() == Side::Initiator => write(transport, now, &mut flow.unwritten),
            _ => false,
        }
    }
}

/// Writes what the send buffer has room for, and ends the stream behind the last byte. Whether there was room.
pub(super) fn write(transport: &mut AnyTransport, now: Instant, unwritten: &mut u64) -> bool {
    let bytes = transport.send_space().min(*unwritten);
    if bytes == 0 {
        return false;
    }
    *unwritten -= bytes;
    transport.handle_command(now, Command::Send { bytes });
    if *unwritten == 0 {
        transport.handle_command(now, Command::Finish);
    }
    true
}
