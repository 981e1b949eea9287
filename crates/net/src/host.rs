//! Many transports on one UDP socket: a host of a testbed.
//!
//! The loop is the simulator's with a real clock and a real network: what arrived is handled, deadlines that have come
//! are handled, every transport that was touched is drained, and the loop sleeps until there is more. DSCP and ECN are
//! set on each packet and read from each.
//!
//! Deadlines of pacers are handled as of the time when they were due, before anything else: a rate stays what the
//! transport wants however late the process wakes up, and only the packets themselves are late. All others are handled
//! as of now, after what has arrived: a timeout must not strike while the acknowledgement waits in the socket.

use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::net::{SocketAddrV4, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::Duration;

use pliant_proto::event_queue::{Event as TimerEvent, EventQueue};
use pliant_proto::packet::{EndpointId, Packet, SackBlocks, TrafficClass, WireFormat};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::{Deadline, Event, Outlet, Timer, Transport, drain};
use pliant_proto::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::SharedClock;
use crate::connection::Refused;
use crate::mmsg::{self, BATCH, Outgoing, Receiver, Sender, To};

/// Asked of the kernel for each direction; it may grant less.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Bytes of the largest datagram.
const DATAGRAM_BYTES: usize = 2048;
/// A pacer that is later than this is not made up for: what it would send by now would be a burst.
const MAX_ARREARS: Span = Span::from_ms(2);
/// System calls for what has arrived before anything else is done.
const RECEIVE_CALLS: usize = 4;

/// Which deadlines are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Pacers,
    All,
}

/// What a host's transports carry, and who hears of it.
pub trait HostApplication<T> {
    /// Writes the payload of a packet that leaves.
    fn fill(&mut self, endpoint: EndpointId, packet: &Packet, payload: &mut [u8]);
    /// Looks at the payload of a packet that arrived; it may be a repetition.
    fn arrived(&mut self, endpoint: EndpointId, packet: &Packet, payload: &[u8]);
    /// Hears what a transport has to say.
    fn event(&mut self, now: Instant, endpoint: EndpointId, event: Event);
    /// After a transport was drained: may tell it more. Whether it did.
    fn refill(&mut self, now: Instant, endpoint: EndpointId, transport: &mut T) -> bool;
    /// A transport's deadline was handled.
    fn timed_out(&mut self, _now: Instant, _endpoint: EndpointId, _transport: &T) {}
}

struct Endpoint<T> {
    transport: T,
    peer: SocketAddrV4,
    /// Time of the earliest pending timer; later ones of this endpoint are stale.
    armed: Instant,
    /// When it was last told something.
    told: Instant,
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
    endpoints: HashMap<EndpointId, Endpoint<T>>,
    timers: EventQueue,
    /// Deadlines that have come and are put off.
    later: Vec<TimerEvent>,
    receiver: Receiver,
    sender: Sender,
    outbox: Outbox,
    refused: Refused,
}

