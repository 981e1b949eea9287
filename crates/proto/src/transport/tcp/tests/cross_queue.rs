//! A sender that pauses while a queue above its own is congested.

use super::random::{any_config, bad_path};
use super::*;
use crate::congestion::cubic::{Cubic, CubicConfig};
use crate::contract::cross_queue_notification::CrossQueueConfig;
use crate::packet::{Ecn, TrafficClass};
use crate::rng::Stream;
use proptest::prelude::*;

type CrossQueuePair = Pair<CrossQueueSender<TestController>, TcpReceiver>;

/// Data in class 1; probes in class 0 every 100 us, as the default has it.
fn low_priority() -> TcpConfig {
    TcpConfig { data_class: TrafficClass::new(1), ack_class: TrafficClass::new(1), ..config() }
}

fn pausing_by<C: CongestionControl>(
    config: &TcpConfig,
    controller: C,
    cross_queue: CrossQueueConfig,
) -> CrossQueueSender<C> {
    CrossQueueSender::new(TcpSender::new(Arc::new(config.clone()), controller), cross_queue)
}

fn pausing<C: CongestionControl>(config: &TcpConfig, controller: C) -> CrossQueueSender<C> {
    pausing_by(config, controller, CrossQueueConfig::default())
}

fn pausing_pair(config: &TcpConfig, controller: TestController, forth: Path, back: Path) -> CrossQueuePair {
    Pair::new(pausing(config, controller), TcpReceiver::new(Arc::new(config.clone())), forth, back)
}

/// A sender driven by hand with `segments` to send; gives it after its first packets.
fn driven(config: &TcpConfig, window: u64, count: u64) -> End<CrossQueueSender<TestController>> {
    let mut end = End::new(pausing(config, TestController::fixed(window)));
    end.feed(Input::Command(Instant::ZERO, Command::Send { bytes: count * MSS }));
    end
}

fn echo(probed_at: Instant, marked: bool) -> Packet {
    Packet::new(TrafficClass::new(0), 84, Body::ProbeEcho { echo: probed_at, marked })
}

fn feed_echo<C: CongestionControl>(
    end: &mut End<CrossQueueSender<C>>,
    at: Instant,
    probed_at: Instant,
    marked: bool,
) -> Vec<u64> {
    segments(end.feed(Input::Packet(at, echo(probed_at, marked), SackBlocks::EMPTY)))
}

fn feed_ack(end: &mut End<CrossQueueSender<TestController>>, at: Instant, count: u64, echo: Instant) -> Vec<u64> {
    let flags = AckFlags::NONE;
    let body = Body::Ack { ack: count * MSS, echo: Some(echo), window: WINDOW_UNLIMITED, flags };
    segments(end.feed(Input::Packet(at, Packet::new(TrafficClass::new(1), 84, body), SackBlocks::EMPTY)))
}

fn probes(sent: &[Sent]) -> Vec<Instant> {
    let is_probe = |sent: &&Sent| matches!(sent.packet.body(), Body::Probe { .. });
    sent.iter().filter(is_probe).map(|sent| sent.at).collect()
}

fn is_repeated(sent: &Sent) -> bool {
    matches!(sent.packet.body(), Body::Data { flags, .. } if flags.contains(DataFlags::RETRANSMISSION))
}

#[test]
fn probes_travel_above_their_data_as_long_as_there_is_any() {
    let mut pair = pausing_pair(&low_priority(), TestController::fixed(1), ten_us(), ten_us());
    complete(&mut pair, 20 * MSS);
    let sent = &pair.sender.sent;
    assert_eq!(probes(sent), (0..4).map(|n| us(100 * n)).collect::<Vec<_>>(), "20 segments, one per round of 20 us");
    let Body::Probe { sent_at } = sent[0].packet.body() else { panic!("the first packet is a probe") };
    let class = TrafficClass::new(0).with_ecn(Ecn::Ect0);
    assert_eq!((sent_at, sent[0].packet.traffic_class, sent[0].packet.wire_bytes), (us(0), class, 84));
    assert!(segments(sent).len() == 20 && sent[1].packet.traffic_class == TrafficClass::new(1));
}

