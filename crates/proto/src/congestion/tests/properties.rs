use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::cubic::{Cubic, CubicConfig, Growth, HyStartKind};
use super::super::ledbat::{Ledbat, LedbatConfig};
use super::super::reno::{Reno, RenoConfig, RenoGrowth};
use super::super::tcp_lp::{Extremes, TcpLp, TcpLpConfig};
use super::super::{AckSample, Algorithm, AnyController, Cause, Congestion, CongestionControl, EcnMode};
use crate::contract::Field;
use crate::time::{Instant, OneWayDelay, Span};
use crate::units::Rate;

/// What a transport may tell a controller.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Ack {
        elapsed: Span,
        acked: u64,
        ece: bool,
        rtt: Option<Span>,
        delay: Option<OneWayDelay>,
        window_limited: bool,
        in_recovery: bool,
    },
    Congestion {
        cause: Cause,
        flight: u64,
        first: bool,
    },
    Lost(u64),
    Recovered(u64),
    Idle,
    SetWeight(f64),
}

/// Mostly plausible numbers, some absurd ones.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_000u64, 1 => any::<u64>()]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![8 => 0..10_000_000_000u64, 1 => any::<u64>()].prop_map(Span::from_ps)
}

fn delay() -> impl Strategy<Value = OneWayDelay> {
    prop_oneof![8 => -1_000_000..1_000_000i64, 1 => any::<i64>()].prop_map(OneWayDelay::from_ns)
}

fn operation() -> impl Strategy<Value = Operation> {
    let cause = prop_oneof![Just(Cause::Loss), Just(Cause::Ecn), Just(Cause::Timeout)];
    prop_oneof![
        12 => (span(), bytes(), proptest::option::of(span()), proptest::option::of(delay()), any::<[bool; 3]>()).prop_map(
            |(elapsed, acked, rtt, delay, [ece, window_limited, in_recovery])| Operation::Ack {
                elapsed, acked, ece, rtt, delay, window_limited, in_recovery
            }
        ),
        3 => (cause, bytes(), any::<bool>())
            .prop_map(|(cause, flight, first)| Operation::Congestion { cause, flight, first }),
        1 => bytes().prop_map(Operation::Lost),
        1 => bytes().prop_map(Operation::Recovered),
        1 => Just(Operation::Idle),
        1 => any::<f64>().prop_map(Operation::SetWeight),
    ]
}

/// A controller and the sequence numbers that its transport would keep.
struct Driven {
    controller: AnyController,
    now: Instant,
    unacked: u64,
}

impl Driven {
    fn apply(&mut self, operation: Operation) {
        let next = self.unacked.saturating_add(self.controller.window());
        match operation {
            Operation::Ack { elapsed, acked, ece, rtt, delay, window_limited, in_recovery } => {
                self.now = self.now.after(elapsed);
                self.unacked = self.unacked.saturating_add(acked);
                self.controller.on_ack(&AckSample {
                    now: self.now,
                    acked,
                    unacked: self.unacked,
                    next: next.max(self.unacked),
                    flight: next.saturating_sub(self.unacked),
                    ece,
                    rtt,
                    delay,
                    hold: rtt,
                    smoothed_rtt: rtt.unwrap_or_default(),
                    window_limited,
                    in_recovery,
                });
            }
            Operation::Congestion { cause, flight, first } => {
                let unacked = self.unacked;
                self.controller.on_congestion(&Congestion { now: self.now, cause, flight, unacked, next, first });
            }
            Operation::Lost(bytes) => self.controller.on_lost(bytes),
            Operation::Recovered(flight) => self.controller.on_recovered(flight),
            Operation::Idle => self.controller.on_idle(),
            Operation::SetWeight(weight) => self.controller.set_weight(weight),
        }
    }
}

/// All that a controller remembers.
fn state(driven: &Driven) -> String {
    format!("{:?}", driven.controller)
}

fn every_controller(mss: u16) -> Vec<AnyController> {
    let hystart = CubicConfig { hystart: HyStartKind::Rfc9406, ..CubicConfig::default() };
    let defaults = Algorithm::ALL.iter().map(|algorithm| algorithm.controller(mss));
    let linux = TcpLpConfig { delay_extremes: Extremes::Linux, ..TcpLpConfig::default() };
    let near = LedbatConfig { target: Span::from_us(100), slow_start: true, ..LedbatConfig::default() };
    let variants = [Cubic::new(hystart, mss).into(), TcpLp::new(linux, mss).into(), Ledbat::new(near, mss).into()];
    defaults.chain(variants).chain(of_whole_segments(mss)).collect()
}

