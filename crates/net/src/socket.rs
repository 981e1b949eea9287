//! A UDP socket that sends and receives in batches, with a traffic class on every datagram.
//!
//! Batches are the kernel's segmentation offload (GSO, GRO): one system call moves up to 64 datagrams. `quinn-udp` receives
//! them and knows what the kernel can do. It does not send: it sets no DSCP, and after one error of the kind that a
//! stranger can cause, it marks no datagram with ECN any more and sends no batches.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, SockaddrIn6, sendmsg};
use pliant_proto::packet::{Ecn, TrafficClass};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

use crate::poll::{PollWaker, wait};
use crate::seam::{Mutant, is_mutant};
#[cfg(test)]
use crate::world::here::SimulatedSocket;

/// Largest UDP payload over IPv4, and so the most bytes of one batch.
const MAX_BATCH_BYTES: usize = 65_507;
/// Batches taken by one system call. Few, so that their buffers stay in the cache.
const RECEIVE_BATCHES: usize = 8;
/// Room for the largest datagram, and for the largest batch, which the kernel makes no longer than an IP packet.
const RECEIVE_BUFFER_BYTES: usize = 1 << 16;
/// Asked of the kernel for each direction; it may grant less.
pub const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// A UDP socket with batching state.
pub struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    buffers: [Box<[u8]>; RECEIVE_BATCHES],
    metas: [RecvMeta; RECEIVE_BATCHES],
    receive_buffer_bytes: usize,
    max_segments: AtomicUsize,
    /// Sends that failed for their destination.
    unsent: AtomicU64,
    /// Where a datagram went that was too large for the interface.
    too_large: Mutex<Option<SocketAddr>>,
    waker: Option<PollWaker>,
    /// What else ends waits.
    also: Option<Arc<OwnedFd>>,
    /// What stands for the kernel in a simulated world.
    #[cfg(test)]
    simulated: Option<SimulatedSocket>,
}

/// What one call of [`Socket::receive`] took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveCounts {
    /// Batches: datagrams that the kernel coalesced count as one.
    pub batches: usize,
    /// Datagrams.
    pub datagrams: usize,
}

impl ReceiveCounts {
    /// Whether more may be waiting.
    pub fn is_full(self) -> bool {
        self.batches == RECEIVE_BATCHES
    }
}

/// A datagram as it arrived.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The ECN codepoint it arrived with.
    pub ecn: Ecn,
    /// Its payload.
    pub bytes: &'a mut [u8],
}

