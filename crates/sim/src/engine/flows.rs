//! Flows under way: their two transports, their pinned paths, their rows when they end.
//!
//! A flow lives in a slot. Slots are used again once a flow is over and none of its packets is left in the network, so
//! memory follows the flows under way, not all that ever ran.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use pliant_proto::packet::{EndpointId, Side};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::{Statistics, Transport, WindowState};

use super::bundle::{Bundle, BundleKey, BundledFlow, key_of};
use super::host_reports::OpenFlow;
use super::messages::FlowMessages;
use super::objects::PushFlow;
use crate::results::{FlowEnd, FlowRow, ObjectPart};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

/// Both transports of a new flow.
pub struct Opened<T> {
    /// Sends the flow's data.
    pub initiator: T,
    /// Receives it.
    pub responder: T,
    /// Time the flow would take alone on its path.
    pub ideal_fct: Span,
    /// Group that its row and its throughput count for.
    pub group: u16,
    /// The messages it consists of; `None` for a plain sequence of bytes.
    pub messages: Option<Box<FlowMessages>>,
    /// The object that it brings a part of.
    pub object: Option<ObjectPart>,
    /// What the controller must know of it, if it pushes.
    pub push: Option<PushFlow>,
    /// Whether its packets keep to one path though others do not.
    pub pinned: bool,
}

impl<T> Opened<T> {
    /// The same with other transports.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> Opened<U> {
        let Self { initiator, responder, ideal_fct, group, messages, object, push, pinned } = self;
        let (initiator, responder) = (change(initiator), change(responder));
        Opened { initiator, responder, ideal_fct, group, messages, object, push, pinned }
    }
}

/// Makes both transports of a flow that starts on a path.
pub type Open<'a, T> = Box<dyn FnMut(&FlowSpec, &[LinkId]) -> Opened<T> + 'a>;

/// One transport and its pending timer.
pub(super) struct Endpoint<T> {
    pub(super) transport: T,
    /// Time of the endpoint's earliest pending timer event; others of its events are stale.
    pub(super) armed: Instant,
}

/// What a flow consists of.
pub(super) enum Content {
    /// A plain sequence of bytes.
    Bytes,
    /// Messages.
    Messages(Box<FlowMessages>),
    /// Other flows. The slot is that of the flow which they share.
    Bundle(Box<Bundle>),
}

impl Content {
    /// Its messages, of a flow that consists of some.
    pub(super) fn messages(&self) -> Option<&FlowMessages> {
        match self {
            Self::Messages(messages) => Some(messages),
            Self::Bytes | Self::Bundle(_) => None,
        }
    }

    /// The same, to change them.
    pub(super) fn messages_mut(&mut self) -> Option<&mut FlowMessages> {
        match self {
            Self::Messages(messages) => Some(messages),
            Self::Bytes | Self::Bundle(_) => None,
        }
    }
}

/// A flow under way.
pub(super) struct Slot {
    /// Packets in the network, both directions.
    pub(super) in_flight: u32,
    /// Packets the network dropped.
    pub(super) drops: u32,
    /// Bytes the receiver delivered, each once and in order.
    pub(super) delivered_bytes: u64,
    /// Bytes for which the send buffer had no room yet. A bundle knows those of its flows itself.
    pub(super) unwritten: u64,
    /// When the receiver had all it needs.
    pub(super) received: Option<Instant>,
    /// The sender has no more to do; of a bundle, that of some of its flows.
    pub(super) finished: bool,
    /// The slot is free.
    free: bool,
    /// Class the flow's traffic belongs to.
    pub(super) group: u16,
    /// Its packets keep to one path though others do not.
    pub(super) pinned: bool,
    /// What it consists of.
    pub(super) content: Content,
    /// The flow's number.
    pub(super) id: u64,
    /// The object that it brings a part of.
    object: Option<ObjectPart>,
    /// What its controller knows of it, if it pushes; `None` once it is over.
    pub(super) push: Option<PushFlow>,
    spec: FlowSpec,
    ideal_fct: Span,
}

impl Slot {
    /// Whether it is over and a closed loop waits for that, or flows of a bundle are over.
    #[inline]
    pub(super) fn is_waited_for(&self) -> bool {
        self.finished && (self.spec.again.is_some() || matches!(self.content, Content::Bundle(_)))
    }

    /// The host of the flow's endpoint on `side`.
    #[inline]
    pub(super) fn host(&self, side: Side) -> u32 {
        match side {
            Side::Initiator => self.spec.source,
            Side::Responder => self.spec.destination,
        }
    }
}

/// A flow that follows another one. A loop has one at a time, so the key tells all apart.
struct Following(FlowSpec);

impl Following {
    fn key(&self) -> (Instant, u16, u64) {
        (self.0.start, self.0.group, self.0.sequence)
    }
}

