use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchResponse, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use proptest::prelude::*;

use super::*;
use crate::batch::{Room, Section, sections};
use crate::connection::{Fetched, fetch};
use crate::thin::{LossPattern, thin};

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// A batch of as many records from an offset on, as another codec makes it.
fn a_batch(base: i64, count: usize, bytes: usize, compression: Compression, transactional: bool) -> Vec<u8> {
    let record = |number: usize| Record {
        transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 3,
        producer_id: 77,
        producer_epoch: 2,
        timestamp_type: TimestampType::Creation,
        offset: base + number as i64,
        sequence: number as i32,
        timestamp: 1_700_000_000_000 + number as i64,
        key: None,
        value: Some(Bytes::from(format!("{number:08} {}", "ab".repeat(bytes / 2)))),
        headers: IndexMap::new(),
    };
    let records: Vec<Record> = (0..count).map(record).collect();
    let mut encoded = BytesMut::new();
    RecordBatchEncoder::encode(&mut encoded, &records, &RecordEncodeOptions { version: 2, compression }).unwrap();
    encoded.to_vec()
}

/// A response to a fetch of version 11, or of 12 with its tags, from its length on: a partition for each of `records`.
fn response(version: i16, records: &[Vec<u8>]) -> Vec<u8> {
    let partition = |(number, records): (usize, &Vec<u8>)| {
        let records = Some(Bytes::from(records.clone()));
        PartitionData::default().with_partition_index(number as i32).with_high_watermark(9).with_records(records)
    };
    let topic = FetchableTopicResponse::default()
        .with_topic(TopicName(StrBytes::from_static_str("clicks")))
        .with_partitions(records.iter().enumerate().map(partition).collect());
    let mut bytes = BytesMut::from(&99i32.to_be_bytes()[..]);
    if version >= 12 {
        bytes.extend_from_slice(&[0]);
    }
    FetchResponse::default().with_responses(vec![topic]).encode(&mut bytes, version).unwrap();
    [&(bytes.len() as i32).to_be_bytes(), &bytes[..]].concat()
}

fn cut(part: f64) -> Cut {
    Cut {
        min_delivery: MinDelivery::from_part(part).unwrap(),
        payload: 300,
        order: LossOrder::new(LossPattern::Uniform, "clicks", 0),
        leaves_out: false,
    }
}

/// Takes a response apart, with a ledger for each partition: its head, and what was noted of each partition.
fn take_apart(version: i16, whole: &[u8], ledgers: &mut [Ledger], cut: Cut, plan: &mut Plan) -> Vec<u8> {
    let mut left = whole[4..8].to_vec();
    let mut take = |fetched: &Fetched<'_>, output: &mut Vec<u8>| {
        plan.take_apart(fetched.records, &mut ledgers[fetched.partition as usize], cut, output);
        Ok(())
    };
    fetch(version, &whole[8..], &mut take, &mut left).unwrap();
    left
}

/// The records of each partition of a response, every batch of which is whole and has its last record.
fn records(version: i16, frame: &[u8]) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    let mut read = |fetched: &Fetched<'_>, _: &mut Vec<u8>| {
        let of_batch = |section| match section {
            Section::Batch(header, bytes) => {
                let offsets: Vec<i64> = Batch::open(bytes, &mut Room::for_response(0)).unwrap().offsets().collect();
                assert_eq!(offsets.last(), Some(&header.last), "the anchor");
                offsets
            }
            Section::Other(_) => panic!("no batch"),
        };
        all.push(sections(fetched.records).flat_map(of_batch).collect());
        Ok(())
    };
    assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
    fetch(version, &frame[8..], &mut read, &mut Vec::new()).unwrap();
    all
}