/// As the kernel's models have them, and ns-3's CUBIC.
fn of_whole_segments(mss: u16) -> [AnyController; 3] {
    let cubic = CubicConfig { hystart: HyStartKind::Linux, growth: Growth::Linux, ..CubicConfig::default() };
    let ns3 = CubicConfig { hystart: HyStartKind::Ns3, growth: Growth::Ns3, ..cubic };
    let reno = RenoConfig { reno_growth: RenoGrowth::Linux, ..RenoConfig::default() };
    [Cubic::new(cubic, mss).into(), Cubic::new(ns3, mss).into(), Reno::new(reno, mss).into()]
}

proptest! {
    /// Linux's windows and ns-3's are whole segments, as long as binary numbers tell segments apart.
    #[test]
    fn linux_and_ns3_have_whole_segments(mss in 1..=9000u16, operations in vec(operation(), 1..200)) {
        for controller in of_whole_segments(mss) {
            let mut driven = Driven { controller, now: Instant::ZERO, unacked: 0 };
            for &operation in &operations {
                driven.apply(operation);
                let window = driven.controller.window();
                prop_assert!(window > 1 << 50 || window.is_multiple_of(mss.into()), "{operation:?}: {:?}", driven.controller);
            }
        }
    }

    /// Whatever happens, in whatever order: a window holds at least one segment, so no flow stalls (a NaN would read
    /// as zero), nothing overflows, and a shrinking event never widens it, but for controllers whose rate decides.
    #[test]
    fn windows_stay_sane(mss in 1..=9000u16, operations in vec(operation(), 1..200)) {
        for controller in every_controller(mss) {
            let mut driven = Driven { controller, now: Instant::ZERO, unacked: 0 };
            for &operation in &operations {
                let before = driven.controller.window();
                driven.apply(operation);
                let after = driven.controller.window();
                prop_assert!(after >= u64::from(mss), "{operation:?}: {:?}", driven.controller);
                prop_assert!(driven.controller.ssthresh() >= u64::from(mss), "{:?}", driven.controller);
                let may_widen = match operation {
                    Operation::Ack { window_limited, .. } => window_limited,
                    // Half of a flight beyond the window may exceed it; transports do not send so much.
                    Operation::Congestion { cause, flight, .. } => cause != Cause::Timeout && flight > before
                        || before < 2 * u64::from(mss),
                    _ => false,
                };
                let may_widen = may_widen || driven.controller.needs_pacing();
                prop_assert!(may_widen || after <= before, "{operation:?}: {before} to {:?}", driven.controller);
            }
        }
    }

    /// The same inputs give the same state.
    #[test]
    fn controllers_are_deterministic(operations in vec(operation(), 1..100)) {
        for controller in every_controller(1460) {
            let mut twins = [controller.clone(), controller].map(|controller| Driven { controller, now: Instant::ZERO, unacked: 0 });
            for &operation in &operations {
                for twin in &mut twins {
                    twin.apply(operation);
                }
                prop_assert_eq!(state(&twins[0]), state(&twins[1]));
            }
        }
    }
}

#[test]
fn any_controller_is_no_larger_than_the_largest() {
    assert!(size_of::<AnyController>() <= 168);
}

proptest! {
    /// Behind a pointer a controller of another crate does what it would do as a member, and a clone goes its own way.
    #[test]
    fn a_controller_of_another_crate_is_one_of_any(operations in vec(operation(), 1..100)) {
        let reno = || Reno::new(RenoConfig::default(), 1460);
        let controllers = [reno().into(), AnyController::foreign(reno())];
        let [mut member, mut foreign] =
            controllers.map(|controller| Driven { controller, now: Instant::ZERO, unacked: 0 });
        let before = foreign.controller.clone();
        for &operation in &operations {
            member.apply(operation);
            foreign.apply(operation);
            prop_assert_eq!(member.controller.window(), foreign.controller.window());
            prop_assert_eq!(member.controller.ssthresh(), foreign.controller.ssthresh());
        }
        let reno = state(&member);
        let reno = reno.strip_prefix("Reno(").and_then(|reno| reno.strip_suffix(")")).expect("a member");
        prop_assert!(state(&foreign).contains(reno), "{} in {}", reno, state(&foreign));
        prop_assert_eq!(before.window(), Reno::new(RenoConfig::default(), 1460).window());
    }
}

