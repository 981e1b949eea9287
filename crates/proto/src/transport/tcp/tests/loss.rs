//! Loss recovery: RFC 6675, RFC 6582, RFC 3042, RFC 6298 section 5.

use super::*;

#[test]
fn rfc_6675_retransmits_as_the_pipe_drains() {
    // Segments 1 to 10 sent, no new data, 2 and 3 lost.
    let mut end = sender(&config(), TestController::aimd(10), 10 * MSS);
    assert_eq!(answer(&mut end, us(20), 1, &[]), []);
    assert_eq!(answer(&mut end, us(21), 1, &[(3, 4)]), []);
    assert_eq!(answer(&mut end, us(22), 1, &[(3, 5)]), []);
    // SACK {4, 5, 6}: cwnd 4.5; 2 goes at once, 3 must wait for pipe 3.
    assert_eq!(answer(&mut end, us(23), 1, &[(3, 6)]), [1]);
    assert_eq!(end.transport.controller().cwnd, 4500);
    assert_eq!(answer(&mut end, us(24), 1, &[(3, 7)]), [], "pipe 4");
    assert_eq!(answer(&mut end, us(25), 1, &[(3, 8)]), [2], "pipe 3");
    assert_eq!(end.transport.controller().causes(), [Cause::Loss]);
    assert_eq!(answer(&mut end, us(44), 10, &[]), []);
    assert_eq!(end.transport.controller().recovered, [0]);
}

/// The timer runs from the last acknowledgement of new data (RFC 6298), or from the first segment's retransmission.
#[test]
fn the_first_segment_sent_again_restarts_the_timer() {
    for (restart_timer, from) in [(false, us(20)), (true, us(33))] {
        let mut end = sender(&TcpConfig { restart_timer, ..config() }, TestController::fixed(20), 20 * MSS);
        answer(&mut end, us(20), 1, &[]);
        let rto = end.deadline.expect("a timer").at.since(us(20));
        let sent = [4, 5, 6].map(|end_of_block| answer(&mut end, us(27 + end_of_block), 1, &[(3, end_of_block)]));
        assert_eq!(sent.concat(), [1, 2]);
        assert_eq!(end.deadline.expect("a timer").at, from.after(rto));
    }
}

/// Karn's algorithm (RFC 6298 section 3): the timeout that was backed off stays until data that was sent once is acknowledged.
/// With timestamps the first acknowledgement after it is a sample.
#[test]
fn what_was_sent_again_may_be_no_sample() {
    for time_retransmissions in [true, false] {
        let mut end = sender(&TcpConfig { time_retransmissions, ..config() }, TestController::fixed(4), 20 * MSS);
        let acknowledge = |end: &mut End<TcpSender<TestController>>, now: Instant, segments: u64| {
            let echo = Some(now.before(Span::from_us(20)));
            let body = Body::Ack { ack: segments * MSS, echo, window: WINDOW_UNLIMITED, flags: AckFlags::NONE };
            end.feed(Input::Packet(
                now,
                Packet::new(crate::packet::TrafficClass::default(), 84, body),
                SackBlocks::EMPTY,
            ));
            end.deadline.expect("a timer").at.since(now)
        };
        let rto = acknowledge(&mut end, us(20), 1);
        end.feed(Input::Timeout(us(20).after(rto)));
        // Segments 1 to 4 are sent again, 5 is new.
        let now = us(40).after(rto);
        let backed_off = [2, 5, 6].map(|segments| acknowledge(&mut end, now, segments) == rto.times(2));
        assert_eq!(backed_off, [!time_retransmissions, !time_retransmissions, false]);
    }
}

