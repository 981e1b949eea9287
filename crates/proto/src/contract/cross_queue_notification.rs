//! Cross-queue congestion notification: a low-priority flow learns of congestion in a queue above its own, and pauses
//! (Bashir, Faisal and Dogar, "Characterizing TCP's Performance for Low-Priority Flows Inside a Cloud", section 5).
//!
//! While the flow has data, a small ECN-capable probe goes through the queue above every `interval`. A switch marks it
//! when that queue exceeds its threshold, and the receiver echoes the mark at once in the same class, so that this
//! second loop never stalls. A marked echo pauses the flow, an unmarked one resumes it. The machine only decides;
//! [`CrossQueueSender`](crate::transport::tcp::CrossQueueSender) obeys.
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | probe class | 0 | the high-priority queue of the paper's two |
//! | interval | 100 us | not given: the base round trip of the paper's network (section 3) |
//! | silence | 10 intervals | not given |
//!
//! Choices where the paper leaves room: a lost probe changes nothing, but a paused flow that hears nothing for
//! `silence` resumes, because congestion that loses every probe for so long tells no more than no congestion at all.

use core::fmt;

use crate::packet::TrafficClass;
use crate::time::{Instant, Span};

/// Intervals of silence that end a pause, unless the configuration says otherwise.
const SILENT_INTERVALS: u64 = 10;

/// Knobs of [`CrossQueueNotification`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrossQueueConfig {
    /// Class of the probes and of their echoes: that of the queue to watch. Default 0.
    pub probe_class: TrafficClass,
    /// Time between probes, above zero. Default 100 us.
    pub interval: Span,
    /// A paused flow that hears nothing for so long resumes; at least `interval`. Default ten intervals.
    pub silence: Span,
}

impl CrossQueueConfig {
    /// Probes of class 0 every `interval`.
    pub const fn every(interval: Span) -> Self {
        let probe_class = TrafficClass::new(0);
        Self { probe_class, interval, silence: interval.times(SILENT_INTERVALS) }
    }

    /// Checks ranges.
    pub fn check(&self) -> Result<(), CrossQueueError> {
        match () {
            () if self.interval == Span::ZERO => Err(CrossQueueError::Interval),
            () if self.silence < self.interval => Err(CrossQueueError::Silence),
            () => Ok(()),
        }
    }
}

impl Default for CrossQueueConfig {
    fn default() -> Self {
        Self::every(Span::from_us(100))
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrossQueueError {
    /// `interval` is zero.
    Interval,
    /// `silence` is shorter than `interval`.
    Silence,
}

impl fmt::Display for CrossQueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interval => "interval must be longer than 0s",
            Self::Silence => "silence must be at least one interval",
        })
    }
}

impl core::error::Error for CrossQueueError {}

/// What an echo, or the lack of echoes, asks of the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Stop sending; congestion control stands still.
    Pause,
    /// Go on as before.
    Resume,
}

/// The policy of one flow.
#[derive(Clone, Copy, Debug)]
pub struct CrossQueueNotification {
    config: CrossQueueConfig,
    /// When the next probe goes; kept while the flow has no data.
    next_probe: Instant,
    /// The flow has data.
    watching: bool,
    paused: bool,
    /// When the latest probe that was echoed had been sent.
    echoed: Option<Instant>,
    /// When its echo came.
    heard_at: Instant,
}

