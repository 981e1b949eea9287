use super::*;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use proptest::prelude::*;

fn loopback() -> (UdpSocket, SocketAddrV4) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_ip_recvtos(&socket, true).unwrap();
    let std::net::SocketAddr::V4(address) = socket.local_addr().unwrap() else { unreachable!() };
    (socket, address)
}

/// All 256 octets arrive as they were sent, beside the bytes and the sender's address, in order.
#[test]
#[cfg_attr(miri, ignore = "Miri has no such sockets")]
fn octets_and_bytes_arrive_as_sent() {
    let ((a, a_address), (b, b_address)) = (loopback(), loopback());
    let (mut sender, mut receiver) = (BatchSender::new(), BatchReceiver::new(64));
    for first in (0u8..=255).step_by(BATCH) {
        let octets: Vec<u8> = (first..=first + (BATCH as u8 - 1)).collect();
        let bodies: Vec<[u8; 2]> = octets.iter().map(|octet| [*octet, 7]).collect();
        let message = |body: &'_ [u8; 2]| (*body, Destination::Address(b_address), Some(body[0]));
        let parts: Vec<_> = bodies.iter().map(message).collect();
        let messages: Vec<Transmit<'_>> =
            parts.iter().map(|(bytes, to, octet)| Transmit { bytes, to: *to, octet: *octet, joins: false }).collect();
        sender.send(a.as_fd(), &messages, |_| panic!("loopback takes all")).unwrap();
        let mut got = Vec::new();
        while got.len() < BATCH {
            let take = |incoming: ReceivedDatagram<'_>| {
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
#[cfg_attr(miri, ignore = "Miri has no such sockets")]
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
        let messages: Vec<Transmit<'_>> = bodies
            .iter()
            .map(|(bytes, octet)| Transmit {
                bytes,
                to: Destination::Address(b_address),
                octet: Some(*octet),
                joins: false,
            })
            .collect();
        let (mut sender, mut receiver) = (BatchSender::new(), BatchReceiver::new(1500));
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
#[cfg_attr(miri, ignore = "Miri has no such sockets")]
fn what_does_not_fit_is_said_to_be_cut() {
    let ((a, _), (b, b_address)) = (loopback(), loopback());
    let long = [1; 100];
    let message = Transmit { bytes: &long, to: Destination::Address(b_address), octet: None, joins: false };
    BatchSender::new().send(a.as_fd(), &[message], |_| panic!("loopback takes all")).unwrap();
    let mut receiver = BatchReceiver::new(64);
    let mut cut = None;
    while cut.is_none() {
        receiver.receive(b.as_fd(), |incoming| cut = Some((incoming.bytes.len(), incoming.truncated))).unwrap();
    }
    assert_eq!(cut, Some((64, true)));
}

/// A datagram beyond what UDP can carry is refused by itself; those around it arrive.
#[test]
#[cfg_attr(miri, ignore = "Miri has no such sockets")]
fn a_refused_message_does_not_stop_the_others() {
    let ((a, _), (_b, b_address)) = (loopback(), loopback());
    let (fits, long) = ([1; 10], vec![1; 70_000]);
    let message = |bytes| Transmit { bytes, to: Destination::Address(b_address), octet: None, joins: false };
    let mut refused = Vec::new();
    let messages = [message(&fits), message(&long), message(&fits)];
    BatchSender::new().send(a.as_fd(), &messages, |index| refused.push(index)).unwrap();
    assert_eq!(refused, [1]);
}

/// Octet and segment size among control messages, by the C library's own macros.
unsafe fn controls_of(message: &libc::msghdr) -> (Option<u8>, Option<u16>) {
    let (mut octet, mut segment) = (None, None);
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    assert_eq!((*header).cmsg_len, libc::CMSG_LEN(4) as usize);
                    octet = Some(libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned() as u8);
                }
                (libc::SOL_UDP, libc::UDP_SEGMENT) => {
                    assert_eq!((*header).cmsg_len, libc::CMSG_LEN(2) as usize);
                    segment = Some(libc::CMSG_DATA(header).cast::<u16>().read_unaligned());
                }
                other => panic!("nothing else is asked of the kernel: {other:?}"),
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (octet, segment)
}

/// Writes a control message as the kernel does, by the C library's own macros; `at` is moved behind it.
#[allow(clippy::cast_ptr_alignment, reason = "the buffer is aligned, and so is each message")]
unsafe fn put_control(message: &libc::msghdr, at: &mut usize, kind: (libc::c_int, libc::c_int), value: &[u8]) {
    unsafe {
        let header = message.msg_control.cast::<u8>().add(*at).cast::<libc::cmsghdr>();
        (*header).cmsg_len = libc::CMSG_LEN(value.len() as u32) as usize;
        ((*header).cmsg_level, (*header).cmsg_type) = kind;
        ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(header), value.len());
        *at += libc::CMSG_SPACE(value.len() as u32) as usize;
    }
    assert!(*at <= message.msg_controllen);
}

/// What the kernel does between two sockets, through the pointers it is given and nothing else: every message is
/// gathered and laid, uncut, into the receiver's next buffer. Returns where each was to go.
fn carry(sender: &BatchSender, receiver: &mut BatchReceiver, from: SocketAddrV4) -> Vec<SocketAddrV4> {
    receiver.prepare();
    let (sent, slots) = (&sender.slots.headers[..sender.runs.len()], receiver.slots.headers.as_mut_ptr());
    let mut went = Vec::new();
    for (index, message) in sent.iter().map(|message| &message.msg_hdr).enumerate() {
        assert_eq!(message.msg_namelen as usize, size_of::<libc::sockaddr_in>());
        // SAFETY: what `prepare` promises of both: all pointers are to as much as is said beside them.
        unsafe {
            let name = message.msg_name.cast::<libc::sockaddr_in>().read();
            went.push(SocketAddrV4::new(u32::from_be(name.sin_addr.s_addr).into(), u16::from_be(name.sin_port)));
            let into = &mut *slots.add(index);
            let room = *into.msg_hdr.msg_iov;
            let mut length = 0;
            for part in std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) {
                assert!(length + part.iov_len <= room.iov_len);
                let at = room.iov_base.cast::<u8>().add(length);
                ptr::copy_nonoverlapping(part.iov_base.cast::<u8>(), at, part.iov_len);
                length += part.iov_len;
            }
            into.msg_len = length as u32;
            let name = into.msg_hdr.msg_name.cast::<libc::sockaddr_in>();
            (*name).sin_family = libc::AF_INET as libc::sa_family_t;
            (*name).sin_port = from.port().to_be();
            (*name).sin_addr.s_addr = u32::from(*from.ip()).to_be();
            let (octet, segment) = controls_of(message);
            let mut at = 0;
            if let Some(octet) = octet {
                put_control(&into.msg_hdr, &mut at, (libc::IPPROTO_IP, libc::IP_TOS), &[octet]);
            }
            if let Some(segment) = segment {
                let value = i32::from(segment).to_ne_bytes();
                put_control(&into.msg_hdr, &mut at, (libc::SOL_UDP, libc::UDP_GRO), &value);
            }
            into.msg_hdr.msg_controllen = at;
        }
    }
    went
}