/// A retransmission is lost again: new data flows on as the pipe drains, and is SACKed. However much of it waits for
/// the hole, the timeout reports no more than the window in flight, and ssthresh does not rise above it.
#[test]
fn what_is_sacked_does_not_raise_ssthresh() {
    let mut end = sender(&config(), TestController::aimd(10), 1000 * MSS);
    for round in 0..500 {
        answer(&mut end, us(20 + round), 0, &[(1, 4 + round)]);
    }
    let window = end.transport.controller().cwnd;
    assert!(window < 10 * MSS && end.transport.next() > 400 * MSS);
    let timeout = end.deadline.expect("the first segment is still missing").at;
    end.feed(Input::Timeout(timeout));
    let congestion = end.transport.controller().congestions.last().copied().expect("a timeout");
    assert_eq!((congestion.cause, congestion.flight), (Cause::Timeout, window));
}

/// RFC 6937: half of a window of 20 is lost, and the next acknowledgements come all at once. RFC 6675 fills the halved
/// window in a burst as soon as it knows; in proportion one segment leaves for each that arrived.
#[test]
fn proportional_rate_reduction_sends_no_burst() {
    // Segments 0 to 9 lost; each acknowledgement SACKs one more of 10 to 19.
    let sends = |config: &TcpConfig| {
        let mut end = sender(config, TestController::aimd(20), 20 * MSS);
        (11..=20).map(|end_of_block| answer(&mut end, us(30), 0, &[(10, end_of_block)]).len()).collect::<Vec<_>>()
    };
    let plain = sends(&config());
    assert!(plain.iter().any(|&burst| burst > 2), "{plain:?}");
    for rack in [false, true] {
        let sent = sends(&TcpConfig { prr: true, rack, ..config() });
        assert!(sent[3..].iter().all(|&burst| burst <= 1), "rack {rack}: {sent:?}");
        assert!(sent.iter().sum::<usize>() >= 5, "rack {rack}: {sent:?}");
    }
}

#[test]
fn sack_repairs_all_holes_in_about_one_round_trip() {
    const LOST: &[usize] = &[2, 5, 8, 11, 14];
    let mut pair = pair(&config(), TestController::aimd(20), dropping(LOST), ten_us());
    complete(&mut pair, 20 * MSS);
    // Five holes; the rescue repeats the highest one once more, as there is no new data (NextSeg rule 4).
    assert_eq!(pair.sender.transport.statistics().retransmissions, LOST.len() as u64 + 1);
    assert_eq!(pair.sender.transport.statistics().timeouts, 0);
    let received = pair.receiver.time_of(Event::Received).unwrap();
    assert!(received <= us(60), "{received:?}");
    assert_eq!(pair.sender.transport.statistics().fast_recoveries, 1);
}

#[test]
fn new_reno_repairs_one_hole_per_round_trip() {
    let plain = TcpConfig { sack: false, ..config() };
    let mut pair = pair(&plain, TestController::aimd(20), dropping(&[2, 5, 8, 11, 14]), ten_us());
    complete(&mut pair, 20 * MSS);
    let repeated: Vec<_> = pair.sender.sent[20..].iter().map(|sent| (sent.at, sent.packet.payload())).collect();
    let expected: Vec<_> = (0..5).map(|round| (us(20 + 20 * round), 1000)).collect();
    assert_eq!(repeated, expected);
    assert_eq!(pair.sender.transport.controller().causes(), [Cause::Loss]);
}

#[test]
fn new_reno_inflates_and_deflates() {
    let plain = TcpConfig { sack: false, ..config() };
    let mut end = sender(&plain, TestController::aimd(10), 40 * MSS);
    assert_eq!(answer(&mut end, us(20), 0, &[]), [10], "limited transmit");
    assert_eq!(answer(&mut end, us(21), 0, &[]), [11], "limited transmit");
    // ssthresh follows the ten segments of flight without those two; cwnd = 5 + 3.
    assert_eq!(answer(&mut end, us(22), 0, &[]), [0]);
    assert_eq!(end.transport.controller().cwnd, 5 * MSS);
    // Twelve in flight: four more duplicates inflate to 12, the fifth lets one go.
    for at in 23..27 {
        assert_eq!(answer(&mut end, us(at), 0, &[]), []);
    }
    assert_eq!(answer(&mut end, us(27), 0, &[]), [12]);
    // Partial: four acknowledged, inflation 8 - 4 + 1 = 5, window 10, flight 9: the next hole and one new segment.
    assert_eq!(answer(&mut end, us(42), 4, &[]), [4, 13]);
    assert_eq!(answer(&mut end, us(62), 12, &[]), [14, 15, 16], "full acknowledgement: cwnd 5, two in flight");
    assert_eq!(end.transport.controller().recovered, [2 * MSS]);
}

