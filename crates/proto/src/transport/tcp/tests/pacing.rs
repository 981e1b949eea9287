//! When segments leave of a controller that has a rate of its own, or a window below one segment (Swift, SIGCOMM 2020,
//! section 3.4).

use alloc::rc::Rc;
use core::cell::Cell;

use super::*;

/// When the first `count` data packets leave, in microseconds, over a round trip of 20 us.
fn departures(controller: TestController, count: usize) -> Vec<u64> {
    let mut pair = pair(&config(), controller, ten_us(), ten_us());
    complete(&mut pair, count as u64 * MSS);
    let since_start = |sent: &Sent| sent.at.since(Instant::ZERO).as_ps() / Span::from_us(1).as_ps();
    let data = pair.sender.sent.iter().filter(|sent| sent.packet.payload() > 0);
    data.map(since_start).collect()
}

/// A quarter of a segment: one segment in four round trips.
#[test]
fn below_a_segment_one_leaves_each_srtt_mss_over_window() {
    let quarter = || TestController { cwnd: MSS / 4, paces: true, ..TestController::fixed(0) };
    assert_eq!(departures(quarter(), 5), [0, 80, 160, 240, 320]);
    let of_others = TestController { paces: false, ..quarter() };
    assert_eq!(departures(of_others, 5), [0, 20, 40, 60, 80], "who does not ask has one segment in flight");
}

/// From one segment on, the window alone tells.
#[test]
fn a_whole_window_is_not_paced() {
    let controller = TestController { paces: true, ..TestController::fixed(2) };
    assert_eq!(departures(controller, 6), [0, 0, 20, 20, 40, 40]);
}

/// 1000 bytes of payload at 8 Gbit/s each microsecond, as the window of ten segments allows.
#[test]
fn segments_leave_at_the_controller_s_rate() {
    let controller =
        || TestController { paces: true, rate: Some(Rate::from_gbit_per_sec(8)), ..TestController::fixed(10) };
    assert_eq!(departures(controller(), 12), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21]);
    let paced = TcpConfig { pacing: Some(PacingFactors::default()), ..config() };
    let mut end = End::new(TcpSender::new(Arc::new(paced), controller()));
    assert_eq!(end.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 9 * MSS })).len(), 1);
    assert_eq!(
        end.deadline.map(|deadline| (deadline.at, deadline.why)),
        Some((us(1), Timer::Pace)),
        "its own rate goes first"
    );
}

/// A rate above what a fraction of a segment allows changes nothing: the longer gap holds.
#[test]
fn the_longer_gap_holds() {
    let rate = Some(Rate::from_gbit_per_sec(8));
    let controller = TestController { cwnd: MSS / 4, paces: true, rate, ..TestController::fixed(0) };
    assert_eq!(departures(controller, 4), [0, 80, 160, 240]);
}

/// Bursts of four take the time of four: the rate is the same.
#[test]
fn bursts_leave_together() {
    let rate = Some(Rate::from_gbit_per_sec(8));
    let controller = TestController { paces: true, rate, burst: 4, ..TestController::fixed(20) };
    assert_eq!(departures(controller, 12), [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]);
}

/// A controller whose window the test sets.
struct Told(Rc<Cell<u64>>);

impl CongestionControl for Told {
    fn on_ack(&mut self, _sample: &AckSample) {}
    fn on_congestion(&mut self, _event: &Congestion) {}
    fn window(&self) -> u64 {
        self.0.get()
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }
    fn needs_pacing(&self) -> bool {
        true
    }
}

/// The gap follows the window as it is when the next segment could go, not as it was when the last one went.
#[test]
fn the_gap_follows_the_window() {
    let window = Rc::new(Cell::new(MSS));
    let mut end = End::new(TcpSender::new(Arc::new(config()), Told(Rc::clone(&window))));
    end.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 9 * MSS }));
    window.set(MSS / 4);
    let (packet, sack) = ack(1, &[]);
    assert_eq!(end.feed(Input::Packet(us(20), packet, sack)), [], "a quarter of a segment is left of the window");
    assert_eq!(end.deadline.map(|deadline| (deadline.at, deadline.why)), Some((us(80), Timer::Pace)));
    window.set(MSS / 8);
    assert!(end.feed(Input::Timeout(us(80))).is_empty(), "an eighth");
    assert_eq!(end.deadline.map(|deadline| deadline.at), Some(us(160)));
    window.set(MSS);
    assert_eq!(segments(end.feed(Input::Timeout(us(100)))), [1], "a whole one");
}

/// What is lost is sent again at the same pace.
#[test]
fn retransmissions_are_paced() {
    let controller = TestController { cwnd: MSS / 2, paces: true, ..TestController::fixed(0) };
    let mut pair = pair(&config(), controller, dropping(&[3]), ten_us());
    complete(&mut pair, 8 * MSS);
    let sent: Vec<Instant> = pair.sender.sent.iter().map(|sent| sent.at).collect();
    assert_eq!(pair.sender.transport.statistics().retransmissions, 1);
    assert!(sent.windows(2).all(|pair| pair[1].since(pair[0]) >= Span::from_us(40)), "{sent:?}");
}
