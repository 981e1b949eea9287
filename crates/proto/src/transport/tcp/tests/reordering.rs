//! Packets that overtake each other: RFC 3708, RFC 4015, RFC 4653.

use super::*;
use crate::congestion::AnyController;
use crate::packet::ByteRange;

fn adapting() -> TcpConfig {
    TcpConfig { adapt_to_reordering: true, ..config() }
}

/// Feeds an acknowledgement of `segments` that says that segment `twice` arrived twice.
fn answer_twice(end: &mut End<TcpSender<TestController>>, at: Instant, segments: u64, twice: u64) {
    let mut sack = SackBlocks::EMPTY;
    sack.push(ByteRange::new(twice * MSS, (twice + 1) * MSS));
    let flags = AckFlags::NONE.with(AckFlags::SACK).with(AckFlags::DSACK);
    end.feed(Input::Packet(at, ack_with(segments * MSS, WINDOW_UNLIMITED, flags), sack));
}

/// Segment `late` arrives after the `by` that were sent after it. Gives what was sent again.
fn overtake(end: &mut End<TcpSender<TestController>>, at: Instant, late: u64, by: u64) -> Vec<u64> {
    let answers =
        (1..=by).flat_map(|n| answer(end, at, late, &[(late + 1, late + 1 + n)])).filter(|sent| *sent <= late);
    let again = answers.collect();
    answer(end, at, end.transport.next() / MSS, &[]);
    again
}

/// Three segments overtake a fourth, which is sent again and arrives twice. The loss is called spurious once. From then on six make
/// a segment lost, then twelve.
#[test]
fn what_arrives_twice_was_not_lost() {
    let mut end = sender(&adapting(), TestController::fixed(100), 10_000 * MSS);
    for (round, enough) in [3, 6, 12].into_iter().enumerate() {
        let round = round as u64;
        let late = end.transport.unacked() / MSS;
        assert_eq!(overtake(&mut end, us(20 + 20 * round), late, enough - 1), [], "{enough}");
        let late = end.transport.unacked() / MSS;
        assert_eq!(overtake(&mut end, us(30 + 20 * round), late, enough), [late], "{enough}");
        assert_eq!(end.transport.controller().spurious.len() as u64, round);
        let all = end.transport.unacked() / MSS;
        answer_twice(&mut end, us(35 + 20 * round), all, late);
        answer_twice(&mut end, us(35 + 20 * round), all, late);
        assert_eq!(end.transport.controller().spurious.len() as u64, round + 1);
    }
}

/// Two are sent again, and one of them arrives once: the loss stands. So it does if the flow does not adapt, after a timeout, and
/// if something else arrives twice.
#[test]
fn what_arrives_once_was_lost() {
    let lose_two = |config: &TcpConfig| {
        let mut end = sender(config, TestController::fixed(20), 20 * MSS);
        (3..=6).for_each(|block| drop(answer(&mut end, us(20), 0, &[(2, block)])));
        assert_eq!(segments(&end.sent)[20..], [0, 1]);
        end
    };
    let spurious = |end: &End<TcpSender<TestController>>| end.transport.controller().spurious.len();
    for (config, twice, expected) in
        [(adapting(), &[0, 1][..], 1), (adapting(), &[0], 0), (adapting(), &[0, 7], 0), (config(), &[0, 1], 0)]
    {
        let mut end = lose_two(&config);
        answer(&mut end, us(40), 20, &[]);
        for segment in twice {
            answer_twice(&mut end, us(50), 20, *segment);
        }
        assert_eq!(spurious(&end), expected, "{twice:?}");
    }
    let mut end = lose_two(&adapting());
    let deadline = end.deadline.expect("a timer").at;
    end.feed(Input::Timeout(deadline));
    answer(&mut end, deadline, 20, &[]);
    for segment in [0, 1] {
        answer_twice(&mut end, deadline, 20, segment);
    }
    assert_eq!((end.transport.statistics().timeouts, spurious(&end)), (1, 0));
}

/// A receiver that calls every loss spurious gains five cuts. Only sixteen losses that stand make it believed again.
#[test]
fn a_receiver_that_lies_gains_five_cuts() {
    let mut end = sender(&adapting(), TestController::fixed(1000), 1_000_000 * MSS);
    let mut lose = |at: u64, lies: bool| {
        let late = end.transport.unacked() / MSS;
        overtake(&mut end, us(20 * at), late, 200);
        let all = end.transport.unacked() / MSS;
        if lies {
            answer_twice(&mut end, us(20 * at + 1), all, late);
        }
        end.transport.controller().spurious.len()
    };
    assert_eq!((1..=20).map(|at| lose(at, true)).max(), Some(5));
    assert_eq!((21..=37).map(|at| lose(at, false)).max(), Some(5));
    assert_eq!((38..=60).map(|at| lose(at, true)).max(), Some(10));
}

/// Few segments in flight: half of them are enough to make one lost, so that no loss waits for a timeout.
#[test]
fn a_small_window_needs_no_more_than_half_of_it() {
    let mut end = sender(&adapting(), TestController::fixed(100), 10_000 * MSS);
    for round in 1..=5 {
        let late = end.transport.unacked() / MSS;
        overtake(&mut end, us(20 * round), late, 99);
        let all = end.transport.unacked() / MSS;
        answer_twice(&mut end, us(20 * round + 1), all, late);
    }
    let (late, end_of_data) = (end.transport.unacked() / MSS, end.transport.next() / MSS);
    let answers = (1..end_of_data - late).map(|n| answer(&mut end, us(200), late, &[(late + 1, late + 1 + n)]));
    let until = answers.take_while(|sent| !sent.contains(&late)).count();
    assert!((24..50).contains(&until), "{until} of {}", end_of_data - late);
}

/// One packet in two hundred arrives a quarter of a round trip late, on a path that holds 100. A controller that adapts loses little
/// of what it has without that, and otherwise more than half.
#[test]
fn a_path_that_reorders_is_used() {
    let time = |algorithm: Algorithm, config: TcpConfig, reorders: bool| {
        let config = Arc::new(config);
        let controller: AnyController = algorithm.controller(config.mss);
        let forth = Path::new(Span::from_ms(5)).with_rate(Rate::from_bits_per_sec(80_000_000)).with_fate(
            move |number, _, _| {
                if reorders && number % 200 == 150 { Fate::Delay(Span::from_us(2500)) } else { Fate::Pass }
            },
        );
        let sender = TcpSender::new(config.clone(), controller);
        let mut pair = Pair::new(sender, TcpReceiver::new(config), forth, Path::new(Span::from_ms(5)));
        complete(&mut pair, 20_000 * MSS);
        pair.receiver.time_of(Event::Received).expect("it is complete").since(Instant::ZERO).as_secs_f64()
    };
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        let alone = time(algorithm, adapting(), false);
        let adapts = time(algorithm, adapting(), true);
        let plain = time(algorithm, config(), true);
        assert!(adapts < 1.2 * alone && plain > 2.0 * alone, "{algorithm}: {alone}, {adapts}, {plain}");
    }
}
