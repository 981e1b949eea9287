//! ECN codepoints and DSCPs survive segmentation offload on both ends. quinn-udp 0.6.3 loses ECN on coalesced receives.

use std::net::SocketAddr;
use std::time::Duration;

use pliant_net::socket::{Batch, Socket};
use pliant_proto::packet::{Ecn, TrafficClass};

const DATAGRAMS: usize = 12;
const BYTES: usize = 1200;
/// Far more than the waits that a loopback needs.
const WAITS: usize = 100;

/// One batch of each codepoint, without a DSCP and with one, arrives whole, in order, with that codepoint on every
/// datagram; and where the kernel offloads segmentation, in fewer receives than datagrams. In IPv4 and IPv6.
#[test]
fn every_codepoint_arrives_on_coalesced_receives() {
    for address in crate::common::loopbacks() {
        let sender = Socket::bind(address).unwrap();
        let mut receiver = Socket::bind(address).unwrap();
        let to = receiver.local_address().unwrap();
        for number in [0, 7] {
            for ecn in [Ecn::Ce, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
                arrives(&sender, &mut receiver, to, TrafficClass::new(number).with_ecn(ecn));
            }
        }
    }
}

fn arrives(sender: &Socket, receiver: &mut Socket, to: SocketAddr, class: TrafficClass) {
    let mut batch = Batch::default();
    for index in 0..DATAGRAMS {
        if !batch.accepts(to, class, BYTES, sender.max_segments()) {
            sender.send(&batch).unwrap();
            batch.clear();
        }
        batch.push(to, class, BYTES).fill(index as u8);
    }
    sender.send(&batch).unwrap();
    let (mut datagrams, mut batches) = (Vec::new(), 0);
    for _ in 0..WAITS {
        receiver.wait_readable(Duration::from_millis(100)).unwrap();
        let taken = receiver.receive(|datagram| datagrams.push((datagram.ecn, datagram.bytes.to_vec()))).unwrap();
        batches += taken.batches;
        if datagrams.len() >= DATAGRAMS {
            break;
        }
    }
    let expected: Vec<_> = (0..DATAGRAMS).map(|index| (class.ecn(), vec![index as u8; BYTES])).collect();
    assert_eq!(datagrams, expected, "{class:?}");
    if sender.max_segments() > 1 && receiver.coalesces() {
        assert!(batches < DATAGRAMS, "{class:?}: no receive of {batches} was coalesced");
    }
}

/// The octet that leaves is the traffic class, DSCP and ECN, on single datagrams and in batches, in IPv4 and IPv6: read at
/// a socket of the system's, which reports it.
#[test]
fn dscps_leave_with_the_datagrams() {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
    use std::os::fd::AsRawFd;
    for address in crate::common::loopbacks() {
        let sender = Socket::bind(address).unwrap();
        let receiver = std::net::UdpSocket::bind(address).unwrap();
        if address.is_ipv4() {
            setsockopt(&receiver, sockopt::IpRecvTos, &true).unwrap();
        } else {
            setsockopt(&receiver, sockopt::Ipv6RecvTClass, &true).unwrap();
        }
        let (to, fd) = (receiver.local_addr().unwrap(), receiver.as_raw_fd());
        for class in
            [TrafficClass::new(5).with_ecn(Ecn::Ect0), TrafficClass::new(31), TrafficClass::default().with_red(true)]
        {
            for datagrams in [1, 3] {
                let mut batch = Batch::default();
                (0..datagrams).for_each(|_| batch.push(to, class, 100).fill(1));
                sender.send(&batch).unwrap();
                for _ in 0..datagrams {
                    let mut bytes = [0; 200];
                    let mut content = [std::io::IoSliceMut::new(&mut bytes)];
                    let mut control = nix::cmsg_space!(u32, u32);
                    let flags = MsgFlags::empty();
                    let message = recvmsg::<SockaddrStorage>(fd, &mut content, Some(&mut control), flags).unwrap();
                    let octet = message.cmsgs().unwrap().find_map(|control| match control {
                        ControlMessageOwned::Ipv4Tos(octet) => Some(octet),
                        ControlMessageOwned::Ipv6TClass(octet) => u8::try_from(octet).ok(),
                        _ => None,
                    });
                    let expected = (100, Some(class.octet()));
                    assert_eq!((message.bytes, octet), expected, "{class:?} of {datagrams} to {to}");
                }
            }
        }
    }
}

/// A batch takes only what segmentation can carry: one address, one class, one size but for the last.
#[test]
fn batches_refuse_what_segmentation_cannot_carry() {
    let (to, other) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
    let class = TrafficClass::new(1).with_ecn(Ecn::Ect0);
    let mut batch = Batch::default();
    assert!(batch.is_empty() && batch.accepts(to, class, 1000, 3));
    batch.push(to, class, 1000);
    for (to, class, bytes, accepted) in [
        (to, class, 1000, true),
        (other, class, 1000, false),
        (to, class.with_ecn(Ecn::Ce), 1000, false),
        (to, TrafficClass::new(2).with_ecn(Ecn::Ect0), 1000, false),
        (to, class, 1001, false),
    ] {
        assert_eq!(batch.accepts(to, class, bytes, 3), accepted, "{to} {class:?} {bytes}");
    }
    batch.push(to, class, 10);
    assert!(!batch.accepts(to, class, 10, 3), "a shorter datagram is the last");
    batch.clear();
    for _ in 0..3 {
        assert!(batch.accepts(to, class, 1000, 3));
        batch.push(to, class, 1000);
    }
    assert!(!batch.accepts(to, class, 1000, 3), "three segments");
    batch.clear();
    batch.push(to, class, 65_000);
    assert!(!batch.accepts(to, class, 1000, 3), "no longer than an IP packet");
}
