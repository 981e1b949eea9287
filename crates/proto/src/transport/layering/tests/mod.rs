use alloc::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::congestion::EcnMode;
use crate::congestion::dctcp::{Dctcp, DctcpConfig};
use crate::time::Span;
use crate::transport::pair::{Fate, Pair, Path};
use crate::transport::tcp::TcpConfig;
use crate::units::Rate;

/// Bytes of credits per second that fill 10 Gbit/s.
const FULL_RATE: f64 = 64_734_895.0;

fn path() -> Path {
    Path::new(Span::from_us(10)).with_rate(Rate::from_gbit_per_sec(10))
}

fn pair_with(tcp: TcpConfig, forth: Path, back: Path) -> Pair<LayeredSender<Dctcp>, LayeredReceiver> {
    pair_of(CreditConfig::default(), tcp, forth, back)
}

fn pair_of(
    config: CreditConfig,
    tcp: TcpConfig,
    forth: Path,
    back: Path,
) -> Pair<LayeredSender<Dctcp>, LayeredReceiver> {
    let (config, tcp) = (Arc::new(config), Arc::new(tcp));
    let window = Dctcp::new(DctcpConfig::default(), tcp.mss);
    let sender = LayeredSender::new(Arc::clone(&config), TcpSender::new(Arc::clone(&tcp), window));
    let stream = Stream::named(1, "credits");
    let receiver = LayeredReceiver::new(config, FULL_RATE, stream, TcpReceiver::new(tcp));
    Pair::new(sender, receiver, forth, back)
}

fn dctcp() -> TcpConfig {
    TcpConfig { ecn: EcnMode::Accurate, ..TcpConfig::default() }
}

/// No data leaves without a credit: as many data packets as used credits, each with a credit's number of its own.
#[test]
fn every_packet_spends_a_credit() {
    for (handshake, hold_queue) in [(false, false), (true, false), (true, true)] {
        let config = CreditConfig { hold_queue, ..CreditConfig::default() };
        let mut pair = pair_of(config, TcpConfig { handshake, ..dctcp() }, path(), path());
        pair.transfer(500_000);
        assert!(pair.run_until(Instant::MAX));
        assert_eq!(pair.receiver.delivered(), 500_000);
        let mut last = 0;
        for sent in &pair.sender.sent {
            match sent.packet.body() {
                Body::Scheduled { credit, .. } => {
                    assert!(credit.number > last, "credits are spent in order, once");
                    last = credit.number;
                }
                Body::Data { .. } => panic!("data without a credit"),
                _ => {}
            }
        }
        assert!(pair.sender.time_of(Event::Finished).is_some());
        let statistics = pair.sender.transport.statistics();
        let sent = pair.receiver.transport.statistics().credits_sent;
        assert_eq!(sent, statistics.packets_sent + statistics.wasted_credits);
    }
}

/// With a handshake and credits two round trips go by before the first data.
#[test]
fn data_waits_for_two_round_trips() {
    let mut pair = pair_with(TcpConfig { handshake: true, ..dctcp() }, path(), path());
    pair.transfer(1_000);
    assert!(pair.run_until(Instant::MAX));
    let first = pair.sender.sent.iter().find(|sent| matches!(sent.packet.body(), Body::Scheduled { .. })).unwrap();
    let after_us = first.at.as_ps() / 1_000_000;
    assert!((40..42).contains(&after_us), "{after_us} us");
}

/// A segment's round-trip time begins when it leaves TCP. With a hold queue that is when the flow starts, a round trip before the
/// first credit.
#[test]
fn round_trips_begin_in_the_hold_queue() {
    for hold_queue in [false, true] {
        let mut pair = pair_of(CreditConfig { hold_queue, ..CreditConfig::default() }, dctcp(), path(), path());
        pair.transfer(1_000);
        assert!(pair.run_until(Instant::MAX));
        let data = pair.sender.sent.iter().find_map(|sent| match sent.packet.body() {
            Body::Scheduled { number, .. } => Some((sent.at, number)),
            _ => None,
        });
        let (at, number) = data.expect("data was sent");
        assert!(at > Instant::ZERO.after(Span::from_us(20)));
        assert_eq!(number, ShortTime::of(if hold_queue { Instant::ZERO } else { at }).bits());
    }
}

/// A window of one segment bounds the rate, whatever the credits: one packet per round trip.
#[test]
fn the_window_bounds_the_rate() {
    let tcp = TcpConfig { receive_buffer: Some(2_048), ack_every: 1, ..dctcp() };
    let mut pair = pair_with(tcp, path(), path());
    pair.command_sender(Command::Send { bytes: 1 << 30 });
    pair.run_until(Instant::ZERO.after(Span::from_ms(1)));
    let delivered = pair.receiver.delivered();
    assert!(delivered <= 2_048 * 50 && delivered > 1_000 * 30, "{delivered} bytes in 50 round trips");
    assert!(pair.sender.transport.statistics().wasted_credits > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever is lost on either way, every byte arrives once and in order, and both sides end.
    #[test]
    fn every_byte_arrives_once(
        seed in any::<u64>(), forth in 0u64..200, back in 0u64..200, bytes in 1u64..150_000, hold_queue in any::<bool>(),
    ) {
        let bad = |name: &str, odds: u64| {
            let mut stream = Stream::named(seed, name);
            path().with_fate(move |_, now, _| {
                let lose = now < Instant::ZERO.after(Span::from_ms(50)) && stream.below(1000) < odds;
                if lose { Fate::Drop } else { Fate::Pass }
            })
        };
        let config = CreditConfig { hold_queue, ..CreditConfig::default() };
        let mut pair = pair_of(config, dctcp(), bad("forth", forth), bad("back", back));
        pair.transfer(bytes);
        prop_assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(30))), "it ends");
        prop_assert_eq!(pair.receiver.delivered(), bytes);
        prop_assert!(pair.sender.time_of(Event::Finished).is_some());
        prop_assert!(pair.receiver.time_of(Event::Received).is_some());
    }
}