impl Socket {
    /// A socket bound to `address`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        #[cfg(test)]
        let simulated = SimulatedSocket::bind(address)?;
        #[cfg(test)]
        let address = if simulated.is_some() { ([127, 0, 0, 1], 0).into() } else { address };
        let io = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        io.set_nonblocking(true)?;
        // Best effort: the kernel caps both at its own limits.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER_BYTES);
        let receive_buffer_bytes = state.recv_buffer_size(UdpSockRef::from(&io))?;
        let max_segments = AtomicUsize::new(state.max_gso_segments());
        #[cfg(test)]
        let (max_segments, receive_buffer_bytes) = match &simulated {
            // Runs are the same whatever the kernel can do.
            Some(_) => (AtomicUsize::new(1), SOCKET_BUFFER_BYTES),
            None => (max_segments, receive_buffer_bytes),
        };
        Ok(Self {
            #[cfg(test)]
            simulated,
            io,
            state,
            max_segments,
            unsent: AtomicU64::new(0),
            too_large: Mutex::new(None),
            waker: None,
            also: None,
            buffers: std::array::from_fn(|_| vec![0; RECEIVE_BUFFER_BYTES].into()),
            metas: [RecvMeta::default(); RECEIVE_BATCHES],
            receive_buffer_bytes,
        })
    }

    /// The address it is bound to.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            return Ok(simulated.address());
        }
        self.io.local_addr()
    }

    /// From now on every call fails: there is no socket behind it any more.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.io = std::os::fd::OwnedFd::from(std::fs::File::open("/dev/null").unwrap()).into();
    }

    /// Datagrams that one batch may hold.
    pub fn max_segments(&self) -> usize {
        self.max_segments.load(Ordering::Relaxed).min(self.state.max_gso_segments())
    }

    /// Lets `waker` end waits.
    pub fn set_waker(&mut self, waker: PollWaker) {
        self.waker = Some(waker);
    }

    /// Lets waits end while there is something to read in `file`.
    pub(crate) fn wait_for_also(&mut self, file: Arc<OwnedFd>) {
        self.also = Some(file);
    }

    /// Sends every datagram by itself: where each must wait in a queue as it would on a wire.
    pub fn without_offload(self) -> Self {
        self.max_segments.store(1, Ordering::Relaxed);
        self
    }

    /// Whether the kernel may hand over several datagrams at once.
    pub fn coalesces(&self) -> bool {
        self.state.gro_segments() > 1
    }

    /// Bytes that the kernel holds for a slow receiver, its own overhead included.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// Passes waiting datagrams to `each`, as many as one system call takes.
    pub fn receive(&mut self, mut each: impl FnMut(Datagram<'_>)) -> io::Result<ReceiveCounts> {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            let arrived = simulated.receive(RECEIVE_BATCHES);
            let count = arrived.len();
            for (from, ecn, mut bytes) in arrived {
                each(Datagram { from, ecn, bytes: &mut bytes });
            }
            return Ok(ReceiveCounts { batches: count, datagrams: count });
        }
        let mut slices = self.buffers.each_mut().map(|buffer| io::IoSliceMut::new(buffer));
        let batches = match self.state.recv(UdpSockRef::from(&self.io), &mut slices, &mut self.metas) {
            Ok(batches) => batches,
            // Nothing to read, or news of an earlier datagram that could not be delivered.
            Err(error) if !is_of_the_socket(&error) => return Ok(ReceiveCounts::default()),
            Err(error) => return Err(error),
        };
        let mut taken = ReceiveCounts { batches, datagrams: 0 };
        for (meta, buffer) in self.metas[..batches].iter().zip(&mut self.buffers) {
            let ecn = from_codepoint(meta.ecn);
            for bytes in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(Datagram { from: meta.addr, ecn, bytes });
                taken.datagrams += 1;
            }
        }
        Ok(taken)
    }

    /// Sends a batch, waiting while the kernel has no room for it.
    pub fn send(&self, batch: &Batch) -> io::Result<()> {
        let Some(to) = batch.to else { return Ok(()) };
        let bytes = &batch.bytes[..batch.filled];
        match self.send_bytes(to, batch.class, bytes, batch.segment_bytes) {
            Err(error) if batch.segments > 1 && refuses_offload(&error) => {
                let mut passed = false;
                for bytes in bytes.chunks(batch.segment_bytes) {
                    passed |= self.was_sent(to, self.send_bytes(to, batch.class, bytes, bytes.len()))?;
                }
                // The interface cannot do it, whatever the kernel promised; or this destination takes nothing at all.
                if passed {
                    self.max_segments.store(1, Ordering::Relaxed);
                }
                Ok(())
            }
            result => self.was_sent(to, result).map(drop),
        }
    }

    /// Batches and datagrams that could not be sent to where they should go.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Where a datagram went, since the last call, that was larger than the interface takes. Path MTU discovery is off, so
    /// that no message of a router can cause this.
    pub fn take_too_large(&self) -> Option<SocketAddr> {
        self.too_large.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether something was sent. What one destination does not take is a loss, as on the way: a stranger chooses where
    /// answers go. Only an error of the socket itself is one.
    fn was_sent(&self, to: SocketAddr, result: io::Result<()>) -> io::Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(error) if is_of_the_socket(&error) => Err(error),
            Err(error) => {
                self.unsent.fetch_add(1, Ordering::Relaxed);
                if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) {
                    *self.too_large.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
                }
                Ok(false)
            }
        }
    }

    fn send_bytes(&self, to: SocketAddr, class: TrafficClass, bytes: &[u8], segment_bytes: usize) -> io::Result<()> {
        let mut told = false;
        loop {
            match self.send_once(to, class, bytes, segment_bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for(PollFlags::OUT, None)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // News of an earlier datagram, told once; a firewall may say it of each.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !told => told = true,
                result => return result,
            }
        }
    }

    fn send_once(&self, to: SocketAddr, class: TrafficClass, bytes: &[u8], segment_bytes: usize) -> io::Result<()> {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            return simulated.send(to, class.octet(), bytes, segment_bytes);
        }
        let (octet, segment_size) = (class.octet(), segment_bytes as u16);
        let (tos, class) = (ControlMessage::Ipv4Tos(&octet), i32::from(octet));
        let class = ControlMessage::Ipv6TClass(&class);
        let controls = [if reaches_ipv4(to) { tos } else { class }, ControlMessage::UdpGsoSegments(&segment_size)];
        let controls = &controls[..if bytes.len() > segment_bytes { 2 } else { 1 }];
        let content = [IoSlice::new(bytes)];
        let (fd, flags) = (self.io.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        match to {
            SocketAddr::V4(to) => sendmsg(fd, &content, controls, flags, Some(&SockaddrIn::from(to)))?,
            SocketAddr::V6(to) => sendmsg(fd, &content, controls, flags, Some(&SockaddrIn6::from(to)))?,
        };
        Ok(())
    }

    /// Waits until something arrives, the waker is called, or for `timeout`.
    pub fn wait_readable(&self, timeout: Duration) -> io::Result<()> {
        self.wait_for(PollFlags::IN, Some(timeout))
    }

    /// Waits until the waker is called or the other file is readable, or for `timeout`, whatever arrives.
    pub(crate) fn wait_for_others(&self, timeout: Duration) -> io::Result<()> {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            simulated.wait(timeout);
            return Ok(());
        }
        let [waker, also] = self.others();
        let Some(one) = waker.as_ref().or(also.as_ref()).cloned() else { return wait(&mut [], Some(timeout)) };
        // Whoever is not there is replaced by the other.
        let mut waits = [waker, also].map(|other| other.unwrap_or_else(|| one.clone()));
        wait(&mut waits, Some(timeout))?;
        self.clear_waker(&waits[0]);
        Ok(())
    }

    /// The waker and the other file, as far as they are there.
    fn others(&self) -> [Option<PollFd<'_>>; 2] {
        let waker = self.waker.as_ref().map(PollWaker::file);
        [waker, self.also.as_deref()].map(|file| file.map(|file| PollFd::new(file, PollFlags::IN)))
    }

    /// Lets the waker be called again if it was, by what was waited for in its place.
    fn clear_waker(&self, waited: &PollFd<'_>) {
        if let Some(waker) = self.waker.as_ref().filter(|_| !waited.revents().is_empty()) {
            waker.clear();
        }
    }

    fn wait_for(&self, what: PollFlags, timeout: Option<Duration>) -> io::Result<()> {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            simulated.wait(timeout.unwrap_or(Duration::from_millis(1)));
            return Ok(());
        }
        let own = PollFd::new(&self.io, what);
        if what != PollFlags::IN {
            return wait(&mut [own], timeout);
        }
        // Whoever is not there is replaced by the socket itself.
        let [waker, also] = self.others().map(|other| other.unwrap_or_else(|| own.clone()));
        let mut waits = [own, waker, also];
        wait(&mut waits, timeout)?;
        self.clear_waker(&waits[1]);
        Ok(())
    }
}