/// All messages come, and the response is what the broker gave, byte for byte; of packed batches the records are.
#[test]
fn what_comes_whole_is_as_it_was() {
    for (version, compression) in [11, 12].into_iter().flat_map(|version| CODECS.map(|codec| (version, codec))) {
        let batches = [a_batch(0, 200, 60, compression, false), a_batch(200, 3, 60, compression, true)].concat();
        let whole = response(version, &[batches.clone(), batches[..70].to_vec(), a_batch(7, 1, 9, compression, false)]);
        let (mut ledgers, mut plan) = (vec![Ledger::default(); 3], Plan::for_response(0));
        let left = take_apart(version, &whole, &mut ledgers, cut(0.5), &mut plan);
        assert!(plan.groups.len() > 1, "{compression:?}");
        if compression == Compression::None {
            assert!(plan.groups.iter().all(|group| group.message.len() <= 300), "one packet each");
        }
        let mut carried = Carried::parse(&plan.head(5, version, &left)).unwrap();
        assert_eq!((carried.flow(), carried.messages()), (5, plan.groups.len()));
        plan.messages().into_iter().for_each(|message| carried.take(message).unwrap());
        let report = carried.report();
        assert_eq!(report, Report::default());
        for (ledger, entry) in ledgers.iter_mut().zip(plan.settle(&report).unwrap()) {
            assert!(ledger.take(&entry));
            assert_eq!((ledger.unsettled(), ledger.counts().lost), (0, 0));
        }
        let mut got = Vec::new();
        carried.write(&mut got).unwrap();
        if compression == Compression::None {
            assert_eq!(got, whole);
        } else {
            let got: Vec<i64> =
                (0..203).filter(|offset| ledgers[0].is_decided(*offset) && !ledgers[0].is_lost(*offset)).collect();
            assert_eq!(got.len(), 203);
        }
    }
}

/// Of a hundred records half may be lost: with nothing here, fifty are and the rest is asked for again. A message that comes
/// twice, or comes after it was asked for again, changes nothing.
#[test]
fn what_is_missing_beyond_the_bound_is_asked_for_again() {
    let whole = response(11, &[a_batch(0, 101, 60, Compression::None, false)]);
    let (mut ledgers, mut plan) = (vec![Ledger::default()], Plan::for_response(0));
    let left = take_apart(11, &whole, &mut ledgers, cut(0.5), &mut plan);
    assert_eq!(ledgers[0].unsettled(), 50, "of 101 records");
    let mut carried = Carried::parse(&plan.head(5, 11, &left)).unwrap();
    let report = carried.report();
    let counts = |ranges: &[(u32, u32)]| -> u32 {
        let groups = ranges.iter().flat_map(|(first, last)| &plan.groups[*first as usize..=*last as usize]);
        groups.map(|group| group.records).sum()
    };
    assert_eq!(counts(&report.lost) + counts(&report.again), 100);
    assert!((48..=50).contains(&counts(&report.lost)));
    assert_eq!(Report::parse(&report.encode()), Ok(report.clone()));
    carried.take_again(&plan.again(&report).unwrap()).unwrap();
    carried.take_again(&plan.again(&report).unwrap()).unwrap();
    let [entry]: [Entry; 1] = plan.settle(&report).unwrap().try_into().unwrap();
    ledgers[0].take(&entry);
    let mut got = Vec::new();
    carried.write(&mut got).unwrap();
    let expected: Vec<i64> = (0..101).filter(|offset| !ledgers[0].is_lost(*offset)).collect();
    assert_eq!(records(11, &got), std::slice::from_ref(&expected));
    assert_eq!(ledgers[0].counts().lost, 101 - expected.len() as u64);
    assert_eq!(ledgers[0].unsettled(), 0);
    // The next reader gets the same.
    let mut again = Vec::new();
    let bound = Bound { min_delivery: cut(0.5).min_delivery, order: cut(0.5).order };
    let batch = a_batch(0, 101, 60, Compression::None, false);
    let entry = thin(&batch, &mut ledgers[0], Some(bound), &mut Room::for_response(0), &mut again);
    assert!(entry.is_empty());
    assert_eq!(Batch::open(&again, &mut Room::for_response(0)).unwrap().offsets().collect::<Vec<_>>(), expected);
}