impl PartialEq for Following {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Following {}

impl PartialOrd for Following {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Following {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// All flows.
pub(super) struct Flows<'a, T> {
    /// Two per slot: initiator, responder.
    pub(super) endpoints: Vec<Endpoint<T>>,
    pub(super) slots: Vec<Slot>,
    /// `stride` links per endpoint: the pinned path of packets to it.
    pub(super) routes: Vec<u32>,
    pub(super) stride: usize,
    free: Vec<u32>,
    traffic: Box<dyn Iterator<Item = FlowSpec> + 'a>,
    next: Option<FlowSpec>,
    /// Flows of closed loops that follow others, by (start, group, number of the loop).
    following: BinaryHeap<Reverse<Following>>,
    /// Of each group, whether its flows share one between the same hosts; none do of groups beyond.
    bundled: &'a [bool],
    /// Bytes of a full packet.
    segment: u64,
    /// The slot of each bundle.
    bundles: BTreeMap<BundleKey, u32>,
    open: Open<'a, T>,
    started: u64,
    rows: Vec<FlowRow>,
}

impl<'a, T: Transport> Flows<'a, T> {
    pub(super) fn new(
        max_hops: usize,
        (bundled, mss): (&'a [bool], u16),
        mut traffic: Box<dyn Iterator<Item = FlowSpec> + 'a>,
        open: Open<'a, T>,
    ) -> Self {
        assert!(u8::try_from(max_hops).is_ok(), "a path of {max_hops} links: packets count them in an octet");
        let next = traffic.next();
        Self {
            endpoints: Vec::new(),
            slots: Vec::new(),
            routes: Vec::new(),
            stride: max_hops.next_power_of_two(),
            free: Vec::new(),
            traffic,
            next,
            following: BinaryHeap::new(),
            bundled,
            segment: mss.into(),
            bundles: BTreeMap::new(),
            open,
            started: 0,
            rows: Vec::new(),
        }
    }

    /// When the next flow starts.
    pub(super) fn next_start(&self) -> Option<Instant> {
        let listed = self.next.as_ref().map(|spec| spec.start);
        let following = self.following.peek().map(|Reverse(following)| following.0.start);
        listed.into_iter().chain(following).min()
    }

    /// Lets the next flow of a closed loop follow the one in this slot, which is over; false if none does. Of a bundle, it
    /// closes those that are over, and lets others follow these.
    pub(super) fn go_on(&mut self, now: Instant, flow: u32) -> bool {
        if matches!(self.slots[flow as usize].content, Content::Bundle(_)) {
            return self.close_members(now, flow);
        }
        let spec = &mut self.slots[flow as usize].spec;
        let next = spec.next_in_loop(now);
        spec.again = None;
        self.following.extend(next.map(|spec| Reverse(Following(spec))));
        next.is_some()
    }

    /// Takes the flow that starts next, and its number.
    pub(super) fn take_next(&mut self) -> (FlowSpec, u64) {
        self.started += 1;
        let listed = self.next.as_ref().map(|spec| spec.start);
        if let Some(Reverse(Following(spec))) = self.following.peek()
            && listed.is_none_or(|listed| spec.start < listed)
        {
            let spec = *spec;
            self.following.pop();
            return (spec, self.started - 1);
        }
        let spec = self.next.take().expect("a flow is due");
        self.next = self.traffic.next();
        if let Some(next) = &self.next {
            assert!(next.start >= spec.start, "traffic yields flows by start time");
        }
        (spec, self.started - 1)
    }

    /// Opens a flow on `path`, whose reverse is the way back; returns its initiator.
    pub(super) fn open(&mut self, id: u64, spec: FlowSpec, path: &[LinkId]) -> EndpointId {
        let mut opened = (self.open)(&spec, path);
        let content = opened.messages.take().map_or(Content::Bytes, Content::Messages);
        self.place(id, spec, content, opened, path)
    }

    /// Whether the flows of a group share one between the same hosts.
    pub(super) fn is_bundled(&self, group: u16) -> bool {
        self.bundled.get(usize::from(group)).copied().unwrap_or(false)
    }

    /// The slot of the bundle that a flow of such a group belongs to, once it has had a flow.
    pub(super) fn bundle_of(&self, spec: &FlowSpec) -> Option<u32> {
        self.bundles.get(&key_of(spec)).copied()
    }

    /// Lets a flow join its bundle, which is opened on `path` if there is none yet; returns the initiator of the bundle.
    pub(super) fn join(&mut self, id: u64, spec: FlowSpec, path: &[LinkId]) -> EndpointId {
        let opened = (self.open)(&spec, path);
        let member = BundledFlow::new(spec, opened.ideal_fct, opened.object);
        let known = self.bundle_of(&spec).map(|slot| EndpointId::new(slot, Side::Initiator));
        let initiator = known.unwrap_or_else(|| self.open_bundle(id, spec, opened, path));
        self.bundle(initiator.flow()).expect("the slot is a bundle's").join(id, member);
        initiator
    }

    /// Opens the bundle of a flow that is the first of it.
    fn open_bundle(&mut self, id: u64, spec: FlowSpec, opened: Opened<T>, path: &[LinkId]) -> EndpointId {
        let content = Content::Bundle(Box::new(Bundle::new(self.segment)));
        // Objects and closed loops are its flows' own.
        let opened = Opened { object: None, push: None, ..opened };
        let initiator = self.place(id, FlowSpec { again: None, ..spec }, content, opened, path);
        self.bundles.insert(key_of(&spec), initiator.flow());
        initiator
    }

    /// Puts a new flow into a free slot; returns its initiator.
    fn place(&mut self, id: u64, spec: FlowSpec, content: Content, opened: Opened<T>, path: &[LinkId]) -> EndpointId {
        let Opened { initiator, responder, ideal_fct, messages: _, pinned, group, object, push } = opened;
        let slot = Slot {
            in_flight: 0,
            drops: 0,
            delivered_bytes: 0,
            unwritten: 0,
            received: None,
            finished: false,
            free: false,
            group,
            pinned,
            content,
            id,
            object,
            push,
            spec,
            ideal_fct,
        };
        let endpoint = |transport| Endpoint { transport, armed: Instant::MAX };
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        let initiator_id = EndpointId::new(number, Side::Initiator);
        let first = initiator_id.index() as usize;
        if number as usize == self.slots.len() {
            self.slots.push(slot);
            self.endpoints.push(endpoint(initiator));
            self.endpoints.push(endpoint(responder));
            self.routes.resize(self.routes.len() + 2 * self.stride, u32::MAX);
        } else {
            self.slots[number as usize] = slot;
            self.endpoints[first] = endpoint(initiator);
            self.endpoints[first + 1] = endpoint(responder);
        }
        self.pin(number, path);
        initiator_id
    }

    /// Gives a flow this path, whose reverse is the way back.
    pub(super) fn pin(&mut self, flow: u32, path: &[LinkId]) {
        let first = EndpointId::new(flow, Side::Initiator).index() as usize;
        let routes = &mut self.routes[first * self.stride..][..2 * self.stride];
        routes.fill(u32::MAX);
        let (back, forth) = routes.split_at_mut(self.stride);
        for (place, link) in forth.iter_mut().zip(path) {
            *place = link.0;
        }
        for (place, link) in back.iter_mut().zip(path.iter().rev()) {
            *place = link.reverse().0;
        }
    }

    /// What the pinned path of a flow's data begins with.
    pub(super) fn route_of(&self, flow: u32) -> &[u32] {
        &self.routes[EndpointId::new(flow, Side::Responder).index() as usize * self.stride..][..self.stride]
    }

    /// The flows whose receivers lack something, as the hosts at their ends see them.
    pub(super) fn open_flows(&self) -> Vec<OpenFlow> {
        let lacks = |slot: &Slot| match &slot.content {
            Content::Bundle(bundle) => bundle.has_members(),
            Content::Bytes | Content::Messages(_) => !slot.free && slot.received.is_none(),
        };
        let open = (0u32..).zip(&self.slots).filter(|(_, slot)| lacks(slot));
        let ends = open.map(|(number, slot)| {
            let path = self.route_of(number);
            let last = path.iter().rposition(|&link| link != u32::MAX).expect("a flow has a path");
            OpenFlow { slot: number, group: slot.group, from: LinkId(path[0]), to: LinkId(path[last]).reverse() }
        });
        ends.collect()
    }

    /// The flow in a slot, or the last one that was.
    pub(super) fn spec(&self, flow: u32) -> &FlowSpec {
        &self.slots[flow as usize].spec
    }

    /// When the application of a flow under way has another message.
    pub(super) fn next_message(&self, flow: u32) -> Option<Instant> {
        self.slots[flow as usize].content.messages().and_then(FlowMessages::next_at)
    }

    /// Flows started and flows over so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.started, self.rows.len() as u64)
    }

