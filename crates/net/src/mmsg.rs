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

/// Messages per call.
pub(crate) const BATCH: usize = 64;
/// Room for one control message with an integer, and one of the kernel's beside it.
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
    pub(crate) parts: [&'a [u8]; 2],
    pub(crate) to: To,
    /// The octet of DSCP and ECN, for datagrams.
    pub(crate) octet: Option<u8>,
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
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

struct Slots {
    headers: Vec<libc::mmsghdr>,
    iovecs: Vec<[libc::iovec; 2]>,
    names: Vec<Name>,
    controls: Vec<Control>,
}

impl Slots {
    fn new() -> Self {
        // SAFETY: all of these are plain C structs of integers and pointers, for which zeroes are values.
        let (header, iovec, name) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        Self {
            headers: vec![header; BATCH],
            iovecs: vec![[iovec; 2]; BATCH],
            names: vec![name; BATCH],
            controls: vec![Control([0; CONTROL_BYTES]); BATCH],
        }
    }
}

/// Arrays that a call needs, used again and again.
pub(crate) struct Sender(Slots);

// SAFETY: the raw pointers inside are written at the start of each call and used in that call only.
unsafe impl Send for Sender {}

impl Sender {
    pub(crate) fn new() -> Self {
        Self(Slots::new())
    }

    /// Sends `messages`, at most [`BATCH`], in order; waits while there is no room. `refused` hears the place of each
    /// that the kernel would not take; the others were sent.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Outgoing<'_>],
        mut refused: impl FnMut(usize),
    ) -> io::Result<()> {
        let Slots { headers, iovecs, names, controls } = &mut self.0;
        assert!(messages.len() <= headers.len());
        for (index, message) in messages.iter().enumerate() {
            for (iovec, part) in iovecs[index].iter_mut().zip(message.parts) {
                // The kernel only reads what is sent; the C type has no word for that.
                *iovec = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            }
            let header = &mut headers[index].msg_hdr;
            header.msg_iov = iovecs[index].as_mut_ptr();
            header.msg_iovlen = if message.parts[1].is_empty() { 1 } else { 2 };
            header.msg_name = ptr::from_mut(&mut names[index]).cast();
            header.msg_namelen = write_name(&mut names[index], message.to);
            match message.octet {
                Some(octet) => {
                    header.msg_control = controls[index].0.as_mut_ptr().cast();
                    header.msg_controllen = write_octet(&mut controls[index], octet);
                }
                None => {
                    header.msg_control = ptr::null_mut();
                    header.msg_controllen = 0;
                }
            }
        }
        let mut sent = 0;
        while sent < messages.len() {
            let rest = &mut headers[sent..messages.len()];
            // SAFETY: the first `rest.len()` headers were filled above; all they point to lives until the call returns.
            let count = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
            if count > 0 {
                sent += count as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => wait_writable(socket)?,
                // The device or the peer has no room, is down, or the message is too long for it.
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
                    refused(sent);
                    sent += 1;
                }
                _ => return Err(error),
            }
        }
        Ok(())
    }
}

fn wait_writable(socket: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    match poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::OUT)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
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

/// Writes the control message that sets the octet of DSCP and ECN; returns its length.
fn write_octet(control: &mut Control, octet: u8) -> usize {
    let header = ptr::from_mut(control).cast::<libc::cmsghdr>();
    // SAFETY: the buffer is aligned for `cmsghdr` and has room for it and an integer behind it, which CMSG_DATA finds.
    unsafe {
        (*header).cmsg_level = libc::IPPROTO_IP;
        (*header).cmsg_type = libc::IP_TOS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(libc::c_int::from(octet));
        libc::CMSG_SPACE(4) as usize
    }
}

/// Arrays and buffers for what arrives.
pub(crate) struct Receiver {
    slots: Slots,
    buffers: Vec<Box<[u8]>>,
}

// SAFETY: as for `Sender`.
unsafe impl Send for Receiver {}

impl Receiver {
    /// For datagrams of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { slots: Slots::new(), buffers: (0..BATCH).map(|_| vec![0; bytes].into()).collect() }
    }

    /// Takes what waits, up to [`BATCH`] datagrams, without waiting itself. Returns how many there were.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, mut each: impl FnMut(Incoming<'_>)) -> io::Result<usize> {
        let Slots { headers, iovecs, names, controls } = &mut self.slots;
        for (index, buffer) in self.buffers.iter_mut().enumerate() {
            iovecs[index][0] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut headers[index].msg_hdr;
            header.msg_iov = iovecs[index].as_mut_ptr();
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(&mut names[index]).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
            header.msg_flags = 0;
        }
        // SAFETY: every header was filled above; buffers, names and controls outlive the call.
        let count = unsafe {
            let (first, length) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
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
            let message = &headers[index];
            let buffer = &self.buffers[index];
            // SAFETY: an AF_INET socket writes a `sockaddr_in`; zeroes and any other bits are a value of it, too.
            let v4 = unsafe { names[index].address };
            let from = SocketAddrV4::new(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)), u16::from_be(v4.sin_port));
            each(Incoming {
                bytes: &buffer[..(message.msg_len as usize).min(buffer.len())],
                from,
                octet: read_octet(&message.msg_hdr),
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            });
        }
        Ok(count as usize)
    }
}

/// The octet of DSCP and ECN among the control messages of a datagram that arrived; zero if it is not there.
fn read_octet(message: &libc::msghdr) -> u8 {
    // SAFETY: the kernel filled the control buffer up to `msg_controllen`; the macros stay inside it, and a message of
    // type IP_TOS has an octet at least.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::IPPROTO_IP && (*header).cmsg_type == libc::IP_TOS {
                return libc::CMSG_DATA(header).read();
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    0
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
            let body: Vec<[u8; 2]> = octets.iter().map(|octet| [*octet, 7]).collect();
            let message = |(octet, body): (&u8, &'_ [u8; 2])| (*octet, *body);
            let pairs: Vec<(u8, [u8; 2])> = octets.iter().zip(&body).map(message).collect();
            let messages: Vec<Outgoing<'_>> = pairs
                .iter()
                .map(|(octet, body)| Outgoing {
                    parts: [&body[..1], &body[1..]],
                    to: To::Address(b_address),
                    octet: Some(*octet),
                })
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

    #[test]
    fn what_does_not_fit_is_said_to_be_cut() {
        let ((a, _), (b, b_address)) = (loopback(), loopback());
        let long = [1; 100];
        let message = Outgoing { parts: [&long, &[]], to: To::Address(b_address), octet: None };
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
        let message = |bytes| Outgoing { parts: [bytes, &[]], to: To::Address(b_address), octet: None };
        let mut refused = Vec::new();
        let messages = [message(&fits), message(&long), message(&fits)];
        Sender::new().send(a.as_fd(), &messages, |index| refused.push(index)).unwrap();
        assert_eq!(refused, [1]);
    }
}