#[test]
fn a_probe_takes_64_bytes_where_frames_do_not_count() {
    let config = TcpConfig { wire: crate::packet::WireFormat::IP, ..low_priority() };
    assert_eq!(driven(&config, 1, 1).sent[0].packet.wire_bytes, 64);
}

#[test]
fn the_receiver_echoes_each_probe_at_once_in_its_class() {
    let mut end = End::new(TcpReceiver::new(Arc::new(low_priority())));
    for (ecn, marked) in [(Ecn::Ect0, false), (Ecn::Ce, true)] {
        let class = TrafficClass::new(3).with_ecn(ecn);
        let probe = Packet::new(class, 84, Body::Probe { sent_at: us(5) });
        let sent = end.feed(Input::Packet(us(9), probe, SackBlocks::EMPTY));
        let echo = Packet::new(class.with_ecn(Ecn::Ect0), 84, Body::ProbeEcho { echo: us(5), marked });
        assert_eq!(sent.iter().map(|sent| sent.packet).collect::<Vec<_>>(), [echo]);
    }
    assert_eq!(end.transport.statistics().marks, 0, "a probe is no data");
}

/// A round trip of 20 us, a pause from 30 us to 5 ms, step by step.
#[test]
fn a_pause_stops_everything_and_resuming_goes_on() {
    let mut end = driven(&low_priority(), 2, 10);
    assert_eq!(segments(&end.sent), [0, 1]);
    assert_eq!(feed_ack(&mut end, us(20), 1, us(0)), [2]);
    assert_eq!(end.transport.sender().smoothed_rtt(), Span::from_us(20));
    assert!(feed_echo(&mut end, us(30), us(0), true).is_empty());
    assert!(end.transport.is_paused());
    assert_eq!(end.deadline.map(|deadline| deadline.why), Some(Timer::Probe), "nothing else is awaited");
    assert_eq!(feed_ack(&mut end, us(40), 2, us(0)), [], "what arrives is kept");
    assert_eq!(end.transport.sender().unacked(), MSS);
    let mut at = us(100);
    while at < us(5000) {
        assert_eq!(segments(end.feed(Input::Timeout(at))), [], "the timeout of 1 ms rests");
        feed_echo(&mut end, at.after(Span::from_us(20)), at, true);
        at = at.after(Span::from_us(100));
    }
    assert_eq!(feed_echo(&mut end, us(5000), us(4999), false), [3], "the acknowledgement kept makes room for one");
    let controller = end.transport.sender().controller();
    assert_eq!((controller.congestions.len(), controller.idle), (0, 0));
    assert_eq!(controller.samples.last().map(|sample| sample.rtt), Some(None), "a round trip that spans a pause");
    let Body::Data { sent_at, .. } = end.sent.last().expect("segment 3").packet.body() else { panic!("data") };
    assert_eq!(sent_at, us(5000), "the wire has the true time");
    assert_eq!(feed_ack(&mut end, us(5020), 4, us(5000)), [4, 5]);
    assert_eq!(end.transport.sender().controller().samples.last().and_then(|s| s.rtt), Some(Span::from_us(20)));
    let statistics = end.transport.statistics();
    assert_eq!((statistics.pauses, statistics.paused), (1, Span::from_us(4970)));
    assert_eq!((statistics.timeouts, statistics.retransmissions), (0, 0));
}

#[test]
fn the_retransmission_timer_begins_anew() {
    let mut end = driven(&low_priority(), 1, 1);
    feed_echo(&mut end, us(90), us(0), true);
    feed_echo(&mut end, us(700), us(600), false);
    // The initial timeout of 10 ms, from the end of the pause on.
    let mut at = us(700);
    while segments(end.feed(Input::Timeout(at))).is_empty() {
        at = end.deadline.expect("a probe or the timeout").at;
    }
    assert_eq!(at, us(10_700));
    assert_eq!(end.transport.statistics().timeouts, 1);
}

