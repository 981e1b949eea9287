//! ECN codepoints survive segmentation offload on both ends. quinn-udp 0.6.3 loses them on coalesced receives.

use std::time::Duration;

use pliant_net::socket::{Batch, Socket};
use pliant_proto::packet::Ecn;

const DATAGRAMS: usize = 12;
const BYTES: usize = 1200;
/// Far more than the waits that a loopback needs.
const WAITS: usize = 100;

/// One batch of each codepoint arrives whole, in order, with that codepoint on every datagram; and where the kernel
/// offloads segmentation, in fewer receives than datagrams.
#[test]
fn every_codepoint_arrives_on_coalesced_receives() {
    let sender = Socket::bind(crate::common::loopback()).unwrap();
    let mut receiver = Socket::bind(crate::common::loopback()).unwrap();
    let to = receiver.local_address().unwrap();
    let mut batch = Batch::default();
    for ecn in [Ecn::Ce, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
        batch.clear();
        for index in 0..DATAGRAMS {
            if !batch.accepts(to, ecn, BYTES, sender.max_segments()) {
                sender.send(&batch).unwrap();
                batch.clear();
            }
            batch.push(to, ecn, BYTES).fill(index as u8);
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
        let expected: Vec<_> = (0..DATAGRAMS).map(|index| (ecn, vec![index as u8; BYTES])).collect();
        assert_eq!(datagrams, expected, "{ecn:?}");
        if sender.max_segments() > 1 && receiver.coalesces() {
            assert!(batches < DATAGRAMS, "{ecn:?}: no receive of {batches} was coalesced");
        }
    }
}

/// A batch takes only what segmentation can carry: one address, one codepoint, one size but for the last.
#[test]
fn batches_refuse_what_segmentation_cannot_carry() {
    let (to, other) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
    let mut batch = Batch::default();
    assert!(batch.is_empty() && batch.accepts(to, Ecn::Ect0, 1000, 3));
    batch.push(to, Ecn::Ect0, 1000);
    for (to, ecn, bytes, accepted) in [
        (to, Ecn::Ect0, 1000, true),
        (other, Ecn::Ect0, 1000, false),
        (to, Ecn::Ce, 1000, false),
        (to, Ecn::Ect0, 1001, false),
    ] {
        assert_eq!(batch.accepts(to, ecn, bytes, 3), accepted, "{to} {ecn:?} {bytes}");
    }
    batch.push(to, Ecn::Ect0, 10);
    assert!(!batch.accepts(to, Ecn::Ect0, 10, 3), "a shorter datagram is the last");
    batch.clear();
    for _ in 0..3 {
        assert!(batch.accepts(to, Ecn::Ect0, 1000, 3));
        batch.push(to, Ecn::Ect0, 1000);
    }
    assert!(!batch.accepts(to, Ecn::Ect0, 1000, 3), "three segments");
    batch.clear();
    batch.push(to, Ecn::Ect0, 65_000);
    assert!(!batch.accepts(to, Ecn::Ect0, 1000, 3), "no longer than an IP packet");
}