/// An address of IPv4 as such: a socket of IPv6 has another name for it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        // Any other one may have a scope.
        SocketAddr::V6(six) if six.ip().to_ipv4_mapped().is_none() => address,
        _ => (address.ip().to_canonical(), address.port()).into(),
    }
}

/// A peer's address as a socket at `own` knows it: one of IPv6 reaches IPv4, and is reached from there, by mapped addresses.
pub(crate) fn known_at(own: SocketAddr, peer: SocketAddr) -> SocketAddr {
    match (own, canonical(peer)) {
        (SocketAddr::V6(_), SocketAddr::V4(four)) => (four.ip().to_ipv6_mapped(), four.port()).into(),
        (_, peer) => peer,
    }
}

/// Whether the socket itself is of no use any more, whoever is at the other end.
pub(crate) fn is_of_the_socket(error: &io::Error) -> bool {
    use rustix::io::Errno;
    if is_mutant(Mutant::DestinationErrorsAreFatal) {
        return true;
    }
    let of_socket = [Errno::BADF, Errno::NOTSOCK, Errno::FAULT];
    error.raw_os_error().is_none_or(|errno| of_socket.iter().any(|known| known.raw_os_error() == errno))
}

/// Whether a batch failed for being one.
fn refuses_offload(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::IO, Errno::INVAL].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether datagrams go out over IPv4: a mapped address does, and the kernel then reads IPv4's controls only.
fn reaches_ipv4(to: SocketAddr) -> bool {
    match to {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(to) => to.ip().to_ipv4_mapped().is_some(),
    }
}

