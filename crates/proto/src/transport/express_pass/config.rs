//! Settings of transports that send on credits.

use core::fmt;

use super::feedback::FeedbackConfig;
use crate::packet::{TrafficClass, WireFormat};
use crate::time::Span;

/// Settings that flows with credits share; many flows share one.
///
/// | knob | default | source |
/// |---|---|---|
/// | credit | 84 bytes | SIGCOMM 2017, section 4; the published simulators draw 76 to 92 or 78 to 90 |
/// | jitter | ±10 % of the gap between credits | published simulators |
/// | early stop | off | published simulators have it, FlexPass's compiled out |
/// | request timeout | 100 us, without backoff before the first credit | published simulators |
/// | stop timeout | twice the round-trip time, 1 ms without one | published simulators |
/// | NACK interval | 100 us | published simulators |
/// | recovery timeout | 4 ms | FlexPass (EuroSys 2023) names no value; as its DCTCP's least RTO |
#[derive(Clone, PartialEq, Debug)]
pub struct CreditConfig {
    /// Most payload bytes per packet. Default 1460, at least 1.
    pub mss: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of data, requests, stops and acknowledgements; Not-ECT and green unless a transport says otherwise.
    pub data_class: TrafficClass,
    /// Class of credits, whose queue must be shaped at every port.
    pub credit_class: TrafficClass,
    /// Size of a credit on the wire, drawn uniformly from this range. The pacer uses its middle.
    pub credit_bytes: (u16, u16),
    /// How far the gap between two credits varies, as a fraction, in [0, 1). It avoids synchronised drops.
    pub jitter: f64,
    /// How the credit rate follows the loss of credits.
    pub feedback: FeedbackConfig,
    /// Starts small flows more slowly: a request for fewer than 40 packets scales the initial rate by packets / 40 (the
    /// first published simulator). Default false.
    pub scale_start: bool,
    /// A sender asks for no more credits when those of one round trip, which are already on their way, cover its
    /// remaining data, instead of when nothing is left. If some of them are lost, it asks again. Default false.
    pub early_stop: bool,
    /// The greatest credit rate of a flow, as a fraction of what its port lets through, in (0, 1]. Default 1. A value
    /// below 1 reproduces FlexPass's published simulator, whose receiver scales by the weight of the queue twice.
    pub pacing_scale: f64,
    /// Under [`layering`](crate::transport::layering), whether segments leave TCP as soon as the window allows it, and wait for
    /// credits in a queue (FlexPass's published simulator). Otherwise a segment is made when its credit arrives. Default false.
    pub hold_queue: bool,
    /// A request is repeated after this time. A request for credits that stopped coming waits twice as long each time,
    /// up to `recovery_timeout`. Default 100 us.
    pub request_timeout: Span,
    /// A stop is repeated after twice the round-trip time, or after this time if none was measured. Default 1 ms.
    pub stop_timeout: Span,
    /// A receiver that misses data asks for it again after this. Default 100 us.
    pub nack_interval: Span,
    /// A sender with data that receives nothing for this long asks for credits again. Default 4 ms.
    pub recovery_timeout: Span,
}

impl Default for CreditConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::new(0),
            credit_class: TrafficClass::new(31),
            credit_bytes: (84, 84),
            jitter: 0.1,
            feedback: FeedbackConfig::default(),
            scale_start: false,
            early_stop: false,
            pacing_scale: 1.0,
            hold_queue: false,
            request_timeout: Span::from_us(100),
            stop_timeout: Span::from_ms(1),
            nack_interval: Span::from_us(100),
            recovery_timeout: Span::from_ms(4),
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreditConfigError {
    /// `mss` is zero, or a full packet exceeds 65535 bytes on the wire.
    Mss,
    /// `credit_bytes` is empty or begins at zero.
    CreditBytes,
    /// `jitter` is not in [0, 1).
    Jitter,
    /// `pacing_scale` is not in (0, 1].
    PacingScale,
    /// A timeout or interval is zero.
    Timeout,
    /// A value of `feedback`.
    Feedback(&'static str),
}

impl fmt::Display for CreditConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mss => "mss must be at least 1, and a full packet at most 65535 bytes on the wire",
            Self::CreditBytes => "a credit must have at least 1 byte, and the least size must not exceed the greatest",
            Self::Jitter => "jitter must lie in [0, 1)",
            Self::PacingScale => "pacing_scale must lie in (0, 1]",
            Self::Timeout => "timeouts must not be 0s",
            Self::Feedback(why) => why,
        })
    }
}

