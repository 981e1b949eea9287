use std::io::Write;

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::records::{
    Compression, Record as OtherRecord, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use super::*;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// Records as another codec has them: (distance to the offset before, timestamp, value).
fn other_records(base: i64, rows: &[(u8, i64, Vec<u8>)], transactional: bool) -> Vec<OtherRecord> {
    let mut offset = base;
    let record = |(number, (gap, timestamp, value)): (usize, &(u8, i64, Vec<u8>))| {
        offset += i64::from(*gap);
        let record = OtherRecord {
            transactional,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 3,
            producer_id: 77,
            producer_epoch: 2,
            timestamp_type: TimestampType::Creation,
            offset,
            // Another encoder begins a batch anew where these do not run in step.
            sequence: (offset - base) as i32,
            timestamp: *timestamp,
            key: (number % 2 == 0).then(|| Bytes::from(format!("key {number}"))),
            value: (!value.is_empty()).then(|| Bytes::from(value.clone())),
            headers: IndexMap::new(),
        };
        offset += 1;
        record
    };
    rows.iter().enumerate().map(record).collect()
}

fn encode(records: &[OtherRecord], compression: Compression) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, records, &RecordEncodeOptions { version: 2, compression }).unwrap();
    bytes.to_vec()
}

fn decode(bytes: &[u8]) -> Vec<OtherRecord> {
    let mut bytes = Bytes::copy_from_slice(bytes);
    RecordBatchDecoder::decode(&mut bytes).unwrap().records
}

fn rows() -> impl Strategy<Value = Vec<(u8, i64, Vec<u8>)>> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        (any::<u8>(), 0..5000usize).prop_map(|(byte, length)| vec![byte; length]),
    ];
    prop::collection::vec((prop_oneof![9 => Just(0u8), 1 => 1..5u8], 0..1_700_000_000_000i64, value), 1..40)
}

/// A batch of three records by hand, as Kafka's documentation of the format lays it out.
fn by_hand() -> Vec<u8> {
    let mut tail = Vec::new();
    tail.extend(0i16.to_be_bytes()); // attributes
    tail.extend(5i32.to_be_bytes()); // lastOffsetDelta: two more were there once
    tail.extend(1000i64.to_be_bytes()); // baseTimestamp
    tail.extend(1009i64.to_be_bytes()); // maxTimestamp
    tail.extend((-1i64).to_be_bytes());
    tail.extend((-1i16).to_be_bytes());
    tail.extend((-1i32).to_be_bytes());
    tail.extend(3i32.to_be_bytes());
    // Length, attributes, timestamp, offset, key, value and headers; numbers in zigzag form.
    tail.extend([14, 0, 0, 0, 1, 2, b'a', 0]);
    tail.extend([14, 0, 18, 4, 1, 2, b'b', 0]);
    tail.extend([14, 0, 2, 8, 1, 2, b'c', 0]);
    let mut batch = 40i64.to_be_bytes().to_vec();
    batch.extend((tail.len() as i32 + 9).to_be_bytes());
    batch.extend(7i32.to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&tail).to_be_bytes());
    batch.extend(tail);
    batch
}

#[test]
fn a_batch_loses_a_record_and_keeps_its_offsets() {
    let batch = by_hand();
    let opened = Batch::open(&batch, &mut Room::for_response(0)).unwrap();
    assert_eq!(opened.offsets().collect::<Vec<_>>(), [40, 42, 44]);
    let left = opened.without(&[42].into());
    let (header, size) = BatchHeader::read(&left).unwrap();
    assert_eq!((header.base, header.last, header.records, size), (40, 45, 2, batch.len() - 8));
    assert_eq!(i64::from_be_bytes(array(&left, 27)), 1000, "the base that records count from");
    assert_eq!(i64::from_be_bytes(array(&left, MAX_TIMESTAMP_AT)), 1001, "the latest that is left");
    assert_eq!(left[HEADER..], [&batch[HEADER..HEADER + 8], &batch[HEADER + 16..]].concat());
    let values: Vec<_> = decode(&left).into_iter().map(|record| (record.offset, record.timestamp)).collect();
    assert_eq!(values, [(40, 1000), (44, 1001)]);
    let empty = opened.without(&[40, 42, 44].into());
    assert_eq!(Batch::open(&empty, &mut Room::for_response(0)).unwrap().offsets().len(), 0);
    assert_eq!(BatchHeader::read(&empty).unwrap().0.last, 45);
    assert_eq!(i64::from_be_bytes(array(&empty, MAX_TIMESTAMP_AT)), 1009);
}

