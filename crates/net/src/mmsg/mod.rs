//! Many messages per system call, each with its own destination and traffic class: `sendmmsg`, `recvmmsg`.
//!
//! The `unsafe` of this crate's sockets is here and in `switch/packet_ring/`. Every pointer that the kernel gets
//! points into a slice that the caller lent for the call, or into arrays that this module owns. What is laid out for the
//! kernel and read back from it stands apart from the calls, so that Miri can check it with the tests as the kernel.

#![allow(unsafe_code, reason = "no well-kept crate has these calls with packet addresses and IP_TOS")]

use std::io;
use std::mem::{self, offset_of};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::poll::wait_writable;
use crate::socket::is_of_the_socket;

/// Messages per call.
pub(crate) const BATCH: usize = 64;
/// Most bytes of a run of datagrams: those of UDP over IPv4.
const MAX_RUN_BYTES: usize = 65_507;
/// Room for two control messages with integers.
const CONTROL_BYTES: usize = 64;
/// Bytes before the value of a control message; each begins at a multiple of a word (cmsg(3)).
const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// Out of the interface with this index: the message is a frame.
    Interface(u32),
    /// Destination this address: the message is a datagram.
    Address(SocketAddrV4),
}

/// A message to send.
pub(crate) struct Transmit<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) to: Destination,
    /// The octet of DSCP and ECN, for datagrams.
    pub(crate) octet: Option<u8>,
    /// A part of the message before, out of the same interface: its payload only.
    pub(crate) joins: bool,
}

/// A message that arrived.
pub(crate) struct ReceivedDatagram<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) from: SocketAddrV4,
    /// The octet of DSCP and ECN.
    pub(crate) octet: u8,
    /// It was longer than the buffer.
    pub(crate) truncated: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Name {
    interface: libc::sockaddr_ll,
    address: libc::sockaddr_in,
}

/// Aligned as `cmsghdr` must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

struct Slots {
    headers: Vec<libc::mmsghdr>,
    iovecs: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
}

impl Slots {
    fn new() -> Self {
        // SAFETY: all of these are plain C structs of integers and pointers, for which zeroes are values.
        let (header, iovec, name) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        Self {
            headers: vec![header; BATCH],
            iovecs: vec![iovec; BATCH],
            names: vec![name; BATCH],
            controls: vec![Control([0; CONTROL_BYTES]); BATCH],
        }
    }
}

/// Messages that are handed over as one: datagrams to the same address, of the same size but for the last, which the
/// kernel cuts, or parts of a frame.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    count: usize,
    bytes: usize,
    /// Its messages are parts of a frame.
    joined: bool,
}

impl Run {
    /// Whether `next`, which follows, can be part of it.
    fn takes(&self, messages: &[Transmit<'_>], next: &Transmit<'_>) -> bool {
        let (first, last) = (&messages[self.first], &messages[self.first + self.count - 1]);
        let alike = match (first.to, next.to) {
            (Destination::Address(a), Destination::Address(b)) => a == b && first.octet == next.octet,
            _ => false,
        };
        let segment = first.bytes.len();
        alike
            && last.bytes.len() == segment
            && (1..=segment).contains(&next.bytes.len())
            && self.count < BATCH
            && self.bytes + next.bytes.len() <= MAX_RUN_BYTES
    }
}

/// Arrays that a call needs, used again and again.
pub(crate) struct BatchSender {
    slots: Slots,
    runs: Vec<Run>,
    /// Whether the kernel may be left to cut runs of datagrams (UDP_SEGMENT).
    segments: bool,
}

// SAFETY: the raw pointers inside are written at the start of each call and used in that call only.
unsafe impl Send for BatchSender {}

impl BatchSender {
    pub(crate) fn new() -> Self {
        Self { slots: Slots::new(), runs: Vec::with_capacity(BATCH), segments: true }
    }

