mod random;
mod thinned;

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::congestion::CongestionControl;
use crate::congestion::dctcp::{Dctcp, DctcpConfig, LossCut};
use crate::packet::{AckFlags, Body, CreditStamp, DataFlags, Packet, SackBlocks, ShortTime, Subflow};
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::transport::pair::{End, Fate, Input, Pair, Path, draw_fate};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const MSS: u64 = 1460;
/// Credits for half of 10 Gbit/s.
const HALF_RATE: f64 = 32_367_447.0;

type TestPair = Pair<FlexPassSender<Dctcp>, FlexPassReceiver>;

fn path() -> Path {
    Path::new(Span::from_us(10)).with_rate(Rate::from_gbit_per_sec(10))
}

fn sender(config: &Arc<FlexPassConfig>) -> FlexPassSender<Dctcp> {
    FlexPassSender::new(Arc::clone(config), Dctcp::new(DctcpConfig::default(), MSS as u16))
}

fn pair_with(config: FlexPassConfig, forth: Path, back: Path) -> TestPair {
    let config = Arc::new(config);
    let receiver = FlexPassReceiver::new(Arc::clone(&config), HALF_RATE, Stream::named(1, "credits"));
    Pair::new(sender(&config), receiver, forth, back)
}

/// A sender alone, with `packets` full packets to send.
struct Bench {
    end: End<FlexPassSender<Dctcp>>,
    credits: u32,
}

impl Bench {
    fn new(config: FlexPassConfig, packets: u64) -> Self {
        let mut end = End::new(sender(&Arc::new(config)));
        end.transport.handle_command(Instant::ZERO, Command::Send { bytes: packets * MSS });
        end.feed(Input::Command(Instant::ZERO, Command::Finish));
        Self { end, credits: 0 }
    }

    /// Hands in a packet at `us`; gives what the sender sends then.
    fn take(&mut self, us: u64, body: Body) -> Vec<Body> {
        let packet = Packet::new(crate::packet::TrafficClass::new(0), 84, body);
        let input = Input::Packet(Instant::ZERO.after(Span::from_us(us)), packet, SackBlocks::EMPTY);
        self.end.feed(input).iter().map(|sent| sent.packet.body()).collect()
    }

    /// A credit at `us`; gives the number of the packet of the flow that it sends and whether it was sent before.
    fn credit(&mut self, us: u64) -> Option<(u64, bool)> {
        self.credits += 1;
        let stamp = CreditStamp { number: self.credits, sent_at: ShortTime::of(Instant::ZERO) };
        self.take(us, Body::Credit(stamp)).into_iter().find_map(|body| match body {
            Body::Scheduled { seq, flags, .. } => Some((seq / MSS, flags.contains(DataFlags::RETRANSMISSION))),
            _ => None,
        })
    }

    /// The receiver tells that it expects packet `ack` of the flow and holds `first..end` of a sub-flow.
    fn ack(&mut self, us: u64, ack: u64, subflow: Subflow, first: u32, end: u32) -> Vec<Body> {
        self.take(us, Body::SubflowAck { ack: ack * MSS, first, end, subflow, flags: AckFlags::NONE })
    }

    /// Packets of the flow that the reactive sub-flow has sent, in order.
    fn reactive(&self) -> Vec<u64> {
        let reactive = self.end.sent.iter().filter_map(|sent| match sent.packet.body() {
            Body::Unscheduled { seq, len, .. } if len > 0 => Some(seq / MSS),
            _ => None,
        });
        reactive.collect()
    }
}

/// In the first round trip the request and a window of reactive packets leave at once; with a handshake only a
/// connection request does.
#[test]
fn the_first_round_trip_is_used() {
    let bench = Bench::new(FlexPassConfig::default(), 100);
    assert!(matches!(bench.end.sent[0].packet.body(), Body::CreditRequest { backlog: 146_000, .. }));
    assert_eq!(bench.reactive(), (0..10).collect::<Vec<_>>(), "the initial window");
    assert!(bench.end.sent[1..].iter().all(|sent| sent.packet.traffic_class.is_red()));
    assert!(!bench.end.sent[0].packet.traffic_class.is_red(), "control packets are green");

    let window = Window { handshake: true, ..Window::default() };
    let config = FlexPassConfig { reactive: Reactive::Window(window), ..FlexPassConfig::default() };
    let mut bench = Bench::new(config, 100);
    assert!(matches!(bench.end.sent[1].packet.body(), Body::Syn { .. }));
    assert!(bench.reactive().is_empty());
    bench.take(20, Body::SynAck { echo: Instant::ZERO, window: u16::MAX });
    assert_eq!(bench.reactive().len(), 10);
}

