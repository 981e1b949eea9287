//! The simulated network: every host has a link with faults of its own, and perhaps a NAT.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use pliant_proto::packet::Ecn;
use pliant_proto::rng::Stream;

/// Most bytes that wait in a socket.
const SOCKET_BYTES: usize = 4 << 20;

/// One host's link, in both directions where nothing else is said. Times are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// From here to any other host.
    pub(crate) delay_ns: u64,
    /// Added to that at random, so that datagrams overtake each other.
    pub(crate) jitter_ns: u64,
    /// Fraction of what is sent that is lost.
    pub(crate) loss: f64,
    /// Fraction that arrives twice.
    pub(crate) duplicates: f64,
    /// Fraction of sealed datagrams of which one bit is changed. UDP's checksum sees that of most others.
    pub(crate) corrupt: f64,
    /// Bits per second sent.
    pub(crate) rate: u64,
    /// How long the longest queue takes to send.
    pub(crate) queue_ns: u64,
    /// How long the queue is from which on datagrams are marked.
    pub(crate) mark_ns: u64,
    /// When nothing passes: from, until.
    pub(crate) down: Vec<(u64, u64)>,
    /// Largest datagram.
    pub(crate) max_bytes: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay_ns: 1_000_000,
            jitter_ns: 0,
            loss: 0.0,
            duplicates: 0.0,
            corrupt: 0.0,
            rate: 100_000_000,
            queue_ns: 50_000_000,
            mark_ns: 5_000_000,
            down: Vec::new(),
            max_bytes: 65_507,
        }
    }
}

impl Link {
    pub(super) fn is_down(&self, now: u64) -> bool {
        self.down.iter().any(|(from, until)| (*from..*until).contains(&now))
    }
}

/// A link at work.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) link: Link,
    busy_until: u64,
}

impl Wire {
    pub(super) fn new(link: Link) -> Self {
        Self { link, busy_until: 0 }
    }

    /// When copies of a datagram arrive, and with which mark.
    pub(super) fn pass(&mut self, now: u64, bytes: usize, ecn: Ecn, random: &mut Stream) -> (Vec<u64>, Ecn) {
        let begins = self.busy_until.max(now);
        let waits = begins - now;
        if waits > self.link.queue_ns || self.link.is_down(now) {
            return (Vec::new(), ecn);
        }
        self.busy_until = begins + (bytes as u64 + 50) * 8 * 1_000_000_000 / self.link.rate;
        let marked = if waits > self.link.mark_ns && ecn != Ecn::NotEct { Ecn::Ce } else { ecn };
        let mut arrivals = Vec::new();
        let copies = 1 + usize::from(random.unit() < self.link.duplicates);
        for _ in 0..copies {
            let jitter = random.below(self.link.jitter_ns + 1);
            if random.unit() >= self.link.loss {
                arrivals.push(self.busy_until + self.link.delay_ns + jitter);
            }
        }
        (arrivals, marked)
    }
}

/// A socket of a host.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) host: usize,
    /// As its host knows it.
    pub(super) inside: SocketAddr,
    /// As other hosts see it.
    pub(super) outside: SocketAddr,
    pub(super) open: bool,
    inbox: VecDeque<(SocketAddr, Ecn, Vec<u8>)>,
    inbox_bytes: usize,
}

impl Port {
    pub(super) fn new(host: usize, address: SocketAddr) -> Self {
        Self { host, inside: address, outside: address, open: true, inbox: VecDeque::new(), inbox_bytes: 0 }
    }

    pub(super) fn put(&mut self, from: SocketAddr, ecn: Ecn, bytes: Vec<u8>) {
        if self.inbox_bytes + bytes.len() <= SOCKET_BYTES {
            self.inbox_bytes += bytes.len();
            self.inbox.push_back((from, ecn, bytes));
        }
    }

    pub(super) fn take(&mut self, most: usize) -> Vec<(SocketAddr, Ecn, Vec<u8>)> {
        let taken: Vec<_> = self.inbox.drain(..most.min(self.inbox.len())).collect();
        self.inbox_bytes -= taken.iter().map(|(.., bytes)| bytes.len()).sum::<usize>();
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }
}

/// What the kernel says of a destination that takes nothing.
pub(super) fn check_destination(from: SocketAddr, to: SocketAddr, bytes: usize, link: &Link) -> io::Result<()> {
    use rustix::io::Errno;
    let refused = |errno: Errno| Err(errno.into());
    match to.ip() {
        _ if to.port() == 0 => refused(Errno::INVAL),
        ip if ip.is_ipv4() != from.ip().is_ipv4() => refused(Errno::AFNOSUPPORT),
        IpAddr::V4(ip) if ip.is_broadcast() => refused(Errno::ACCESS),
        IpAddr::V4(ip) if ip.octets()[0] == 192 => refused(Errno::NETUNREACH),
        IpAddr::V4(ip) if ip.octets()[0] == 198 => refused(Errno::HOSTUNREACH),
        _ if bytes > link.max_bytes => refused(Errno::MSGSIZE),
        _ => Ok(()),
    }
}