/// Rewrites batches that Kafka's own library made, for its own reader to check (`bench/kafka/batches.py`). The folder has the
/// file `cases`: for each case whether records travel in messages, the millionths of `min_delivery`, the pattern, a seed, and
/// the length of its batches, which follow. The file `rewrites` gets for each the length of what the consumer gets, that itself, and
/// the number and ranges of lost offsets.
#[test]
#[ignore = "bench/kafka/batches.py runs it, with Java"]
fn rewrites_for_kafkas_own_reader() {
    let folder = std::path::PathBuf::from(std::env::var_os("PLIANT_KAFKA_BATCHES").expect("a folder with cases"));
    let cases = std::fs::read(folder.join("cases")).unwrap();
    let (mut left, mut rewrites) = (&cases[..], Vec::new());
    while !left.is_empty() {
        let (in_messages, millionths) = (take(&mut left, 1).unwrap()[0] != 0, take_u32(&mut left).unwrap());
        let pattern =
            [LossPattern::Uniform, LossPattern::Bursts, LossPattern::Tails][take_u32(&mut left).unwrap() as usize];
        let seed = take_u32(&mut left).unwrap();
        let length = take_u32(&mut left).unwrap();
        let records = take(&mut left, length as usize).unwrap();
        let min_delivery = MinDelivery::try_from(millionths).unwrap();
        let order = LossOrder::new(pattern, "clicks", seed.cast_signed());
        let mut ledger = Ledger::default();
        let rewritten = if in_messages {
            over_a_lossy_path(records, &mut ledger, Cut { min_delivery, order, payload: 1100, leaves_out: false }, seed)
        } else {
            let mut output = Vec::new();
            let bound = Some(Bound { min_delivery, order });
            thin(records, &mut ledger, bound, &mut Room::for_response(records.len()), &mut output);
            output
        };
        let lost: Vec<(i64, i64)> = ledger.lost().collect();
        rewrites.extend((rewritten.len() as u32).to_be_bytes());
        rewrites.extend(rewritten);
        rewrites.extend((lost.len() as u32).to_be_bytes());
        rewrites.extend(lost.iter().flat_map(|(first, last)| [first.to_be_bytes(), last.to_be_bytes()].concat()));
    }
    std::fs::write(folder.join("rewrites"), rewrites).unwrap();
}

/// Takes messages from a path that loses `loss` percent of them.
fn take_what_comes(plan: &Plan, carried: &mut Carried, loss: u32, seed: u64) {
    let mut state = seed;
    for message in plan.messages() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (state >> 33) as u32 % 100 >= loss {
            carried.take(message).unwrap();
        }
    }
}

/// What a consumer gets of these records if the path loses three messages of ten.
fn over_a_lossy_path(records: &[u8], ledger: &mut Ledger, cut: Cut, seed: u32) -> Vec<u8> {
    let whole = response(11, &[records.to_vec()]);
    let mut plan = Plan::for_response(records.len());
    let head = take_apart(11, &whole, std::slice::from_mut(ledger), cut, &mut plan);
    let mut carried = Carried::parse(&plan.head(5, 11, &head)).unwrap();
    take_what_comes(&plan, &mut carried, 30, u64::from(seed));
    let report = carried.report();
    carried.take_again(&plan.again(&report).unwrap()).unwrap();
    for entry in plan.settle(&report).unwrap() {
        assert!(ledger.take(&entry));
    }
    let (mut frame, mut got) = (Vec::new(), Vec::new());
    carried.write(&mut frame).unwrap();
    let mut read = |fetched: &Fetched<'_>, _: &mut Vec<u8>| {
        got.extend_from_slice(fetched.records);
        Ok(())
    };
    fetch(11, &frame[8..], &mut read, &mut Vec::new()).unwrap();
    got
}

/// However messages are lost, as many may miss as keep every account's bound: the largest of each first.
#[test]
fn as_many_may_miss_as_keep_the_bound() {
    let account = |may_lose| Account { partition: 0, may_lose, transactional: false };
    let group = |account, records| Group { account, records, offsets: Vec::new(), rank: (0, 0), message: Vec::new() };
    let plan = Plan {
        accounts: vec![account(10), account(0), account(3)],
        groups: vec![group(0, 4), group(0, 5), group(0, 2), group(1, 1), group(2, 1), group(2, 1)],
        partitions: 1,
        ..Plan::for_response(0)
    };
    assert_eq!(plan.may_miss(), 2 + 2, "five and four of ten, none of none, both of three");
}