impl core::error::Error for CreditConfigError {}

impl CreditConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), CreditConfigError> {
        let require = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        let (least, greatest) = self.credit_bytes;
        require(self.mss > 0 && self.mss.checked_add(self.wire.header_bytes).is_some(), CreditConfigError::Mss)?;
        require(0 < least && least <= greatest, CreditConfigError::CreditBytes)?;
        require((0.0..1.0).contains(&self.jitter), CreditConfigError::Jitter)?;
        require(self.pacing_scale > 0.0 && self.pacing_scale <= 1.0, CreditConfigError::PacingScale)?;
        let timeouts = [self.request_timeout, self.stop_timeout, self.nack_interval, self.recovery_timeout];
        require(timeouts.into_iter().all(|timeout| timeout > Span::ZERO), CreditConfigError::Timeout)?;
        self.feedback.check().map_err(CreditConfigError::Feedback)
    }

    /// Mean size of a credit on the wire, in bytes.
    pub(crate) fn mean_credit(&self) -> f64 {
        let (least, greatest) = self.credit_bytes;
        f64::from(u32::from(least) + u32::from(greatest)) * 0.5
    }

    /// Bytes of a packet without payload.
    pub(crate) fn control_bytes(&self) -> u16 {
        self.wire.wire_bytes(0)
    }
}

/// The share of a link's rate for credits of `credit` bytes so that the data they release, packets of `data` bytes,
/// fills the rest: one credit for one packet (SIGCOMM 2017, section 3.1). Sizes are on the wire.
pub fn credit_share(credit: u16, data: u16) -> f64 {
    f64::from(credit) / f64::from(u32::from(credit) + u32::from(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    /// 84 bytes of credit for 1538 of data: 5.179 % of the link for credits, 94.82 % for data; 64 734 895 bytes per
    /// second at 10 Gbit/s.
    #[test]
    fn credits_take_a_nineteenth_of_the_link() {
        let share = credit_share(84, 1538);
        assert!((share - 0.05179).abs() < 1e-5 && (1.0 - share - 0.9482).abs() < 1e-4, "{share}");
        let rate = share * Rate::from_gbit_per_sec(10).bytes_per_sec_f64();
        assert!((rate - 64_734_895.0).abs() < 1.0, "{rate}");
    }

    #[test]
    fn every_range_is_checked() {
        let base = CreditConfig::default();
        assert_eq!(base.check(), Ok(()));
        for (config, error) in [
            (CreditConfig { mss: 0, ..base.clone() }, CreditConfigError::Mss),
            (CreditConfig { mss: u16::MAX, ..base.clone() }, CreditConfigError::Mss),
            (CreditConfig { credit_bytes: (90, 78), ..base.clone() }, CreditConfigError::CreditBytes),
            (CreditConfig { credit_bytes: (0, 84), ..base.clone() }, CreditConfigError::CreditBytes),
            (CreditConfig { jitter: 1.0, ..base.clone() }, CreditConfigError::Jitter),
            (CreditConfig { jitter: f64::NAN, ..base.clone() }, CreditConfigError::Jitter),
            (CreditConfig { pacing_scale: 0.0, ..base.clone() }, CreditConfigError::PacingScale),
            (CreditConfig { nack_interval: Span::ZERO, ..base }, CreditConfigError::Timeout),
        ] {
            assert_eq!(config.check(), Err(error));
        }
    }
}
