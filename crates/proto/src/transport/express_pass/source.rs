//! Where a flow's credits come from: the receiver's pacer and its view of the credits that were lost.

use super::config::CreditConfig;
use super::feedback::{Feedback, Period};
use crate::packet::{Body, CreditStamp, Packet, ShortTime};
use crate::rng::Stream;
use crate::time::{Instant, Span};

/// Packets below which a start may be scaled down (first published simulator).
const SMALL_FLOW_PACKETS: f64 = 40.0;

/// Sends one flow's credits.
///
/// The gaps between credits vary by a jitter that is drawn from a stream of the flow's own, given by the driver.
pub(crate) struct CreditSource {
    feedback: Feedback,
    stream: Stream,
    /// When the next credit is due; `None` while none is wanted.
    due: Option<Instant>,
    /// Number of the next credit.
    next: u32,
    /// Number of the next credit that data should echo.
    expected: u32,
    /// Credits that data accounts for in this period: echoed or skipped.
    total: u32,
    /// Of those, skipped.
    dropped: u32,
    last_update: Instant,
    /// Smoothed time from a credit to its data; zero before the first.
    rtt: Span,
    sent: u64,
}

impl CreditSource {
    /// A source that may send up to `greatest` bytes of credits per second.
    pub(crate) fn new(config: &CreditConfig, greatest: f64, stream: Stream) -> Self {
        Self {
            feedback: Feedback::new(&config.feedback, greatest * config.pacing_scale),
            stream,
            due: None,
            next: 1,
            expected: 1,
            total: 0,
            dropped: 0,
            last_update: Instant::ZERO,
            rtt: Span::ZERO,
            sent: 0,
        }
    }

    /// Credits are wanted for `backlog` bytes: the first goes at once. A source that sends already goes on as it does.
    pub(crate) fn start(&mut self, now: Instant, config: &CreditConfig, backlog: u64) {
        if self.due.is_some() {
            return;
        }
        let packets = backlog.div_ceil(u64::from(config.mss)).max(1) as f64;
        let scale = if config.scale_start { (packets / SMALL_FLOW_PACKETS).min(1.0) } else { 1.0 };
        self.feedback.restart(&config.feedback, scale);
        (self.total, self.dropped, self.last_update, self.due) = (0, 0, now, Some(now));
        // What was sent before the stop and not used is no loss.
        self.expected = self.next;
    }

    /// No more credits are wanted.
    pub(crate) fn stop(&mut self) {
        self.due = None;
    }

    /// When the next credit is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Credits sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes of credits per second.
    #[cfg(test)]
    pub(crate) fn rate(&self) -> f64 {
        self.feedback.rate()
    }

    /// Data echoed a credit.
    #[inline]
    pub(crate) fn on_echo(&mut self, now: Instant, credit: CreditStamp) {
        let skipped = credit.number.wrapping_sub(self.expected);
        // Older than expected: the network changed the order, or the credit is of before a stop. Numbers never sent are
        // no echo at all.
        if skipped >= self.next.wrapping_sub(self.expected) {
            return;
        }
        self.expected = credit.number.wrapping_add(1);
        self.total = self.total.saturating_add(skipped).saturating_add(1);
        self.dropped = self.dropped.saturating_add(skipped);
        let sample = credit.sent_at.until(now);
        let smoothed =
            if self.rtt == Span::ZERO { sample.as_ps() } else { (4 * self.rtt.as_ps() + sample.as_ps()) / 5 };
        self.rtt = Span::from_ps(smoothed.max(1));
    }