#[test]
fn what_is_no_batch_to_be_taken_apart_stays_whole() {
    let good = by_hand();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut batch = good.clone();
        change(&mut batch);
        if batch.len() > ATTRIBUTES_AT {
            let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
            batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
        }
        Batch::open(&batch, &mut Room::for_response(0)).map(|_| ()).unwrap_err()
    };
    let mut wrong = good.clone();
    wrong[CRC_AT] ^= 1;
    assert_eq!(Batch::open(&wrong, &mut Room::for_response(0)).unwrap_err(), Unopened::Crc);
    assert_eq!(with(&|batch| batch.truncate(20)), Unopened::NoBatch);
    assert_eq!(with(&|batch| batch.push(0)), Unopened::NoBatch);
    assert_eq!(with(&|batch| batch[MAGIC_AT] = 1), Unopened::NoBatch);
    assert_eq!(with(&|batch| batch[ATTRIBUTES_AT + 1] = attribute::CONTROL as u8), Unopened::NoBatch);
    assert_eq!(with(&|batch| batch[ATTRIBUTES_AT + 1] = 5), Unopened::Codec);
    assert_eq!(with(&|batch| batch[ATTRIBUTES_AT + 1] = 1), Unopened::Codec);
    assert_eq!(with(&|batch| batch[COUNT_AT + 3] = 2), Unopened::Records);
    assert_eq!(with(&|batch| batch[COUNT_AT + 3] = 4), Unopened::Records);
    assert_eq!(with(&|batch| batch[COUNT_AT + 3] = 7), Unopened::NoBatch, "more records than offsets");
    assert_eq!(with(&|batch| batch[HEADER + 11] = 0), Unopened::Records, "an offset twice");
    assert_eq!(with(&|batch| batch[HEADER + 19] = 12), Unopened::Records, "an offset beyond the last");
}

#[test]
fn a_partition_is_split_into_batches_and_the_rest() {
    let batch = by_hand();
    let old = [&7i64.to_be_bytes()[..], &20i32.to_be_bytes(), &[1; 20]].concat();
    let whole = [&batch[..], &old, &batch, &batch[..50]].concat();
    let parts: Vec<Section<'_>> = sections(&whole).collect();
    let header = BatchHeader::read(&batch).unwrap().0;
    let full = Section::Batch(header, &batch);
    assert_eq!(parts, [full, Section::Other(&old), full, Section::Other(&batch[..50])]);
}

/// A few kilobytes that unpack to more than is ever unpacked, in every codec.
#[test]
fn bombs_are_not_unpacked() {
    let zeros = vec![0u8; MAX_PLAIN + 1];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let packed = codec.pack(&zeros);
        assert!(packed.len() < zeros.len() / 15, "{codec:?} {}", packed.len());
        assert_eq!(codec.unpack(&packed, MAX_PLAIN), Err(Unopened::TooLarge), "{codec:?}");
        assert_eq!(codec.unpack(&codec.pack(&zeros[1..]), MAX_PLAIN).unwrap().len(), MAX_PLAIN);
    }
    // A block of snappy that says that it has four gigabytes.
    assert_eq!(Codec::Snappy.unpack(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0], MAX_PLAIN), Err(Unopened::TooLarge));
    // A frame of zstd with a window of 2 GiB and one byte.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 9, 0, 0, 1];
    assert_eq!(Codec::Zstd.unpack(&frame, MAX_PLAIN), Err(Unopened::Codec));
}

