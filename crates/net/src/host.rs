//! Many transports on one UDP socket: a host of a testbed.
//!
//! DSCP and ECN are set on each packet and read from each, and each packet is answered by itself, as in the simulator.

use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::net::{SocketAddrV4, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use pliant_proto::host::{self as shared, HostAnswer};
use pliant_proto::packet::{EndpointId, Packet, SackBlocks, TrafficClass, WireFormat};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyRequest, Member};
use pliant_proto::transport::{Deadline, Event, Outlet, drain};
use pliant_proto::units::Rate;
use pliant_proto::wire;
use rustix::event::{PollFd, PollFlags};

use crate::clock::{SharedClock, to_timeout};
use crate::connection::Refused;
use crate::event_loop::{EventHandler, MAX_ARREARS, ReceiveOutcome, Schedule, Timed, run_once};
use crate::mmsg::{self, BATCH, BatchReceiver, BatchSender, Destination, Transmit};
use crate::poll::{PollWaker, wait};

/// Asked of the kernel for each direction; it may grant less.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Bytes of the largest datagram.
const DATAGRAM_BYTES: usize = 2048;

/// What a host's transports carry, and who hears of it.
pub trait HostApplication<T> {
    /// Writes the payload of a packet that leaves.
    fn fill(&mut self, endpoint: EndpointId, packet: &Packet, payload: &mut [u8]);
    /// Looks at the payload of a packet that arrived; it may be a repetition.
    fn arrived(&mut self, endpoint: EndpointId, packet: &Packet, payload: &[u8]);
    /// Hears what a transport has to say, but for what it asks of its host.
    fn event(&mut self, now: Instant, endpoint: EndpointId, event: Event<AnyRequest>);
    /// After a transport was drained: may tell it more. Whether it did.
    fn refill(&mut self, now: Instant, endpoint: EndpointId, transport: &mut T) -> bool;
}

struct HostEndpoint<T> {
    flow: Timed<T>,
    peer: SocketAddrV4,
}

/// What the flows of a host share, and since when somebody waits for it.
struct Shared {
    machines: shared::Host,
    asked: Instant,
}

impl Shared {
    fn ask(&mut self, now: Instant, endpoint: EndpointId, peer: SocketAddrV4, request: shared::HostRequest) {
        // Time in which nobody waits is not made up for.
        if self.machines.poll_timeout().is_none() {
            self.asked = now;
        }
        self.machines.handle_request(endpoint, (*peer.ip()).into(), request);
    }

    /// The next answer that is due by `now`, and as of when. Turns to send that came while the process slept are handled as
    /// of their own time, as pacers' deadlines are.
    fn next_answer(&mut self, now: Instant) -> Option<(Instant, EndpointId, HostAnswer)> {
        let due = self.machines.poll_timeout().filter(|due| *due <= now)?;
        let at = due.max(self.asked).max(now.before(MAX_ARREARS));
        self.machines.poll(at).map(|(endpoint, answer)| (at, endpoint, answer))
    }
}

/// Where transports' outputs go, beside the application.
struct Outputs {
    schedule: Schedule,
    shared: Shared,
    outbox: Outbox,
}

/// Datagrams to send.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    datagrams: Vec<Pending>,
    failed: u64,
}

struct Pending {
    start: usize,
    end: usize,
    to: SocketAddrV4,
    octet: u8,
}

/// A host.
pub struct Host<T> {
    socket: UdpSocket,
    clock: SharedClock,
    framing: WireFormat,
    endpoints: HashMap<EndpointId, HostEndpoint<T>>,
    outputs: Outputs,
    receiver: BatchReceiver,
    sender: BatchSender,
    waker: Option<PollWaker>,
    refused: Refused,
}

