//! Done by when: how fast a flow of known size must go to be done in time, and whether it will be (a design of this
//! project's own).
//!
//! The flow *aims* at being done a tenth of its time early ([`RESERVE`]). The rate that it needs is what is left of it over
//! the time that is left until then. As long as a normal flow would have more, it keeps the needed rate and no more, and
//! gives way beyond it. What it takes while others are away lowers the needed rate for later. If a normal flow had less for a
//! while, the flow needs what it lacks since within two windows: spread over all the time that is left, it would add up.
//! From the aim on, and whenever it needs more than a normal flow has, it is a normal flow.
//!
//! The span is cut into 32 windows. A flow that was a normal one for two of them in a row, and would be
//! late at the rate that it had in these and in the last of them, is *pressed*: it is a normal flow to its end. If after as
//! many windows more it would still be late, it says so, once. As long as its rate still grows it waits. It says
//! so, too, when its `max_rate` alone makes it late, and at the latest when the time is over.

use crate::time::{Instant, Span};
use crate::units::Rate;

/// Most days until a flow must be done. A span of picoseconds ends after 213.
pub const MOST_DAYS: u64 = 200;
/// Part of the time that is kept in reserve, of one in this many.
pub const RESERVE: u64 = 10;
/// Windows in which a flow's rate is measured.
const WINDOWS: u64 = 32;
/// So many in a row must have passed as a normal flow before it is pressed, and then before it is said to be late.
const FULL_WINDOWS: u32 = 2;
/// What a flow lacks of the needed rate it needs within so many windows.
const CATCH_UP: u64 = 2;
/// The rate grows if that of the last window is so many times that of the one before.
const GROWING: f64 = 1.1;

/// What a flow must do to be done in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing: all of it is across.
    Nothing,
    /// It must have this rate of payload, as far as a normal flow has it.
    AtLeast(Rate),
    /// It must be a normal flow.
    Normal,
}

/// The news that a flow will be late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// When it is done, at the rate that it had; [`Instant::MAX`] if nothing moves.
    pub expected: Instant,
}

/// The deadline of one flow.
#[derive(Clone, Debug)]
pub struct FlowDeadline {
    bytes: u64,
    max_rate: Option<Rate>,
    aim: Instant,
    until: Instant,
    /// When the flow last had all that it needed, and how many bytes were across then.
    even: (Instant, u64),
    /// Length of a window.
    window: Span,
    /// When the current window ends.
    ends: Instant,
    /// When the windows in a row began in which the flow was a normal one, and how many bytes were across then.
    full_since: (Instant, u64),
    /// When the current window began, and how many bytes were across then.
    began: (Instant, u64),
    /// Bytes per second of the window before.
    previous: f64,
    /// How many in the row are over.
    full_windows: u32,
    /// It was a normal flow all through the current window.
    full: bool,
    /// It must be a normal flow to its end.
    pressed: bool,
    said_late: Option<Instant>,
}

impl FlowDeadline {
    /// The deadline of a flow of `bytes` that starts at `now` and must be done `span` later. It sends no faster than
    /// `max_rate`.
    pub fn new(now: Instant, bytes: u64, span: Span, max_rate: Option<Rate>) -> Self {
        Self::resumed(now, 0, bytes, span, max_rate)
    }

    /// The same of a flow that runs already, with `across` of its bytes at the receiver.
    pub fn resumed(now: Instant, across: u64, bytes: u64, span: Span, max_rate: Option<Rate>) -> Self {
        let window = span.divided_by(WINDOWS).max(Span::from_ns(1));
        Self {
            bytes,
            max_rate,
            aim: now.after(span.minus(span.divided_by(RESERVE))),
            until: now.after(span),
            even: (now, across),
            window,
            ends: now.after(window),
            full_since: (now, across),
            began: (now, across),
            previous: 0.0,
            full_windows: 0,
            full: false,
            pressed: false,
            said_late: None,
        }
    }

    /// When the flow must be done.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// The flow has so many bytes, of which those that are new to it need not have been given yet.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// The flow sends no faster than `rate` from now on.
    pub fn set_max_rate(&mut self, rate: Option<Rate>) {
        self.max_rate = rate;
    }

    /// When it was said that it will be late.
    pub fn said_late(&self) -> Option<Instant> {
        self.said_late
    }

    /// What the flow needs at `now`, with `across` of its bytes at the receiver.
    pub fn need(&self, now: Instant, across: u64) -> Need {
        let left = self.bytes.saturating_sub(across);
        if left == 0 {
            Need::Nothing
        } else if self.pressed || now >= self.aim {
            Need::Normal
        } else {
            let spread = left as f64 / self.aim.since(now).as_secs_f64();
            let soon = self.window.times(CATCH_UP).as_secs_f64();
            let caught_up = self.lacking(now, across).map_or(0.0, |(planned, bytes)| planned + bytes / soon);
            Need::AtLeast(Rate::from_bits_per_sec(libm::ceil(8.0 * spread.max(caught_up)) as u64))
        }
    }

