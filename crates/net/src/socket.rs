//! A UDP socket that sends and receives in batches, with a traffic class on every datagram.
//!
//! Batches are the kernel's segmentation offload (GSO, GRO): one system call moves up to 64 datagrams. Datagrams without
//! a DSCP go through `quinn-udp`, which knows what each platform's kernel can do; it sets no DSCP, so the others are
//! sent here.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, SockaddrIn6, sendmsg};
use pliant_proto::packet::{Ecn, TrafficClass};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{EventfdFlags, PollFd, PollFlags};

use crate::event_loop::wait;

/// Largest UDP payload over IPv4, and so the most bytes of one batch.
const MAX_BATCH_BYTES: usize = 65_507;
/// Batches taken by one system call. Few, so that their buffers stay in the cache.
const RECEIVE_BATCHES: usize = 8;
/// Room for the largest datagram, and for the largest batch, which the kernel makes no longer than an IP packet.
const RECEIVE_BUFFER_BYTES: usize = 1 << 16;
/// Asked of the kernel for each direction; it may grant less.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// A UDP socket with batching state.
pub struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    buffers: [Box<[u8]>; RECEIVE_BATCHES],
    metas: [RecvMeta; RECEIVE_BATCHES],
    receive_buffer_bytes: usize,
    max_segments: AtomicUsize,
    alarm: Option<Alarm>,
}

/// Ends the wait of whoever waits at a socket, from another thread.
#[derive(Clone, Debug)]
pub struct Alarm(Arc<OwnedFd>);

impl Alarm {
    /// An alarm that has not rung.
    pub fn new() -> io::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Ends the wait that is, or the next.
    pub fn ring(&self) {
        // It fails only if it has rung 2^64 times unheard.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// What becomes readable when it rings.
    pub(crate) fn file(&self) -> &OwnedFd {
        &self.0
    }

    /// Makes the next wait last.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// What one call of [`Socket::receive`] took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Batches: datagrams that the kernel coalesced count as one.
    pub batches: usize,
    /// Datagrams.
    pub datagrams: usize,
}

impl Taken {
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
        let io = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        io.set_nonblocking(true)?;
        // Best effort: the kernel caps both at its own limits.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER_BYTES);
        let receive_buffer_bytes = state.recv_buffer_size(UdpSockRef::from(&io))?;
        let max_segments = AtomicUsize::new(state.max_gso_segments());
        Ok(Self {
            io,
            state,
            max_segments,
            alarm: None,
            buffers: std::array::from_fn(|_| vec![0; RECEIVE_BUFFER_BYTES].into()),
            metas: [RecvMeta::default(); RECEIVE_BATCHES],
            receive_buffer_bytes,
        })
    }

    /// The address it is bound to.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Datagrams that one batch may hold.
    pub fn max_segments(&self) -> usize {
        self.max_segments.load(Ordering::Relaxed).min(self.state.max_gso_segments())
    }

    /// Lets `alarm` end waits.
    pub fn set_alarm(&mut self, alarm: Alarm) {
        self.alarm = Some(alarm);
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
    pub fn receive(&mut self, mut each: impl FnMut(Datagram<'_>)) -> io::Result<Taken> {
        let mut slices = self.buffers.each_mut().map(|buffer| io::IoSliceMut::new(buffer));
        let batches = match self.state.recv(UdpSockRef::from(&self.io), &mut slices, &mut self.metas) {
            Ok(batches) => batches,
            Err(error) if is_transient(&error) => return Ok(Taken::default()),
            Err(error) => return Err(error),
        };
        let mut taken = Taken { batches, datagrams: 0 };
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
            // The interface cannot do it, whatever the kernel promised.
            Err(error) if batch.segments > 1 && refuses_offload(&error) => {
                self.max_segments.store(1, Ordering::Relaxed);
                let mut segments = bytes.chunks(batch.segment_bytes);
                segments.try_for_each(|bytes| self.send_bytes(to, batch.class, bytes, bytes.len()))
            }
            result => result,
        }
    }

    /// Sends datagrams of `segment_bytes` each but the last.
    fn send_bytes(&self, to: SocketAddr, class: TrafficClass, bytes: &[u8], segment_bytes: usize) -> io::Result<()> {
        loop {
            let sent = if has_dscp(class) {
                self.send_with_dscp(to, class, bytes, segment_bytes)
            } else {
                self.send_without_dscp(to, class, bytes, segment_bytes)
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for(PollFlags::OUT, None)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // News of an earlier datagram: the peer may be back by the next.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                result => return result,
            }
        }
    }

    fn send_without_dscp(
        &self,
        to: SocketAddr,
        class: TrafficClass,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: to_codepoint(class.ecn()),
            contents: bytes,
            segment_size: (bytes.len() > segment_bytes).then_some(segment_bytes),
            src_ip: None,
        };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit)
    }

    fn send_with_dscp(
        &self,
        to: SocketAddr,
        class: TrafficClass,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> io::Result<()> {
        let (octet, segment_size) = (class.octet(), segment_bytes as u16);
        let (tos, class) = (ControlMessage::Ipv4Tos(&octet), i32::from(octet));
        let class = ControlMessage::Ipv6TClass(&class);
        let controls = [if to.is_ipv4() { tos } else { class }, ControlMessage::UdpGsoSegments(&segment_size)];
        let controls = &controls[..if bytes.len() > segment_bytes { 2 } else { 1 }];
        let content = [IoSlice::new(bytes)];
        let (fd, flags) = (self.io.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        match to {
            SocketAddr::V4(to) => sendmsg(fd, &content, controls, flags, Some(&SockaddrIn::from(to)))?,
            SocketAddr::V6(to) => sendmsg(fd, &content, controls, flags, Some(&SockaddrIn6::from(to)))?,
        };
        Ok(())
    }

    /// Waits until something arrives, the alarm rings, or for `timeout`.
    pub fn wait_readable(&self, timeout: Duration) -> io::Result<()> {
        self.wait_for(PollFlags::IN, Some(timeout))
    }

    fn wait_for(&self, what: PollFlags, timeout: Option<Duration>) -> io::Result<()> {
        let mut waits = [PollFd::new(&self.io, what), PollFd::new(&self.io, what)];
        let mut count = 1;
        if let Some(alarm) = self.alarm.as_ref().filter(|_| what == PollFlags::IN) {
            waits[1] = PollFd::new(alarm.file(), PollFlags::IN);
            count = 2;
        }
        wait(&mut waits[..count], timeout)?;
        if count == 2
            && !waits[1].revents().is_empty()
            && let Some(alarm) = &self.alarm
        {
            alarm.silence();
        }
        Ok(())
    }
}

/// Whether a batch failed for being one.
fn refuses_offload(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::IO, Errno::INVAL].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Nothing to read, or news of an earlier datagram that could not be delivered.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused | ConnectionReset)
}

/// Whether the octet has more than an ECN codepoint.
fn has_dscp(class: TrafficClass) -> bool {
    class.octet() >> 2 != 0
}

fn from_codepoint(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

fn to_codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
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