/// Pauses more often than the timeout do not put it off for ever: without an acknowledgement in between, only the first
/// begins it anew.
#[test]
fn pauses_in_quick_succession_do_not_outrun_the_timer() {
    let mut end = driven(&low_priority(), 1, 1);
    for round in 0..100 {
        let from = us(100 + 500 * round);
        feed_echo(&mut end, from, from, true);
        let to = from.after(Span::from_us(300));
        feed_echo(&mut end, to, to, false);
        while end.deadline.is_some_and(|deadline| deadline.at <= us(100 + 500 * (round + 1))) {
            end.feed(Input::Timeout(end.deadline.expect("it is some").at));
        }
    }
    // 10 ms of running time from 400 us on, 200 us of every 500; the next timeout comes 20 ms of it later.
    let repeated = end.sent.iter().find(|sent| is_repeated(sent)).expect("a timeout");
    assert_eq!(repeated.at, us(100 + 500 * 50));
    assert_eq!(end.transport.statistics().timeouts, 1);
}

#[test]
fn a_loss_noticed_during_a_pause_is_repaired_after_it() {
    let mut end = driven(&low_priority(), 6, 20);
    feed_echo(&mut end, us(15), us(0), true);
    for sacked in [2, 3, 4] {
        let (packet, sack) = ack(0, &[(1, sacked)]);
        assert!(end.feed(Input::Packet(us(20), packet, sack)).is_empty());
    }
    let controller = |end: &End<CrossQueueSender<TestController>>| end.transport.sender().controller().causes();
    assert_eq!(controller(&end), []);
    assert_eq!(feed_echo(&mut end, us(400), us(300), false)[0], 0, "the first segment again");
    assert_eq!(controller(&end), [Cause::Loss]);
}

#[test]
fn a_paused_flow_whose_probes_are_all_lost_resumes_after_ten_intervals() {
    let marked_once = |number: usize, _, packet: &Packet| match packet.body() {
        Body::Probe { .. } if number == 0 => Fate::Mark,
        Body::Probe { .. } => Fate::Drop,
        _ => Fate::Pass,
    };
    let mut pair = pausing_pair(&low_priority(), TestController::fixed(1), ten_us().with_fate(marked_once), ten_us());
    complete(&mut pair, 10 * MSS);
    let sent = &pair.sender.sent;
    let second = sent.iter().filter(|sent| sent.packet.payload() > 0).nth(1).expect("ten segments");
    assert_eq!(second.at, us(1020), "the echo came at 20 us");
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.pauses, statistics.paused, statistics.timeouts), (1, Span::from_ms(1), 0));
}

/// No starvation is so long that a flow is given up, whether its packets wait or are lost, with pauses or without.
#[test]
fn a_starved_flow_survives() {
    let hour = Instant::ZERO.after(Span::from_secs(3600));
    for lost in [false, true] {
        let starving = move || {
            ten_us().with_fate(move |_, at, packet| match packet.body() {
                Body::Probe { .. } if at < hour => Fate::Mark,
                Body::Probe { .. } => Fate::Pass,
                _ if at >= hour => Fate::Pass,
                _ if lost => Fate::Drop,
                _ => Fate::Delay(hour.since(at)),
            })
        };
        let mut plain = pair(&config(), TestController::aimd(4), starving(), ten_us());
        complete(&mut plain, 100 * MSS);
        assert!(plain.sender.transport.statistics().timeouts > 60, "a timeout a minute");
        let seldom = CrossQueueConfig::every(Span::from_secs(1));
        let sender = pausing_by(&low_priority(), TestController::aimd(4), seldom);
        let receiver = TcpReceiver::new(Arc::new(low_priority()));
        let mut pausing = Pair::new(sender, receiver, starving(), ten_us());
        complete(&mut pausing, 100 * MSS);
        let statistics = pausing.sender.transport.statistics();
        assert_eq!(statistics.pauses, 1);
        assert_eq!(statistics.timeouts, u64::from(lost), "what was lost before the pause");
    }
}

