//! What the machine had left during a run, and whether the result can be believed.

use std::fmt::Write as _;

use pliant_proto::time::Span;

use crate::messages::{HostReport, SwitchReport};

/// What the machine had left, and whether the result can be believed.
#[derive(Clone, Debug, Default)]
pub struct Headroom {
    /// Fraction of one processor that the switch took.
    pub switch: f64,
    /// Fraction of one processor that all hosts took together.
    pub hosts: f64,
    /// Fraction of all processors that was idle.
    pub idle: f64,
    /// Half of all frames left no later than this after they were due.
    pub late_median: Span,
    /// 99 % of them.
    pub late_p99: Span,
    /// All of them.
    pub late_max: Span,
    /// Frames that were lost because the switch came too late, or the kernel had no room for them.
    pub lost: u64,
    /// Payload bytes that arrived and were not those sent.
    pub wrong_bytes: u64,
    /// Datagrams that hosts refused: not packets, or of no flow of theirs.
    pub refused: u64,
    /// Frames that the switch refused for what they were, or for want of buffers.
    pub switch_refused: u64,
    /// What faults did: lost, blacked out, duplicated, corrupted, held back.
    pub faults: [u64; 5],
    /// The switch's counters, as a table.
    pub counters: String,
}

/// Of what delay of the 99th percentile a run is called overloaded.
const TOO_LATE: Span = Span::from_ms(1);
/// Of what delay of a single frame: longer than the switch waits for its turn beside other work, and of the order of
/// retransmission timeouts. Linux takes 50 ms of each second from real-time processes that leave nothing to others.
const STALL: Span = Span::from_ms(20);

impl Headroom {
    /// Why the run is not a result, if so.
    pub fn overload(&self) -> Option<String> {
        if self.lost > 0 {
            return Some(format!("{} frames were lost beside the queues", self.lost));
        }
        if self.late_p99 > TOO_LATE {
            return Some(format!("1 % of frames left more than {TOO_LATE} late"));
        }
        (self.late_max > STALL).then(|| format!("the switch stood still for more than {STALL}"))
    }

    /// Two lines for people.
    pub fn text(&self) -> String {
        let percent = |fraction: f64| (100.0 * fraction).round();
        let mut text = format!(
            "processors: switch {} %, hosts {} % of one; {} % of all idle\n\
             frames left late by at most {} (half), {} (99 %), {} (all)\n",
            percent(self.switch),
            percent(self.hosts),
            percent(self.idle),
            self.late_median.rounded(),
            self.late_p99.rounded(),
            self.late_max.rounded(),
        );
        if let Some(why) = self.overload() {
            let _ = writeln!(
                text,
                "overloaded, not a result: {why}; `--real-time`, a slower scenario or an idler machine is needed"
            );
        }
        if self.faults != [0; 5] {
            let [lost, dark, twice, corrupt, held] = self.faults;
            let _ = writeln!(
                text,
                "faults: {lost} frames lost, {dark} in blackouts, {twice} sent twice, {corrupt} corrupted, {held} held back"
            );
        }
        text
    }
}

/// Idle and total time of all processors, in ticks.
pub(crate) fn idle_and_all() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    (ticks.get(3).copied().unwrap_or(0.0), ticks.iter().sum())
}

/// The headroom of a run of `wall_s` seconds, from idle and total ticks before and after it.
pub(crate) fn headroom(
    hosts: &[HostReport],
    switch: &SwitchReport,
    wall_s: f64,
    (idle_before, all_before): (f64, f64),
    (idle_after, all_after): (f64, f64),
) -> Headroom {
    Headroom {
        switch: switch.cpu_s / wall_s,
        hosts: hosts.iter().map(|host| host.cpu_s).sum::<f64>() / wall_s,
        idle: (idle_after - idle_before) / (all_after - all_before).max(1.0),
        late_median: Span::from_ps(switch.late_median_ps),
        late_p99: Span::from_ps(switch.late_p99_ps),
        late_max: Span::from_ps(switch.late_max_ps),
        lost: switch.overrun + switch.send_failed + hosts.iter().map(|host| host.failed_sends).sum::<u64>(),
        wrong_bytes: hosts.iter().flat_map(|host| &host.receivers).map(|flow| flow.wrong_bytes).sum(),
        refused: hosts.iter().map(|host| host.malformed + host.stray).sum(),
        switch_refused: switch.refused,
        faults: switch.faults,
        counters: switch.counters.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run is a result unless frames were lost beside the queues, many left late, or the switch stood still.
    #[test]
    fn overload_is_said() {
        let fine = Headroom { late_p99: Span::from_us(256), late_max: Span::from_ms(4), ..Headroom::default() };
        assert_eq!(fine.overload(), None);
        assert!(!fine.text().contains("overloaded"));
        for (headroom, why) in [
            (Headroom { lost: 3, ..fine.clone() }, "3 frames were lost"),
            (Headroom { late_p99: Span::from_us(1024), ..fine.clone() }, "1 % of frames left more than 1ms late"),
            (Headroom { late_max: Span::from_ms(50), ..fine }, "stood still for more than 20ms"),
        ] {
            let text = headroom.text();
            assert!(text.contains("overloaded, not a result") && text.contains(why), "{text}");
        }
    }
}
