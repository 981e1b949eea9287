use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::batch::Unopened;

/// A batch of records of one byte at every offset of a range, by hand.
fn a_batch(base: i64, count: i64, attributes: i16) -> Vec<u8> {
    let mut tail = attributes.to_be_bytes().to_vec();
    tail.extend((count as i32 - 1).to_be_bytes());
    tail.extend([0; 16]);
    tail.extend([0xff; 14]);
    tail.extend((count as i32).to_be_bytes());
    for delta in 0..count {
        // The offset's distance in zigzag form, of one byte or two.
        let zigzag = (delta * 2) as u64;
        let delta = if zigzag < 0x80 { vec![zigzag as u8] } else { vec![zigzag as u8 | 0x80, (zigzag >> 7) as u8] };
        tail.push(((6 + delta.len()) * 2) as u8);
        tail.extend([0, 0]);
        tail.extend(&delta);
        tail.extend([1, 2, b'x', 0]);
    }
    let mut batch = base.to_be_bytes().to_vec();
    batch.extend((tail.len() as i32 + 9).to_be_bytes());
    batch.extend([0, 0, 0, 0, 2]);
    batch.extend(crc32c::crc32c(&tail).to_be_bytes());
    batch.extend(tail);
    batch
}

const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5 | TRANSACTIONAL;

/// The offsets that a consumer gets.
fn offsets(bytes: &[u8]) -> Vec<i64> {
    sections(bytes)
        .flat_map(|section| match section {
            Section::Batch(header, bytes) if !header.is_control() => {
                Batch::open(bytes, &mut Room::for_response(0)).unwrap().offsets().collect::<Vec<_>>()
            }
            _ => vec![],
        })
        .collect()
}

fn order(pattern: LossPattern) -> LossOrder {
    LossOrder::new(pattern, "clicks", 0)
}

fn part(part: f64) -> Bound {
    Bound { min_delivery: MinDelivery::from_part(part).unwrap(), order: order(LossPattern::Uniform) }
}

fn thinned(records: &[u8], ledger: &mut Ledger, bound: f64, lossy: bool) -> (Vec<u8>, Entry) {
    let mut output = Vec::new();
    let lossy = lossy.then_some(part(bound));
    let entry = thin(records, ledger, lossy, &mut Room::for_response(0), &mut output);
    (output, entry)
}

/// A tenth of a hundred records, not the last; the same again for the next reader, even if nothing may be lost then.
#[test]
fn as_much_is_left_out_as_is_allowed_and_once() {
    let batch = a_batch(500, 100, 0);
    let mut ledger = Ledger::default();
    let (first, entry) = thinned(&batch, &mut ledger, 0.9, true);
    let got = offsets(&first);
    assert_eq!((got.len(), got.last()), (90, Some(&599)));
    assert_eq!(entry.plain, RecordCounts { fetched: 100, lost: 10 });
    assert_eq!(entry.decided, [(500, 599)]);
    for lossy in [true, false] {
        let (again, entry) = thinned(&batch, &mut ledger, 0.9, lossy);
        assert!(again == first && entry.is_empty());
    }
    assert_eq!(ledger.counts(), RecordCounts { fetched: 100, lost: 10 });
}

/// A fifth of 160 records in each pattern: apart, in rows of 32, and those at the end but for the anchor.
#[test]
fn patterns_of_loss() {
    let batch = a_batch(320, 160, 0);
    let lost = |pattern| {
        let bound = Bound { order: order(pattern), ..part(0.8) };
        thin(&batch, &mut Ledger::default(), Some(bound), &mut Room::for_response(0), &mut Vec::new()).lost
    };
    let uniform = lost(LossPattern::Uniform);
    assert!(
        uniform.len() > 20 && uniform.iter().map(|(first, last)| last - first + 1).sum::<i64>() == 32,
        "{uniform:?}"
    );
    let [(first, last)] = lost(LossPattern::Bursts)[..] else { panic!("a burst is one range") };
    assert!(first % 32 == 0 && last == first + 31, "{first} {last}");
    assert_eq!(lost(LossPattern::Tails), [(447, 478)]);
}

/// The records that are lost of a topic's partition, of 5,000 in one batch.
fn lost_of(topic: &str, partition: i32, bound: f64) -> BTreeSet<i64> {
    let batch = a_batch(0, 5000, 0);
    let bound = Bound { order: LossOrder::new(LossPattern::Uniform, topic, partition), ..part(bound) };
    let mut output = Vec::new();
    thin(&batch, &mut Ledger::default(), Some(bound), &mut Room::for_response(0), &mut output);
    let got: BTreeSet<i64> = offsets(&output).into_iter().collect();
    (0..5000).filter(|offset| !got.contains(offset)).collect()
}

