//! Whatever a broker gives for records, in whatever order, never is more left out than the bound, and the next reader gets
//! the same.

use pliant_kafka::batch::{Room, Section, sections};
use pliant_kafka::ledger::{Ledger, MinDelivery};
use pliant_kafka::thin::{Bound, LossOrder, LossPattern, thin};

/// What a batch's checksum is about, and where it stands.
const CRC: std::ops::Range<usize> = 17..21;

pub(crate) fn check(bytes: &[u8]) {
    // Checksums are made right, or nothing is read behind them.
    let records: Vec<u8> = sections(bytes)
        .flat_map(|section| match section {
            Section::Batch(_, batch) => {
                let mut batch = batch.to_vec();
                let crc = crc32c::crc32c(&batch[CRC.end..]).to_be_bytes();
                batch[CRC].copy_from_slice(&crc);
                batch
            }
            Section::Other(bytes) => bytes.to_vec(),
        })
        .collect();
    assert_eq!(records.len(), bytes.len());
    let min_delivery = MinDelivery::from_part(0.5).expect("it is a part of one");
    for pattern in [LossPattern::Uniform, LossPattern::Bursts, LossPattern::Tails] {
        let bound = Bound { min_delivery, order: LossOrder::new(pattern, "clicks", 0) };
        let mut ledger = Ledger::default();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        thin(&records, &mut ledger, Some(bound), &mut Room::for_response(records.len()), &mut first);
        let counts = ledger.counts();
        assert!(counts.lost <= min_delivery.may_lose(counts.fetched));
        let entry = thin(&records, &mut ledger, Some(bound), &mut Room::for_response(records.len()), &mut again);
        assert!(again == first || !entry.is_empty());
        assert!(ledger.counts().lost <= min_delivery.may_lose(ledger.counts().fetched));
    }
}
