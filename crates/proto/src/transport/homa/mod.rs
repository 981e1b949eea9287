//! Homa, simplified (Montazeri et al., SIGCOMM 2018): messages whose receiver grants all but the first round trip's
//! worth, at priorities that it chooses.
//!
//! A sender sends the first [`rtt_bytes`](HomaConfig::rtt_bytes) without a grant, at a level that follows from the
//! message's size, and then granted data, at the level of the grant. Its [host](crate::host) gives turns at the line
//! rate, the message with the fewest bytes left first. The receiver's host [ranks](crate::host::grants) the messages on
//! their way to it by the bytes that have not arrived, and keeps a round trip's worth of the best few granted.
//!
//! Data that is missing for [`resend_interval`](HomaConfig::resend_interval) is requested again. A sender that has not
//! sent it yet answers that it is busy, which restarts the clock.
//!
//! A flow is one message. Simplifications:
//!
//! - There are no responses. A message that has arrived is acknowledged by `Done`.
//! - Levels of unscheduled data are set from outside ([`Levels::for_sizes`]), not published by receivers.
//! - A peer that does not answer is never given up; it is asked at growing intervals.
//! - No share of the grants is kept for the oldest message.
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | `rtt_bytes` | 10 kB | paper, 10 Gbit/s |
//! | levels | 8, one of them unscheduled | paper: by the workload, 1 to 7 scheduled |
//! | overcommit | as many as scheduled levels | paper, section 3.5 |
//! | `resend_interval` | 5 ms | "a few milliseconds": far above most waits by priority, which are no loss |

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::HomaReceiver;
pub use sender::HomaSender;

use alloc::vec::Vec;
use core::fmt;

use crate::contract::Field;
use crate::host::grants::GrantPolicy;
use crate::packet::{CLASSES, Ecn, TrafficClass, WireFormat};
use crate::time::Span;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[];

/// Most levels of priority.
pub const LEVELS_MAX: u8 = 8;

/// How the levels of priority are used. The first is the highest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levels {
    /// All levels, 2 to 8.
    pub count: u8,
    /// Sizes from which on unscheduled data goes one level lower, rising. The remaining levels are for granted data.
    pub cutoffs: Vec<u64>,
}

impl Default for Levels {
    fn default() -> Self {
        Self { count: LEVELS_MAX, cutoffs: Vec::new() }
    }
}

impl Levels {
    /// Levels of unscheduled data.
    pub fn unscheduled(&self) -> u8 {
        self.cutoffs.len() as u8 + 1
    }

    /// Levels for messages of these sizes, equally likely. Unscheduled data gets its share of all bytes, at least one
    /// level and not all. Each of its levels gets equally many bytes of it.
    pub fn for_sizes(count: u8, rtt_bytes: u64, sizes: &[u64]) -> Self {
        let mut sizes: Vec<u64> = sizes.into();
        sizes.sort_unstable();
        let unscheduled = |size: u64| size.min(rtt_bytes) as f64;
        let all: f64 = sizes.iter().map(|&size| size as f64).sum();
        let unasked: f64 = sizes.iter().map(|&size| unscheduled(size)).sum();
        let share = if all > 0.0 { unasked / all } else { 1.0 };
        let levels = (libm::round(share * f64::from(count)) as u8).clamp(1, count - 1);
        let (mut cutoffs, mut below) = (Vec::new(), 0.0);
        for &size in &sizes {
            let next = unasked * (cutoffs.len() + 1) as f64 / f64::from(levels);
            if below >= next && cutoffs.len() + 1 < usize::from(levels) && cutoffs.last() != Some(&size) {
                cutoffs.push(size);
            }
            below += unscheduled(size);
        }
        Self { count, cutoffs }
    }

    /// The level of the unscheduled data of a message.
    pub fn of_size(&self, size: u64) -> u8 {
        self.cutoffs.partition_point(|cutoff| *cutoff <= size) as u8
    }
}