    /// Before the aim, of a flow that lacks something: the bytes per second that it needed when it last lacked nothing, and the
    /// bytes that it lacks of these.
    fn lacking(&self, now: Instant, across: u64) -> Option<(f64, f64)> {
        let (since, before) = self.even;
        let planned = self.bytes.saturating_sub(before) as f64 / self.aim.since(since).as_secs_f64();
        let bytes = before as f64 + planned * now.since(since).as_secs_f64() - across as f64;
        (bytes > 0.0).then_some((planned, bytes))
    }

    /// Hears at `now` that `across` bytes are at the receiver, and what a normal flow would have, if that is known. Tells if
    /// the flow will be late; it does so once.
    pub fn observe(&mut self, now: Instant, across: u64, normal: Option<Rate>) -> Option<Late> {
        let left = self.bytes.saturating_sub(across);
        if left == 0 || self.said_late.is_some() {
            return None;
        }
        let is_normal = match self.need(now, across) {
            Need::Normal => true,
            Need::AtLeast(rate) => normal.is_some_and(|normal| rate >= normal),
            Need::Nothing => false,
        };
        self.full &= is_normal;
        if now < self.aim && self.lacking(now, across).is_none() {
            self.even = (now, across);
        }
        let left_time = self.until.since(now);
        let too_slow = self.max_rate.is_some_and(|most| most.time_for(left) > left_time);
        if too_slow || now >= self.until {
            return Some(self.say_late(now, across));
        }
        if now < self.ends {
            return None;
        }
        self.full_windows = if self.full { self.full_windows + 1 } else { 0 };
        if !self.full {
            self.full_since = (now, across);
        }
        let (all, last) = (rate(self.full_since, now, across), rate(self.began, now, across));
        self.full = is_normal;
        self.began = (now, across);
        self.ends = now.after(self.window);
        let late = left as f64 > all.max(last) * left_time.as_secs_f64();
        let grows = last > GROWING * core::mem::replace(&mut self.previous, last);
        let known = self.full_windows >= FULL_WINDOWS && !grows;
        if !(known && late) {
            return None;
        }
        if self.pressed {
            return Some(self.say_late(now, across));
        }
        (self.pressed, self.full) = (true, true);
        (self.full_since, self.full_windows) = ((now, across), 0);
        None
    }

    /// When [`observe`](Self::observe) has something to say though nothing arrives.
    pub fn next_at(&self) -> Option<Instant> {
        self.said_late.is_none().then(|| self.ends.min(self.until))
    }

    fn expected(&self, now: Instant, across: u64) -> Instant {
        let left = self.bytes.saturating_sub(across) as f64;
        let seconds = left / rate(self.full_since, now, across);
        // A span of picoseconds ends after 213 days: more is as good as never.
        if seconds < 1e7 { now.after(Span::from_secs_f64(seconds)) } else { Instant::MAX }
    }

    fn say_late(&mut self, now: Instant, across: u64) -> Late {
        (self.said_late, self.pressed) = (Some(now), true);
        let left = self.bytes.saturating_sub(across);
        let fastest = self.max_rate.map_or(now, |most| now.after(most.time_for(left)));
        let measured = self.full_windows > 0 || now >= self.until;
        Late { expected: if measured { self.expected(now, across).max(fastest) } else { fastest } }
    }
}

