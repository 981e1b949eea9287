//! The peer's window: flow control, silly windows, probes.

use super::*;

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