impl CrossQueueNotification {
    /// A flow without data yet, not paused; `config` must pass [`CrossQueueConfig::check`].
    pub fn new(config: CrossQueueConfig) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        let (next_probe, heard_at) = (Instant::ZERO, Instant::ZERO);
        Self { config, next_probe, watching: false, paused: false, echoed: None, heard_at }
    }

    /// The configuration.
    pub const fn config(&self) -> &CrossQueueConfig {
        &self.config
    }

    /// Whether the flow may not send.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the flow has data that is not acknowledged: only then the queue above matters.
    pub fn set_watching(&mut self, watching: bool) {
        self.watching = watching;
    }

    /// An echo arrived of the probe sent at `probed_at`. Echoes of older probes than the latest tell nothing.
    pub fn handle_echo(&mut self, now: Instant, probed_at: Instant, marked: bool) -> Option<Change> {
        let stale = self.echoed.is_some_and(|echoed| probed_at <= echoed);
        if !self.watching || stale || probed_at > now {
            return None;
        }
        self.echoed = Some(probed_at);
        self.heard_at = now;
        self.change_to(marked)
    }

    /// The deadline of [`Self::poll_timeout`] may have come.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Change> {
        let silent = self.silent_at().is_some_and(|at| at <= now);
        if silent { self.change_to(false) } else { None }
    }

    /// Whether a probe is to be sent now; true once per interval.
    pub fn poll_probe(&mut self, now: Instant) -> bool {
        let due = self.watching && self.next_probe <= now;
        if due {
            self.next_probe = now.after(self.config.interval);
        }
        due
    }

    /// When [`Self::handle_timeout`] and [`Self::poll_probe`] want to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let probe = self.watching.then_some(self.next_probe);
        [probe, self.silent_at()].into_iter().flatten().min()
    }

    fn silent_at(&self) -> Option<Instant> {
        self.paused.then(|| self.heard_at.after(self.config.silence))
    }

    fn change_to(&mut self, paused: bool) -> Option<Change> {
        let before = core::mem::replace(&mut self.paused, paused);
        (before != paused).then_some(if paused { Change::Pause } else { Change::Resume })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn us(us: u64) -> Instant {
        Instant::ZERO.after(Span::from_us(us))
    }

    fn watching() -> CrossQueueNotification {
        let mut machine = CrossQueueNotification::new(CrossQueueConfig::default());
        machine.set_watching(true);
        machine
    }

    #[test]
    fn a_probe_goes_every_interval_while_there_is_data() {
        let mut machine = CrossQueueNotification::new(CrossQueueConfig::default());
        assert!(!machine.poll_probe(us(0)), "no data");
        assert_eq!(machine.poll_timeout(), None);
        machine.set_watching(true);
        assert!(machine.poll_probe(us(10)), "the first goes with the data");
        assert!(!machine.poll_probe(us(10)) && !machine.poll_probe(us(109)));
        assert_eq!(machine.poll_timeout(), Some(us(110)));
        assert!(machine.poll_probe(us(110)));
        machine.set_watching(false);
        assert_eq!(machine.poll_timeout(), None);
        machine.set_watching(true);
        assert!(!machine.poll_probe(us(150)), "new data soon after the old earns no probe of its own");
        assert_eq!(machine.poll_timeout(), Some(us(210)));
    }

    #[test]
    fn a_marked_echo_pauses_and_an_unmarked_one_resumes() {
        let mut machine = watching();
        assert_eq!(machine.handle_echo(us(100), us(0), false), None, "nothing to resume");
        assert_eq!(machine.handle_echo(us(200), us(100), true), Some(Change::Pause));
        assert_eq!(machine.handle_echo(us(300), us(200), true), None, "still paused");
        assert!(machine.is_paused());
        assert_eq!(machine.handle_echo(us(400), us(300), false), Some(Change::Resume));
        assert!(!machine.is_paused());
    }

    /// A silence of one interval is the shortest, and every refusal says what is wrong.
    #[test]
    fn configurations_are_checked() {
        let config = |interval, silence| CrossQueueConfig { interval, silence, ..CrossQueueConfig::default() }.check();
        let (shorter, longer) = (Span::from_us(99), Span::from_us(100));
        assert_eq!((config(longer, longer), config(shorter, longer)), (Ok(()), Ok(())));
        assert!(config(longer, shorter).unwrap_err().to_string().contains("silence"));
        assert!(config(Span::ZERO, longer).unwrap_err().to_string().contains("interval"));
    }

    /// An echo may come within the moment of its probe.
    #[test]
    fn an_echo_may_come_at_once() {
        assert_eq!(watching().handle_echo(us(100), us(100), true), Some(Change::Pause));
    }

    #[test]
    fn old_doubled_and_impossible_echoes_tell_nothing() {
        let mut machine = watching();
        assert_eq!(machine.handle_echo(us(250), us(100), true), Some(Change::Pause));
        assert_eq!(machine.handle_echo(us(260), us(0), false), None, "overtaken");
        assert_eq!(machine.handle_echo(us(270), us(100), false), None, "doubled");
        assert_eq!(machine.handle_echo(us(280), us(281), false), None, "of the future");
        machine.set_watching(false);
        assert_eq!(machine.handle_echo(us(290), us(200), false), None, "no data");
        assert!(machine.is_paused());
    }

    #[test]
    fn silence_keeps_the_state_and_ends_a_pause_after_ten_intervals() {
        let mut machine = watching();
        machine.handle_echo(us(100), us(0), true);
        for probe in 1..=10 {
            assert_eq!(machine.handle_timeout(us(100 * probe)), None);
            assert!(machine.poll_probe(us(100 * probe)), "a paused flow goes on asking");
        }
        assert_eq!(machine.poll_timeout(), Some(us(1100)));
        assert_eq!(machine.handle_timeout(us(1099)), None);
        assert_eq!(machine.handle_timeout(us(1100)), Some(Change::Resume));
        assert_eq!(machine.handle_timeout(us(5000)), None, "silence never pauses");
        assert_eq!(machine.handle_echo(us(5000), us(4900), true), Some(Change::Pause), "nor keeps from pausing again");
    }

    #[test]
    fn ranges_are_checked() {
        let every = CrossQueueConfig::every;
        assert_eq!(every(Span::ZERO).check(), Err(CrossQueueError::Interval));
        let hasty = CrossQueueConfig { silence: Span::from_us(99), ..every(Span::from_us(100)) };
        assert_eq!(hasty.check(), Err(CrossQueueError::Silence));
        assert_eq!(every(Span::from_us(50)).silence, Span::from_us(500));
    }

    proptest! {
        /// Whatever echoes come, no pause outlives the last of them by more than the silence, and no two probes are
        /// closer than an interval.
        #[test]
        fn no_pause_outlives_silence(echoes in prop::collection::vec((1u64..400, 0u64..400, any::<bool>()), 0..50)) {
            let (mut machine, mut now, mut last_echo, mut last_probe) = (watching(), 0, 0, None);
            for (wait, age, marked) in echoes {
                let end = now + wait;
                while let Some(at) = machine.poll_timeout().filter(|at| *at <= us(end)) {
                    machine.handle_timeout(at);
                    if machine.poll_probe(at) {
                        prop_assert!(last_probe.is_none_or(|last: Instant| at.since(last) >= machine.config().interval));
                        last_probe = Some(at);
                    }
                }
                now = end;
                prop_assert!(!machine.is_paused() || now - last_echo <= 1000);
                let change = machine.handle_echo(us(now), us(now.saturating_sub(age)), marked);
                if machine.heard_at == us(now) {
                    last_echo = now;
                    prop_assert_eq!(machine.is_paused(), marked);
                }
                prop_assert!(change.is_none_or(|change| (change == Change::Pause) == machine.is_paused()));
            }
        }
    }
}
