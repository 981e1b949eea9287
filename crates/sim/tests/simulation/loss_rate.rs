//! Windows and rates under a given loss rate (Mathis et al., CCR 1997).
//!
//! Loss number `1/p` ends a cycle. With growth frozen while a loss is repaired (RFC 6675), a cycle from one loss to the
//! next has a round trip of `W/2` packets and then `b * W/2` round trips from `W/2` to `W`, one more packet every `b`:
//! `1/p = 3bW^2/8 + W/2`. The mean window is `1/p` over the cycle's `1 + bW/2` round trips. At small `p` that is
//! `sqrt(3/(2bp))`, or `1.22/sqrt(p)` for `b = 1`.
//!
//! What is tested is the whole sender: detection, SACK recovery, delayed acknowledgements. The tests of Reno's controller
//! (`congestion/tests/reno.rs`) hold it alone against the law without recovery, over more losses.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pliant_proto::congestion::reno::{Counting, Reno, RenoConfig};
use pliant_proto::packet::{Packet, SackBlocks, WireFormat};
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::rng::Stream;
use pliant_proto::switch::marker::MarkerConfig;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Transport};

use crate::common::{MSS, Seen, TestBed, Watch, Watched, across, at_ms, bottleneck, cable, dumbbell, fifo, tcp};

/// A transport behind a wire that loses some of the packets to it.
struct Lossy<T, F> {
    transport: T,
    loses: F,
}

impl<T: Transport, F: FnMut() -> bool> Transport for Lossy<T, F> {
    type Request = T::Request;
    type Answer = T::Answer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        if packet.payload() == 0 || !(self.loses)() {
            self.transport.handle_packet(now, packet, sack);
        }
    }
    fn handle_command(&mut self, now: Instant, command: Command<T::Answer>) {
        self.transport.handle_command(now, command);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.transport.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.transport.poll_transmit(now)
    }
    fn sack_blocks(&self) -> &SackBlocks {
        self.transport.sack_blocks()
    }
    fn poll_event(&mut self) -> Option<Event<T::Request>> {
        self.transport.poll_event()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.transport.poll_timeout()
    }
    fn statistics(&self) -> Statistics {
        self.transport.statistics()
    }
}

/// What a flow reached under losses.
struct Reached {
    /// Mean window in packets, times the root of the loss rate.
    constant: f64,
    /// Goodput over mean window per round-trip time.
    rate_error: f64,
    timeouts: u64,
}

/// One Reno flow across 4 ms, whose receiver loses data packets by `loses`.
fn lose<F: FnMut() -> bool + Clone>(rate: f64, loses: F, counting: Counting, ack_every: u8, end_ms: u64) -> Reached {
    // Round trips are constant, so a timeout of SRTT + 4 RTTVAR would come just before a retransmission is answered.
    let rto = RtoBounds { minimum: Span::from_ms(50), ..RtoBounds::default() };
    let config = Arc::new(TcpConfig { wire: WireFormat::IP, ack_every, rto, ..TcpConfig::default() });
    let bed = TestBed::new(dumbbell(1, cable(100, 500), cable(100, 1000)), fifo(10_000, MarkerConfig::None), &config);
    let from = at_ms(end_ms / 10);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let pair = |_: &_| {
        let reno = Reno::new(RenoConfig { counting, ..RenoConfig::default() }, MSS);
        let (sender, receiver) = tcp(&config, Watched::new(reno, from, |_| 0.0, &seen));
        let lossy = |transport| Lossy { transport, loses: loses.clone() };
        (lossy(sender), lossy(receiver))
    };
    let watch = Watch::new(bottleneck(1), from, Span::from_ms(1000), 1);
    let outcome = bed.run(&across(1), pair, watch, at_ms(end_ms));
    let seen = seen.borrow();
    let goodput = outcome.recorder.goodputs(at_ms(end_ms))[0];
    Reached {
        constant: seen.mean_window() / f64::from(MSS) * rate.sqrt(),
        rate_error: goodput * seen.mean_rtt() / (8.0 * seen.mean_window()) - 1.0,
        timeouts: seen.timeouts,
    }
}

/// Loses the last of every `every` packets.
fn each(every: u64) -> impl FnMut() -> bool + Clone {
    let mut count = 0;
    move || {
        count += 1;
        count % every == 0
    }
}

/// The law of this file's head for `b = growth`.
fn law(every: u64, growth: f64) -> f64 {
    let packets = every as f64;
    let window = ((0.25 + 1.5 * growth * packets).sqrt() - 0.5) / (0.75 * growth);
    packets / (1.0 + growth * window / 2.0) / packets.sqrt()
}

/// Mean window within 3 % of the law, goodput within 3 % of mean window per round trip: a window that shrinks sends
/// less for a round trip than it says, and delayed acknowledgements lengthen some round trips.
#[test]
fn deterministic_loss_gives_the_square_root_law() {
    assert!((law(1_000_000_000, 1.0) - 1.2247).abs() < 1e-3, "the limit is the root of 3/2");
    for (every, counting, ack_every, growth) in [
        (1_000, Counting::Bytes, 1, 1.0),
        (10_000, Counting::Bytes, 1, 1.0),
        (10_000, Counting::Bytes, 2, 1.0),
        (10_000, Counting::Acks, 2, 2.0),
    ] {
        let reached = lose(1.0 / every as f64, each(every), counting, ack_every, 60_000);
        let (constant, expected) = (reached.constant, law(every, growth));
        println!("1/p {every}, b {growth}: {constant:.4} for {expected:.4}, rate off by {:.4}", reached.rate_error);
        assert!((constant / expected - 1.0).abs() <= 0.03, "{constant} where {expected} is expected");
        assert!(reached.rate_error.abs() <= 0.03, "{}", reached.rate_error);
        assert_eq!(reached.timeouts, 0);
    }
}

/// Independent losses give 1.31/sqrt(p): cycles differ in length, long ones weigh more.
#[test]
fn independent_loss_gives_a_larger_constant() {
    let rate = 1e-3;
    let mut stream = Stream::named(1, "losses");
    let mut constants = Vec::new();
    for _ in 0..4 {
        let draws = Rc::new(RefCell::new(Stream::named(stream.below(1 << 60), "losses")));
        let reached = lose(rate, move || draws.borrow_mut().unit() < rate, Counting::Bytes, 1, 60_000);
        constants.push(reached.constant);
    }
    let mean = constants.iter().sum::<f64>() / constants.len() as f64;
    println!("{constants:?}, mean {mean:.4}");
    assert!((mean / 1.31 - 1.0).abs() <= 0.05, "{mean}");
}