impl<T: Transport> Host<T> {
    /// A host at `address`. Packets that arrive count for their payload in `framing`.
    pub fn bind(address: SocketAddrV4, clock: SharedClock, framing: WireFormat) -> io::Result<Self> {
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
            timers: EventQueue::new(),
            later: Vec::new(),
            receiver: Receiver::new(DATAGRAM_BYTES),
            sender: Sender::new(),
            outbox: Outbox::default(),
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

    /// What arrived and was not passed to a transport.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Datagrams that the kernel would not send.
    pub fn failed(&self) -> u64 {
        self.outbox.failed
    }

    /// Adds an endpoint that talks to `peer`.
    pub fn open(&mut self, endpoint: EndpointId, transport: T, peer: SocketAddrV4) {
        let before =
            self.endpoints.insert(endpoint, Endpoint { transport, peer, armed: Instant::MAX, told: Instant::ZERO });
        assert!(before.is_none(), "an endpoint is opened once");
    }

    /// A transport.
    pub fn transport(&self, endpoint: EndpointId) -> Option<&T> {
        self.endpoints.get(&endpoint).map(|endpoint| &endpoint.transport)
    }

    /// Lets a transport act, then takes all it has to say. What it sends leaves with the next [`turn`](Self::turn).
    pub fn act<A: HostApplication<T>>(
        &mut self,
        endpoint: EndpointId,
        application: &mut A,
        act: impl FnOnce(&mut T, &mut A, Instant),
    ) {
        let now = self.clock.now();
        if let Some(state) = self.endpoints.get_mut(&endpoint) {
            state.told = now;
            act(&mut state.transport, application, now);
            drain_all(state, endpoint, now, application, &mut self.timers, &mut self.outbox);
        }
    }

    /// Handles what has arrived and what is due, sends what follows, then sleeps until there is more or until `until`.
    pub fn turn<A: HostApplication<T>>(&mut self, application: &mut A, until: Instant) -> io::Result<()> {
        let paced = self.handle_timers(application, Which::Pacers);
        self.flush()?;
        let mut received = 0;
        for _ in 0..RECEIVE_CALLS {
            let now = self.clock.now();
            let Self { socket, receiver, endpoints, timers, outbox, refused, framing, .. } = self;
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
                state.told = now;
                state.transport.handle_packet(now, &packet, &sack);
                drain_all(state, endpoint, now, application, timers, outbox);
            })?;
            received += taken;
            self.flush()?;
            if !Receiver::is_full(taken) {
                break;
            }
        }
        let due = self.handle_timers(application, Which::All);
        self.flush()?;
        if received == 0 && !due && !paced { self.sleep(until) } else { Ok(()) }
    }

    /// Handles deadlines that have come. Whether there were any.
    fn handle_timers<A: HostApplication<T>>(&mut self, application: &mut A, which: Which) -> bool {
        let now = self.clock.now();
        let mut any = false;
        while let Some(event) = self.timers.peek().filter(|event| event.at <= now) {
            self.timers.remove_first();
            let endpoint = EndpointId::from_index(event.entity);
            let Some(state) = self.endpoints.get_mut(&endpoint) else { continue };
            if state.armed != event.at {
                continue;
            }
            let Some(deadline) = state.transport.poll_timeout() else {
                state.armed = Instant::MAX;
                continue;
            };
            if deadline.at > now {
                state.armed = Instant::MAX;
                arm(state, endpoint, deadline, now, &mut self.timers);
                continue;
            }
            let at = match (deadline.why, which) {
                (Timer::Pace, _) => deadline.at.max(state.told).max(now.before(MAX_ARREARS)),
                (_, Which::All) => now,
                (_, Which::Pacers) => {
                    self.later.push(event);
                    continue;
                }
            };
            any = true;
            state.armed = Instant::MAX;
            state.told = at;
            state.transport.handle_timeout(at);
            application.timed_out(at, endpoint, &state.transport);
            drain_all(state, endpoint, at, application, &mut self.timers, &mut self.outbox);
        }
        for event in self.later.drain(..) {
            self.timers.push(event);
        }
        any
    }

    fn flush(&mut self) -> io::Result<()> {
        let Outbox { bytes, datagrams, failed } = &mut self.outbox;
        for batch in datagrams.chunks(BATCH) {
            let message = |pending: &Pending| Outgoing {
                bytes: &bytes[pending.start..pending.end],
                to: To::Address(pending.to),
                octet: Some(pending.octet),
                joins: false,
            };
            let messages: Vec<Outgoing<'_>> = batch.iter().map(message).collect();
            self.sender.send(self.socket.as_fd(), &messages, |_| *failed += 1)?;
        }
        datagrams.clear();
        bytes.clear();
        Ok(())
    }

    fn sleep(&self, until: Instant) -> io::Result<()> {
        let until = self.timers.peek().map_or(until, |event| until.min(event.at));
        let span = until.since(self.clock.now());
        if span == Span::ZERO {
            return Ok(());
        }
        let timeout = Duration::from_nanos(span.as_ps().div_ceil(1000));
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes all that a transport has to say, and tells it what the application has, until both are silent.
fn drain_all<T: Transport, A: HostApplication<T>>(
    state: &mut Endpoint<T>,
    endpoint: EndpointId,
    now: Instant,
    application: &mut A,
    timers: &mut EventQueue,
    outbox: &mut Outbox,
) {
    loop {
        let mut deadline = None;
        let mut outlet = HostOutlet {
            now,
            endpoint,
            peer: state.peer,
            application,
            outbox,
            deadline: &mut deadline,
            transport: PhantomData,
        };
        drain::<T>(&mut state.transport, now, &mut outlet);
        if let Some(deadline) = deadline {
            arm(state, endpoint, deadline, now, timers);
        }
        if !application.refill(now, endpoint, &mut state.transport) {
            return;
        }
    }
}

/// A later deadline than the pending timer is looked at when that comes.
fn arm<T>(state: &mut Endpoint<T>, endpoint: EndpointId, deadline: Deadline, now: Instant, timers: &mut EventQueue) {
    if deadline.at < state.armed {
        state.armed = deadline.at.max(now);
        timers.push(TimerEvent { at: state.armed, kind: 0, entity: endpoint.index() });
    }
}

struct HostOutlet<'h, T, A> {
    now: Instant,
    endpoint: EndpointId,
    peer: SocketAddrV4,
    application: &'h mut A,
    outbox: &'h mut Outbox,
    deadline: &'h mut Option<Deadline>,
    transport: PhantomData<T>,
}

impl<T, A: HostApplication<T>> Outlet for HostOutlet<'_, T, A> {
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

    fn event(&mut self, event: Event) {
        self.application.event(self.now, self.endpoint, event);
    }

    fn arm(&mut self, deadline: Option<Deadline>) {
        *self.deadline = deadline;
    }
}