#[test]
fn limited_transmit_can_be_off() {
    let plain = TcpConfig { limited_transmit: false, ..config() };
    let mut end = sender(&plain, TestController::aimd(4), 20 * MSS);
    assert_eq!(answer(&mut end, us(20), 0, &[(1, 2)]), []);
    let mut end = sender(&config(), TestController::aimd(4), 20 * MSS);
    assert_eq!(answer(&mut end, us(20), 0, &[(1, 2)]), [4]);
    assert_eq!(answer(&mut end, us(21), 0, &[(1, 3)]), [5]);
    // Of the six segments in flight, two are limited transmit's: ssthresh is half of four.
    assert_eq!(answer(&mut end, us(22), 0, &[(1, 4)]), [0]);
    assert_eq!(end.transport.controller().congestions[0].flight, 4 * MSS);
}

#[test]
fn without_new_data_holes_that_are_not_lost_are_filled_too() {
    // Rule 3: 0 and 8 are missing; 8 lies below the highest SACKed segment but is not lost by number.
    let mut end = sender(&config(), TestController::fixed(10), 10 * MSS);
    assert_eq!(answer(&mut end, us(20), 0, &[(1, 4)]), [0]);
    assert_eq!(answer(&mut end, us(21), 0, &[(9, 10), (1, 8)]), [8]);
}

#[test]
fn a_rescue_repeats_the_tail_once_per_recovery() {
    // 0 and the last two are lost: nothing above them is SACKed, so only rule 4 can repeat the last.
    let mut end = sender(&config(), TestController::fixed(10), 10 * MSS);
    assert_eq!(answer(&mut end, us(20), 0, &[(1, 8)]), [0]);
    assert_eq!(answer(&mut end, us(40), 8, &[]), [9]);
    assert_eq!(answer(&mut end, us(60), 8, &[(9, 10)]), [8], "now rule 3 finds the other");
}

#[test]
fn a_timeout_resends_in_slow_start_what_is_not_sacked() {
    let mut end = sender(&config(), TestController::aimd(10), 10 * MSS);
    answer(&mut end, us(20), 0, &[(4, 6)]);
    let at = end.deadline.expect("armed").at;
    assert_eq!(at, Instant::ZERO.after(config().rto.initial), "duplicates do not restart it");
    assert_eq!(segments(end.feed(Input::Timeout(at))), [0]);
    let congestion = end.transport.controller().congestions[0];
    assert_eq!((congestion.cause, congestion.flight, congestion.first), (Cause::Timeout, 10 * MSS, true));
    assert_eq!(end.deadline.unwrap().at, at.after(config().rto.initial.times(2)), "RTO doubled");
    // Slow start from one segment, past the SACKed ones.
    assert_eq!(answer(&mut end, at.after(Span::from_us(20)), 1, &[]), [1, 2]);
    assert_eq!(answer(&mut end, at.after(Span::from_us(40)), 3, &[]), [3, 6, 7]);
}

#[test]
fn only_the_first_timeout_of_a_segment_counts_for_ssthresh() {
    let mut end = sender(&config(), TestController::aimd(10), 10 * MSS);
    for round in 0..3 {
        let at = end.deadline.unwrap().at;
        assert_eq!(segments(end.feed(Input::Timeout(at))), [0], "round {round}");
    }
    let first: Vec<_> = end.transport.controller().congestions.iter().map(|event| event.first).collect();
    assert_eq!(first, [true, false, false]);
    assert_eq!(end.transport.controller().ssthresh, 5 * MSS);
}