/// Settings that both sides of Homa flows share; many flows share one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HomaConfig {
    /// Most payload bytes per packet, above 0; a full packet takes at most 65535 bytes on the wire. Default 1460.
    pub payload: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of the highest level; the others follow. Not-ECT. Default 0.
    pub data_class: TrafficClass,
    /// Class of grants and other control packets. Default 0.
    pub control_class: TrafficClass,
    /// Payload that a sender sends without a grant, and that is granted ahead, rounded up to whole packets: a round
    /// trip at the line rate. Default 10 kB.
    pub rtt_bytes: u64,
    /// Levels of priority.
    pub levels: Levels,
    /// Messages granted at once, 1 to 8. Default 7.
    pub overcommit: u8,
    /// Missing data is requested again after this time, above zero. It doubles each time, up to 16 times. Default 5 ms.
    pub resend_interval: Span,
}

impl Default for HomaConfig {
    fn default() -> Self {
        Self {
            payload: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::default(),
            control_class: TrafficClass::default(),
            rtt_bytes: 10_000,
            levels: Levels::default(),
            overcommit: LEVELS_MAX - 1,
            resend_interval: Span::from_ms(5),
        }
    }
}

impl HomaConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), HomaConfigError> {
        let Levels { count, cutoffs } = &self.levels;
        match self {
            _ if self.payload == 0 || self.payload.checked_add(self.wire.header_bytes).is_none() => {
                Err(HomaConfigError::Payload)
            }
            _ if !(2..=LEVELS_MAX).contains(count) || cutoffs.len() + 1 >= usize::from(*count) => {
                Err(HomaConfigError::Levels)
            }
            _ if !cutoffs.is_sorted() => Err(HomaConfigError::Cutoffs),
            _ if self.data_class.class() + usize::from(*count) > CLASSES => Err(HomaConfigError::DataClass),
            _ if self.rtt_bytes == 0 => Err(HomaConfigError::RttBytes),
            _ if !(1..=LEVELS_MAX).contains(&self.overcommit) => Err(HomaConfigError::Overcommit),
            _ if self.resend_interval == Span::ZERO => Err(HomaConfigError::ResendInterval),
            _ => Ok(()),
        }
    }

    /// How receivers grant.
    pub fn policy(&self) -> GrantPolicy {
        let levels = self.levels.count;
        let scheduled_levels = levels - self.levels.unscheduled();
        GrantPolicy { rtt_bytes: self.ahead(), levels, scheduled_levels, overcommit: self.overcommit }
    }

    fn class(&self, level: u8) -> TrafficClass {
        let level = level.min(self.levels.count - 1);
        TrafficClass::new(self.data_class.class() as u8 + level).with_ecn(Ecn::NotEct)
    }

    /// `rtt_bytes` in whole packets.
    fn ahead(&self) -> u64 {
        self.rtt_bytes.next_multiple_of(self.payload.into())
    }

    /// Bytes of a message that are sent without a grant.
    fn unscheduled(&self, size: u64) -> u64 {
        size.min(self.ahead())
    }

    /// When to ask again after this many requests without an answer.
    fn resend_after(&self, asked: u32) -> Span {
        self.resend_interval.times(1 << asked.min(4))
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HomaConfigError {
    /// `payload` is zero, or a full packet exceeds 65535 bytes on the wire.
    Payload,
    /// Not 2 to 8 levels, or none of them is for granted data.
    Levels,
    /// `cutoffs` fall.
    Cutoffs,
    /// There are not as many classes from `data_class` on as levels.
    DataClass,
    /// `rtt_bytes` is zero.
    RttBytes,
    /// `overcommit` is not 1 to 8.
    Overcommit,
    /// `resend_interval` is zero.
    ResendInterval,
}

impl fmt::Display for HomaConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "payload must be above 0, and a full packet at most 65535 bytes on the wire",
            Self::Levels => "levels must be 2 to 8, and cutoffs fewer than levels by two at least",
            Self::Cutoffs => "cutoffs must not fall",
            Self::DataClass => "data needs a class for each level",
            Self::RttBytes => "rtt_bytes must be above 0B",
            Self::Overcommit => "overcommit must be 1 to 8 messages",
            Self::ResendInterval => "resend_interval must be longer than 0s",
        })
    }
}

impl core::error::Error for HomaConfigError {}
