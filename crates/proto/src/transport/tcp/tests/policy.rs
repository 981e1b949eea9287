//! A sender does what its policy asks.

use proptest::prelude::*;

use super::*;
use crate::contract::Contract;
use crate::contract::policy::{Directive, Policy};
use crate::contract::reflex::{GiveWay, Reflex, ReflexConfig};
use crate::packet::TrafficClass;
use crate::units::Rate;

fn scripted(config: &TcpConfig, segments: u64, script: &[(Instant, Directive)], forth: Path, back: Path) -> TcpPair {
    let config = Arc::new(config.clone());
    let policy = Policy::Scripted(script.iter().copied().collect());
    let sender = TcpSender::new(config.clone(), TestController::fixed(segments)).with_policy(policy);
    Pair::new(sender, TcpReceiver::new(config), forth, back)
}

/// The class changes for everything sent from then on, retransmissions included.
#[test]
fn everything_sent_takes_the_class_of_the_moment() {
    let low = TrafficClass::new(1);
    let script = [(us(15), Directive { class: Some(low), ..Directive::default() })];
    let mut pair = scripted(&config(), 4, &script, dropping(&[1]), ten_us());
    complete(&mut pair, 12 * MSS);
    for sent in &pair.sender.sent {
        assert_eq!(sent.packet.traffic_class.class(), usize::from(sent.at >= us(15)), "{sent:?}");
    }
    assert_eq!(pair.sender.transport.statistics().retransmissions, 1);
}

/// A stream that is cut short ends where it was cut, or behind what was sent already; FIN follows.
#[test]
fn a_stream_ends_where_it_is_cut() {
    for (cut, delivered) in [(9, 9), (5, 8), (0, 8), (20, 20)] {
        let script = [(us(25), Directive { stream_end: Some(cut * MSS), ..Directive::default() })];
        let mut pair = scripted(&config(), 4, &script, ten_us(), ten_us());
        pair.transfer(20 * MSS);
        assert!(pair.run_until(Instant::MAX), "it ends");
        assert_complete(&pair, delivered * MSS);
        assert_eq!(pair.sender.transport.statistics().given_up_bytes, (20 - delivered) * MSS);
    }
}

/// A stream that is cut down to what the peer has taken does not wait for the peer's window.
#[test]
fn a_closed_window_does_not_hold_up_the_end() {
    let small = TcpConfig { receive_buffer: Some(4096), auto_consume: false, ..config() };
    let script = [(us(500), Directive { stream_end: Some(0), finish: true, ..Directive::default() })];
    let mut pair = scripted(&small, 10, &script, ten_us(), ten_us());
    pair.command_sender(Command::Send { bytes: 10 * MSS });
    assert!(pair.run_until(Instant::MAX), "it ends");
    let delivered = pair.receiver.delivered();
    assert!((4 * MSS..=4096).contains(&delivered), "{delivered}");
    assert_complete(&pair, delivered);
}

/// A flow that moves up at 25 us. Of ten segments sent in the low class two have arrived at 20 us, with a round-trip time of
/// 20 us, and two more at 30 us: the other eight, 4 to 11, are under way when 12 and 13 leave in the high class.
fn moved_up(config: &TcpConfig) -> End<TcpSender<TestController>> {
    let up = Directive { class: Some(TrafficClass::new(0)), overtakes: true, ..Directive::default() };
    let policy = Policy::Scripted([(us(25), up)].into());
    let config = TcpConfig { data_class: TrafficClass::new(1), ..config.clone() };
    let mut end = End::new(TcpSender::new(Arc::new(config), TestController::fixed(10)).with_policy(policy));
    end.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 40 * MSS }));
    assert_eq!(answer(&mut end, us(20), 2, &[]), [10, 11]);
    end.feed(Input::Timeout(us(25)));
    assert_eq!(answer(&mut end, us(30), 4, &[]), [12, 13]);
    assert_eq!(end.sent.last().map(|sent| sent.packet.traffic_class.class()), Some(0));
    end
}

/// Losses are told by SACK counts, by time, or by duplicate acknowledgements.
fn detections() -> [TcpConfig; 3] {
    let plain = config();
    [TcpConfig { sack: false, ..plain.clone() }, TcpConfig { rack: true, ..plain.clone() }, plain]
}

/// Segments 12 to 15 overtake 4 to 11. By SACK counts (RFC 6675) 4 is lost with the third of them; a sender that expects it
/// goes on with new segments, and the eight that come late repair themselves.
#[test]
fn a_flow_that_moves_up_does_not_take_its_own_overtaking_for_loss() {
    let mut end = moved_up(&config());
    assert_eq!(answer(&mut end, us(40), 4, &[(12, 14)]), [14, 15]);
    assert_eq!(answer(&mut end, us(45), 4, &[(12, 16)])[0], 4, "it was not told");
    assert_eq!(end.transport.controller().causes(), [Cause::Loss]);

    let mut end = moved_up(&TcpConfig { expect_overtaking: true, ..config() });
    assert_eq!(answer(&mut end, us(40), 4, &[(12, 14)]), [14, 15]);
    assert_eq!(answer(&mut end, us(45), 4, &[(12, 16)]), [16, 17]);
    assert_eq!(end.deadline.map(|deadline| deadline.at), Some(us(65)), "two round trips of 20 us from the move on");
    assert_eq!(answer(&mut end, us(50), 16, &[]), [18, 19, 20, 21, 22, 23, 24, 25]);
    assert_eq!(answer(&mut end, us(60), 26, &[]).len(), 10);
    assert_eq!(end.transport.statistics().retransmissions, 0);
    assert_eq!(end.transport.controller().causes(), []);
    assert_eq!(end.deadline.map(|deadline| deadline.why), Some(Timer::Retransmit), "nothing is waited for any more");
}