#[test]
fn called_early_the_timer_does_nothing() {
    let mut end = sender(&config(), TestController::aimd(10), 10 * MSS);
    let deadline = end.deadline;
    assert_eq!(end.feed(Input::Timeout(us(1))), []);
    assert_eq!(end.deadline, deadline);
}

#[test]
fn a_lost_tail_waits_for_the_timeout_without_a_probe() {
    let mut pair = pair(&config(), TestController::fixed(10), dropping(&[8, 9]), ten_us());
    complete(&mut pair, 10 * MSS);
    assert_eq!(pair.sender.transport.statistics().timeouts, 1);
    assert!(pair.receiver.time_of(Event::Received).unwrap() > us(1000));
}

#[test]
fn a_probe_repairs_a_lost_tail_without_a_timeout() {
    let rack = TcpConfig { rack: true, ..config() };
    // One lost: the probe itself repairs it, with one congestion response.
    let mut one = pair(&rack, TestController::fixed(10), dropping(&[9]), ten_us());
    complete(&mut one, 10 * MSS);
    assert_eq!(one.sender.transport.statistics().timeouts, 0);
    // Last acknowledgement of the others at 20 us, probe two round trips later, 10 us on the way.
    assert_eq!(one.receiver.time_of(Event::Received), Some(us(70)));
    // Several lost: the probe's SACK shows the others.
    let mut three = pair(&rack, TestController::fixed(10), dropping(&[7, 8, 9]), ten_us());
    complete(&mut three, 10 * MSS);
    assert_eq!(three.sender.transport.statistics().timeouts, 0);
    assert_eq!(three.sender.transport.controller().causes(), [Cause::Loss]);
    assert!(three.receiver.time_of(Event::Received).unwrap() < us(120));
}

#[test]
fn a_probe_that_repairs_the_loss_costs_one_response() {
    let rack = TcpConfig { rack: true, ..config() };
    let mut end = sender(&rack, TestController::fixed(4), 4 * MSS);
    assert_eq!(answer(&mut end, us(20), 3, &[]), []);
    let deadline = end.deadline.unwrap();
    assert_eq!((deadline.at, deadline.why), (us(60), Timer::LossDetection));
    assert_eq!(segments(end.feed(Input::Timeout(us(60)))), [3]);
    end.feed(Input::Command(us(61), Command::Send { bytes: MSS }));
    assert_eq!(answer(&mut end, us(80), 5, &[]), []);
    assert_eq!(end.transport.controller().causes(), [Cause::Loss]);
}

#[test]
fn rack_repairs_a_lost_retransmission_without_a_timeout() {
    // Number 2 and its first retransmission are lost; RFC 6675 alone would wait for the timeout.
    let lossy = || {
        let mut lost = 0;
        ten_us().with_fate(move |_, _, packet| match packet.body() {
            Body::Data { seq, .. } if seq == 2 * MSS && lost < 2 => {
                lost += 1;
                Fate::Drop
            }
            _ => Fate::Pass,
        })
    };
    let rack = TcpConfig { rack: true, ..config() };
    let mut with = pair(&rack, TestController::fixed(10), lossy(), ten_us());
    complete(&mut with, 60 * MSS);
    assert_eq!(with.sender.transport.statistics().timeouts, 0);
    let mut without = pair(&config(), TestController::fixed(10), lossy(), ten_us());
    complete(&mut without, 60 * MSS);
    assert_eq!(without.sender.transport.statistics().timeouts, 1);
}