/// A flow that ends when enough has arrived has not sent its last messages: as many records of each partition are missing as
/// may be, and none is asked for again. What is dropped leaves the others as they are.
#[test]
fn what_may_be_missing_is_sent_last() {
    let parts = [a_batch(0, 500, 60, Compression::None, false), a_batch(0, 300, 200, Compression::None, true)];
    let whole = response(11, &parts);
    let (mut ledgers, mut plan) = (vec![Ledger::default(); 2], Plan::for_response(0));
    let left = take_apart(11, &whole, &mut ledgers, cut(0.7), &mut plan);
    let mut carried = Carried::parse(&plan.head(5, 11, &left)).unwrap();
    let messages = plan.messages();
    for message in &messages[..messages.len() - plan.may_miss()] {
        carried.take(message).unwrap();
    }
    let report = carried.report();
    assert!(report.again.is_empty() && !report.lost.is_empty());
    let entries = plan.settle(&report).unwrap();
    let lost = [entries[0].plain.lost, entries[1].transactional.lost];
    assert!((143..=150).contains(&lost[0]) && (88..=90).contains(&lost[1]), "{lost:?}");
    let groups = plan.groups.len();
    let mut third = Ledger::default();
    plan.take_apart(&a_batch(0, 100, 60, Compression::None, true), &mut third, cut(0.7), &mut Vec::new());
    assert!(plan.groups.len() > groups);
    plan.drop_partition();
    assert_eq!((plan.groups.len(), plan.partitions, plan.settle(&report)), (groups, 2, Ok(entries)));
}

/// What a peer says wrongly is refused, and nothing is kept of what it claims to be.
#[test]
fn what_is_malformed_is_refused() {
    let whole = response(11, &[a_batch(0, 101, 60, Compression::Lz4, false)]);
    let (mut ledgers, mut plan) = (vec![Ledger::default()], Plan::for_response(0));
    let left = take_apart(11, &whole, &mut ledgers, cut(0.5), &mut plan);
    let head = plan.head(5, 11, &left);
    for end in 0..head.len() {
        if let Ok(carried) = Carried::parse(&head[..end]) {
            assert!(carried.write(&mut Vec::new()).is_err(), "cut at {end}");
        }
    }
    let mut carried = Carried::parse(&head).unwrap();
    for message in [&[][..], &[0, 0, 0], &u32::MAX.to_be_bytes(), &(carried.messages() as u32).to_be_bytes()] {
        assert!(carried.take(message).is_err(), "{message:?}");
    }
    carried.take(&[0, 0, 0, 0, 1, 2, 3]).unwrap();
    assert_eq!(carried.write(&mut Vec::new()), Err(Refusal::Malformed), "that is no LZ4");
    let many = plan.groups.len() as u32;
    for (lost, why) in [
        (vec![(0, many - 1)], Refusal::Bound),
        (vec![(0, many)], Refusal::Malformed),
        (vec![(1, 0)], Refusal::Malformed),
        (vec![(1, 2), (2, 3)], Refusal::Malformed),
        (vec![(0, u32::MAX)], Refusal::Malformed),
    ] {
        assert_eq!(plan.settle(&Report { lost: lost.clone(), again: vec![] }), Err(why), "{lost:?}");
    }
    for bytes in [&[][..], &[0, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 0, 0, 0], &[0xff; 16]] {
        assert!(Report::parse(bytes).is_err(), "{bytes:?}");
    }
}

/// One fetch of several partitions.
#[derive(Clone, Debug)]
struct Round {
    batches: Vec<(usize, usize, bool)>,
    codec: usize,
    version: i16,
    /// Of a hundred messages so many are lost.
    loss: u32,
    seed: u64,
    /// Whoever received it is killed before it tells what is lost.
    killed: bool,
    /// Records are left out of batches that stay whole.
    leaves_out: bool,
}