impl<T: Member> Host<T> {
    /// A host at `address`, whose flows take turns at a link of rate `link`. Packets that arrive count for their payload in
    /// `framing`.
    pub fn bind(address: SocketAddrV4, clock: SharedClock, framing: WireFormat, link: Rate) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        rustix::net::sockopt::set_ip_recvtos(&socket, true)?;
        mmsg::coalesce(socket.as_fd());
        // Best effort: the kernel caps both at its own limits.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        // Sleeps end when they should; the kernel would else join wake-ups 50 us apart.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            socket,
            clock,
            framing,
            endpoints: HashMap::new(),
            outputs: Outputs {
                schedule: Schedule::default(),
                shared: Shared { machines: shared::Host::new(link), asked: Instant::ZERO },
                outbox: Outbox::default(),
            },
            receiver: BatchReceiver::new(DATAGRAM_BYTES),
            sender: BatchSender::new(),
            waker: None,
            refused: Refused::default(),
        })
    }

    /// Its clock.
    pub fn clock(&self) -> SharedClock {
        self.clock
    }

    /// The clock counts from another epoch now. No endpoint may be open.
    pub fn set_clock(&mut self, clock: SharedClock) {
        assert!(self.endpoints.is_empty(), "a clock is set before flows start");
        self.clock = clock;
    }

    /// Lets `waker` end an iteration's sleep.
    pub fn set_waker(&mut self, waker: PollWaker) {
        self.waker = Some(waker);
    }

    /// What arrived and was not passed to a transport.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Datagrams that the kernel would not send.
    pub fn failed(&self) -> u64 {
        self.outputs.outbox.failed
    }

    /// Adds an endpoint that talks to `peer`.
    pub fn open(&mut self, endpoint: EndpointId, transport: T, peer: SocketAddrV4) {
        let before = self.endpoints.insert(endpoint, HostEndpoint { flow: Timed::new(transport), peer });
        assert!(before.is_none(), "an endpoint is opened once");
    }

    /// A transport.
    pub fn transport(&self, endpoint: EndpointId) -> Option<&T> {
        self.endpoints.get(&endpoint).map(|endpoint| &endpoint.flow.transport)
    }

    /// Lets a transport act, then takes all it has to say. What it sends leaves with the next [`run_once`](Self::run_once).
    pub fn act<A: HostApplication<T>>(
        &mut self,
        endpoint: EndpointId,
        application: &mut A,
        act: impl FnOnce(&mut T, &mut A, Instant),
    ) {
        let now = self.clock.now();
        if let Some(state) = self.endpoints.get_mut(&endpoint) {
            act(state.flow.tell(now), application, now);
            drain_all(state, endpoint, now, application, &mut self.outputs);
        }
    }

    /// Handles what has arrived and what is due, sends what follows, then sleeps until there is more or until `until`.
    pub fn run_once<A: HostApplication<T>>(&mut self, application: &mut A, until: Instant) -> io::Result<()> {
        let mut this = Iteration { host: self, application, answered: false };
        if run_once(&mut this)? || this.answered {
            return Ok(());
        }
        let Outputs { schedule, shared, .. } = &self.outputs;
        let until =
            [schedule.next_at(), shared.machines.poll_timeout()].into_iter().flatten().fold(until, Instant::min);
        let span = until.since(self.clock.now());
        if span == Span::ZERO {
            return Ok(());
        }
        let at_most = to_timeout(span);
        let socket = PollFd::new(&self.socket, PollFlags::IN);
        let Some(waker) = &self.waker else { return wait(&mut [socket], Some(at_most)) };
        wait(&mut [socket, PollFd::new(waker.file(), PollFlags::IN)], Some(at_most))?;
        waker.clear();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Outbox { bytes, datagrams, failed } = &mut self.outputs.outbox;
        for batch in datagrams.chunks(BATCH) {
            let message = |pending: &Pending| Transmit {
                bytes: &bytes[pending.start..pending.end],
                to: Destination::Address(pending.to),
                octet: Some(pending.octet),
                joins: false,
            };
            let messages: Vec<Transmit<'_>> = batch.iter().map(message).collect();
            self.sender.send(self.socket.as_fd(), &messages, |_| *failed += 1)?;
        }
        datagrams.clear();
        bytes.clear();
        Ok(())
    }
}

/// A host in its loop, with its application.
struct Iteration<'h, T, A> {
    host: &'h mut Host<T>,
    application: &'h mut A,
    /// What the host's flows share has given answers.
    answered: bool,
}

impl<T: Member, A: HostApplication<T>> Iteration<'_, T, A> {
    /// Brings the answers of what the host's flows share.
    fn bring_answers(&mut self) {
        let now = self.host.clock.now();
        let Host { endpoints, outputs, .. } = &mut *self.host;
        while let Some((at, endpoint, answer)) = outputs.shared.next_answer(now) {
            self.answered = true;
            if let Some(state) = endpoints.get_mut(&endpoint) {
                let at = at.max(state.flow.told());
                state.flow.tell(at).handle_answer(at, answer.into());
                drain_all(state, endpoint, at, self.application, outputs);
            }
        }
    }
}

