//! Controllers against closed forms, one file each, and properties that all share.

mod bounded;
mod cubic;
mod dctcp;
mod delay_history;
mod ledbat;
mod ledbat_plus_plus;
mod model;
mod properties;
mod reno;
mod tcp_lp;
mod weighted_fair;

use super::{AckSample, Cause, Congestion};
use crate::time::{Instant, Span};

/// An acknowledgement of `acked` bytes for a sender that is limited by its window.
pub(super) fn ack(acked: u64) -> AckSample {
    AckSample {
        now: Instant::ZERO,
        acked,
        unacked: 0,
        next: 0,
        flight: 0,
        ece: false,
        rtt: None,
        delay: None,
        hold: None,
        smoothed_rtt: Span::ZERO,
        window_limited: true,
        in_recovery: false,
    }
}

/// A congestion event with `flight` bytes in flight, the first for its segment.
fn congestion(cause: Cause, flight: u64) -> Congestion {
    Congestion { now: Instant::ZERO, cause, flight, unacked: 0, next: 0, first: true }
}

/// Asserts that `value` lies within `tolerance` (a fraction) of `expected`.
#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} is not within {tolerance} of {expected}");
}