/// RFC 8985 section 6.2: an acknowledgement that was held back comes with the first SACK after a hole. It tells of no
/// reordering, so the third SACKed segment begins the repair at once, and not a quarter of a round trip later.
#[test]
fn an_acknowledgement_held_back_is_no_reordering() {
    let rack = TcpConfig { rack: true, ..config() };
    let mut end = sender(&rack, TestController::fixed(10), 20 * MSS);
    assert_eq!(answer(&mut end, us(20), 3, &[(4, 5)]), [10, 11, 12, 13]);
    assert_eq!(answer(&mut end, us(21), 3, &[(4, 6)]), [14]);
    assert_eq!(answer(&mut end, us(22), 3, &[(4, 7)])[0], 3);
}

#[test]
fn rack_learns_to_bear_reordering() {
    // Every fifth packet is overtaken by a few others. Once reordering was seen, nothing is repeated.
    let reordering = || {
        let fate = |number: usize| if number % 5 == 4 { Fate::Delay(Span::from_us(2)) } else { Fate::Pass };
        ten_us().with_rate(crate::units::Rate::from_gbit_per_sec(40)).with_fate(move |number, _, _| fate(number))
    };
    let rack = TcpConfig { rack: true, ..config() };
    let mut with = pair(&rack, TestController::fixed(20), reordering(), ten_us());
    complete(&mut with, 400 * MSS);
    let mut without = pair(&config(), TestController::fixed(20), reordering(), ten_us());
    complete(&mut without, 400 * MSS);
    let last_repeated = |pair: &TcpPair| {
        let again = |sent: &&Sent| matches!(sent.packet.body(), Body::Data { flags, .. } if flags.contains(DataFlags::RETRANSMISSION));
        pair.sender.sent.iter().rfind(again).map(|sent| sent.at)
    };
    assert!(last_repeated(&with) < Some(us(100)), "learnt within a few round trips");
    assert!(last_repeated(&without) > Some(us(400)), "counting segments never learns");
}

#[test]
fn a_starved_flow_never_dies() {
    for rack in [false, true] {
        // The path drops everything for a thousand seconds.
        let dead = |_: usize, at: Instant, _: &Packet| {
            if at > us(50) && at < us(1_000_000_000) { Fate::Drop } else { Fate::Pass }
        };
        let config = TcpConfig { rack, ..config() };
        let mut pair = pair(&config, TestController::aimd(2), ten_us().with_fate(dead), ten_us());
        complete(&mut pair, 100 * MSS);
        let last = pair.receiver.time_of(Event::Received).unwrap();
        assert!(last > us(1_000_000_000) && last < us(1_070_000_000), "within 60 s of the path's return: {last:?}");
    }
}

#[test]
fn impossible_acknowledgements_are_ignored() {
    let mut end = sender(&config(), TestController::aimd(4), 20 * MSS);
    for number in [5 * MSS, u64::MAX, u64::MAX - 1] {
        let packet = ack_with(number, WINDOW_UNLIMITED, AckFlags::NONE);
        assert_eq!(end.feed(Input::Packet(us(20), packet, SackBlocks::EMPTY)), []);
    }
    assert_eq!(answer(&mut end, us(20), 0, &[(3, 30)]), [], "SACK beyond SND.NXT");
    assert_eq!(end.transport.unacked(), 0);
    assert_eq!(answer(&mut end, us(20), 4, &[]).len(), 5, "as if nothing had happened");
}

#[test]
fn a_loss_every_thousand_packets_gives_the_square_root_law() {
    // Mean window = sqrt(3/2) / sqrt(p): 1.201 / sqrt(p) by packet model at p = 0.001.
    let lossy = ten_us().with_fate(|number, _, _| if number % 1000 == 999 { Fate::Drop } else { Fate::Pass });
    let mut pair = pair(&config(), TestController::aimd(10), lossy, ten_us());
    let count = 200_000;
    complete(&mut pair, count * MSS);
    let round_trips = pair.now.as_secs_f64() / 20e-6;
    let constant = count as f64 / round_trips * libm::sqrt(0.001);
    assert!((1.15..1.27).contains(&constant), "{constant}");
    assert_eq!(pair.sender.transport.statistics().timeouts, 0);
}
