//! The peer's window: flow control, silly windows, probes.

use super::*;
use crate::packet::TrafficClass;

fn buffered(bytes: u64) -> TcpConfig {
    TcpConfig { receive_buffer: Some(bytes), auto_consume: false, ..config() }
}

#[test]
fn a_closed_window_stops_the_flow_until_the_application_reads() {
    let mut pair = pair(&buffered(32_000), TestController::fixed(100), ten_us(), ten_us());
    pair.transfer(80 * MSS);
    assert!(!pair.run_until(us(500)));
    assert_eq!(pair.receiver.delivered(), 32_000);
    assert_eq!(pair.sender.deadline.unwrap().why, Timer::Persist);
    pair.command_receiver(Command::Consume { bytes: 32_000 });
    assert!(!pair.run_until(us(600)));
    assert_eq!(pair.receiver.delivered(), 64_000, "the window update reopened it");
    pair.command_receiver(Command::Consume { bytes: 32_000 });
    assert!(pair.run_until(Instant::MAX));
    assert_complete(&pair, 80 * MSS);
}

#[test]
fn probes_back_off_and_survive_a_lost_window_update() {
    // The update is lost: the answer to a probe tells instead.
    let lost = |_: usize, at: Instant, _: &Packet| if at == us(50_000) { Fate::Drop } else { Fate::Pass };
    let mut pair = pair(&buffered(32_000), TestController::fixed(100), ten_us(), ten_us().with_fate(lost));
    pair.transfer(64 * MSS);
    assert!(!pair.run_until(us(50_000)));
    let probes: Vec<_> = pair.sender.sent[32..].iter().map(|sent| sent.at.as_ps() / 1_000_000).collect();
    assert_eq!(probes, [1020, 3020, 7020, 15_020, 31_020], "one RTO, then doubled");
    pair.command_receiver(Command::Consume { bytes: 32_000 });
    assert!(pair.run_until(Instant::MAX));
    assert_complete(&pair, 64 * MSS);
}

#[test]
fn a_window_closed_for_hours_is_probed_every_minute() {
    let mut pair = pair(&buffered(32_000), TestController::fixed(100), ten_us(), ten_us());
    pair.transfer(64 * MSS);
    assert!(!pair.run_until(us(7_200_000_000)));
    assert!(pair.sender.sent.len() > 120);
    assert_eq!(pair.sender.transport.statistics().timeouts, 0);
    pair.command_receiver(Command::Consume { bytes: 32_000 });
    assert!(pair.run_until(Instant::MAX));
    assert_complete(&pair, 64 * MSS);
}

#[test]
fn the_window_opens_in_steps_worth_a_packet() {
    let mut pair = pair(&buffered(32_000), TestController::fixed(100), ten_us(), ten_us());
    pair.transfer(64 * MSS);
    pair.run_until(us(100));
    let before = pair.receiver.sent.len();
    for _ in 0..10 {
        pair.command_receiver(Command::Consume { bytes: 100 });
    }
    assert_eq!(pair.receiver.sent.len(), before, "1000 bytes in small bites are not worth an update");
    pair.command_receiver(Command::Consume { bytes: 1000 });
    assert_eq!(pair.receiver.sent.len(), before + 1);
}

#[test]
fn a_small_buffer_that_is_read_at_once_paces_the_flow() {
    // The window is two segments: 2000 bytes per round trip of 20 us.
    let small = TcpConfig { receive_buffer: Some(2048), ..config() };
    let mut pair = pair(&small, TestController::fixed(100), ten_us(), ten_us());
    complete(&mut pair, 20 * MSS);
    assert_eq!(pair.receiver.time_of(Event::Received), Some(us(190)));
    assert_eq!(pair.sender.transport.statistics().timeouts, 0);
}

#[test]
fn windows_below_a_segment_still_move_data() {
    for bytes in [256, 700] {
        for auto_consume in [true, false] {
            let tiny = TcpConfig { receive_buffer: Some(bytes), auto_consume, ..config() };
            let mut pair = pair(&tiny, TestController::fixed(100), ten_us(), ten_us());
            pair.transfer(3 * MSS);
            for step in 1..20_000 {
                if pair.run_until(us(step * 1000)) {
                    break;
                }
                pair.command_receiver(Command::Consume { bytes });
            }
            assert_complete(&pair, 3 * MSS);
        }
    }
}