/// What was overtaken and has not come after the reordering window is lost: 4 to 11 are sent again from 65 us on. RACK counts
/// from the round-trip time of what overtook, 5 us: one smoothed round trip of 21.25 us later than that, at 51.25 us.
#[test]
fn what_was_overtaken_may_be_lost_after_all() {
    for (rack, at) in [(false, Span::from_us(65)), (true, Span::from_ns(51_250))] {
        let mut end = moved_up(&TcpConfig { expect_overtaking: true, rack, ..config() });
        answer(&mut end, us(40), 4, &[(12, 14)]);
        assert!(answer(&mut end, us(45), 4, &[(12, 16)]).iter().all(|segment| *segment >= 14), "rack {rack}");
        let deadline = end.deadline.expect("a reordering window");
        assert_eq!((deadline.at, deadline.why), (Instant::ZERO.after(at), Timer::LossDetection), "rack {rack}");
        assert_eq!(segments(end.feed(Input::Timeout(deadline.at)))[0], 4, "rack {rack}");
        assert_eq!(end.transport.controller().causes(), [Cause::Loss]);
    }
}

/// A loss among what was sent since the move is repaired at once, and alone.
#[test]
fn what_overtakes_is_repaired_as_ever() {
    let mut end = moved_up(&TcpConfig { expect_overtaking: true, ..config() });
    answer(&mut end, us(40), 4, &[(13, 14)]);
    answer(&mut end, us(42), 4, &[(13, 15)]);
    // In flight are 4 to 11 and 12 again: of a window of ten one new segment may go.
    assert_eq!(answer(&mut end, us(45), 4, &[(13, 16)]), [12, 16], "12 is lost, 4 to 11 are not");
    assert_eq!(end.transport.controller().causes(), [Cause::Loss]);
    answer(&mut end, us(50), 16, &[]);
    assert_eq!(end.transport.statistics().retransmissions, 1);
}

/// Over a path whose low class takes 100 us longer, however losses are told: a flow that fills the path and moves up every
/// 400 us sends nothing again and shrinks no window. Without the knowledge it does both, unless duplicates alone tell of
/// losses: between those that overtake, what was overtaken goes on to arrive, so three never come in a row.
#[test]
fn moves_cost_nothing_where_nothing_is_lost() {
    let (high, low) = (Some(TrafficClass::new(0)), Some(TrafficClass::new(1)));
    let script: Vec<_> = (1..20u64)
        .map(|step| {
            let up = step % 2 == 0;
            (us(200 * step), Directive { class: if up { high } else { low }, overtakes: up, ..Directive::default() })
        })
        .collect();
    let by_class = || {
        ten_us().with_rate(Rate::from_gbit_per_sec(10)).with_fate(|_, _, packet| {
            if packet.traffic_class.class() == 1 { Fate::Delay(Span::from_us(100)) } else { Fate::Pass }
        })
    };
    for detection in detections() {
        for expect_overtaking in [true, false] {
            let config = TcpConfig { expect_overtaking, ..detection.clone() };
            let mut pair = scripted(&config, 150, &script, by_class(), ten_us());
            complete(&mut pair, 4000 * MSS);
            let sent_again = pair.sender.transport.statistics().retransmissions;
            let losses = pair.sender.transport.controller().causes().len();
            let free = expect_overtaking || !config.sack;
            assert_eq!((sent_again == 0, losses == 0), (free, free), "SACK {}, RACK {}", config.sack, config.rack);
        }
    }
}

/// A path that loses a share of the packets, by a hash of their number.
fn losing(share: f64, salt: u64) -> Path {
    ten_us().with_rate(Rate::from_gbit_per_sec(10)).with_fate(move |number, _, _| {
        let hash = (number as u64 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        if (hash.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 11) as f64 / ((1u64 << 53) as f64) < share {
            Fate::Drop
        } else {
            Fate::Pass
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Under REFLEX a flow of any size ends over any losses, with no less than its contract wants, and what did not
    /// arrive was given up.
    #[test]
    fn a_flow_under_reflex_delivers_what_it_must(
        bytes in 1u64..2_000_000, r in 0.0..=1.0f64, alpha in 0.0..=1.0f64, share in 0.0..0.1f64, salt: u64,
        interval_us in 20u64..500, [sack, rack, expect_overtaking]: [bool; 3],
    ) {
        let contract = Contract { min_delivery: r, min_share: alpha, ..Contract::default() };
        let give_way = GiveWay::Queue { high: TrafficClass::new(0), low: TrafficClass::new(1) };
        let interval = Span::from_us(interval_us);
        let reflex = ReflexConfig { interval, ..ReflexConfig::new(contract, give_way) };
        let reflex = Reflex::new(Arc::new(reflex), Some(bytes), 0).expect("within range");
        let config = Arc::new(TcpConfig { sack, rack: sack && rack, expect_overtaking, ..config() });
        let sender = TcpSender::new(config.clone(), TestController::aimd(10)).with_policy(reflex.into());
        let mut pair = Pair::new(sender, TcpReceiver::new(config), losing(share, salt), losing(share / 2.0, !salt));
        pair.transfer(bytes);
        prop_assert!(pair.run_until(Instant::MAX), "it ends");
        let given_up = pair.sender.transport.statistics().given_up_bytes;
        assert_complete(&pair, bytes - given_up);
        prop_assert!(bytes - given_up >= contract.needed_bytes(bytes), "{given_up} of {bytes} given up");
    }
}