    /// Host of an endpoint.
    pub(super) fn host(&self, endpoint: EndpointId) -> u32 {
        self.slots[endpoint.flow() as usize].host(endpoint.side())
    }

    /// Frees the slot of a flow that is over: the sender is done, none of its packets is left, and the receiver will send
    /// no more. It may: a request for credits that came late, after the stop, opens it anew.
    #[inline]
    pub(super) fn close_if_over(&mut self, flow: u32) {
        let slot = &self.slots[flow as usize];
        if slot.finished && slot.in_flight == 0 && !matches!(slot.content, Content::Bundle(_)) {
            let receiver = EndpointId::new(flow, Side::Responder);
            if self.endpoints[receiver.index() as usize].transport.poll_timeout().is_none() {
                self.close(flow);
            }
        }
    }

    #[cold]
    fn close(&mut self, flow: u32) {
        let row = self.row(flow);
        self.rows.push(row);
        // Nothing is sent on behalf of a flow that is over: not even a stop whose answer was lost.
        for side in [Side::Initiator, Side::Responder] {
            self.endpoints[EndpointId::new(flow, side).index() as usize].armed = Instant::MAX;
        }
        self.slots[flow as usize].finished = false;
        self.slots[flow as usize].free = true;
        self.slots[flow as usize].content = Content::Bytes;
        self.slots[flow as usize].push = None;
        self.free.push(flow);
    }