const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 4567);

/// Bodies, octets and addresses pass through the arrays unchanged, several in one message or each by itself, again and
/// again in the same arrays. Under Miri: through pointers that reach as far as they say and are still valid.
#[test]
fn memory_carries_what_sockets_would() {
    let to = |port| Destination::Address(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    let (mut sender, mut receiver) = (BatchSender::new(), BatchReceiver::new(1500));
    for segments in [true, false] {
        sender.segments = segments;
        // (bytes, octet, port): runs of three, two and one, then without an octet, and an empty one.
        let parts = [(50, Some(1), 7), (50, Some(1), 7), (20, Some(1), 7), (9, Some(2), 7), (9, Some(2), 7)];
        let parts = [&parts[..], &[(9, Some(2), 8), (30, None, 8), (30, None, 8), (0, None, 8)]].concat();
        let bodies: Vec<Vec<u8>> = (0u8..).zip(&parts).map(|(number, part)| vec![number; part.0]).collect();
        let outgoing = |(bytes, part): (&'_ Vec<u8>, &(usize, Option<u8>, u16))| (bytes.clone(), part.1, part.2);
        let expected: Vec<_> = bodies.iter().zip(&parts).map(outgoing).collect();
        let messages: Vec<Transmit<'_>> = expected
            .iter()
            .map(|(bytes, octet, port)| Transmit { bytes, to: to(*port), octet: *octet, joins: false })
            .collect();
        sender.prepare(&messages, 0);
        let went = carry(&sender, &mut receiver, FROM);
        assert_eq!(went.len(), if segments { 5 } else { 9 });
        assert_eq!(went.iter().filter(|to| to.port() == 7).count(), if segments { 2 } else { 5 });
        let mut got = Vec::new();
        receiver.hand_over(went.len(), |incoming| {
            assert_eq!((incoming.from, incoming.truncated), (FROM, false));
            got.push((incoming.bytes.to_vec(), incoming.octet));
        });
        let as_sent = |(bytes, octet, _): &(Vec<u8>, Option<u8>, u16)| (bytes.clone(), octet.unwrap_or(0));
        assert_eq!(got, expected.iter().map(as_sent).collect::<Vec<_>>());
    }
}

/// Parts of a frame are one message to one interface, whatever their sizes.
#[test]
fn parts_of_a_frame_are_one_message() {
    let (headers, first, second) = ([1; 42], [2; 100], [3; 7]);
    let part = |bytes, joins| Transmit { bytes, to: Destination::Interface(3), octet: None, joins };
    let messages = [part(&headers[..], false), part(&first, true), part(&second, true), part(&headers, false)];
    let mut sender = BatchSender::new();
    sender.prepare(&messages, 0);
    let sent: Vec<_> = sender.slots.headers[..sender.runs.len()].iter().map(|message| message.msg_hdr).collect();
    // SAFETY: as in `carry`.
    let lengths = |message: &libc::msghdr| unsafe {
        let parts = std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen);
        let name = message.msg_name.cast::<libc::sockaddr_ll>().read();
        assert_eq!((name.sll_ifindex, message.msg_controllen), (3, 0));
        assert!(message.msg_control.is_null());
        parts.iter().map(|part| part.iov_len).collect::<Vec<_>>()
    };
    assert_eq!(sent.iter().map(lengths).collect::<Vec<_>>(), [vec![42, 100, 7], vec![42]]);
}

/// Control messages of a length that cannot be, cut short, of another kind or without a value are passed over.
#[test]
fn odd_control_messages_are_passed_over() {
    let mut control = Control([0; CONTROL_BYTES]);
    let first = write_control(&mut control, 0, (libc::SOL_SOCKET, libc::SO_TIMESTAMP), &[9; 16]);
    let end = first + write_control(&mut control, first, (libc::IPPROTO_IP, libc::IP_TOS), &[0xb8]);
    assert_eq!((first, end), (32, 56));
    assert_eq!(read_controls(&control.0[..end]), (0xb8, None));
    // The value's own octet is the last that counts.
    assert_eq!(read_controls(&control.0[..=first + CONTROL_HEADER_BYTES]), (0xb8, None));
    assert_eq!(read_controls(&control.0[..first + CONTROL_HEADER_BYTES]), (0, None));
    for length in [0, CONTROL_HEADER_BYTES - 1, end + 1, usize::MAX] {
        control.0[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(read_controls(&control.0[..end]), (0, None), "{length}");
    }
    let mut control = Control([0; CONTROL_BYTES]);
    for (segment, read) in [(1400i32, Some(1400)), (0, None), (-1, None)] {
        let end = write_control(&mut control, 0, (libc::SOL_UDP, libc::UDP_GRO), &segment.to_ne_bytes());
        assert_eq!(read_controls(&control.0[..end]), (0, read));
    }
    let end = write_control(&mut control, 0, (libc::SOL_UDP, libc::UDP_GRO), &[1, 1]);
    assert_eq!(read_controls(&control.0[..end]), (0, None));
}

proptest! {
    /// No octets in place of control messages are read beyond their end, nor for ever.
    #[test]
    #[cfg_attr(miri, ignore = "slow, and safe code")]
    fn any_control_octets_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..=CONTROL_BYTES)) {
        let (_, segment) = read_controls(&bytes);
        prop_assert!(segment != Some(0));
    }
}