fn round() -> impl Strategy<Value = Round> {
    (
        prop::collection::vec((1..60usize, prop_oneof![3 => 4..80usize, 1 => 300..900usize], any::<bool>()), 1..5),
        0..5usize,
        prop_oneof![Just(11i16), Just(12i16)],
        prop_oneof![Just(0u32), 1..100u32, Just(100u32)],
        any::<u64>(),
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(|(batches, codec, version, loss, seed, killed, leaves_out)| Round {
            batches,
            codec,
            version,
            loss,
            seed,
            killed,
            leaves_out,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// A thousand random runs of several fetches, messages and losses: never more is lost than the bound, at any time and
    /// whoever is killed; every batch that comes can be read; what came is what the ledger does not name; of every batch of a
    /// transaction the bound is kept; and whoever reads again gets the same.
    #[test]
    fn never_more_is_lost_than_the_bound(
        rounds in prop::collection::vec(round(), 1..5), part in prop_oneof![0.01..1.0f64, Just(1.0)],
    ) {
        const PARTITIONS: usize = 2;
        let cut = cut(part);
        let mut ledgers = vec![Ledger::default(); PARTITIONS];
        let mut next = [0i64; PARTITIONS];
        // Records that nobody got, and all.
        let (mut lost, mut fetched) = ([0u64; PARTITIONS], [0u64; PARTITIONS]);
        for round in rounds {
            let mut given = vec![Vec::new(); PARTITIONS];
            let mut transactions = Vec::new();
            for (number, (count, bytes, transactional)) in round.batches.iter().enumerate() {
                let partition = number % PARTITIONS;
                let base = next[partition];
                given[partition].extend(a_batch(base, *count, *bytes, CODECS[round.codec], *transactional));
                next[partition] += *count as i64;
                if *transactional {
                    transactions.push((partition, base..base + *count as i64));
                }
            }
            let whole = response(round.version, &given);
            let mut plan = Plan::for_response(0);
            let cut = Cut { leaves_out: round.leaves_out, ..cut };
            let left = take_apart(round.version, &whole, &mut ledgers, cut, &mut plan);
            let mut carried = Carried::parse(&plan.head(1, round.version, &left)).unwrap();
            take_what_comes(&plan, &mut carried, round.loss, round.seed);
            let report = carried.report();
            carried.take_again(&plan.again(&report).unwrap()).unwrap();
            let mut got = Vec::new();
            carried.write(&mut got).unwrap();
            if !round.killed {
                for (ledger, entry) in ledgers.iter_mut().zip(plan.settle(&report).unwrap()) {
                    prop_assert!(ledger.take(&entry));
                }
            }
            let got = if given.iter().all(Vec::is_empty) { vec![Vec::new(); PARTITIONS] } else { records(round.version, &got) };
            let mut before = next;
            for (number, (count, ..)) in round.batches.iter().enumerate() {
                before[number % PARTITIONS] -= *count as i64;
            }
            let mut here = got.into_iter();
            for partition in 0..PARTITIONS {
                let got: BTreeSet<i64> =
                    if given[partition].is_empty() { BTreeSet::new() } else { here.next().unwrap().into_iter().collect() };
                let all = before[partition]..next[partition];
                prop_assert!(got.iter().all(|offset| all.contains(offset)));
                let missing: Vec<i64> = all.clone().filter(|offset| !got.contains(offset)).collect();
                let of_transactions =
                    |offset: &i64| transactions.iter().any(|(of, range)| *of == partition && range.contains(offset));
                for (of, range) in transactions.iter().filter(|(of, _)| *of == partition) {
                    let lost = range.clone().filter(|offset| !got.contains(offset)).count() as u64;
                    let count = range.clone().count() as u64;
                    prop_assert!(lost <= cut.min_delivery.may_lose(count), "{of}: {lost} of {count}");
                }
                lost[partition] += missing.iter().filter(|offset| !of_transactions(offset)).count() as u64;
                fetched[partition] += all.clone().filter(|offset| !of_transactions(offset)).count() as u64;
                prop_assert!(lost[partition] <= cut.min_delivery.may_lose(fetched[partition]));
                let ledger = &mut ledgers[partition];
                prop_assert!(ledger.counts().fetched == next[partition] as u64);
                prop_assert!(all.clone().all(|offset| ledger.is_decided(offset)));
                if round.killed {
                    let named = all.clone().filter(|offset| ledger.is_lost(*offset));
                    let left_out: BTreeSet<i64> = named.collect();
                    prop_assert!(left_out.iter().all(|offset| !got.contains(offset)));
                    prop_assert!(ledger.unsettled() >= (missing.len() - left_out.len()) as u64);
                } else {
                    prop_assert!(all.clone().all(|offset| ledger.is_lost(offset) != got.contains(&offset)));
                    let mut again = Vec::new();
                    let bound = Bound { min_delivery: cut.min_delivery, order: cut.order };
                    let entry = thin(&given[partition], ledger, Some(bound), &mut Room::for_response(0), &mut again);
                    prop_assert!(entry.is_empty());
                    let same: BTreeSet<i64> = sections(&again)
                        .flat_map(|section| match section {
                            Section::Batch(_, bytes) => Batch::open(bytes, &mut Room::for_response(0)).unwrap().offsets().collect::<Vec<_>>(),
                            Section::Other(_) => Vec::new(),
                        })
                        .collect();
                    prop_assert_eq!(same, got);
                }
                // What a start reads from the file is the same.
                let mut read = Ledger::default();
                ledger.entries().iter().for_each(|entry| assert!(read.take(entry)));
                prop_assert_eq!(&read, &*ledger);
            }
        }
    }
}
