//! Scenarios of a sender and a receiver over a scripted path.

mod cross_queue;
mod deadline;
mod delay;
mod ecn;
mod handshake;
mod hold;
mod loss;
mod pacing;
mod policy;
mod random;
mod receiver;
mod reordering;
mod window;

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::congestion::{AckSample, Algorithm, Cause, Congestion, CongestionControl, EcnMode};
use crate::packet::{AckFlags, Body, DataFlags, Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::transport::any::Member;
use crate::transport::pair::{End, Fate, Input, Pair, Path, Sent};
use crate::transport::{Command, Event, Timer, Transport};
use crate::units::Rate;

pub(super) const MSS: u64 = 1000;

/// A controller for tests: a fixed window, or additive increase and multiplicative decrease. It notes what it hears.
#[derive(Default)]
pub(super) struct TestController {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    fixed: bool,
    pub(super) rate: Option<Rate>,
    pub(super) paces: bool,
    pub(super) burst: u8,
    pub(super) asks_hold: bool,
    pub(super) congestions: Vec<Congestion>,
    pub(super) samples: Vec<AckSample>,
    pub(super) idle: usize,
    pub(super) recovered: Vec<u64>,
    pub(super) spurious: Vec<u64>,
}

impl TestController {
    pub(super) fn fixed(segments: u64) -> Self {
        Self { cwnd: segments * MSS, ssthresh: u64::MAX, fixed: true, ..Self::default() }
    }

    pub(super) fn aimd(segments: u64) -> Self {
        Self { fixed: false, ..Self::fixed(segments) }
    }

    pub(super) fn causes(&self) -> Vec<Cause> {
        self.congestions.iter().map(|congestion| congestion.cause).collect()
    }
}

impl CongestionControl for TestController {
    fn on_ack(&mut self, sample: &AckSample) {
        self.samples.push(*sample);
        if !self.fixed && !sample.in_recovery && sample.window_limited {
            let slow_start = self.cwnd < self.ssthresh;
            self.cwnd += if slow_start { sample.acked.min(MSS) } else { sample.acked * MSS / self.cwnd };
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.congestions.push(*event);
        if self.fixed {
            return;
        }
        if event.first || event.cause != Cause::Timeout {
            self.ssthresh = (event.flight / 2).max(2 * MSS);
        }
        self.cwnd = if event.cause == Cause::Timeout { MSS } else { self.ssthresh };
    }

    fn on_recovered(&mut self, flight: u64) {
        self.recovered.push(flight);
    }

    fn on_spurious_loss(&mut self, ssthresh: u64) {
        self.spurious.push(ssthresh);
    }

    fn on_idle(&mut self) {
        self.idle += 1;
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn window(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }

    fn pacing_burst(&self) -> u8 {
        self.burst.max(1)
    }

    fn needs_pacing(&self) -> bool {
        self.paces
    }

    fn needs_hold_time(&self) -> bool {
        self.asks_hold
    }
}

pub(super) type TcpPair = Pair<TcpSender<TestController>, TcpReceiver>;

/// Acknowledges every packet; nothing else differs from the default.
pub(super) fn config() -> TcpConfig {
    TcpConfig { mss: MSS as u16, ack_every: 1, ..TcpConfig::default() }
}

pub(super) fn us(us: u64) -> Instant {
    Instant::ZERO.after(Span::from_us(us))
}

pub(super) fn ten_us() -> Path {
    Path::new(Span::from_us(10))
}

/// A pair over a path of 20 us round trip.
pub(super) fn pair(config: &TcpConfig, controller: TestController, forth: Path, back: Path) -> TcpPair {
    let config = Arc::new(config.clone());
    Pair::new(TcpSender::new(config.clone(), controller), TcpReceiver::new(config), forth, back)
}

/// Drops the packets with these numbers.
pub(super) fn dropping(numbers: &'static [usize]) -> Path {
    ten_us().with_fate(move |number, _, _| if numbers.contains(&number) { Fate::Drop } else { Fate::Pass })
}

/// Runs a transfer to its end and checks that all of it arrived and nothing stayed armed.
pub(super) fn complete<S: Member>(pair: &mut Pair<S, TcpReceiver>, bytes: u64) {
    pair.transfer(bytes);
    assert!(pair.run_until(Instant::MAX), "it ends");
    assert_complete(pair, bytes);
}

pub(super) fn assert_complete<S: Member>(pair: &Pair<S, TcpReceiver>, bytes: u64) {
    assert_eq!(pair.receiver.delivered(), bytes);
    assert_eq!(pair.receiver.events.last().map(|(_, event)| *event), Some(Event::Received));
    assert_eq!(pair.sender.events.last().map(|(_, event)| *event), Some(Event::Finished));
    assert_eq!((pair.sender.deadline, pair.receiver.deadline), (None, None));
}

/// First bytes of the data packets sent, in units of segments.
pub(super) fn segments(sent: &[Sent]) -> Vec<u64> {
    let data = sent.iter().filter_map(|sent| match sent.packet.body() {
        Body::Data { seq, .. } => Some(seq / MSS),
        _ => None,
    });
    data.collect()
}

/// A sender driven by hand, with these bytes to send and everything the window allows sent at time zero.
pub(super) fn sender(config: &TcpConfig, controller: TestController, bytes: u64) -> End<TcpSender<TestController>> {
    let mut end = End::new(TcpSender::new(Arc::new(config.clone()), controller));
    end.feed(Input::Command(Instant::ZERO, Command::Send { bytes }));
    end
}

/// An acknowledgement of `segments` with SACK blocks in units of segments.
pub(super) fn ack(segments: u64, sacked: &[(u64, u64)]) -> (Packet, SackBlocks) {
    let mut sack = SackBlocks::EMPTY;
    for (start, end) in sacked {
        sack.push(crate::packet::ByteRange::new(start * MSS, end * MSS));
    }
    let flags = AckFlags::NONE.with_if(AckFlags::SACK, !sacked.is_empty());
    (ack_with(segments * MSS, WINDOW_UNLIMITED, flags), sack)
}

pub(super) fn ack_with(ack: u64, window: u16, flags: AckFlags) -> Packet {
    let body = Body::Ack { ack, echo: Some(Instant::ZERO), window, flags };
    Packet::new(crate::packet::TrafficClass::default(), 84, body)
}

/// Feeds an acknowledgement; gives the segments sent in answer.
pub(super) fn answer(
    end: &mut End<TcpSender<TestController>>,
    at: Instant,
    segments_acked: u64,
    sacked: &[(u64, u64)],
) -> Vec<u64> {
    let (packet, sack) = ack(segments_acked, sacked);
    segments(end.feed(Input::Packet(at, packet, sack)))
}

#[test]
fn machines_stay_small() {
    let controller = size_of::<TestController>();
    assert!(size_of::<TcpSender<TestController>>() - controller <= 176, "{}", size_of::<TcpSender<()>>());
    assert!(size_of::<TcpReceiver>() <= 104, "{}", size_of::<TcpReceiver>());
}

#[test]
fn a_transfer_takes_slow_start_s_round_trips() {
    // 1, 2, 4, 8 segments leave in rounds of 20 us: 15 segments are there after 70 us, acknowledged after 80 us.
    let mut pair = pair(&config(), TestController::aimd(1), ten_us(), ten_us());
    complete(&mut pair, 15 * MSS);
    assert_eq!(pair.receiver.time_of(Event::Received), Some(us(70)));
    assert_eq!(pair.sender.time_of(Event::Finished), Some(us(80)));
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.packets_sent, statistics.bytes_sent), (15, 15 * MSS), "FIN rides on the last segment");
    assert_eq!(statistics.retransmissions, 0);
}

#[test]
fn what_is_acknowledged_is_released_in_order() {
    let mut pair = pair(&config(), TestController::fixed(4), ten_us(), ten_us());
    complete(&mut pair, 10 * MSS + 1);
    let released = pair.sender.events.iter().fold(0, |next, (_, event)| match event {
        Event::Release(range) => {
            assert_eq!(range.start, next);
            range.end
        }
        _ => next,
    });
    assert_eq!(released, 10 * MSS + 1);
}

#[test]
fn fin_travels_alone_when_nothing_is_left_to_carry_it() {
    for bytes in [0, 2 * MSS] {
        let mut pair = pair(&config(), TestController::fixed(4), ten_us(), ten_us());
        pair.command_sender(Command::Send { bytes });
        assert!(pair.run_until(us(100)) && pair.sender.time_of(Event::Finished).is_none());
        pair.now = us(100);
        pair.command_sender(Command::Finish);
        assert!(pair.run_until(Instant::MAX));
        assert_complete(&pair, bytes);
        assert_eq!(pair.sender.transport.statistics().packets_sent, bytes / MSS + 1);
    }
}

#[test]
fn the_controller_hears_flight_acked_and_limits() {
    let mut end = sender(&config(), TestController::fixed(4), 5 * MSS);
    answer(&mut end, us(20), 3, &[]);
    answer(&mut end, us(25), 5, &[]);
    let samples = &end.transport.controller().samples;
    let heard: Vec<_> = samples.iter().map(|s| (s.acked, s.unacked, s.next, s.flight, s.window_limited)).collect();
    assert_eq!(heard, [(3000, 3000, 4000, 4000, true), (2000, 5000, 5000, 2000, false)]);
    assert_eq!(samples[0].rtt, Some(Span::from_us(20)));
    assert_eq!(samples[0].smoothed_rtt, Span::from_us(20));
}

#[test]
fn pacing_spreads_the_window_over_the_round_trip() {
    // Ten segments, 20 us, factor 2 in slow start: one per microsecond once the round trip is known.
    let paced = TcpConfig { pacing: Some(PacingFactors::default()), ..config() };
    let mut pair = pair(&paced, TestController::fixed(10), ten_us(), ten_us());
    complete(&mut pair, 40 * MSS);
    let times: Vec<_> = pair.sender.sent.iter().map(|sent| sent.at).collect();
    assert!(times[..10].iter().all(|at| *at == Instant::ZERO), "no round trip is known yet");
    assert!(times[11..].windows(2).all(|pair| pair[1].since(pair[0]) >= Span::from_us(1)));
    let assumed = TcpConfig { initial_rtt: Some(Span::from_us(40)), ..paced };
    let mut pair = self::pair(&assumed, TestController::fixed(10), ten_us(), ten_us());
    complete(&mut pair, 40 * MSS);
    assert_eq!(pair.sender.sent[1].at, us(2));
}

#[test]
fn a_long_pause_tells_the_controller() {
    let mut pair = pair(&config(), TestController::fixed(4), ten_us(), ten_us());
    pair.command_sender(Command::Send { bytes: MSS });
    assert!(pair.run_until(Instant::MAX));
    for (pause_us, idle) in [(900, 0), (1100, 1)] {
        pair.now = pair.now.after(Span::from_us(pause_us));
        pair.command_sender(Command::Send { bytes: MSS });
        assert!(pair.run_until(Instant::MAX));
        assert_eq!(pair.sender.transport.controller().idle, idle, "after {pause_us} us with an RTO of 1 ms");
    }
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let lossy = || ten_us().with_fate(|n, _, _| if n % 7 == 3 { Fate::Drop } else { Fate::Pass });
    let mut pair = pair(&config(), TestController::aimd(4), lossy(), lossy());
    complete(&mut pair, 100 * MSS);
    let mut again = End::new(TcpSender::new(Arc::new(config()), TestController::aimd(4)));
    for input in &pair.sender.inputs[..1] {
        let Input::Command(now, command) = *input else { panic!("the transfer begins with a command") };
        again.transport.handle_command(now, command);
    }
    for input in &pair.sender.inputs[1..] {
        again.feed(*input);
    }
    assert_eq!(again.sent, pair.sender.sent);
    assert_eq!(again.events, pair.sender.events);
}

/// RFC 9000 section 9.4: on another path every controller starts from its first window again, and the round-trip time is
/// measured anew. What the old path had is no more than a bound of slow start.
#[test]
fn a_new_path_is_measured_anew() {
    for algorithm in Algorithm::ALL {
        let config = Arc::new(config());
        let first = algorithm.controller(config.mss).window();
        let sender = TcpSender::new(config.clone(), algorithm.controller(config.mss));
        let path = || Path::new(Span::from_ms(1));
        let mut pair = Pair::new(sender, TcpReceiver::new(config), path(), path());
        pair.transfer(1000 * MSS);
        pair.run_until(us(11_000));
        let sender = &mut pair.sender.transport;
        assert!(sender.controller().window() > first && sender.smoothed_rtt() > Span::ZERO, "{algorithm}");
        sender.handle_new_path(us(11_000));
        assert_eq!((sender.controller().window(), sender.smoothed_rtt()), (first, Span::ZERO), "{algorithm}");
        assert!(pair.run_until(Instant::MAX), "{algorithm}");
        assert_eq!(pair.receiver.delivered(), 1000 * MSS, "{algorithm}");
    }
}