/// When a queue above is busy: spans of quiet and of congestion, in turn, in microseconds.
fn is_busy(spans_us: &[(u64, u64)], at: Instant) -> Option<Instant> {
    let mut from = Instant::ZERO;
    for (quiet, busy) in spans_us {
        let begin = from.after(Span::from_us(*quiet));
        let end = begin.after(Span::from_us(*busy));
        if at >= begin && at < end {
            return Some(end);
        }
        from = end;
    }
    None
}

/// A path on which data waits while the queue above is busy, and probes are marked then.
fn below_a_busy_queue(spans_us: Vec<(u64, u64)>) -> Path {
    ten_us().with_fate(move |_, at, packet| match (is_busy(&spans_us, at), packet.body()) {
        (None, _) => Fate::Pass,
        (Some(_), Body::Probe { .. }) => Fate::Mark,
        (Some(end), _) => Fate::Delay(end.since(at)),
    })
}

/// The inputs of a CUBIC sender that loses some packets, each at most once, over a path of constant delay.
fn recorded(seed: u64, config: &TcpConfig) -> (Vec<Input>, Vec<Sent>, Cubic) {
    let mut stream = Stream::named(seed, "loss");
    let forth = ten_us().with_fate(move |_, _, packet| match packet.body() {
        Body::Data { flags, .. } if !flags.contains(DataFlags::RETRANSMISSION) && stream.unit() < 0.002 => Fate::Drop,
        _ => Fate::Pass,
    });
    let shared = Arc::new(config.clone());
    let sender = TcpSender::new(shared.clone(), Cubic::new(CubicConfig::default(), config.mss));
    let mut pair = Pair::new(sender, TcpReceiver::new(shared), forth, ten_us());
    pair.command_sender(Command::Send { bytes: 1 << 40 });
    pair.run_until(us(500));
    let controller = *pair.sender.transport.controller();
    (pair.sender.inputs, pair.sender.sent, controller)
}

