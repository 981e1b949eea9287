//! SCDP over scripted paths, from one source and from two.

use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::host::{HostAnswer, HostRequest};
use crate::packet::{Body, EndpointId, Packet, PulledFlags, SackBlocks};
use crate::time::Instant;
use crate::transport::pair::{End, Fate, Input, Pair, Path, any_fates, by_number};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const DELAY: Span = Span::from_us(5);
const PACKET: Span = Span::from_ps(1_230_400);
const RATE: Rate = Rate::from_gbit_per_sec(10);

type Scdp = Pair<ScdpSender, ScdpReceiver>;

fn object(bytes: u64) -> Arc<ScdpObject> {
    Arc::new(ScdpObject::new(&ScdpConfig::default(), bytes, None))
}

fn pair(bytes: u64, fate: impl FnMut(usize) -> Fate + 'static, back: impl FnMut(usize) -> Fate + 'static) -> Scdp {
    let config = Arc::new(ScdpConfig::default());
    let (mut fate, mut fate_back) = (fate, back);
    let forth = Path::new(DELAY).with_rate(RATE).with_fate(move |number, _, _| fate(number));
    let back = Path::new(DELAY).with_fate(move |number, _, _| fate_back(number));
    let sender = ScdpSender::new(Arc::clone(&config), 0, 1);
    let mut pair = Pair::new(sender, ScdpReceiver::new(config, object(bytes), 1), forth, back);
    pair.transfer(bytes);
    pair
}

fn number(packet: &Packet) -> u64 {
    let Body::Pulled { seq, .. } = packet.body() else { panic!("{packet:?} is no symbol") };
    seq
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO.after(Span::from_us(us))
}

/// Without loss the object itself arrives: k symbols, none decoded, at line rate; levels change at the thresholds.
#[test]
fn without_loss_nothing_is_decoded() {
    let mut pair = pair(1000 * 1460 - 7, |_| Fate::Pass, |_| Fate::Pass);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.time_of(Event::Received), Some(Instant::ZERO.after(PACKET.times(1000)).after(DELAY)));
    assert_eq!(pair.receiver.delivered(), 1000 * 1460 - 7);
    assert!(pair.sender.time_of(Event::Finished).is_some());
    let numbers: Vec<u64> = pair.sender.sent.iter().map(|sent| number(&sent.packet)).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert!(numbers.len() <= 1000 + 15, "k symbols and at most a window more");
    for (index, sent) in pair.sender.sent.iter().enumerate() {
        let level = [20, 204].iter().filter(|threshold| index >= **threshold).count();
        assert_eq!(sent.packet.traffic_class.class(), level, "symbol {index}");
    }
}

/// A symbol that is lost is replaced by a fresh one, whichever it was: k + 2 symbols decode the object.
#[test]
fn any_symbols_will_do() {
    let mut pair = pair(100 * 1460, |number| if number % 10 == 3 { Fate::Drop } else { Fate::Pass }, |_| Fate::Pass);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 100 * 1460);
    let arrived = pair.receiver.transport.statistics();
    assert_eq!(arrived.duplicate_bytes % 1460, 0);
    let numbers: Vec<u64> = pair.sender.sent.iter().map(|sent| number(&sent.packet)).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "no number twice");
}

/// The object is complete with all source symbols, or two more than their number, not before; the last byte is kept back
/// until then.
#[test]
fn an_object_is_complete_when_it_can_be_decoded() {
    let config = ScdpConfig::default();
    let whole = ScdpObject::new(&config, 3 * 1460, None);
    assert_eq!([whole.take(2), whole.take(0), whole.take(1)], [1460; 3]);
    assert!(whole.is_complete() && !whole.was_decoded());
    let coded = ScdpObject::new(&config, 3 * 1460, None);
    assert_eq!([coded.take(0), coded.take(7), coded.take(5), coded.take(4)], [1460, 1460, 1459, 0]);
    assert!(!coded.is_complete());
    assert_eq!(coded.take(9), 1);
    assert!(coded.is_complete() && coded.was_decoded());
    assert_eq!(coded.take(1), 0, "too many");
}

/// Two sources of one object send disjoint symbols; the receiver pulls from each what it delivers, is complete with
/// k + 2 symbols from both, and tells the other source at once.
#[test]
fn two_sources_share_an_object() {
    let config = Arc::new(ScdpConfig { initial_window: 4, ..ScdpConfig::default() });
    let object = Arc::new(ScdpObject::new(&config, 10 * 1460, Some(7)));
    let mut sources = [0, 1].map(|slot| End::new(ScdpSender::new(Arc::clone(&config), slot, 2)));
    let mut ends = [0, 1].map(|_| End::new(ScdpReceiver::new(Arc::clone(&config), Arc::clone(&object), 2)));
    let first = sources.each_mut().map(|source| {
        source.feed(Input::Command(at_us(0), Command::Send { bytes: 10 * 1460 }));
        let sent = source.feed(Input::Command(at_us(0), Command::Finish));
        sent.iter().map(|sent| number(&sent.packet)).collect::<Vec<_>>()
    });
    assert_eq!(first, [[0, 2, 4, 6], [1, 3, 5, 7]]);
    let symbol = |number| {
        let body = Body::Pulled { seq: number, sent_at: at_us(0), len: 1460, flags: PulledFlags::NONE };
        Input::Packet(
            at_us(5),
            Packet::new(TrafficClass::default(), 1538, body).to(EndpointId::default()),
            SackBlocks::EMPTY,
        )
    };
    // The faster source sends 0 to 20, of which 0 to 8 are of the object; the slower one only 1.
    ends[1].feed(symbol(1));
    for number in (0..=18).step_by(2) {
        ends[0].feed(symbol(number));
    }
    assert!(!object.is_complete(), "11 symbols are one too few");
    ends[0].feed(symbol(20));
    assert!(object.was_decoded());
    let asked = |end: &End<ScdpReceiver>, request| end.events.iter().any(|(_, event)| *event == Event::Ask(request));
    assert!(
        asked(&ends[0], HostRequest::JoinObject { object: 7 })
            && asked(&ends[1], HostRequest::JoinObject { object: 7 })
    );
    assert!(asked(&ends[0], HostRequest::CompleteObject { object: 7 }));
    let told = ends[1].feed(Input::Command(at_us(6), Command::Answer(HostAnswer::ObjectComplete)));
    assert!(matches!(told[0].packet.body(), Body::PulledAck { complete: true, .. }));
    let told = Input::Packet(at_us(9), told[0].packet, SackBlocks::EMPTY);
    sources[1].feed(told);
    assert!(sources[1].time_of(Event::Finished).is_some());
    assert_eq!(ends.iter().map(End::delivered).sum::<u64>(), 10 * 1460);
}

proptest! {
    /// Whatever is lost, doubled or delayed on both ways, the whole object arrives, no symbol is sent twice, and the flow
    /// ends.
    #[test]
    fn everything_arrives(
        forth in any_fates(),
        back in any_fates(),
        bytes in 0u64..200_000,
    ) {
        let mut pair = pair(bytes, by_number(forth), by_number(back));
        pair.check_everything_arrives(bytes)?;
        let numbers: Vec<u64> = pair.sender.sent.iter().map(|sent| number(&sent.packet)).collect();
        prop_assert_eq!(&numbers, &(0..numbers.len() as u64).collect::<Vec<_>>());
    }
}