/// A credit sends what is lost, else what is pending, else the oldest reactive packet (section 4.2). Reactive packets
/// 0 to 9 are out; 10 and 11 are pending.
#[test]
fn credits_follow_the_order_of_the_paper() {
    let mut bench = Bench::new(FlexPassConfig::default(), 12);
    assert_eq!(bench.credit(20), Some((10, false)), "pending before reactive");
    // Reactive packets 0, 2, 4 arrive: 1 and 3 are lost.
    bench.ack(30, 1, Subflow::Reactive, 0, 1);
    bench.ack(31, 1, Subflow::Reactive, 2, 3);
    bench.ack(32, 1, Subflow::Reactive, 4, 5);
    assert!(!bench.reactive().contains(&11) || bench.reactive().len() == 11, "the open window may take the last");
    assert_eq!(bench.credit(40), Some((1, true)), "lost first");
    assert_eq!(bench.credit(41), Some((3, true)), "lost first");
    let next = bench.credit(42).unwrap();
    let pending = !bench.reactive().contains(&11);
    assert_eq!(next, if pending { (11, false) } else { (5, true) }, "then pending, then the oldest reactive");
    if pending {
        assert_eq!(bench.credit(43), Some((5, true)), "proactive retransmission of the oldest");
    }
    assert_eq!(bench.credit(44), Some((6, true)));
}

/// What the reactive sub-flow has lost is never sent reactively again, and the window slides over it.
#[test]
fn the_window_slides_over_losses() {
    let mut bench = Bench::new(FlexPassConfig::default(), 100);
    let before = bench.end.transport.controller().window();
    // Of ten packets only the last arrives.
    bench.ack(30, 0, Subflow::Reactive, 9, 10);
    let after = bench.end.transport.controller().window();
    assert_eq!(after, before / 2, "one cut for one window of losses");
    assert_eq!(bench.reactive()[10..], [10, 11, 12, 13, 14], "a window of new packets");
    for lost in 0..9 {
        assert_eq!(bench.credit(31 + lost), Some((lost, true)));
    }
    assert_eq!(bench.credit(50), Some((15, false)));
}

/// A loss may cut as a mark does instead: by half of alpha, which starts at one, so as deep here; at alpha zero not at
/// all.
#[test]
fn losses_may_cut_as_marks() {
    let window = Window { loss_cut: LossCut::AsMark, ..Window::default() };
    let config = Arc::new(FlexPassConfig { reactive: Reactive::Window(window), ..FlexPassConfig::default() });
    let dctcp = DctcpConfig { initial_alpha: 0.0, ..DctcpConfig::default() };
    let mut end = End::new(FlexPassSender::new(Arc::clone(&config), Dctcp::new(dctcp, MSS as u16)));
    end.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 100 * MSS }));
    let before = end.transport.controller().window();
    let body = Body::SubflowAck { ack: 0, first: 9, end: 10, subflow: Subflow::Reactive, flags: AckFlags::NONE };
    let packet = Packet::new(crate::packet::TrafficClass::new(0), 84, body);
    end.feed(Input::Packet(Instant::ZERO.after(Span::from_us(30)), packet, SackBlocks::EMPTY));
    assert_eq!(end.transport.controller().window(), before);
}

/// A gap in the proactive sub-flow is lost and goes first; a proactive retransmission leaves the reactive window, so its
/// late acknowledgement changes nothing there.
#[test]
fn proactive_losses_go_first() {
    let mut bench = Bench::new(FlexPassConfig::default(), 30);
    for us in 20..23 {
        bench.credit(us);
    }
    // Proactive packets carry 10, 11, 12; the second is lost.
    bench.ack(40, 0, Subflow::Proactive, 0, 1);
    bench.ack(41, 0, Subflow::Proactive, 2, 3);
    assert_eq!(bench.credit(42), Some((11, true)));
}

/// After a timeout everything reactive is lost, the window is one segment, and nothing is resent reactively.
#[test]
fn a_reactive_timeout_gives_all_to_the_credits() {
    let mut bench = Bench::new(FlexPassConfig::default(), 12);
    bench.credit(20);
    bench.credit(21);
    let timer = bench.end.deadline.expect("a timer").at;
    let mut now = timer;
    while bench.end.transport.controller().window() > MSS {
        bench.end.feed(Input::Timeout(now));
        now = bench.end.deadline.map_or(now, |deadline| deadline.at);
        assert!(now < Instant::ZERO.after(Span::from_ms(50)), "it times out");
    }
    assert!(bench.end.transport.statistics().timeouts > 0);
    assert_eq!(bench.reactive(), (0..10).collect::<Vec<_>>(), "nothing again");
    assert!(bench.credit(60_000).is_some_and(|(_, again)| again));
}

/// The flow ends with a stop that is answered; both sides have counted the same bytes, by sub-flow.
#[test]
fn both_sub_flows_add_up() {
    let mut pair = pair_with(FlexPassConfig::default(), path(), path());
    pair.transfer(2_000_000);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 2_000_000);
    let (sent, received) = (pair.sender.transport.statistics(), pair.receiver.transport.statistics());
    let (proactive, reactive) = pair.sender.transport.sent_bytes();
    assert_eq!(proactive + reactive, sent.bytes_sent);
    assert_eq!(sent.bytes_sent, 2_000_000 + received.duplicate_bytes, "nothing was lost");
    assert!(received.reactive_bytes > 0 && received.reactive_bytes < 2_000_000, "{received:?}");
    assert!(proactive >= 2_000_000 - received.reactive_bytes);
    assert!(matches!(pair.sender.sent.last().unwrap().packet.body(), Body::CreditStop { .. }));
    assert!(pair.sender.time_of(Event::Finished).is_some());
}

