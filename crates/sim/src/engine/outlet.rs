//! What a simulated transport says: packets to its host's port, events to its flow, deadlines to the schedule.

use pliant_proto::packet::{EndpointId, Packet, SackBlocks};
use pliant_proto::switch::queue::Admission;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::AnyRequest;
use pliant_proto::transport::push::PushRequest;
use pliant_proto::transport::{Deadline, Event as TransportEvent, Outlet};

use super::flows::{Content, Slot};
use super::network::Network;
use super::objects::Objects;
use super::oracle::Oracle;
use super::schedule::{Schedule, kind};
use crate::recorder::Recorder;

/// Where a simulated transport's outputs go: its host's port, its flow's slot, the schedule.
pub(super) struct SimulatedHost<'s, 'a, R> {
    pub(super) now: Instant,
    pub(super) endpoint: EndpointId,
    pub(super) nic: u32,
    pub(super) armed: &'s mut Instant,
    pub(super) slot: &'s mut Slot,
    pub(super) network: &'s mut Network<'a>,
    pub(super) oracle: &'s mut Oracle,
    pub(super) objects: &'s mut Objects,
    pub(super) schedule: &'s mut Schedule,
    pub(super) recorder: &'s mut R,
    pub(super) displaced: &'s mut Vec<Packet>,
}

impl<R: Recorder> SimulatedHost<'_, '_, R> {
    #[inline]
    fn delivered(&mut self, bytes: u64) {
        self.slot.delivered_bytes += bytes;
        if R::ON {
            self.recorder.delivered(self.slot.group, bytes);
        }
    }
}

impl<R> SimulatedHost<'_, '_, R> {
    /// Passes on what a transport asks of its surroundings. Few ask: the others' way stays short.
    #[cold]
    #[inline(never)]
    fn ask(&mut self, request: AnyRequest) {
        match request {
            AnyRequest::Oracle(request) => {
                if self.oracle.ask(self.endpoint, request) {
                    self.schedule.push(self.now, kind::ORACLE_REQUESTS, 0);
                }
            }
            AnyRequest::Host(request) => {
                let host = self.slot.host(self.endpoint.side());
                let end = (self.endpoint, self.slot.host(self.endpoint.peer().side()));
                self.network.ask_host(self.now, (host, self.nic), end, request, self.schedule);
            }
            AnyRequest::Push(PushRequest::Controller(message)) => {
                let host = self.slot.host(self.endpoint.side());
                if let Some(push) = self.slot.push.filter(|_| !self.network.is_cut_off(self.now, host)) {
                    let at = self.objects.post(self.now, push.task, message);
                    self.schedule.push(at, kind::CONTROL, 0);
                }
            }
            // Simulated objects have no payload: attempts to decode are drawn.
            AnyRequest::Push(PushRequest::Decode { .. }) => {}
        }
    }
}

impl<R: Recorder, Q: Into<AnyRequest>> Outlet<Q> for SimulatedHost<'_, '_, R> {
    #[inline]
    fn transmit(&mut self, mut packet: Packet, sack: &SackBlocks) {
        packet.to = self.endpoint.peer();
        if packet.has_attachment() {
            self.network.attachments.attach(&mut packet, sack);
        }
        match self.network.enqueue(self.now, self.nic, &packet, self.schedule) {
            Admission::Queued => self.slot.in_flight += 1,
            Admission::Displaced => {
                self.slot.in_flight += 1;
                self.displaced.extend(self.network.take_displaced(self.nic));
            }
            Admission::Returned => unreachable!("hosts do not trim"),
            Admission::Dropped(_) => {
                self.slot.drops += 1;
                self.network.attachments.take(&packet);
                self.oracle.on_drop(&packet);
            }
        }
    }

    #[inline]
    fn event(&mut self, event: TransportEvent<Q>) {
        match event {
            TransportEvent::Deliver(range) => {
                self.delivered(range.len());
                match &mut self.slot.content {
                    Content::Bytes => {}
                    Content::Messages(messages) => {
                        if messages.on_bytes(range) {
                            self.slot.received.get_or_insert(self.now);
                        }
                    }
                    Content::Bundle(bundle) => bundle.on_delivered(self.now, range),
                }
            }
            TransportEvent::DeliverMessage { message, bytes } => {
                self.delivered(bytes.into());
                if self.slot.content.messages_mut().is_some_and(|messages| messages.on_message(message)) {
                    self.slot.received = Some(self.now);
                }
            }
            TransportEvent::GiveUp { message } => {
                if let Some(messages) = self.slot.content.messages_mut() {
                    messages.on_given_up(message);
                }
            }
            // A flow of messages may have had all it needs before its sender closed it.
            TransportEvent::Received => {
                self.slot.received.get_or_insert(self.now);
                if let Some(push) = self.slot.push {
                    self.objects.wake_others(push.task, self.endpoint.flow());
                }
            }
            TransportEvent::DeliverSymbol { bytes } => self.delivered(bytes.into()),
            TransportEvent::Finished => self.slot.finished = true,
            TransportEvent::Ask(request) => self.ask(request.into()),
            TransportEvent::Connected | TransportEvent::Release(_) | TransportEvent::WillBeLate { .. } => {}
        }
    }

    #[inline]
    fn arm(&mut self, deadline: Option<Deadline>) {
        // A later deadline than the pending event is looked at when that event comes. One that has passed is due now.
        if let Some(at) = deadline.map(|deadline| deadline.at.max(self.now))
            && at < *self.armed
        {
            *self.armed = at;
            self.schedule.push_of_flow(at, kind::TIMER, self.slot.id, self.endpoint.index());
        }
    }
}