/// A batch of 16 MiB of zeros in a few kilobytes is not unpacked beyond 64 bytes for each of its own, or a mebibyte; and a
/// response of such batches not beyond its room, which is 16 bytes for each of its own and 4 MiB.
#[test]
fn a_bomb_costs_in_proportion_to_its_size() {
    let zeros = vec![0u8; 16 << 20];
    for (number, codec) in [(1, Codec::Gzip), (2, Codec::Snappy), (3, Codec::Lz4), (4, Codec::Zstd)] {
        let mut bomb = by_hand()[..HEADER].to_vec();
        bomb[ATTRIBUTES_AT + 1] = number;
        bomb.extend(codec.pack(&zeros));
        let length = (bomb.len() - LENGTH_END) as i32;
        bomb[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
        let crc = crc32c::crc32c(&bomb[ATTRIBUTES_AT..]);
        bomb[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
        let packed = bomb.len() - HEADER;
        let whole = Room::for_response(100 * bomb.len());
        let mut room = whole;
        let refused = Batch::open(&bomb, &mut room).unwrap_err();
        let far_more = packed * 64 < zeros.len();
        assert_eq!(refused, if far_more { Unopened::TooLarge } else { Unopened::Records }, "{codec:?}");
        assert!(whole.spent(room) <= (64 * packed).max(1 << 20), "{codec:?} {}", whole.spent(room));
        for _ in 0..100 {
            _ = Batch::open(&bomb, &mut room);
        }
        assert!(whole.spent(room) <= (16 * 100 * bomb.len() + (4 << 20)).min(128 << 20), "{codec:?}");
        // Whoever receives parts that were packed again knows that the whole was not too large.
        let received = Room::for_received();
        assert_eq!(received.limit(packed), (MAX_PLAIN, Unopened::TooLarge));
    }
}

/// Snappy as one block, as librdkafka may send it.
#[test]
fn snappy_without_frames_is_read() {
    let plain = b"abcabcabcabcabc".repeat(100);
    let packed = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
    assert_eq!(Codec::Snappy.unpack(&packed, MAX_PLAIN).unwrap(), plain);
}

/// A member of gzip as zlib's own tools write it, at another level.
#[test]
fn gzip_of_other_levels_is_read() {
    let plain = b"abcabcabcabcabc".repeat(100);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&plain).unwrap();
    assert_eq!(Codec::Gzip.unpack(&encoder.finish().unwrap(), MAX_PLAIN).unwrap(), plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any subset, any codec: another codec's reader gets all other records as they were, at their offsets; the header
    /// tells the same offsets, producer and epoch. If nothing is lost, every byte is the same, through the builder too
    /// where packing is out of the way.
    #[test]
    fn any_subset_can_be_left_out(
        rows in rows(), base in 0..1i64 << 50, codec in 0..5usize, transactional: bool,
        drawn in prop::collection::vec(any::<bool>(), 40),
    ) {
        let records = other_records(base, &rows, transactional);
        let whole = encode(&records, CODECS[codec]);
        for section in sections(&whole) {
            let Section::Batch(header, bytes) = section else { panic!("{section:?}") };
            let before = decode(bytes);
            let batch = Batch::open(bytes, &mut Room::for_response(0)).unwrap();
            let offsets: Vec<i64> = batch.offsets().collect();
            prop_assert_eq!(&offsets, &before.iter().map(|record| record.offset).collect::<Vec<_>>());
            prop_assert_eq!(batch.without(&BTreeSet::new()), bytes);
            let all: Vec<&Record> = batch.records.iter().collect();
            let built = batch.build(&all);
            if codec == 0 {
                prop_assert_eq!(&built[..], bytes);
            }
            prop_assert_eq!(decode(&built), before.clone());
            let lost: BTreeSet<i64> = offsets.iter().zip(&drawn).filter(|(_, lost)| **lost).map(|(o, _)| *o).collect();
            let left = batch.without(&lost);
            let (after, size) = BatchHeader::read(&left).unwrap();
            prop_assert_eq!(size, left.len());
            prop_assert_eq!((after.base, after.last, after.attributes), (header.base, header.last, header.attributes));
            prop_assert_eq!(after.records as usize, offsets.len() - lost.len());
            // Leader epoch, base timestamp, and all of the producer.
            for range in [LENGTH_END..CRC_AT, 23..MAX_TIMESTAMP_AT, 43..COUNT_AT] {
                prop_assert_eq!(&left[range.clone()], &bytes[range]);
            }
            let kept: Vec<_> = before.into_iter().filter(|record| !lost.contains(&record.offset)).collect();
            if let Some(latest) = kept.iter().map(|record| record.timestamp).max() {
                prop_assert_eq!(i64::from_be_bytes(array(&left, MAX_TIMESTAMP_AT)), latest);
                prop_assert_eq!(decode(&left), kept);
            }
        }
    }

    /// Whatever the bytes are, there is no panic, and the parts are the whole.
    #[test]
    fn nonsense_is_no_batch(
        noise in prop::collection::vec(any::<u8>(), 0..300), at in 0..69usize, byte: u8, attributes in 0..5u8,
    ) {
        let whole: Vec<u8> = sections(&noise).flat_map(|section| match section {
            Section::Batch(_, bytes) | Section::Other(bytes) => bytes.to_vec(),
        }).collect();
        prop_assert_eq!(&whole, &noise);
        // A batch with one byte changed and noise for records, and a checksum that fits.
        let mut batch = by_hand();
        batch.truncate(HEADER);
        batch.extend(&noise);
        let length = (batch.len() - LENGTH_END) as i32;
        batch[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
        batch[ATTRIBUTES_AT + 1] = attributes;
        if at < batch.len() {
            batch[at] = byte;
        }
        let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
        batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
        if let Ok(opened) = Batch::open(&batch, &mut Room::for_response(0)) {
            prop_assert!(opened.offsets().is_sorted());
            let lost: BTreeSet<i64> = opened.offsets().take(1).collect();
            prop_assert!(Batch::open(&opened.without(&lost), &mut Room::for_response(0)).is_ok());
        }
    }
}