fn from_codepoint(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// Datagrams to one address with one traffic class, all of one size but the last, which may be shorter.
#[derive(Debug)]
pub struct Batch {
    to: Option<SocketAddr>,
    class: TrafficClass,
    /// Written over and over: only the first `filled` bytes mean something.
    bytes: Box<[u8]>,
    filled: usize,
    segment_bytes: usize,
    segments: usize,
    /// The last datagram was shorter: nothing may follow it.
    closed: bool,
}

impl Default for Batch {
    fn default() -> Self {
        let bytes = vec![0; MAX_BATCH_BYTES].into();
        Self {
            to: None,
            class: TrafficClass::default(),
            bytes,
            filled: 0,
            segment_bytes: 0,
            segments: 0,
            closed: false,
        }
    }
}

impl Batch {
    /// Datagrams that are collected.
    #[cfg(test)]
    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    /// Whether a datagram may join what is collected, at most `max_segments` in all.
    pub fn accepts(&self, to: SocketAddr, class: TrafficClass, bytes: usize, max_segments: usize) -> bool {
        self.segments == 0
            || !self.closed
                && self.to == Some(to)
                && self.class == class
                && bytes <= self.segment_bytes
                && self.segments < max_segments
                && self.filled + bytes <= MAX_BATCH_BYTES
    }

    /// Adds a datagram that it [accepts](Self::accepts); returns its bytes, all to be written.
    pub fn push(&mut self, to: SocketAddr, class: TrafficClass, bytes: usize) -> &mut [u8] {
        if self.segments == 0 {
            (self.to, self.class, self.segment_bytes) = (Some(to), class, bytes);
        }
        self.closed = bytes < self.segment_bytes;
        self.segments += 1;
        let start = self.filled;
        self.filled += bytes;
        &mut self.bytes[start..self.filled]
    }

    /// Takes back the datagram of so many bytes that was added last.
    pub fn take_back(&mut self, bytes: usize) {
        self.segments -= 1;
        self.filled -= bytes;
        // Only the last may be shorter than the others.
        self.closed = false;
    }

    /// Whether nothing is collected.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Forgets what was collected.
    pub fn clear(&mut self) {
        self.filled = 0;
        self.segments = 0;
        self.closed = false;
    }
}

#[cfg(test)]
mod tests {
    use pliant_proto::packet::TrafficClass;

    use super::*;

    /// Sockets of IPv6 know IPv4 by mapped addresses, however those are written; others keep theirs, with their scope.
    #[test]
    fn sockets_of_ipv6_know_ipv4_by_mapped_addresses() {
        for (own, peer, known) in [
            ("[::]:1", "192.0.2.7:2", "[::ffff:192.0.2.7]:2"),
            ("[::]:1", "[::ffff:192.0.2.7]:2", "[::ffff:192.0.2.7]:2"),
            ("[::]:1", "[fe80::7%3]:2", "[fe80::7%3]:2"),
            ("0.0.0.0:1", "192.0.2.7:2", "192.0.2.7:2"),
            ("0.0.0.0:1", "[::ffff:192.0.2.7]:2", "192.0.2.7:2"),
        ] {
            let [own, peer, known] = [own, peer, known].map(|address| address.parse::<SocketAddr>().unwrap());
            assert_eq!(known_at(own, peer), known, "{own} {peer}");
            assert_eq!(canonical(known), canonical(peer), "{own} {peer}");
        }
    }

    /// A stranger who writes from port 0, or from an address to which there is no way, cannot end a socket: the answer is a
    /// loss, and others are answered still.
    #[test]
    fn a_destination_that_takes_nothing_is_a_loss() {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut peer = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let nowhere = ["127.0.0.1:0", "255.255.255.255:7410", "[::1]:7410"];
        for class in [TrafficClass::default(), TrafficClass::new(8)] {
            for to in nowhere {
                for segments in [1, 3] {
                    send(&socket, to.parse().unwrap(), class, segments);
                }
            }
        }
        assert!(socket.unsent() >= 2 * 2 * nowhere.len() as u64, "{}", socket.unsent());
        assert_eq!(socket.max_segments(), peer.max_segments(), "no stranger turns offload off");
        send(&socket, peer.local_address().unwrap(), TrafficClass::default(), 1);
        peer.wait_for(PollFlags::IN, None).unwrap();
        let mut arrived = 0;
        peer.receive(|datagram| arrived += datagram.bytes.len()).unwrap();
        assert_eq!(arrived, 100);
    }

    fn send(socket: &Socket, to: SocketAddr, class: TrafficClass, segments: usize) {
        let mut batch = Batch::default();
        for _ in 0..segments {
            batch.push(to, class, 100).fill(7);
        }
        socket.send(&batch).expect("the socket is fine");
    }
}