    fn row(&self, flow: u32) -> FlowRow {
        let slot = &self.slots[flow as usize];
        let (sender, receiver) = self.statistics(flow);
        let end = FlowEnd {
            id: slot.id,
            group: slot.group,
            spec: &slot.spec,
            ideal_fct: slot.ideal_fct,
            object: slot.object,
            received: slot.received,
            delivered_bytes: slot.delivered_bytes,
            finished: slot.finished,
            drops: slot.drops,
            messages: slot.content.messages().map(FlowMessages::counts),
            record_error: slot.content.messages().and_then(FlowMessages::record_error),
            sender,
            receiver,
        };
        end.row()
    }

    /// Makes rows of those flows of a bundle that are over, and lets others of closed loops follow; whether some do.
    #[cold]
    fn close_members(&mut self, now: Instant, flow: u32) -> bool {
        self.slots[flow as usize].finished = false;
        let mut follows = false;
        while let Some((number, member)) = self.bundle(flow).and_then(Bundle::take_over) {
            let next = member.spec.next_in_loop(now);
            follows |= next.is_some();
            self.following.extend(next.map(|spec| Reverse(Following(spec))));
            let row = self.row_of_member(flow, number, &member);
            self.rows.push(row);
        }
        follows
    }

    fn bundle(&mut self, flow: u32) -> Option<&mut Bundle> {
        match &mut self.slots[flow as usize].content {
            Content::Bundle(bundle) => Some(bundle),
            Content::Bytes | Content::Messages(_) => None,
        }
    }

    /// A row has what was counted for its bundle since the row before it, so that sums over rows are those of the bundle.
    fn row_of_member(&mut self, flow: u32, number: u64, member: &BundledFlow) -> FlowRow {
        let (sender, receiver) = self.statistics(flow);
        let Slot { group, drops, .. } = self.slots[flow as usize];
        let told = self.bundle(flow).map(|bundle| bundle.tell(sender, receiver, drops));
        let (sender, receiver, drops) = told.expect("the slot is a bundle's");
        let end = FlowEnd {
            id: number,
            group,
            spec: &member.spec,
            ideal_fct: member.ideal_fct,
            object: member.object,
            received: member.received,
            delivered_bytes: member.delivered,
            finished: member.is_over(),
            drops,
            messages: None,
            record_error: None,
            sender,
            receiver,
        };
        end.row()
    }

    fn statistics(&self, flow: u32) -> (Statistics, Statistics) {
        let first = 2 * flow as usize;
        (self.endpoints[first].transport.statistics(), self.endpoints[first + 1].transport.statistics())
    }

    /// How the windows of all senders under way stand: flow, group, window.
    pub(super) fn windows(&self) -> impl Iterator<Item = (u64, u16, WindowState)> {
        let mut free = vec![false; self.slots.len()];
        for &flow in &self.free {
            free[flow as usize] = true;
        }
        let under_way = self.slots.iter().enumerate().filter(move |(flow, _)| !free[*flow]);
        under_way
            .filter_map(|(flow, slot)| Some((slot.id, slot.group, self.endpoints[2 * flow].transport.window_state()?)))
    }

    /// Rows of all flows that started, by number; those still under way as unfinished.
    pub(super) fn into_rows(mut self) -> Vec<FlowRow> {
        let mut over = vec![false; self.slots.len()];
        for &flow in &self.free {
            over[flow as usize] = true;
        }
        for flow in (0..self.slots.len() as u32).filter(|&flow| !over[flow as usize]) {
            if matches!(self.slots[flow as usize].content, Content::Bundle(_)) {
                while let Some((number, member)) = self.bundle(flow).and_then(Bundle::take_first) {
                    let row = self.row_of_member(flow, number, &member);
                    self.rows.push(row);
                }
                continue;
            }
            let row = self.row(flow);
            self.rows.push(row);
        }
        self.rows.sort_unstable_by_key(|row| row.id);
        self.rows
    }

    /// Packets in the network, by the flows' own count.
    pub(super) fn in_flight(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.in_flight)).sum()
    }
}