/// Bytes per second since then.
fn rate((since, before): (Instant, u64), now: Instant, across: u64) -> f64 {
    across.saturating_sub(before) as f64 / now.since(since).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: f64) -> Instant {
        Instant::ZERO.after(Span::from_secs_f64(seconds))
    }

    fn mbit(rate: u64) -> Rate {
        Rate::from_bits_per_sec(rate * 1_000_000)
    }

    /// 90 MB in 100 s: nine tenths of the time are 90 s, so 8 Mbit/s from the start. Half of it across after 30 s leaves 45 MB
    /// for 60 s, 6 Mbit/s. From 90 s on it is a normal flow, and with all across it needs nothing.
    #[test]
    fn the_needed_rate_is_what_is_left_over_the_time_that_is_left() {
        let deadline = FlowDeadline::new(Instant::ZERO, 90_000_000, Span::from_secs(100), None);
        assert_eq!(deadline.need(at(0.0), 0), Need::AtLeast(mbit(8)));
        assert_eq!(deadline.need(at(30.0), 45_000_000), Need::AtLeast(mbit(6)));
        assert_eq!(deadline.need(at(90.0), 89_999_999), Need::Normal);
        assert_eq!(deadline.need(at(90.0), 90_000_000), Need::Nothing);
    }

    /// What a flow lacks it needs within two windows. 90 MB in 100 s need 8 Mbit/s; with none of it across after 1 s it lacks 1 MB,
    /// for which two windows of 100/32 s need 1.28 Mbit/s more. Spread over the 89 s that are left it would be 0.09.
    #[test]
    fn what_is_lacking_is_needed_soon() {
        let mut deadline = FlowDeadline::new(Instant::ZERO, 90_000_000, Span::from_secs(100), None);
        deadline.observe(at(1.0), 0, Some(mbit(100)));
        assert_eq!(deadline.need(at(1.0), 0), Need::AtLeast(Rate::from_bits_per_sec(9_280_000)));
        // With all that it lacked across it needs what it did, and with more less than that.
        assert_eq!(deadline.need(at(10.0), 10_000_000), Need::AtLeast(mbit(8)));
        deadline.observe(at(10.0), 30_000_000, Some(mbit(100)));
        assert_eq!(deadline.need(at(10.0), 30_000_000), Need::AtLeast(mbit(6)));
        assert_eq!(deadline.need(at(50.0), 60_000_000), Need::AtLeast(mbit(6)), "a new plan from then on");
    }

    /// A flow that starts later counts from then.
    #[test]
    fn the_span_counts_from_the_start() {
        let deadline = FlowDeadline::new(at(50.0), 90_000_000, Span::from_secs(100), None);
        assert_eq!((deadline.until(), deadline.need(at(50.0), 0)), (at(150.0), Need::AtLeast(mbit(8))));
    }

    /// Traced by hand: 32 MB in 32 s, so windows of a second, and 8.9 Mbit/s are needed. A normal flow has 4 Mbit/s, half a
    /// megabyte per second. The first window does not count, as nothing was known when it began; after the third it is
    /// pressed, and after two more it is late. 1 MB moved in these 2 s, 29.5 MB are left: done 59 s later, at 64 s.
    #[test]
    fn windows_as_a_normal_flow_tell_that_it_will_be_late() {
        let mut deadline = FlowDeadline::new(Instant::ZERO, 32_000_000, Span::from_secs(32), None);
        assert_eq!(deadline.observe(at(1.0), 500_000, Some(mbit(4))), None);
        assert_eq!(deadline.observe(at(2.0), 1_000_000, Some(mbit(4))), None);
        assert_eq!(deadline.observe(at(2.5), 1_250_000, Some(mbit(4))), None);
        assert_eq!(deadline.observe(at(3.0), 1_500_000, Some(mbit(4))), None);
        assert_eq!(deadline.need(at(3.0), 1_500_000), Need::Normal, "it is pressed");
        assert_eq!(deadline.observe(at(4.0), 2_000_000, Some(mbit(40))), None);
        let late = deadline.observe(at(5.0), 2_500_000, Some(mbit(40)));
        assert_eq!(late, Some(Late { expected: at(64.0) }));
        assert_eq!((deadline.said_late(), deadline.next_at()), (Some(at(5.0)), None));
        assert_eq!(deadline.observe(at(32.0), 16_000_000, Some(mbit(4))), None, "it is said once");
    }

    /// A window in which the flow gave way breaks the row: it may still go faster.
    #[test]
    fn a_flow_that_still_gives_way_is_not_late() {
        let mut deadline = FlowDeadline::new(Instant::ZERO, 32_000_000, Span::from_secs(32), None);
        for (seconds, normal) in [(1.0, 4), (2.0, 4), (2.5, 40), (3.0, 4), (4.0, 4), (5.0, 4), (6.0, 4)] {
            assert_eq!(deadline.observe(at(seconds), 100_000, Some(mbit(normal))), None, "{seconds}");
        }
        assert_eq!(deadline.observe(at(7.0), 100_000, Some(mbit(4))), Some(Late { expected: Instant::MAX }));
    }

    /// A flow that starts slowly has not found its rate: each second it has half as much again, from 0.5 Mbit/s on. It says
    /// nothing while that goes on; it is pressed in the second in which it stays at 2.5 Mbit/s, and late two seconds later.
    #[test]
    fn a_flow_that_still_grows_is_not_late() {
        let mut deadline = FlowDeadline::new(Instant::ZERO, 32_000_000, Span::from_secs(32), None);
        let mut across = 0;
        for (second, kbit) in [500, 750, 1125, 1690, 2500, 2500, 2500, 2500].into_iter().enumerate() {
            across += 1000 * kbit / 8;
            let rate = Rate::from_bits_per_sec(1000 * kbit);
            let late = deadline.observe(at(second as f64 + 1.0), across, Some(rate));
            assert_eq!((late.is_some(), deadline.pressed), (second == 7, second >= 5), "{second}");
        }
    }

    /// One that is a normal flow and fast enough has nothing to say: 8.9 Mbit/s needed, 8.5 had, 8 suffice.
    #[test]
    fn a_normal_flow_that_uses_the_reserve_is_not_late() {
        let mut deadline = FlowDeadline::new(Instant::ZERO, 32_000_000, Span::from_secs(32), None);
        for second in 1..30 {
            let across = second * 8_500_000 / 8;
            assert_eq!(deadline.observe(at(second as f64), across, Some(mbit(8))), None, "{second}");
        }
    }

    /// A greatest rate that does not suffice is said at once: 4 MB at 8 Mbit/s take 4 s.
    #[test]
    fn a_greatest_rate_may_make_it_late() {
        let mut deadline = FlowDeadline::new(Instant::ZERO, 4_000_000, Span::from_secs(3), Some(mbit(8)));
        assert_eq!(deadline.observe(Instant::ZERO, 0, None), Some(Late { expected: at(4.0) }));
        let mut deadline = FlowDeadline::new(Instant::ZERO, 4_000_000, Span::from_secs(5), Some(mbit(8)));
        assert_eq!(deadline.observe(Instant::ZERO, 0, None), None);
    }

    /// A flow that runs already needs for what is left of it what a flow of that size needs from its start, and is as late.
    #[test]
    fn a_deadline_set_later_counts_what_is_left() {
        let (span, half) = (Span::from_secs(32), 32_000_000);
        let mut fresh = FlowDeadline::new(Instant::ZERO, half, span, None);
        let mut running = FlowDeadline::resumed(Instant::ZERO, half, 2 * half, span, None);
        for second in 1..=32 {
            // A quarter of what it needs.
            let (now, across) = (at(f64::from(second)), 250_000 * second as u64);
            assert_eq!(fresh.need(now, across), running.need(now, half + across));
            assert_eq!(fresh.observe(now, across, Some(mbit(2))), running.observe(now, half + across, Some(mbit(2))));
        }
        assert!(running.said_late().is_some());
        assert_eq!(fresh.said_late(), running.said_late());
        running.set_bytes(half);
        assert_eq!(running.need(at(33.0), half), Need::Nothing);
    }

    proptest! {
        /// Whoever keeps at least the needed rate, however much more and however unevenly, is done by the aim and never says
        /// that it is late.
        #[test]
        fn who_keeps_the_needed_rate_is_done_in_time(
            bytes in 1u64..1 << 40,
            span_ms in 100u64..10_000_000,
            extra in proptest::collection::vec(0.0..3.0f64, 100),
        ) {
            let span = Span::from_ms(span_ms);
            let mut deadline = FlowDeadline::new(Instant::ZERO, bytes, span, None);
            let step = span.divided_by(1000);
            let (mut now, mut across) = (Instant::ZERO, 0);
            for round in 0.. {
                let Need::AtLeast(rate) = deadline.need(now, across) else { break };
                let factor = 1.0 + extra[round % extra.len()];
                across += libm::ceil(factor * rate.bytes_per_sec_f64() * step.as_secs_f64()) as u64;
                now = now.after(step);
                prop_assert_eq!(deadline.observe(now, across, Some(Rate::from_bits_per_sec(u64::MAX))), None);
            }
            prop_assert_eq!(deadline.need(now, across), Need::Nothing);
            prop_assert!(now <= deadline.aim.after(step));
        }

        /// A flow that has a constant rate as a normal flow, too small by a tenth or more, says so in the first fifth of its
        /// time, and one that has enough never does.
        #[test]
        fn it_is_said_early(bytes in 1_000_000u64..1 << 40, span_ms in 1_000u64..10_000_000, part in 0.01..1.5f64) {
            prop_assume!(!(0.9..1.12).contains(&part));
            let span = Span::from_ms(span_ms);
            let mut deadline = FlowDeadline::new(Instant::ZERO, bytes, span, None);
            let normal = Rate::from_bits_per_sec((8.0 * part * bytes as f64 / span.as_secs_f64()) as u64);
            let mut said = None;
            for step in 1..=1000u64 {
                let now = Instant::ZERO.after(span.divided_by(1000).times(step));
                let across = ((part * bytes as f64) as u64 / 1000 * step).min(bytes);
                said = said.or(deadline.observe(now, across, Some(normal)).map(|_| step));
            }
            if part < 1.0 {
                prop_assert!(said.is_some_and(|step| step <= 200), "{said:?}");
            } else {
                prop_assert_eq!(said, None);
            }
        }
    }
}