/// What a partition loses says nothing about another, of this topic or another: of a fifth of each a fifth are of the same
/// offsets, 200 with a standard deviation of 11.
#[test]
fn partitions_lose_different_offsets() {
    let first = lost_of("clicks", 0, 0.8);
    assert_eq!(first.len(), 1000);
    let others = (1..100).map(|partition| lost_of("clicks", partition, 0.8));
    for other in others.chain([lost_of("views", 0, 0.8), lost_of("clicks.eu", 0, 0.8)]) {
        let both = first.intersection(&other).count();
        assert!((140..260).contains(&both), "{both}");
    }
    assert_eq!(first, lost_of("clicks", 0, 0.8), "the order is the same in every process");
}

/// Of records that are alike in time, and that a producer gives to four partitions in turn, the mean of what arrives is as far
/// off as draws without replacement are: over sixty topics within a fifth of it. If partitions lost the same offsets, it would
/// be twice as far.
#[test]
fn what_arrives_errs_as_draws_do() {
    const RECORDS: u64 = 20_000;
    // Eight in a row are the same.
    let value = |record: u64| mixed(record / 8) as f64 / u64::MAX as f64;
    let all: Vec<f64> = (0..RECORDS).map(value).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let truth = mean(&all);
    let variance = all.iter().map(|value| (value - truth).powi(2)).sum::<f64>() / RECORDS as f64;
    let predicted = (variance * (1.0 - 0.5) / (0.5 * RECORDS as f64)).sqrt();
    let squares = (0..60).map(|topic| {
        let lost: Vec<_> = (0..4).map(|partition| lost_of(&format!("topic{topic}"), partition, 0.5)).collect();
        let arrives = |record: &u64| !lost[(record % 4) as usize].contains(&((record / 4) as i64));
        let arrived: Vec<f64> = (0..RECORDS).filter(arrives).map(value).collect();
        (mean(&arrived) - truth).powi(2)
    });
    let measured = (squares.sum::<f64>() / 60.0).sqrt();
    assert!((0.8..1.2).contains(&(measured / predicted)), "{}", measured / predicted);
}

/// What was not left out before may be later, but of records that nobody has had.
#[test]
fn what_is_saved_up_may_be_left_out_of_what_is_new() {
    let (first, second) = (a_batch(0, 100, 0), a_batch(100, 100, 0));
    let mut ledger = Ledger::default();
    assert_eq!(thinned(&first, &mut ledger, 0.9, false).0, first);
    assert_eq!(thinned(&first, &mut ledger, 0.9, true).0, first, "a reader has had them");
    assert_eq!(offsets(&thinned(&second, &mut ledger, 0.9, true).0).len(), 80);
    assert_eq!(ledger.counts(), RecordCounts { fetched: 200, lost: 20 });
}

/// A batch of one record, a marker of a transaction's end, and a batch that is cut short or damaged pass as they are.
#[test]
fn anchors_and_markers_pass() {
    let mut damaged = a_batch(10, 5, 0);
    damaged[70] ^= 1;
    let mut whole: Vec<u8> = (0..10).flat_map(|offset| a_batch(offset, 1, 0)).collect();
    whole.extend([damaged, a_batch(20, 5, CONTROL), a_batch(30, 5, 0)[..70].to_vec()].concat());
    let mut ledger = Ledger::default();
    assert_eq!(thinned(&whole, &mut ledger, 0.01, true).0, whole);
    assert_eq!(ledger.counts(), RecordCounts { fetched: 10, lost: 0 });
}

/// Of a response only so much is unpacked. What comes after is as it was, and counts as not seen.
#[test]
fn the_batches_of_a_response_are_unpacked_within_bounds() {
    let one = a_batch(0, 100, 0).len() - 61;
    let whole: Vec<u8> = (0..9).flat_map(|number| a_batch(number * 100, 100, 0)).collect();
    let (mut ledger, mut output) = (Ledger::default(), Vec::new());
    // For two; the third is not unpacked to its end.
    let mut room = Room::of(2 * one + 1);
    let entry = thin(&whole, &mut ledger, Some(part(0.5)), &mut room, &mut output);
    assert_eq!(entry.decided, [(0, 199)]);
    assert_eq!(ledger.counts(), RecordCounts { fetched: 200, lost: 100 });
    assert!(output.ends_with(&whole[2 * whole.len() / 9..]));
    assert_eq!(Batch::open(&whole[..whole.len() / 9], &mut room).unwrap_err(), Unopened::NoRoom);
}

/// Records of transactions neither earn nor spend what others may lose.
#[test]
fn each_batch_of_a_transaction_keeps_the_bound() {
    let whole = [a_batch(0, 1000, 0), a_batch(1000, 10, TRANSACTIONAL), a_batch(1010, 9, TRANSACTIONAL)].concat();
    let mut ledger = Ledger::default();
    thinned(&whole[..], &mut ledger, 1.0, true);
    let mut ledger = Ledger::default();
    thinned(&a_batch(0, 1000, 0), &mut ledger, 0.9, false);
    let (left, entry) = thinned(&whole, &mut ledger, 0.9, true);
    assert_eq!(offsets(&left).len(), 1000 + 9 + 9);
    assert_eq!(entry.transactional, RecordCounts { fetched: 19, lost: 1 });
}

