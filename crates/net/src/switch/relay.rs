//! The switch without privileges: datagrams on loopback.
//!
//! Every host has an address of its own, and an alias that stands for it: who sends to the alias of another host
//! reaches that host through the switch, and sees answers come from the alias. Neither side knows of the switch, and
//! datagrams are not changed. All of 127.0.0.0/8 is there on Linux without further ado.
//!
//! Sizes on the wire are those of frames that would carry the datagrams; DSCP and ECN are those of the datagrams.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::Duration;

use pliant_proto::packet::TrafficClass;
use pliant_proto::time::{Instant, Span};
use rustix::event::{PollFd, PollFlags};

use super::error::SwitchError;
use super::forwarder::{Departure, FrameMetadata, Switch, SwitchConfig};
use super::wire_size::WireSize;
use crate::clock::{SharedClock, to_timeout};
use crate::mmsg::{self, BATCH, BatchReceiver, BatchSender, Destination, Transmit};
use crate::poll::wait;

/// Headers of Ethernet, IPv4 and UDP around a datagram.
const HEADER_BYTES: usize = 14 + 20 + 8;
/// Asked of the kernel for each socket; it may grant less.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// A host behind a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayPort {
    /// Where the host's own socket is.
    pub host: SocketAddrV4,
    /// Where others reach it.
    pub alias: SocketAddrV4,
}

/// A switch on loopback.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The switch.
    pub switch: SwitchConfig,
    /// Its ports.
    pub ports: Vec<RelayPort>,
    /// What datagrams count for, as frames.
    pub wire_size: WireSize,
}

/// A running relay.
pub struct Relay {
    switch: Switch,
    clock: SharedClock,
    sockets: Vec<UdpSocket>,
    /// Ports by the address of their host, sorted.
    hosts: Vec<(SocketAddrV4, u16)>,
    ports: Vec<RelayPort>,
    wire_size: WireSize,
    receiver: BatchReceiver,
    sender: BatchSender,
    departures: Vec<Departure>,
}

impl Relay {
    /// Binds the alias of every port.
    pub fn open(config: &RelayConfig, clock: SharedClock) -> Result<Self, SwitchError> {
        let bind = |port: &RelayPort| {
            let bound = || {
                let socket = UdpSocket::bind(port.alias)?;
                socket.set_nonblocking(true)?;
                rustix::net::sockopt::set_ip_recvtos(&socket, true)?;
                mmsg::coalesce(socket.as_fd());
                // Best effort: the kernel caps both at its own limits.
                let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
                Ok(socket)
            };
            bound().map_err(|error| SwitchError::Address { address: port.alias, error })
        };
        let sockets = config.ports.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let mut hosts: Vec<_> = config.ports.iter().zip(0..).map(|(port, index)| (port.host, index)).collect();
        hosts.sort_unstable();
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let switch = Switch::new(&config.switch);
        Ok(Self {
            receiver: BatchReceiver::new(switch.frame_bytes()),
            switch,
            clock,
            sockets,
            hosts,
            ports: config.ports.clone(),
            wire_size: config.wire_size,
            sender: BatchSender::new(),
            departures: Vec::with_capacity(BATCH),
        })
    }

    /// Time counts from another epoch now. Nothing may have arrived before.
    pub fn set_clock(&mut self, clock: SharedClock) {
        assert_eq!(self.switch.fabric().hops(), 0, "a clock is set before frames come");
        self.clock = clock;
    }

    /// The switch without its sockets.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The switch without its sockets.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Takes what has arrived, sends what is due, and sleeps until there is more, for `at_most` at the longest.
    pub fn run_once(&mut self, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        let mut moved = 0;
        for destination in 0..self.sockets.len() as u16 {
            moved += self.take(now, destination)?;
        }
        self.switch.advance(now);
        moved += self.send(now)?;
        if moved == 0 { self.sleep(at_most) } else { Ok(()) }
    }

    fn take(&mut self, now: Instant, destination: u16) -> io::Result<usize> {
        let Self { switch, sockets, hosts, wire_size, receiver, .. } = self;
        receiver.receive(sockets[usize::from(destination)].as_fd(), |incoming| {
            let Ok(at) = hosts.binary_search_by_key(&incoming.from, |(host, _)| *host) else {
                switch.port_mut(destination).strangers += 1;
                return;
            };
            let source = hosts[at].1;
            let counters = switch.port_mut(source);
            counters.received += 1;
            counters.received_bytes += incoming.bytes.len() as u64;
            if incoming.truncated {
                counters.oversized += 1;
            } else if source == destination {
                counters.unknown_destination += 1;
            } else {
                let pair = u32::from(source.min(destination)) << 16 | u32::from(source.max(destination));
                let metadata = FrameMetadata {
                    destination: Some(destination),
                    wire_bytes: wire_size.of_datagram(incoming.bytes.len() + HEADER_BYTES, incoming.bytes),
                    traffic_class: TrafficClass::from_octet(incoming.octet),
                    flow: pair,
                };
                switch.take(now, source, &metadata, incoming.bytes);
            }
        })
    }

    fn send(&mut self, now: Instant) -> io::Result<usize> {
        let mut sent = 0;
        loop {
            while self.departures.len() < BATCH
                && let Some(departure) = self.switch.poll_departure(now)
            {
                self.departures.push(departure);
            }
            if self.departures.is_empty() {
                return Ok(sent);
            }
            // One call for each run of datagrams from the same alias.
            let mut first = 0;
            while first < self.departures.len() {
                let source = self.departures[first].source;
                let run = self.departures[first..].iter().take_while(|departure| departure.source == source).count();
                let batch = &self.departures[first..first + run];
                let message = |departure: &Departure| Transmit {
                    bytes: self.switch.frame(departure.frame),
                    to: Destination::Address(self.ports[usize::from(departure.port)].host),
                    octet: Some(departure.traffic_class.octet()),
                    joins: false,
                };
                let messages: Vec<Transmit<'_>> = batch.iter().map(message).collect();
                let mut refused = [false; BATCH];
                let socket = self.sockets[usize::from(source)].as_fd();
                self.sender.send(socket, &messages, |index| refused[index] = true)?;
                drop(messages);
                for (departure, refused) in batch.iter().zip(refused) {
                    self.switch.recycle(departure, !refused);
                }
                first += run;
            }
            sent += self.departures.len();
            self.departures.clear();
        }
    }

    fn sleep(&self, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        let until = self.switch.next_departure().map_or(Span::MAX, |at| at.since(now));
        let timeout = at_most.min(to_timeout(until));
        let mut files: Vec<PollFd<'_>> = self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        wait(&mut files, Some(timeout))
    }
}
