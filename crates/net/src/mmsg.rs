//! Many messages per system call, each with its own destination and traffic class: `sendmmsg`, `recvmmsg`.
//!
//! The `unsafe` of this crate's sockets is here and in `switch/packet_ring.rs`. Every pointer that the kernel gets
//! points into a slice that the caller lent for the call, or into arrays that this module owns.

#![allow(unsafe_code, reason = "no well-kept crate has these calls with packet addresses and IP_TOS")]

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::event_loop::wait_writable;

/// Messages per call.
pub(crate) const BATCH: usize = 64;
/// Most bytes of a run of datagrams: those of UDP over IPv4.
const MAX_RUN_BYTES: usize = 65_507;
/// Room for two control messages with integers.
const CONTROL_BYTES: usize = 64;

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To {
    /// Out of the interface with this index: the message is a frame.
    Interface(u32),
    /// To this address: the message is a datagram.
    Address(SocketAddrV4),
}

/// A message to send.
pub(crate) struct Outgoing<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) to: To,
    /// The octet of DSCP and ECN, for datagrams.
    pub(crate) octet: Option<u8>,
    /// A part of the message before, out of the same interface: its payload only.
    pub(crate) joins: bool,
}

/// A message that arrived.
pub(crate) struct Incoming<'a> {
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
struct Control([u64; CONTROL_BYTES / 8]);

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
            controls: vec![Control([0; CONTROL_BYTES / 8]); BATCH],
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
    fn takes(&self, messages: &[Outgoing<'_>], next: &Outgoing<'_>) -> bool {
        let (first, last) = (&messages[self.first], &messages[self.first + self.count - 1]);
        let alike = match (first.to, next.to) {
            (To::Address(a), To::Address(b)) => a == b && first.octet == next.octet,
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
pub(crate) struct Sender {
    slots: Slots,
    runs: Vec<Run>,
    /// Whether the kernel may be left to cut runs of datagrams (UDP_SEGMENT).
    segments: bool,
}

// SAFETY: the raw pointers inside are written at the start of each call and used in that call only.
unsafe impl Send for Sender {}

impl Sender {
    pub(crate) fn new() -> Self {
        Self { slots: Slots::new(), runs: Vec::with_capacity(BATCH), segments: true }
    }

    /// Sends `messages`, at most [`BATCH`], in order; waits while there is no room. `refused` hears the place of each
    /// that the kernel would not take; the others were sent.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Outgoing<'_>],
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
    fn prepare(&mut self, messages: &[Outgoing<'_>], from: usize) {
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
            header.msg_iov = ptr::from_mut(&mut iovecs[run.first]);
            header.msg_iovlen = run.count;
            header.msg_name = ptr::from_mut(&mut names[slot]).cast();
            header.msg_namelen = write_name(&mut names[slot], message.to);
            let segment = (run.count > 1 && !run.joined).then_some(message.bytes.len() as u16);
            header.msg_controllen = write_controls(&mut controls[slot], message.octet, segment);
            header.msg_control =
                if header.msg_controllen > 0 { controls[slot].0.as_mut_ptr().cast() } else { ptr::null_mut() };
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
                // The device or the peer has no room, is down, or the message is too long for it; or the kernel does not
                // know what is asked of it.
                Some(libc::EIO | libc::EINVAL) if run.joined => {
                    (run.first..run.first + run.count).for_each(&mut *refused);
                    sent += 1;
                }
                Some(
                    libc::ENOBUFS
                    | libc::ENETDOWN
                    | libc::ENXIO
                    | libc::EMSGSIZE
                    | libc::ECONNREFUSED
                    | libc::EPERM
                    | libc::EHOSTUNREACH
                    | libc::ENETUNREACH,
                ) => {
                    (run.first..run.first + run.count).for_each(&mut *refused);
                    sent += 1;
                }
                _ => return Err(error),
            }
        }
        Ok(None)
    }
}

fn write_name(name: &mut Name, to: To) -> libc::socklen_t {
    match to {
        To::Interface(index) => {
            // SAFETY: zeroes are a value of this plain C struct.
            let mut interface: libc::sockaddr_ll = unsafe { mem::zeroed() };
            interface.sll_family = libc::AF_PACKET as libc::c_ushort;
            interface.sll_ifindex = index as libc::c_int;
            name.interface = interface;
            size_of::<libc::sockaddr_ll>() as libc::socklen_t
        }
        To::Address(address) => {
            // SAFETY: as above.
            let mut v4: libc::sockaddr_in = unsafe { mem::zeroed() };
            v4.sin_family = libc::AF_INET as libc::sa_family_t;
            v4.sin_port = address.port().to_be();
            v4.sin_addr.s_addr = u32::from(*address.ip()).to_be();
            name.address = v4;
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
    }
}

/// Writes the control messages that set the octet of DSCP and ECN, and the size at which the kernel cuts; returns their
/// length.
fn write_controls(control: &mut Control, octet: Option<u8>, segment: Option<u16>) -> usize {
    let mut at = 0;
    if let Some(octet) = octet {
        at += write_control(control, at, (libc::IPPROTO_IP, libc::IP_TOS), libc::c_int::from(octet));
    }
    if let Some(segment) = segment {
        at += write_control(control, at, (libc::SOL_UDP, libc::UDP_SEGMENT), segment);
    }
    at
}

/// Writes one control message; returns the room that it takes.
fn write_control<T>(control: &mut Control, at: usize, (level, kind): (libc::c_int, libc::c_int), value: T) -> usize {
    // SAFETY: a calculation on sizes.
    let (length, space) =
        unsafe { (libc::CMSG_LEN(size_of::<T>() as u32) as usize, libc::CMSG_SPACE(size_of::<T>() as u32) as usize) };
    assert!(at + space <= CONTROL_BYTES);
    // SAFETY: the buffer is aligned for `cmsghdr`, as is `at`, a sum of such spaces; that there is room for the header and
    // the value behind it, which CMSG_DATA finds, was just checked.
    unsafe {
        let header = control.0.as_mut_ptr().add(at / 8).cast::<libc::cmsghdr>();
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = length;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
    }
    space
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
pub(crate) struct Receiver {
    slots: Slots,
    buffers: Vec<Box<[u8]>>,
    /// Bytes of the longest datagram.
    datagram_bytes: usize,
}

// SAFETY: as for `Sender`.
unsafe impl Send for Receiver {}

/// Messages taken by one call: with as much in each as fits an IP packet they would not stay in the cache.
const RECEIVE_BATCH: usize = 16;

impl Receiver {
    /// For datagrams of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let buffers = (0..RECEIVE_BATCH).map(|_| vec![0; 1 << 16].into()).collect();
        Self { slots: Slots::new(), buffers, datagram_bytes: bytes }
    }

    /// Takes some of what waits, without waiting itself. Returns how many messages the kernel handed over, each of one
    /// datagram or several; less than [`Receiver::is_full`] says and there is no more.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, mut each: impl FnMut(Incoming<'_>)) -> io::Result<usize> {
        let Slots { headers, iovecs, names, controls } = &mut self.slots;
        for (index, buffer) in self.buffers.iter_mut().enumerate() {
            iovecs[index] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut headers[index].msg_hdr;
            header.msg_iov = ptr::from_mut(&mut iovecs[index]);
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(&mut names[index]).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
            header.msg_flags = 0;
        }
        // SAFETY: as many headers were filled above as there are buffers; buffers, names and controls outlive the call.
        let count = unsafe {
            let (first, length) = (headers.as_mut_ptr(), self.buffers.len() as libc::c_uint);
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
        for index in 0..count as usize {
            let (message, buffer) = (&headers[index], &self.buffers[index]);
            // SAFETY: an AF_INET socket writes a `sockaddr_in`; zeroes and any other bits are a value of it, too.
            let v4 = unsafe { names[index].address };
            let from = SocketAddrV4::new(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)), u16::from_be(v4.sin_port));
            let (octet, segment) = read_controls(&message.msg_hdr);
            let all = &buffer[..(message.msg_len as usize).min(buffer.len())];
            let cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            for bytes in all.chunks(segment.unwrap_or(all.len()).max(1)) {
                let truncated = cut || bytes.len() > self.datagram_bytes;
                each(Incoming { bytes: &bytes[..bytes.len().min(self.datagram_bytes)], from, octet, truncated });
            }
            if all.is_empty() {
                each(Incoming { bytes: all, from, octet, truncated: cut });
            }
        }
        Ok(count as usize)
    }

    /// Whether a call that handed over so many messages may have left some.
    pub(crate) fn is_full(messages: usize) -> bool {
        messages == RECEIVE_BATCH
    }
}

/// Among the control messages of a datagram that arrived: the octet of DSCP and ECN, zero if it is not there, and the
/// size of each datagram if there are several.
fn read_controls(message: &libc::msghdr) -> (u8, Option<usize>) {
    let (mut octet, mut segment) = (0, None);
    // SAFETY: the kernel filled the control buffer up to `msg_controllen`; the macros stay inside it. A message of type
    // IP_TOS has an octet at least, one of type UDP_GRO an integer.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => octet = libc::CMSG_DATA(header).read(),
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let bytes = libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned();
                    segment = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (octet, segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn loopback() -> (UdpSocket, SocketAddrV4) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_ip_recvtos(&socket, true).unwrap();
        let std::net::SocketAddr::V4(address) = socket.local_addr().unwrap() else { unreachable!() };
        (socket, address)
    }

    /// All 256 octets arrive as they were sent, beside the bytes and the sender's address, in order.
    #[test]
    fn octets_and_bytes_arrive_as_sent() {
        let ((a, a_address), (b, b_address)) = (loopback(), loopback());
        let (mut sender, mut receiver) = (Sender::new(), Receiver::new(64));
        for first in (0u8..=255).step_by(BATCH) {
            let octets: Vec<u8> = (first..=first + (BATCH as u8 - 1)).collect();
            let bodies: Vec<[u8; 2]> = octets.iter().map(|octet| [*octet, 7]).collect();
            let message = |body: &'_ [u8; 2]| (*body, To::Address(b_address), Some(body[0]));
            let parts: Vec<_> = bodies.iter().map(message).collect();
            let messages: Vec<Outgoing<'_>> = parts
                .iter()
                .map(|(bytes, to, octet)| Outgoing { bytes, to: *to, octet: *octet, joins: false })
                .collect();
            sender.send(a.as_fd(), &messages, |_| panic!("loopback takes all")).unwrap();
            let mut got = Vec::new();
            while got.len() < BATCH {
                let take = |incoming: Incoming<'_>| {
                    assert_eq!(incoming.from, a_address);
                    assert_eq!((incoming.bytes, incoming.truncated), (&[incoming.octet, 7][..], false));
                    got.push(incoming.octet);
                };
                receiver.receive(b.as_fd(), take).unwrap();
            }
            assert_eq!(got, octets);
        }
    }

    /// Runs of datagrams, of one size and of several, to one address and with changing octets, arrive one by one as they
    /// were sent, whether the receiver lets the kernel coalesce them or not.
    #[test]
    fn runs_are_cut_where_they_were_joined() {
        for coalesced in [false, true] {
            let ((a, _), (b, b_address)) = (loopback(), loopback());
            if coalesced {
                coalesce(b.as_fd());
            }
            let sizes = [1000, 1000, 1000, 400, 1000, 1000, 1400, 7, 7, 7, 9, 7, 1, 1000];
            let bodies: Vec<(Vec<u8>, u8)> = (0u8..)
                .zip(sizes)
                .map(|(number, size)| (vec![number; size], if number < 6 { 0x22 } else { 0x20 }))
                .collect();
            let messages: Vec<Outgoing<'_>> = bodies
                .iter()
                .map(|(bytes, octet)| Outgoing { bytes, to: To::Address(b_address), octet: Some(*octet), joins: false })
                .collect();
            let (mut sender, mut receiver) = (Sender::new(), Receiver::new(1500));
            sender.send(a.as_fd(), &messages, |_| panic!("loopback takes all")).unwrap();
            let mut got = Vec::new();
            while got.len() < bodies.len() {
                receiver.receive(b.as_fd(), |incoming| got.push((incoming.bytes.to_vec(), incoming.octet))).unwrap();
            }
            assert!(sender.segments, "this kernel can cut");
            assert_eq!(got, bodies);
        }
    }

    #[test]
    fn what_does_not_fit_is_said_to_be_cut() {
        let ((a, _), (b, b_address)) = (loopback(), loopback());
        let long = [1; 100];
        let message = Outgoing { bytes: &long, to: To::Address(b_address), octet: None, joins: false };
        Sender::new().send(a.as_fd(), &[message], |_| panic!("loopback takes all")).unwrap();
        let mut receiver = Receiver::new(64);
        let mut cut = None;
        while cut.is_none() {
            receiver.receive(b.as_fd(), |incoming| cut = Some((incoming.bytes.len(), incoming.truncated))).unwrap();
        }
        assert_eq!(cut, Some((64, true)));
    }

    /// A datagram beyond what UDP can carry is refused by itself; those around it arrive.
    #[test]
    fn a_refused_message_does_not_stop_the_others() {
        let ((a, _), (_b, b_address)) = (loopback(), loopback());
        let (fits, long) = ([1; 10], vec![1; 70_000]);
        let message = |bytes| Outgoing { bytes, to: To::Address(b_address), octet: None, joins: false };
        let mut refused = Vec::new();
        let messages = [message(&fits), message(&long), message(&fits)];
        Sender::new().send(a.as_fd(), &messages, |index| refused.push(index)).unwrap();
        assert_eq!(refused, [1]);
    }
}
