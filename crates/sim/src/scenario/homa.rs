//! The table `traffic.NAME.homa`.

use std::path::Path;

use pliant_proto::packet::TrafficClass;
use pliant_proto::time::Span;
use pliant_proto::transport::homa::{HomaConfig, Levels};
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::queues::KeyError;
use super::resolved::Carrier;
use super::spec::PacketsSpec;
use crate::units_serde;
use crate::workload::Size;

/// Quantiles of a distribution from which levels follow.
const QUANTILES: u32 = 10_000;

/// Settings of the transport `homa`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HomaSpec {
    /// Payload that a sender sends unasked, and that is granted ahead: a round trip at the line rate. Above 0. Default:
    /// `"10kB"`, as at 10 Gbit/s in the paper.
    #[serde(with = "units_serde")]
    pub rtt_bytes: Bytes,
    /// Levels of priority, 2 to 8: classes from the group's `class` on. Default: 8.
    pub levels: u8,
    /// Sizes in bytes from which on unscheduled data goes one level lower, rising, at least two fewer than levels; the
    /// levels left are for granted data. Default: none, one level for unscheduled data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutoffs: Option<Vec<u64>>,
    /// In place of `cutoffs`: the name or path of the distribution of sizes from which they follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Messages granted at once, 1 to 8. Default: as many as levels for granted data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<u8>,
    /// Missing data is asked for again after this, above 0s. Default: `"5ms"`.
    #[serde(with = "units_serde")]
    pub resend_interval: Span,
}

impl Default for HomaSpec {
    fn default() -> Self {
        let HomaConfig { rtt_bytes, levels, resend_interval, .. } = HomaConfig::default();
        let (rtt_bytes, levels) = (Bytes(rtt_bytes), levels.count);
        Self { rtt_bytes, levels, cutoffs: None, workload: None, overcommit: None, resend_interval }
    }
}

impl HomaSpec {
    /// These settings with what follows written out.
    fn explicit(mut self) -> Result<Self, KeyError> {
        let refuse = |key: &str, why: &str| Err((format!("homa.{key}"), why.to_owned()));
        let most = 8;
        if !(2..=most).contains(&self.levels) {
            return refuse("levels", "must be 2 to 8");
        }
        if self.rtt_bytes.0 == 0 {
            return refuse("rtt_bytes", "must be above 0B");
        }
        let cutoffs = match (self.cutoffs.take(), self.workload.take()) {
            (Some(_), Some(_)) => return refuse("workload", "give either cutoffs or a workload, not both"),
            (None, Some(name)) => {
                let sizes = Size::Workload(name).distribution(Path::new(""));
                let sizes = sizes.map_err(|error| ("homa.workload".to_owned(), error.to_string()))?;
                let quantile = |number| sizes.quantile((f64::from(number) + 0.5) / f64::from(QUANTILES));
                let sizes: Vec<u64> = (0..QUANTILES).map(quantile).collect();
                Levels::for_sizes(self.levels, self.rtt_bytes.0, &sizes).cutoffs
            }
            (cutoffs, None) => cutoffs.unwrap_or_default(),
        };
        if !cutoffs.is_sorted() {
            return refuse("cutoffs", "must not fall");
        }
        let scheduled = usize::from(self.levels).checked_sub(cutoffs.len() + 1).filter(|left| *left > 0);
        let Some(scheduled) = scheduled else {
            return refuse("cutoffs", "must be fewer than levels by two at least: granted data needs a level");
        };
        let overcommit = *self.overcommit.get_or_insert(scheduled as u8);
        if !(1..=most).contains(&overcommit) {
            return refuse("overcommit", "must be 1 to 8 messages");
        }
        if self.resend_interval == Span::ZERO {
            return refuse("resend_interval", "must be longer than 0s");
        }
        self.cutoffs = Some(cutoffs);
        Ok(self)
    }

    /// Classes of data above the first.
    pub(super) fn more_classes(&self) -> u8 {
        self.levels.saturating_sub(1)
    }

    /// Writes a group's settings out and makes its transport from them.
    pub(super) fn carrier(group: &mut GroupSpec, packets: &PacketsSpec) -> Result<Carrier, KeyError> {
        let spec = group.homa.take().unwrap_or_default().explicit()?;
        let config = HomaConfig {
            payload: packets.mss.0 as u16,
            wire: packets.framing.into(),
            data_class: TrafficClass::new(group.class),
            control_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
            rtt_bytes: spec.rtt_bytes.0,
            levels: Levels { count: spec.levels, cutoffs: spec.cutoffs.clone().unwrap_or_default() },
            overcommit: spec.overcommit.unwrap_or(1),
            resend_interval: spec.resend_interval,
        };
        config.check().map_err(|why| ("homa".to_owned(), why.to_string()))?;
        group.homa = Some(spec);
        Ok(Carrier::Homa(Box::new(config)))
    }
}