/// What a controller may ask of its transport is asked through the pointer, too.
#[test]
fn a_controller_of_another_crate_may_ask_for_everything() {
    #[derive(Clone, Debug)]
    struct Demanding {
        hops: Option<u8>,
    }
    impl CongestionControl for Demanding {
        fn on_ack(&mut self, _sample: &AckSample) {}
        fn on_congestion(&mut self, _event: &Congestion) {}
        fn window(&self) -> u64 {
            1
        }
        fn ssthresh(&self) -> u64 {
            u64::MAX
        }
        fn pacing_rate(&self) -> Option<Rate> {
            self.hops.map(|hops| Rate::from_gbit_per_sec(hops.into()))
        }
        fn ecn_mode(&self) -> EcnMode {
            EcnMode::Classic
        }
        fn needs_one_way_delay(&self) -> bool {
            true
        }
        fn needs_hold_time(&self) -> bool {
            true
        }
        fn set_hops(&mut self, hops: u8) {
            self.hops = Some(hops);
        }
    }
    let mut controller = AnyController::foreign(Demanding { hops: None });
    assert_eq!((controller.pacing_rate(), controller.needs_pacing()), (None, false), "the default goes by the rate");
    controller.set_hops(4);
    assert_eq!((controller.pacing_rate(), controller.needs_pacing()), (Some(Rate::from_gbit_per_sec(4)), true));
    assert_eq!(controller.ecn_mode(), EcnMode::Classic);
    assert!(controller.needs_one_way_delay() && controller.needs_hold_time());
}

/// Members ask for no pacing and no hold times, so that their packets go the straight way; all but the one that has a rate.
#[test]
fn algorithms_ask_for_nothing_new() {
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Bounded) {
        let mut controller = algorithm.controller(1460);
        let before = format!("{controller:?}");
        controller.set_hops(4);
        assert_eq!(format!("{controller:?}"), before, "{algorithm}");
        assert!(!controller.needs_pacing() && !controller.needs_hold_time() && controller.pacing_rate().is_none());
    }
}

/// Of a round-trip time, what the receiver did not hold is the network's.
#[test]
fn fabric_delay_is_what_the_receiver_did_not_hold() {
    let [rtt, hold] = [Some(Span::from_us(120)), Some(Span::from_us(100))];
    let sample = AckSample { rtt, hold, ..super::ack(0) };
    assert_eq!(sample.fabric_delay(), Some(Span::from_us(20)));
    assert_eq!(AckSample { hold: None, ..sample }.fabric_delay(), None);
    assert_eq!(AckSample { rtt: None, ..sample }.fabric_delay(), None);
}

#[test]
fn algorithms_have_names() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        assert!(!algorithm.description().is_empty() && algorithm.description().len() <= 90, "{algorithm}");
    }
    let error = "bbr".parse::<Algorithm>().unwrap_err().to_string();
    let names = Algorithm::ALL.map(Algorithm::name).join(", ");
    assert_eq!(error, format!("\"bbr\" is no congestion control; known are {names}"));
}

#[test]
fn who_shares_by_marks_honours_weights() {
    for algorithm in Algorithm::ALL {
        let shares_by_marks = matches!(algorithm, Algorithm::WeightedFair | Algorithm::Dctcp);
        assert_eq!(algorithm.honours().contains(&Field::Weight), shares_by_marks, "{algorithm}");
    }
}

#[test]
fn algorithms_ask_for_their_ecn() {
    for algorithm in Algorithm::ALL {
        let accurate = matches!(algorithm, Algorithm::Dctcp | Algorithm::WeightedFair);
        let expected = if accurate { EcnMode::Accurate } else { EcnMode::Off };
        assert_eq!(algorithm.controller(1460).ecn_mode(), expected, "{algorithm}");
    }
}

#[test]
fn algorithms_ask_for_one_way_delays() {
    for algorithm in Algorithm::ALL {
        let needed = matches!(algorithm, Algorithm::TcpLp | Algorithm::Ledbat | Algorithm::Bounded);
        assert_eq!(algorithm.controller(1460).needs_one_way_delay(), needed, "{algorithm}");
    }
}