/// A tail loss on the reactive sub-flow costs no timeout: the credits retransmit it proactively (section 4.2).
#[test]
fn a_lost_tail_needs_no_timeout() {
    let lose = |_: usize, _: Instant, packet: &Packet| match packet.body() {
        Body::Unscheduled { .. } => Fate::Drop,
        _ => Fate::Pass,
    };
    let mut pair = pair_with(FlexPassConfig::default(), path().with_fate(lose), path());
    pair.transfer(5 * MSS);
    assert!(pair.run_until(Instant::MAX));
    let received = pair.receiver.time_of(Event::Received).unwrap();
    assert!(received < Instant::ZERO.after(Span::from_us(100)), "{received}");
    assert_eq!(pair.sender.transport.statistics().timeouts, 0);
}

/// A sender that knows how much may wait at the receiver sends nothing beyond that unasked: of its window of ten packets
/// four, where four may wait. A credit then repeats the oldest, and what is acknowledged makes room.
#[test]
fn nothing_is_sent_beyond_the_reorder_buffer() {
    let mut bench = Bench::new(FlexPassConfig { reorder_buffer: Some(4 * MSS), ..FlexPassConfig::default() }, 20);
    assert_eq!(bench.reactive(), [0, 1, 2, 3]);
    assert_eq!(bench.credit(10), Some((0, true)));
    bench.ack(20, 2, Subflow::Reactive, 0, 2);
    assert_eq!(bench.reactive(), [0, 1, 2, 3, 4, 5]);
}

/// A bounded reorder buffer refuses what lies too far ahead, and the flow still arrives whole.
#[test]
fn the_reorder_buffer_is_bounded() {
    for buffer in [4 * MSS, 20 * MSS] {
        let config = FlexPassConfig { reorder_buffer: Some(buffer), ..FlexPassConfig::default() };
        let lose = |number: usize, _: Instant, _: &Packet| if number % 7 == 3 { Fate::Drop } else { Fate::Pass };
        let mut pair = pair_with(config, path().with_fate(lose), path());
        pair.transfer(300_000);
        assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(5))));
        assert_eq!(pair.receiver.delivered(), 300_000);
        let held = pair.receiver.transport.statistics().reorder_bytes;
        assert!(held > 0 && held <= buffer, "{held} of {buffer}");
    }
}

/// RC3's splitting: the reactive sub-flow sends from the end backwards, the credits from the front, and they meet.
#[test]
fn both_ends_meet() {
    let config = FlexPassConfig { splitting: Splitting::BothEnds, ..FlexPassConfig::default() };
    let mut bench = Bench::new(config.clone(), 40);
    assert_eq!(bench.reactive(), (30..40).rev().collect::<Vec<_>>());
    assert_eq!(bench.credit(20), Some((0, false)));
    let mut pair = pair_with(config, path(), path());
    pair.transfer(1_000_000);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 1_000_000);
    let held = pair.receiver.transport.statistics().reorder_bytes;
    assert!(held > 300_000, "up to half of the flow waits: {held}");
}

/// Aeolus: a burst of one bandwidth-delay product, then a green probe that tells how far it went; no window afterwards.
#[test]
fn a_burst_ends_with_a_probe() {
    let class = crate::packet::TrafficClass::new(0).with_red(true);
    let reactive = Reactive::Burst { bytes: 10 * MSS, class, timeout: Span::from_ms(4) };
    let config = FlexPassConfig { reactive, ..FlexPassConfig::default() };
    let mut bench = Bench::new(config.clone(), 100);
    assert_eq!(bench.reactive(), (0..10).collect::<Vec<_>>());
    let probe = bench.end.sent.last().unwrap().packet;
    assert!(matches!(probe.body(), Body::Unscheduled { len: 0, number: 10, .. }), "{probe:?}");
    assert!(!probe.traffic_class.is_red());
    // Only the probe arrives: all ten are lost, and the credits send them first.
    bench.ack(20, 0, Subflow::Reactive, 10, 11);
    assert_eq!((bench.credit(21), bench.credit(22)), (Some((0, true)), Some((1, true))));
    assert_eq!(bench.reactive().len(), 10, "nothing more without credits");

    let lose =
        |_: usize, _: Instant, packet: &Packet| if packet.traffic_class.is_red() { Fate::Drop } else { Fate::Pass };
    for drop_all in [false, true] {
        let forth = if drop_all { path().with_fate(lose) } else { path() };
        let mut pair = pair_with(config.clone(), forth, path());
        pair.transfer(10 * MSS);
        assert!(pair.run_until(Instant::MAX));
        assert_eq!(pair.receiver.delivered(), 10 * MSS);
        if !drop_all {
            // Ten packets of 1538 bytes at 10 Gbit/s behind a request of 84, and 10 us.
            let ideal = Span::from_ps((10 * 1538 + 84) * 800).plus(Span::from_us(10));
            assert_eq!(pair.receiver.time_of(Event::Received), Some(Instant::ZERO.after(ideal)));
        }
    }
}
