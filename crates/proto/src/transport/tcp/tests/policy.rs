//! A sender does what its policy asks.

use super::*;
use crate::contract::policy::{Directive, Policy};
use crate::packet::TrafficClass;

fn pause(stop: bool) -> Directive {
    Directive { pause: Some(stop), ..Directive::default() }
}

fn scripted(config: &TcpConfig, segments: u64, script: &[(Instant, Directive)], forth: Path, back: Path) -> TcpPair {
    let config = Arc::new(config.clone());
    let policy = Policy::Scripted(script.iter().copied().collect());
    let sender = TcpSender::new(config.clone(), TestController::fixed(segments)).with_policy(policy);
    Pair::new(sender, TcpReceiver::new(config), forth, back)
}

/// A paused flow sends nothing, however many acknowledgements come; on resuming it sends what the window lets go.
#[test]
fn a_pause_stops_sending_and_keeps_the_window() {
    let script = [(us(5), pause(true)), (us(500), pause(false))];
    let mut pair = scripted(&config(), 4, &script, ten_us(), ten_us());
    complete(&mut pair, 12 * MSS);
    let times: Vec<_> = pair.sender.sent.iter().map(|sent| sent.at).collect();
    assert_eq!(times, [[us(0); 4], [us(500); 4], [us(520); 4]].concat());
    assert!(pair.sender.transport.controller().samples.iter().all(|sample| sample.now >= us(500)));
}

/// The retransmission timer rests during a pause however long, and starts anew on resuming.
#[test]
fn no_timeout_falls_into_a_pause() {
    let script = [(us(5), pause(true)), (us(50_000), pause(false))];
    let mut pair = scripted(&config(), 4, &script, dropping(&[0, 1, 2, 3]), ten_us());
    complete(&mut pair, 4 * MSS);
    // The timeout before the first sample is 10 ms.
    assert_eq!(pair.sender.sent[4].at, us(60_000));
    assert_eq!(pair.sender.transport.statistics().timeouts, 1);
}

/// Losses that acknowledgements tell of during a pause are repaired on resuming, not before.
#[test]
fn losses_wait_for_the_end_of_a_pause() {
    for rack in [false, true] {
        let script = [(us(5), pause(true)), (us(900), pause(false))];
        let mut pair = scripted(&TcpConfig { rack, ..config() }, 8, &script, dropping(&[1]), ten_us());
        complete(&mut pair, 8 * MSS);
        assert_eq!((pair.sender.sent[8].at, pair.sender.sent[8].packet.payload()), (us(900), 1000));
        assert_eq!(pair.sender.transport.statistics().timeouts, 0);
        assert_eq!(pair.sender.transport.controller().causes(), [Cause::Loss]);
    }
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