/// A packed batch that would not become smaller stays whole, and nothing is noted as lost.
#[test]
fn nothing_is_lost_in_vain() {
    let plain = a_batch(0, 100, 0);
    let mut tail = plain[21..61].to_vec();
    // Snappy as one block without a frame; packed again it has one, and of records that are all alike one costs little.
    tail[1] = 2;
    tail.extend(snap::raw::Encoder::new().compress_vec(&plain[61..]).unwrap());
    let length = (tail.len() as i32 + 9).to_be_bytes();
    let whole = [&plain[..8], &length, &plain[12..17], &crc32c::crc32c(&tail).to_be_bytes(), &tail].concat();
    assert_eq!(offsets(&whole).len(), 100);
    let mut ledger = Ledger::default();
    let (left, entry) = thinned(&whole, &mut ledger, 0.99, true);
    assert!(left == whole);
    assert_eq!(entry.plain, RecordCounts { fetched: 100, lost: 0 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A thousand runs: a log of batches, readers that begin anywhere and fetch any number of batches, again and again,
    /// with a congested path and without, and a ledger that is written down, read again and forgets what the broker has
    /// deleted. Never is more lost than the bound; all readers get the same; the ledger says what they did not get.
    #[test]
    fn never_more_is_lost_than_the_bound(
        shape in prop::collection::vec((1..150i64, 0..10u8, any::<bool>()), 1..12),
        fetches in prop::collection::vec((0..12usize, 1..5usize, any::<bool>(), 0..10u8), 1..25),
        millionths in 1..=1_000_000u32,
        pattern in prop::sample::select(vec![LossPattern::Uniform, LossPattern::Bursts, LossPattern::Tails]),
    ) {
        let min_delivery = MinDelivery::try_from(millionths).unwrap();
        let bound = Bound { min_delivery, order: order(pattern) };
        let (mut log, mut next) = (Vec::new(), 0);
        for (count, kind, gap) in shape {
            let attributes = match kind { 0 => CONTROL, 1..=3 => TRANSACTIONAL, _ => 0 };
            log.push((a_batch(next, count, attributes), next, count, attributes));
            next += count + i64::from(gap);
        }
        let (mut ledger, mut journal) = (Ledger::default(), Vec::new());
        // Of each offset that somebody has fetched, whether it came.
        let mut seen: BTreeMap<i64, bool> = BTreeMap::new();
        let mut deleted = 0;
        for (start, count, lossy, event) in fetches {
            let start = start.min(log.len() - 1).max(deleted);
            let fetched = &log[start..(start + count).min(log.len())];
            let records: Vec<u8> = fetched.iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
            let mut output = Vec::new();
            let lossy = lossy.then_some(bound);
            let entry = thin(&records, &mut ledger, lossy, &mut Room::for_response(0), &mut output);
            prop_assert!(output.len() <= records.len());
            journal.push(serde_json::to_string(&entry).unwrap());
            let got = offsets(&output);
            for (batch, base, count, attributes) in fetched {
                if *attributes == CONTROL {
                    prop_assert!(output.windows(batch.len()).any(|part| part == batch), "a marker is as it was");
                    continue;
                }
                for offset in *base..base + count {
                    let came = got.binary_search(&offset).is_ok();
                    prop_assert_eq!(*seen.entry(offset).or_insert(came), came, "all readers get the same");
                    prop_assert_eq!(ledger.is_lost(offset), !came);
                }
                prop_assert!(got.binary_search(&(base + count - 1)).is_ok(), "the anchor");
                if *attributes == TRANSACTIONAL {
                    let lost = (*base..base + count).filter(|offset| !seen[offset]).count() as u64;
                    prop_assert!(lost <= min_delivery.may_lose(*count as u64));
                }
            }
            let lost = seen.values().filter(|came| !**came).count() as u64;
            let all = RecordCounts { fetched: seen.len() as u64, lost };
            prop_assert_eq!(ledger.counts(), all, "each counts once");
            prop_assert!(lost <= min_delivery.may_lose(all.fetched));
            prop_assert!(ledger.plain().lost <= min_delivery.may_lose(ledger.plain().fetched));
            match event {
                0 | 1 => {
                    // It is started again.
                    ledger = Ledger::default();
                    for line in &journal {
                        prop_assert!(ledger.take(&serde_json::from_str(line).unwrap()));
                    }
                }
                2 => journal = ledger.entries().iter().map(|entry| serde_json::to_string(entry).unwrap()).collect(),
                3 if deleted + 1 < log.len() => {
                    deleted += 1;
                    ledger.forget_below(log[deleted].1);
                }
                _ => {}
            }
        }
    }
}