    /// The next credit, if one is due.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, config: &CreditConfig) -> Option<Packet> {
        let due = self.due.filter(|due| *due <= now)?;
        self.update(now, config);
        let (least, greatest) = config.credit_bytes;
        let spread = u64::from(greatest - least) + 1;
        let bytes = if spread == 1 { least } else { least + self.stream.below(spread) as u16 };
        let stamp = CreditStamp { number: self.next, sent_at: ShortTime::of(now) };
        self.next = self.next.wrapping_add(1);
        self.sent += 1;
        let jitter = if config.jitter == 0.0 { 0.0 } else { config.jitter * (2.0 * self.stream.unit() - 1.0) };
        let gap = Span::from_secs_f64(config.mean_credit() / self.feedback.rate() * (1.0 + jitter));
        // A timer that came late does not slow the flow down; a pause earns no burst.
        let from = if now.since(due) < gap { due } else { now };
        self.due = Some(from.after(gap.max(Span::from_ps(1))));
        Some(Packet::new(config.credit_class, bytes, Body::Credit(stamp)))
    }

    /// Follows the loss of credits, at most once per round trip.
    #[inline]
    fn update(&mut self, now: Instant, config: &CreditConfig) {
        let elapsed = now.since(self.last_update);
        if self.rtt == Span::ZERO || self.total == 0 || elapsed < self.rtt {
            return;
        }
        let period = Period {
            total: self.total,
            dropped: self.dropped,
            seconds: elapsed.as_secs_f64(),
            rtt: self.rtt.as_secs_f64(),
            credit: config.mean_credit(),
        };
        self.feedback.update(&config.feedback, &period);
        (self.total, self.dropped, self.last_update) = (0, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RATE: f64 = 64_734_895.0;

    fn source(config: &CreditConfig) -> CreditSource {
        CreditSource::new(config, RATE, Stream::named(1, "credits"))
    }

    fn stamp(packet: &Packet) -> CreditStamp {
        match packet.body() {
            Body::Credit(stamp) => stamp,
            other => panic!("{other:?} is no credit"),
        }
    }

    /// Runs to `end`; every credit that `passes` lets through is echoed `delay` later.
    fn run(source: &mut CreditSource, config: &CreditConfig, end: Span, passes: impl Fn(u32) -> bool) -> Vec<Instant> {
        let (delay, mut times, mut echoes) = (Span::from_us(20), Vec::new(), Vec::new());
        source.start(Instant::ZERO, config, 1 << 40);
        loop {
            let now = source.due().expect("it sends");
            if now >= Instant::ZERO.after(end) {
                return times;
            }
            while echoes.first().is_some_and(|(at, _)| *at <= now) {
                let (at, credit) = echoes.remove(0);
                source.on_echo(at, credit);
            }
            let credit = stamp(&source.poll(now, config).expect("it is due"));
            times.push(now);
            if passes(credit.number) {
                echoes.push((now.after(delay), credit));
            }
        }
    }

    /// At the full rate of 10 Gbit/s one credit leaves every 1.2976 us, 7706 in 10 ms, whatever the jitter.
    #[test]
    fn credits_are_paced_at_the_full_rate() {
        let mut config = CreditConfig::default();
        config.feedback.initial_rate = 1.0;
        for jitter in [0.0, 0.1] {
            config.jitter = jitter;
            let times = run(&mut source(&config), &config, Span::from_ms(10), |_| true);
            assert!((times.len() as i64 - 7706).abs() <= if jitter == 0.0 { 2 } else { 20 }, "{}", times.len());
            let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_ps()).collect();
            let (least, greatest) = (*gaps.iter().min().unwrap(), *gaps.iter().max().unwrap());
            let within = |gap: u64, factor: f64| (gap as f64 - 1_297_600.0 * factor).abs() < 1_000.0;
            assert!(within(least, 1.0 - jitter) && within(greatest, 1.0 + jitter), "{least} to {greatest}");
        }
    }

    /// Skipped numbers are lost credits; the rate comes down to what arrives. With a third of them lost at most a third
    /// of the greatest rate is wasted on average.
    #[test]
    fn lost_credits_slow_the_flow_down() {
        for law in [super::super::FeedbackLaw::Delivered, super::super::FeedbackLaw::Multiplicative] {
            let mut config = CreditConfig::default();
            config.feedback.law = law;
            let mut source = source(&config);
            run(&mut source, &config, Span::from_ms(5), |number| number % 3 != 0);
            assert!(source.rate() < 0.5 * RATE, "{law:?}: {}", source.rate() / RATE);
        }
    }

    /// Times of credits are measured as 80 % of the old value and 20 % of the new.
    #[test]
    fn the_round_trip_time_is_smoothed() {
        let config = CreditConfig::default();
        let mut source = source(&config);
        source.start(Instant::ZERO, &config, 1);
        let first = stamp(&source.poll(Instant::ZERO, &config).unwrap());
        let at = source.due().unwrap();
        let second = stamp(&source.poll(at, &config).unwrap());
        source.on_echo(Instant::ZERO.after(Span::from_us(100)), first);
        assert_eq!(source.rtt.as_ps() / 1_000_000, 99, "to 1.024 ns");
        source.on_echo(at.after(Span::from_us(200)), second);
        assert!((source.rtt.as_us_f64() - 120.0).abs() < 0.01, "{}", source.rtt);
    }

    /// Credits left over from before a stop are not counted as lost after it.
    #[test]
    fn a_stop_forgives_what_was_unused() {
        let config = CreditConfig::default();
        let mut source = source(&config);
        source.start(Instant::ZERO, &config, 1 << 30);
        for _ in 0..10 {
            let at = source.due().unwrap();
            source.poll(at, &config);
        }
        source.stop();
        let again = Instant::ZERO.after(Span::from_ms(1));
        source.start(again, &config, 1 << 30);
        let credit = stamp(&source.poll(again, &config).unwrap());
        source.on_echo(again.after(Span::from_us(20)), credit);
        assert_eq!((source.total, source.dropped, credit.number), (1, 0, 11));
    }

    /// A hostile echo of a credit that was never sent changes nothing.
    #[test]
    fn impossible_echoes_are_ignored() {
        let config = CreditConfig::default();
        let mut source = source(&config);
        for number in [0, 1, 2, u32::MAX] {
            source.on_echo(Instant::ZERO, CreditStamp { number, sent_at: ShortTime::default() });
        }
        assert_eq!((source.total, source.rtt), (0, Span::ZERO));
    }
}
