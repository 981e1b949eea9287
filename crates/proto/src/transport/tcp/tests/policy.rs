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
        interval_us in 20u64..500, [sack, rack]: [bool; 2],
    ) {
        let contract = Contract { min_delivery: r, min_share: alpha, ..Contract::default() };
        let give_way = GiveWay::Queue { high: TrafficClass::new(0), low: TrafficClass::new(1) };
        let interval = Span::from_us(interval_us);
        let reflex = ReflexConfig { interval, ..ReflexConfig::new(contract, give_way) };
        let reflex = Reflex::new(Arc::new(reflex), Some(bytes), 0).expect("within range");
        let config = Arc::new(TcpConfig { sack, rack: sack && rack, ..config() });
        let sender = TcpSender::new(config.clone(), TestController::aimd(10)).with_policy(reflex.into());
        let mut pair = Pair::new(sender, TcpReceiver::new(config), losing(share, salt), losing(share / 2.0, !salt));
        pair.transfer(bytes);
        prop_assert!(pair.run_until(Instant::MAX), "it ends");
        let given_up = pair.sender.transport.statistics().given_up_bytes;
        assert_complete(&pair, bytes - given_up);
        prop_assert!(bytes - given_up >= contract.needed_bytes(bytes), "{given_up} of {bytes} given up");
    }
}