impl<T: Member, A: HostApplication<T>> EventHandler for Iteration<'_, T, A> {
    type Transport = T;

    fn now(&mut self) -> Instant {
        self.host.clock.now()
    }

    fn schedule(&mut self) -> &mut Schedule {
        &mut self.host.outputs.schedule
    }

    fn parts(&mut self, number: u32) -> (&mut Schedule, Option<&mut Timed<T>>) {
        let Host { outputs, endpoints, .. } = &mut *self.host;
        let endpoint = endpoints.get_mut(&EndpointId::from_index(number));
        (&mut outputs.schedule, endpoint.map(|endpoint| &mut endpoint.flow))
    }

    fn drain(&mut self, number: u32, at: Instant) {
        let Host { outputs, endpoints, .. } = &mut *self.host;
        let endpoint = EndpointId::from_index(number);
        if let Some(state) = endpoints.get_mut(&endpoint) {
            drain_all(state, endpoint, at, self.application, outputs);
        }
    }

    fn receive(&mut self, now: Instant) -> io::Result<ReceiveOutcome> {
        let Host { socket, receiver, endpoints, outputs, refused, framing, .. } = &mut *self.host;
        let application = &mut *self.application;
        let taken = receiver.receive(socket.as_fd(), |incoming| {
            let decoded = wire::decode(incoming.bytes, TrafficClass::from_octet(incoming.octet));
            let (Ok((mut packet, sack, payload)), false) = (decoded, incoming.truncated) else {
                refused.malformed += 1;
                return;
            };
            let endpoint = packet.to;
            let Some(state) = endpoints.get_mut(&endpoint).filter(|state| state.peer == incoming.from) else {
                refused.stray += 1;
                return;
            };
            packet.wire_bytes = framing.wire_bytes(packet.payload());
            if !payload.is_empty() {
                application.arrived(endpoint, &packet, &incoming.bytes[payload]);
            }
            state.flow.tell(now).handle_packet(now, &packet, &sack);
            drain_all(state, endpoint, now, application, outputs);
        })?;
        self.flush()?;
        Ok(ReceiveOutcome { any: taken > 0, full: BatchReceiver::is_full(taken) })
    }

    fn answer(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.bring_answers();
        self.host.flush()
    }
}

/// Takes all that a transport has to say, and tells it what the application has, until both are silent.
fn drain_all<T: Member, A: HostApplication<T>>(
    state: &mut HostEndpoint<T>,
    endpoint: EndpointId,
    now: Instant,
    application: &mut A,
    outputs: &mut Outputs,
) {
    let Outputs { schedule, shared, outbox } = outputs;
    loop {
        let mut deadline = None;
        let mut outlet = HostOutlet {
            now,
            endpoint,
            peer: state.peer,
            application,
            shared,
            outbox,
            deadline: &mut deadline,
            transport: PhantomData,
        };
        drain::<T>(&mut state.flow.transport, now, &mut outlet);
        schedule.arm(&mut state.flow, endpoint.index(), deadline, now);
        if !application.refill(now, endpoint, &mut state.flow.transport) {
            return;
        }
    }
}

struct HostOutlet<'h, T, A> {
    now: Instant,
    endpoint: EndpointId,
    peer: SocketAddrV4,
    application: &'h mut A,
    shared: &'h mut Shared,
    outbox: &'h mut Outbox,
    deadline: &'h mut Option<Deadline>,
    transport: PhantomData<T>,
}

impl<T: Member, A: HostApplication<T>> Outlet<T::Request> for HostOutlet<'_, T, A> {
    fn transmit(&mut self, mut packet: Packet, sack: &SackBlocks) {
        packet.to = self.endpoint.peer();
        let mut header = [0; wire::MAX_HEADER_BYTES];
        let header_bytes = wire::encode(&packet, sack, &mut header);
        let Outbox { bytes, datagrams, .. } = &mut *self.outbox;
        let start = bytes.len();
        bytes.extend_from_slice(&header[..header_bytes]);
        let end = bytes.len() + usize::from(packet.payload());
        bytes.resize(end, 0);
        if packet.payload() > 0 {
            self.application.fill(self.endpoint, &packet, &mut bytes[start + header_bytes..]);
        }
        datagrams.push(Pending { start, end, to: self.peer, octet: packet.traffic_class.octet() });
    }

    fn event(&mut self, event: Event<T::Request>) {
        match event.map_request(Into::into) {
            Event::Ask(AnyRequest::Host(request)) => self.shared.ask(self.now, self.endpoint, self.peer, request),
            event => self.application.event(self.now, self.endpoint, event),
        }
    }

    fn arm(&mut self, deadline: Option<Deadline>) {
        *self.deadline = deadline;
    }
}
