//! Homa over scripted paths.

use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::host::HostAnswer;
use crate::packet::{Body, ByteRange, Packet, SackBlocks};
use crate::time::Instant;
use crate::transport::pair::{End, Fate, Input, Pair, Path, any_fates, by_number};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const DELAY: Span = Span::from_us(2);
const PACKET: Span = Span::from_ps(1_230_400);
const RATE: Rate = Rate::from_gbit_per_sec(10);

type Homa = Pair<HomaSender, HomaReceiver>;

fn pair(fate: impl FnMut(usize) -> Fate + 'static, back: impl FnMut(usize) -> Fate + 'static) -> Homa {
    let config = Arc::new(HomaConfig::default());
    let (mut fate, mut fate_back) = (fate, back);
    let forth = Path::new(DELAY).with_rate(RATE).with_fate(move |number, _, _| fate(number));
    let back = Path::new(DELAY).with_fate(move |number, _, _| fate_back(number));
    Pair::new(HomaSender::new(Arc::clone(&config)), HomaReceiver::new(config), forth, back)
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO.after(Span::from_us(us))
}

/// A lone message of a round trip's worth takes its packets' time and the way; of a longer one the grants never stall.
#[test]
fn a_lone_message_is_ideal() {
    for packets in [1, 6, 1000] {
        let mut pair = pair(|_| Fate::Pass, |_| Fate::Pass);
        pair.transfer(packets * 1460);
        assert!(pair.run_until(Instant::MAX));
        let ideal = Instant::ZERO.after(PACKET.times(packets)).after(DELAY);
        assert_eq!(pair.receiver.time_of(Event::Received), Some(ideal), "{packets} packets");
        assert_eq!(pair.receiver.delivered(), packets * 1460);
        let statistics = pair.sender.transport.statistics();
        assert_eq!((statistics.packets_sent, statistics.retransmissions), (packets, 0));
        assert_eq!(pair.sender.time_of(Event::Finished), Some(ideal.after(DELAY)));
    }
}

/// The first 10 kB, in whole packets, leave unasked at the level of the message's size, the rest at that of its grant: alone, the lowest.
#[test]
fn levels_are_those_of_sizes_and_grants() {
    let levels = Levels { count: 8, cutoffs: [1000, 50_000].into() };
    let config = Arc::new(HomaConfig { levels, ..HomaConfig::default() });
    for (size, first) in [(999, 0), (1000, 1), (49_999, 1), (50_000, 2)] {
        let forth = Path::new(DELAY).with_rate(RATE);
        let sender = HomaSender::new(Arc::clone(&config));
        let mut pair = Pair::new(sender, HomaReceiver::new(Arc::clone(&config)), forth, Path::new(DELAY));
        pair.transfer(size);
        assert!(pair.run_until(Instant::MAX));
        for sent in &pair.sender.sent {
            let Body::HomaData { seq, .. } = sent.packet.body() else { continue };
            let level = if seq < 7 * 1460 { first } else { 7 };
            assert_eq!(sent.packet.traffic_class.class(), level, "{size}: {seq}");
        }
    }
}

/// Unscheduled data gets its share of the levels, and each of its levels an equal share of its bytes.
#[test]
fn levels_follow_the_sizes() {
    // 4 x 5 kB and 1 x 20 kB: 30 of 40 kB are unscheduled, 6 of 8 levels; equal fifths and more fall on the 5 kB.
    let levels = Levels::for_sizes(8, 10_000, &[5000, 5000, 5000, 5000, 20_000]);
    assert_eq!(levels, Levels { count: 8, cutoffs: [5000, 20_000].into() });
    // 100 messages of 100 bytes to 10 kB: all unscheduled, but one level must be left for granted data.
    let sizes: Vec<u64> = (1..=100).map(|number| number * 100).collect();
    let levels = Levels::for_sizes(8, 10_000, &sizes);
    assert_eq!(levels.unscheduled(), 7);
    let bytes: Vec<u64> =
        (0..7).map(|level| sizes.iter().filter(|size| levels.of_size(**size) == level).sum()).collect();
    let mean = sizes.iter().sum::<u64>() / 7;
    assert!(bytes.iter().all(|bytes| bytes.abs_diff(mean) <= 10_000), "{bytes:?} around {mean}");
    // Almost everything is granted: one level is left for the rest.
    assert_eq!(Levels::for_sizes(8, 10_000, &[1_000_000; 3]).unscheduled(), 1);
}

/// A gap is asked for after the interval, sent again, and the message is whole; nothing else is sent twice.
#[test]
fn a_gap_is_asked_for_again() {
    let mut pair = pair(|number| if number == 20 { Fate::Drop } else { Fate::Pass }, |_| Fate::Pass);
    pair.transfer(100 * 1460);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 100 * 1460);
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.packets_sent, statistics.retransmissions), (101, 1));
}

/// A sender that has not sent what is asked for says that it is busy; a lost grant is made up for by that.
#[test]
fn a_busy_sender_says_so() {
    let mut end = End::new(HomaSender::new(Arc::new(HomaConfig::default())));
    end.feed(Input::Command(at_us(0), Command::Send { bytes: 100_000 }));
    end.feed(Input::Command(at_us(0), Command::Finish));
    for _ in 0..7 {
        assert_eq!(end.feed(Input::Command(at_us(1), Command::Answer(HostAnswer::Turn))).len(), 1);
    }
    assert!(end.feed(Input::Command(at_us(1), Command::Answer(HostAnswer::Turn))).is_empty(), "10 kB are sent");
    let resend = Body::Resend { range: ByteRange::new(10_220, 12_000), level: 5 };
    let packet = Packet::new(TrafficClass::default(), 84, resend);
    let answer = end.feed(Input::Packet(at_us(2000), packet, SackBlocks::EMPTY));
    assert_eq!(answer[0].packet.body(), Body::Busy);
    let sent = end.feed(Input::Command(at_us(2001), Command::Answer(HostAnswer::Turn)));
    assert!(matches!(sent[0].packet.body(), Body::HomaData { seq: 10_220, .. }));
    assert_eq!(sent[0].packet.traffic_class.class(), 5);
}

proptest! {
    /// Whatever is lost, doubled or delayed on both ways, the whole message arrives, in order, and the flow ends.
    #[test]
    fn everything_arrives(
        forth in any_fates(),
        back in any_fates(),
        bytes in 0u64..200_000,
    ) {
        let mut pair = pair(by_number(forth), by_number(back));
        pair.transfer(bytes);
        pair.check_everything_arrives(bytes)?;
    }
}