#[test]
fn the_send_buffer_bounds_what_is_taken() {
    let bounded = TcpConfig { send_buffer: Some(5 * MSS), ..config() };
    let mut end = sender(&bounded, TestController::fixed(2), 3 * MSS);
    assert_eq!(end.transport.send_space(), 2 * MSS);
    end.feed(Input::Command(us(1), Command::Send { bytes: 9 * MSS }));
    assert_eq!(end.transport.send_space(), 0);
    answer(&mut end, us(20), 2, &[]);
    assert_eq!(end.transport.send_space(), 2 * MSS);
}

/// Path of 2 Gbit/s with a round trip of `us` microseconds, over which 20 MB go. How long that takes, in milliseconds, and how many
/// packets asked for a larger window.
fn on_a_path_of(us: u64, buffer: &TcpConfig) -> (u64, usize) {
    let half = || Path::new(Span::from_us(us / 2));
    let mut pair = pair(buffer, TestController::fixed(100_000), half().with_rate(Rate::from_gbit_per_sec(2)), half());
    complete(&mut pair, 20_000 * MSS);
    let asked = pair.sender.sent.iter().filter(|sent| match sent.packet.body() {
        Body::Data { flags, .. } => flags.contains(DataFlags::WINDOW_FULL),
        _ => false,
    });
    (pair.receiver.time_of(Event::Received).expect("it ends").as_ps() / 1_000_000_000, asked.count())
}

/// A window of 1 MB lets 20 round trips pass for 20 MB. One that grows to 8 MB needs its own round trip to be noticed in, and one for each doubling:
/// 1 + 1 + 2 + 4 + 8 and the rest, which is seven or eight.
#[test]
fn a_window_grows_on_a_long_path() {
    let fixed = TcpConfig { receive_buffer: Some(1 << 20), ..config() };
    let grows = TcpConfig { largest_receive_buffer: Some(8 << 20), ..fixed.clone() };
    let (before, _) = on_a_path_of(100_000, &fixed);
    let (after, asked) = on_a_path_of(100_000, &grows);
    assert!((1900..2100).contains(&before), "{before}");
    assert!((600..900).contains(&after), "{after}");
    assert!(asked > 0);
}

/// The largest window that a receiver grants which gets `segments` segments, one each `gap` microseconds, whose sender says of each
/// that it waited.
fn largest_window(config: TcpConfig, segments: u64, gap: u64) -> Option<u64> {
    let mut receiver = End::new(TcpReceiver::new(Arc::new(config)));
    for segment in 0..segments {
        let (seq, flags) = (segment * MSS, DataFlags::WINDOW_FULL);
        let body = Body::Data { seq, sent_at: Instant::ZERO, len: MSS as u16, flags };
        receiver.feed(Input::Packet(
            us(gap * segment),
            Packet::new(TrafficClass::new(0), 1040, body),
            SackBlocks::EMPTY,
        ));
    }
    let windows = receiver.sent.iter().filter_map(|sent| match sent.packet.body() {
        Body::Ack { window, .. } => Some(u64::from(window) * 256),
        _ => None,
    });
    windows.max()
}

/// Where a window's bytes take less than 5 ms it stays small: nobody asks, and a receiver that is asked looks at the time.
#[test]
fn a_window_stays_small_on_a_short_path() {
    let grows = TcpConfig { receive_buffer: Some(1 << 20), largest_receive_buffer: Some(8 << 20), ..config() };
    assert_eq!(on_a_path_of(500, &grows).1, 0);
    assert_eq!(largest_window(grows, 20_000, 4), Some(1 << 20));
}

/// Whoever lies about waiting gets the largest window, and no more.
#[test]
fn a_window_grows_to_its_bound() {
    let grows = TcpConfig { receive_buffer: Some(4096), largest_receive_buffer: Some(10_000), ..config() };
    assert_eq!(largest_window(grows, 100, 10_000), Some(10_000 / 256 * 256));
}
