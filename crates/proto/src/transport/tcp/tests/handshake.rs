//! Requesting and granting a connection.

use super::*;

fn with_handshake() -> TcpConfig {
    TcpConfig { handshake: true, ..config() }
}

#[test]
fn data_follows_one_round_trip_later() {
    let mut pair = pair(&with_handshake(), TestController::fixed(4), ten_us(), ten_us());
    complete(&mut pair, 4 * MSS);
    assert_eq!(pair.sender.time_of(Event::Connected), Some(us(20)));
    assert_eq!(pair.receiver.time_of(Event::Connected), Some(us(10)));
    assert_eq!(pair.receiver.time_of(Event::Received), Some(us(30)));
    assert_eq!(pair.sender.transport.statistics().packets_sent, 4, "requests are no data");
}

#[test]
fn a_lost_request_or_grant_is_repeated_with_backoff() {
    let rto = with_handshake().rto;
    for lost_forth in [true, false] {
        let (lossy, clean) = (|| dropping(&[0, 1]), || ten_us());
        let (forth, back) = if lost_forth { (lossy(), clean()) } else { (clean(), lossy()) };
        let mut pair = pair(&with_handshake(), TestController::fixed(4), forth, back);
        complete(&mut pair, 4 * MSS);
        let connected = Instant::ZERO.after(rto.initial.times(3)).after(Span::from_us(20));
        assert_eq!(pair.sender.time_of(Event::Connected), Some(connected), "after RTO and twice RTO");
    }
}

#[test]
fn data_after_a_lost_request_starts_with_three_seconds() {
    let mut pair = pair(&with_handshake(), TestController::fixed(4), dropping(&[0, 2, 3, 4, 5]), ten_us());
    complete(&mut pair, 4 * MSS);
    let received = pair.receiver.time_of(Event::Received).unwrap();
    assert!(received > Instant::ZERO.after(Span::from_secs(3)), "{received:?}");
}

#[test]
fn requests_are_never_given_up() {
    let dead = |_: usize, at: Instant, _: &Packet| if at < us(10_000_000_000) { Fate::Drop } else { Fate::Pass };
    let mut pair = pair(&with_handshake(), TestController::fixed(4), ten_us().with_fate(dead), ten_us());
    complete(&mut pair, 4 * MSS);
    assert!(pair.sender.sent.len() > 100, "one a minute after backing off");
}

#[test]
fn data_before_the_request_is_ignored() {
    let mut end = receiver::receiver(&with_handshake());
    assert_eq!(end.feed(Input::Packet(us(1), receiver::data(0), SackBlocks::EMPTY)), []);
    assert_eq!(end.transport.next_expected(), 0);
}
