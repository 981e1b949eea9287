//! Acknowledgements of proactive data that answer several packets.

use super::*;
use crate::transport::Timer;
use crate::transport::express_pass::CreditConfig;

const ACK_EVERY: [u16; 3] = [1, 8, 64];

/// A flow that has, beside its credits, one packet of its own: the rate is that of the credits.
fn by_credits(proactive_ack_every: u16) -> FlexPassConfig {
    let class = crate::packet::TrafficClass::new(0).with_red(true);
    let reactive = Reactive::Burst { bytes: MSS, class, timeout: Span::from_ms(4) };
    FlexPassConfig { reactive, proactive_ack_every, ..FlexPassConfig::default() }
}

/// A path that lets one credit pass in each `gap`, as a shaper does that many flows share.
fn credits_every(gap: Span) -> Path {
    let mut next = Instant::ZERO;
    path().with_fate(move |_, now, packet| match packet.body() {
        Body::Credit(_) if now < next => Fate::Drop,
        Body::Credit(_) => {
            next = now.after(gap);
            Fate::Pass
        }
        _ => Fate::Pass,
    })
}

/// From one packet per second to 100 000, however many packets one acknowledgement answers: no loss, so no timeout, and
/// nothing is sent twice. The recovery timeout is 4 ms. The last packets end with the flow, or before a pause.
#[test]
fn no_rate_times_out_without_a_loss() {
    for ack_every in ACK_EVERY {
        for per_second in [1, 10, 100, 250, 1000, 4000, 10_000, 16_000, 100_000] {
            for finish in [true, false] {
                let gap = Span::from_ps(1_000_000_000_000 / per_second);
                let mut pair = pair_with(by_credits(ack_every), path(), credits_every(gap));
                // A slow flow sends few packets; a fast one more than two acknowledgements answer.
                let bytes = MSS * if per_second < 1000 { 5 } else { 150 };
                pair.command_sender(Command::Send { bytes });
                if finish {
                    pair.command_sender(Command::Finish);
                }
                let ended = pair.run_until(Instant::ZERO.after(gap.times(200)).after(Span::from_ms(20)));
                let what = (ack_every, per_second, finish);
                assert!(ended, "{what:?}: everything is at rest");
                assert_eq!(pair.receiver.delivered(), bytes, "{what:?}");
                let (sent, received) = (pair.sender.transport.statistics(), pair.receiver.transport.statistics());
                assert_eq!((sent.timeouts, sent.retransmissions), (0, 0), "{what:?}");
                assert_eq!((sent.bytes_sent, received.duplicate_bytes), (bytes, 0), "{what:?}");
            }
        }
    }
}

/// A receiver alone.
struct Silent {
    end: End<FlexPassReceiver>,
}

impl Silent {
    fn new(config: FlexPassConfig) -> Self {
        Self { end: End::new(FlexPassReceiver::new(Arc::new(config), HALF_RATE, Stream::named(1, "credits"))) }
    }

    /// Packet `number` of the flow arrives on a credit at `us`; the runs that are acknowledged then.
    fn arrive(&mut self, us: u64, number: u32) -> Vec<(u32, u32)> {
        let credit = CreditStamp { number: 0, sent_at: ShortTime::of(Instant::ZERO) };
        let seq = u64::from(number) * MSS;
        let body = Body::Scheduled { seq, number, credit, len: MSS as u16, flags: DataFlags::NONE };
        let packet = Packet::new(crate::packet::TrafficClass::new(0), 1538, body);
        runs(self.end.feed(Input::Packet(Instant::ZERO.after(Span::from_us(us)), packet, SackBlocks::EMPTY)))
    }

    /// The deadline in microseconds; the runs that are acknowledged then.
    fn wait(&mut self) -> (u64, Vec<(u32, u32)>) {
        let deadline = self.end.deadline.expect("an acknowledgement is due");
        assert_eq!(deadline.why, Timer::DelayedAck);
        (deadline.at.as_ps() / 1_000_000, runs(self.end.feed(Input::Timeout(deadline.at))))
    }
}

fn runs(sent: &[crate::transport::pair::Sent]) -> Vec<(u32, u32)> {
    let acks = sent.iter().filter_map(|sent| match sent.packet.body() {
        Body::SubflowAck { first, end, subflow: Subflow::Proactive, .. } => Some((first, end)),
        _ => None,
    });
    acks.collect()
}

/// A packet waits for its acknowledgement until the N-th arrives, or for a quarter of the recovery timeout, as traced by
/// hand with 4 ms and N = 4: the oldest of those that wait decides.
#[test]
fn an_acknowledgement_waits_a_quarter_of_the_timeout() {
    let mut silent = Silent::new(FlexPassConfig { proactive_ack_every: 4, ..FlexPassConfig::default() });
    assert!(silent.arrive(0, 0).is_empty());
    assert!(silent.arrive(900, 1).is_empty());
    assert_eq!(silent.wait(), (1000, [(0, 2)].into()));
    assert!(silent.end.deadline.is_none(), "all is answered");
    for (us, number) in [(1100, 2), (1200, 3), (1300, 4)] {
        assert!(silent.arrive(us, number).is_empty());
    }
    assert_eq!(silent.arrive(1400, 5), [(0, 6)], "four packets");
    assert!(silent.end.deadline.is_none());
    assert!(silent.arrive(5000, 6).is_empty());
    assert_eq!(silent.arrive(5100, 8), [(8, 9)], "a gap is told at once");
    assert!(silent.end.deadline.is_none());
}

/// The wait follows the recovery timeout: 25 ms of 100 ms.
#[test]
fn the_wait_follows_the_recovery_timeout() {
    let credit = CreditConfig { recovery_timeout: Span::from_ms(100), ..CreditConfig::default() };
    let mut silent = Silent::new(FlexPassConfig { proactive_ack_every: 64, credit, ..FlexPassConfig::default() });
    assert!(silent.arrive(10, 0).is_empty());
    assert_eq!(silent.wait().0, 25_010);
}

/// What is lost is still repaired: every seventh proactive packet goes, at 1000 packets per second.
#[test]
fn losses_are_repaired_at_any_rate() {
    for ack_every in ACK_EVERY {
        let mut number = 0;
        let lose = move |_: usize, _: Instant, packet: &Packet| {
            let proactive = matches!(packet.body(), Body::Scheduled { .. });
            number += u32::from(proactive);
            if proactive && number % 7 == 6 { Fate::Drop } else { Fate::Pass }
        };
        let back = credits_every(Span::from_ms(1));
        let mut pair = pair_with(by_credits(ack_every), path().with_fate(lose), back);
        pair.transfer(100 * MSS);
        assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(2))));
        assert_eq!(pair.receiver.delivered(), 100 * MSS);
        assert_eq!(
            pair.receiver.transport.statistics().duplicate_bytes,
            0,
            "{ack_every}: only what was lost goes again"
        );
    }
}