/// The same acknowledgement, of data sent when `sent` says.
fn moved(packet: &Packet, sent: impl Fn(Instant) -> Instant) -> Packet {
    let Body::Ack { ack, echo, window, flags } = packet.body() else { panic!("an acknowledgement") };
    let body = Body::Ack { ack, echo: echo.map(sent), window, flags };
    Packet::new(packet.traffic_class, packet.wire_bytes, body)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A run with pauses is the run without them in flow time: the same segments at the same times, and in the end the
    /// same controller, to the bit. Losses are under repair in many of the pauses.
    #[test]
    fn pauses_stop_the_clock_and_nothing_else(
        seed in any::<u64>(), pauses in prop::collection::vec((10usize..2000, 1u64..20_000), 0..20),
    ) {
        let config = low_priority();
        let (inputs, sent, controller) = recorded(seed, &config);
        let patient = CrossQueueConfig { silence: Span::from_secs(3600), ..CrossQueueConfig::default() };
        let cubic = Cubic::new(CubicConfig::default(), config.mss);
        let mut end = End::new(pausing_by(&config, cubic, patient));
        let mut behind = Span::ZERO;
        // When the clock showed a time first, and by how much it was behind then.
        let mut behind_at: Vec<(Instant, Span)> = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            let at = match *input {
                Input::Command(at, command) => {
                    end.feed(Input::Command(at, command));
                    at
                }
                Input::Packet(at, packet, sack) => {
                    let then = |sent: Instant| {
                        let known = behind_at.iter().find(|(flow_time, _)| *flow_time == sent);
                        sent.after(known.map_or(Span::ZERO, |(_, behind)| *behind))
                    };
                    end.feed(Input::Packet(at.after(behind), moved(&packet, then), sack));
                    at
                }
                Input::Timeout(at) => panic!("no timeout is due before {at}"),
            };
            behind_at.push((at, behind));
            for (_, length) in pauses.iter().filter(|(position, _)| *position == number) {
                let (from, to) = (at.after(behind), at.after(behind).after(Span::from_ps(*length * 1_000_000)));
                let sender = end.transport.sender();
                let before = (sender.unacked(), sender.next(), *sender.controller());
                let sent_before = segments(&end.sent).len();
                if !feed_echo(&mut end, from, from, true).is_empty() || !end.transport.is_paused() {
                    // An echo that is not later than the one before tells nothing.
                    continue;
                }
                feed_echo(&mut end, to, to, false);
                let sender = end.transport.sender();
                prop_assert_eq!((sender.unacked(), sender.next(), *sender.controller()), before);
                prop_assert_eq!(segments(&end.sent).len(), sent_before);
                behind = behind.plus(to.since(from));
            }
        }
        prop_assert_eq!(segments(&end.sent), segments(&sent));
        prop_assert_eq!(*end.transport.sender().controller(), controller);
        prop_assert_eq!(end.transport.statistics().paused, behind);
        prop_assert_eq!(end.transport.statistics().timeouts, 0);
    }

    /// Where congestion above only makes data wait, however often and long, nothing is sent twice.
    #[test]
    fn waiting_is_not_losing(
        spans in prop::collection::vec((0u64..3000, 0u64..20_000), 0..10),
        sack in any::<bool>(), segments in 1u64..2000, window in 1u64..100,
    ) {
        let config = TcpConfig { sack, ..low_priority() };
        let controller = TestController::aimd(window);
        let mut pair = pausing_pair(&config, controller, below_a_busy_queue(spans), ten_us());
        complete(&mut pair, segments * MSS);
        let statistics = pair.sender.transport.statistics();
        prop_assert_eq!((statistics.retransmissions, statistics.timeouts), (0, 0));
        prop_assert_eq!(pair.receiver.transport.statistics().duplicate_bytes, 0);
        prop_assert!(pair.sender.transport.sender().controller().congestions.is_empty());
    }

    /// A pause alone, while data goes on arriving, causes no retransmission under any option.
    #[test]
    fn a_pause_alone_repeats_nothing(
        config in any_config(), seed in any::<u64>(), marks in 0.0f64..1.0, bytes in 0u64..150_000,
    ) {
        let config = TcpConfig { ack_every: 1, receive_buffer: None, ..config };
        let mut stream = Stream::named(seed, "marks");
        let forth = ten_us().with_fate(move |_, at, packet| match packet.body() {
            Body::Probe { .. } if at < us(50_000) && stream.unit() < marks => Fate::Mark,
            _ => Fate::Pass,
        });
        let mut pair = pausing_pair(&config, TestController::aimd(4), forth, ten_us());
        complete(&mut pair, bytes);
        let statistics = pair.sender.transport.statistics();
        prop_assert_eq!((statistics.retransmissions, statistics.timeouts), (0, 0));
    }

    /// Loss, reordering, duplication and marks of everything, probes included, under every option: each byte delivered
    /// once, in order, and an end.
    #[test]
    fn every_byte_arrives_once_in_spite_of_pauses(
        config in any_config(), seed in any::<u64>(), loss in 0.0f64..0.3, bytes in 0u64..150_000,
    ) {
        let (forth, back) = (bad_path(seed, "forth", loss), bad_path(seed, "back", loss));
        let sender = pausing_by(&config, TestController::aimd(4), CrossQueueConfig::every(Span::from_ms(1)));
        complete(&mut Pair::new(sender, TcpReceiver::new(Arc::new(config)), forth, back), bytes);
    }
}