    /// Sends `messages`, at most [`BATCH`], in order; waits while there is no room. `refused` hears the place of each
    /// that the kernel would not take; the others were sent.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Transmit<'_>],
        mut refused: impl FnMut(usize),
    ) -> io::Result<()> {
        let mut done = 0;
        while done < messages.len() {
            self.prepare(messages, done);
            match self.send_prepared(socket, &mut refused)? {
                Some(cannot_cut) => {
                    self.segments = false;
                    done = cannot_cut;
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Fills the arrays for all messages from `from` on.
    fn prepare(&mut self, messages: &[Transmit<'_>], from: usize) {
        let Self { slots, runs, segments } = self;
        let Slots { headers, iovecs, names, controls } = slots;
        assert!(messages.len() <= iovecs.len());
        runs.clear();
        for (index, message) in messages.iter().enumerate().skip(from) {
            // The kernel only reads what is sent; the C type has no word for that.
            let bytes = message.bytes;
            iovecs[index] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            match runs.last_mut().filter(|run| message.joins || *segments && run.takes(messages, message)) {
                Some(run) => {
                    run.count += 1;
                    run.bytes += bytes.len();
                    run.joined |= message.joins;
                }
                None => runs.push(Run { first: index, count: 1, bytes: bytes.len(), joined: false }),
            }
        }
        for (slot, run) in runs.iter().enumerate() {
            let message = &messages[run.first];
            let header = &mut headers[slot].msg_hdr;
            header.msg_namelen = write_name(&mut names[slot], message.to);
            let segment = (run.count > 1 && !run.joined).then_some(message.bytes.len() as u16);
            header.msg_controllen = write_controls(&mut controls[slot], message.octet, segment);
        }
        // Of the whole arrays, and taken once all is written: a pointer to one element would not reach those behind it,
        // and writing another element by reference would end its validity.
        let (iovecs, names, controls) = (iovecs.as_mut_ptr(), names.as_mut_ptr(), controls.as_mut_ptr());
        for (slot, run) in runs.iter().enumerate() {
            let header = &mut headers[slot].msg_hdr;
            header.msg_iov = iovecs.wrapping_add(run.first);
            header.msg_iovlen = run.count;
            header.msg_name = names.wrapping_add(slot).cast();
            header.msg_control =
                if header.msg_controllen > 0 { controls.wrapping_add(slot).cast() } else { ptr::null_mut() };
        }
    }

    /// Sends what was prepared; tells from which message on if the kernel cannot cut runs.
    fn send_prepared(&mut self, socket: BorrowedFd<'_>, refused: &mut impl FnMut(usize)) -> io::Result<Option<usize>> {
        let mut sent = 0;
        while sent < self.runs.len() {
            let rest = &mut self.slots.headers[sent..self.runs.len()];
            // SAFETY: these headers were filled for this call; what they point to the caller of `send` has lent until it
            // returns, or this module owns.
            let count = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
            if count > 0 {
                sent += count as usize;
                continue;
            }
            let (error, run) = (io::Error::last_os_error(), self.runs[sent]);
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => wait_writable(socket)?,
                Some(libc::EIO | libc::EINVAL) if run.count > 1 && !run.joined => return Ok(Some(run.first)),
                _ if is_of_the_socket(&error) => return Err(error),
                // The device or the peer has no room, is down, or the message is too long for it; there is no way to it, or the
                // kernel does not know what is asked of it.
                _ => {
                    (run.first..run.first + run.count).for_each(&mut *refused);
                    sent += 1;
                }
            }
        }
        Ok(None)
    }
}

fn write_name(name: &mut Name, to: Destination) -> libc::socklen_t {
    match to {
        Destination::Interface(index) => {
            name.interface = libc::sockaddr_ll {
                sll_family: libc::AF_PACKET as libc::c_ushort,
                sll_protocol: 0,
                sll_ifindex: index as libc::c_int,
                sll_hatype: 0,
                sll_pkttype: 0,
                sll_halen: 0,
                sll_addr: [0; 8],
            };
            size_of::<libc::sockaddr_ll>() as libc::socklen_t
        }
        Destination::Address(address) => {
            name.address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
    }
}

/// Writes the control messages that set the octet of DSCP and ECN, and the size at which the kernel cuts; returns their
/// length.
fn write_controls(control: &mut Control, octet: Option<u8>, segment: Option<u16>) -> usize {
    let mut at = 0;
    if let Some(octet) = octet {
        at += write_control(control, at, (libc::IPPROTO_IP, libc::IP_TOS), &libc::c_int::from(octet).to_ne_bytes());
    }
    if let Some(segment) = segment {
        at += write_control(control, at, (libc::SOL_UDP, libc::UDP_SEGMENT), &segment.to_ne_bytes());
    }
    at
}

/// Writes one control message; returns the room that it takes.
fn write_control(control: &mut Control, at: usize, (level, kind): (libc::c_int, libc::c_int), value: &[u8]) -> usize {
    let length = CONTROL_HEADER_BYTES + value.len();
    let message = &mut control.0[at..][..length];
    message[offset_of!(libc::cmsghdr, cmsg_len)..][..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
    message[offset_of!(libc::cmsghdr, cmsg_level)..][..size_of::<libc::c_int>()].copy_from_slice(&level.to_ne_bytes());
    message[offset_of!(libc::cmsghdr, cmsg_type)..][..size_of::<libc::c_int>()].copy_from_slice(&kind.to_ne_bytes());
    message[CONTROL_HEADER_BYTES..].copy_from_slice(value);
    length.next_multiple_of(size_of::<usize>())
}

/// Lets the kernel hand over several datagrams of one sender at once (UDP_GRO). Where it cannot, nothing changes.
pub(crate) fn coalesce(socket: BorrowedFd<'_>) {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads an integer.
    unsafe {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, ptr::from_ref(&on).cast(), length);
    }
}

/// Arrays and buffers for what arrives.
pub(crate) struct BatchReceiver {
    slots: Slots,
    buffers: Vec<Box<[u8]>>,
    /// Bytes of the longest datagram.
    datagram_bytes: usize,
}

// SAFETY: as for `BatchSender`.
unsafe impl Send for BatchReceiver {}

/// Messages taken by one call: with as much in each as fits an IP packet they would not stay in the cache.
const RECEIVE_BATCH: usize = 16;

impl BatchReceiver {
    /// For datagrams of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let buffers = (0..RECEIVE_BATCH).map(|_| vec![0; 1 << 16].into()).collect();
        Self { slots: Slots::new(), buffers, datagram_bytes: bytes }
    }

    /// Takes some of what waits, without waiting itself. Returns how many messages the kernel handed over, each of one
    /// datagram or several; less than [`BatchReceiver::is_full`] says and there is no more.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        each: impl FnMut(ReceivedDatagram<'_>),
    ) -> io::Result<usize> {
        self.prepare();
        // SAFETY: as many headers were filled above as there are buffers; buffers, names and controls outlive the call.
        let count = unsafe {
            let (first, length) = (self.slots.headers.as_mut_ptr(), self.buffers.len() as libc::c_uint);
            libc::recvmmsg(socket.as_raw_fd(), first, length, libc::MSG_DONTWAIT, ptr::null_mut())
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                // Refusals are of something sent before: a peer that is not there yet, or no longer.
                Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => Ok(0),
                _ => Err(error),
            };
        }
        self.hand_over(count as usize, each);
        Ok(count as usize)
    }

    /// Fills the arrays for as many messages as there are buffers.
    fn prepare(&mut self) {
        let Slots { headers, iovecs, names, controls } = &mut self.slots;
        for (iovec, buffer) in iovecs.iter_mut().zip(&mut self.buffers) {
            *iovec = libc::iovec { iov_len: buffer.len(), iov_base: buffer.as_mut_ptr().cast() };
        }
        let (iovecs, names, controls) = (iovecs.as_mut_ptr(), names.as_mut_ptr(), controls.as_mut_ptr());
        for (index, header) in headers[..self.buffers.len()].iter_mut().enumerate() {
            let header = &mut header.msg_hdr;
            header.msg_iov = iovecs.wrapping_add(index);
            header.msg_iovlen = 1;
            header.msg_name = names.wrapping_add(index).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_control = controls.wrapping_add(index).cast();
            header.msg_controllen = CONTROL_BYTES;
            header.msg_flags = 0;
        }
    }

    /// Shows what the kernel has put into the first `count` buffers, datagram by datagram.
    fn hand_over(&self, count: usize, mut each: impl FnMut(ReceivedDatagram<'_>)) {
        let Slots { headers, names, controls, .. } = &self.slots;
        for (index, buffer) in self.buffers[..count].iter().enumerate() {
            let message = &headers[index];
            // SAFETY: an AF_INET socket writes a `sockaddr_in`; zeroes and any other bits are a value of it, too.
            let v4 = unsafe { names[index].address };
            let from = SocketAddrV4::new(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)), u16::from_be(v4.sin_port));
            let (octet, segment) =
                read_controls(&controls[index].0[..message.msg_hdr.msg_controllen.min(CONTROL_BYTES)]);
            let all = &buffer[..(message.msg_len as usize).min(buffer.len())];
            let cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            for bytes in all.chunks(segment.unwrap_or(all.len()).max(1)) {
                let truncated = cut || bytes.len() > self.datagram_bytes;
                each(ReceivedDatagram {
                    bytes: &bytes[..bytes.len().min(self.datagram_bytes)],
                    from,
                    octet,
                    truncated,
                });
            }
            if all.is_empty() {
                each(ReceivedDatagram { bytes: all, from, octet, truncated: cut });
            }
        }
    }

    /// Whether a call that handed over so many messages may have left some.
    pub(crate) fn is_full(messages: usize) -> bool {
        messages == RECEIVE_BATCH
    }
}

/// Among the control messages of a datagram that arrived: the octet of DSCP and ECN, zero if it is not there, and the
/// size of each datagram if there are several.
fn read_controls(mut controls: &[u8]) -> (u8, Option<usize>) {
    let (mut octet, mut segment) = (0, None);
    while let Some((kind, value)) = next_control(&mut controls) {
        match kind {
            (libc::IPPROTO_IP, libc::IP_TOS) => octet = value.first().copied().unwrap_or(0),
            (libc::SOL_UDP, libc::UDP_GRO) => {
                segment = integer(value).and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
            }
            _ => {}
        }
    }
    (octet, segment)
}

/// Level, type and value of the first control message, which is taken off; `None` if there is no whole one.
fn next_control<'a>(controls: &mut &'a [u8]) -> Option<((libc::c_int, libc::c_int), &'a [u8])> {
    let length =
        controls.get(offset_of!(libc::cmsghdr, cmsg_len)..)?.first_chunk().map(|at| usize::from_ne_bytes(*at))?;
    let value = controls.get(CONTROL_HEADER_BYTES..length)?;
    let level = integer(&controls[offset_of!(libc::cmsghdr, cmsg_level)..])?;
    let kind = integer(&controls[offset_of!(libc::cmsghdr, cmsg_type)..])?;
    *controls = controls.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    Some(((level, kind), value))
}

fn integer(bytes: &[u8]) -> Option<libc::c_int> {
    bytes.first_chunk().map(|bytes| libc::c_int::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests;
