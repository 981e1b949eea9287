//! The table `traffic.NAME.cross_queue`: cross-queue congestion notification.

use pliant_proto::contract::cross_queue_notification::{CrossQueueConfig, CrossQueueError};
use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::marker::MarkerConfig;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::queues::{KeyError, QueuesSpec};
use crate::units_serde;

/// Pauses the group's flows while a queue above theirs is congested (TCP+). Its plain presence turns it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CrossQueueSpec {
    /// Traffic class of the probes, 0 to 31: that of the queue to watch. Default: 0.
    pub probe_class: u8,
    /// Time between probes, above 0s. Default: `"100us"`.
    #[serde(with = "units_serde")]
    pub interval: Span,
    /// A paused flow that hears nothing for so long resumes; at least `interval`. Default: ten times `interval`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub silence: Option<Span>,
}

impl Default for CrossQueueSpec {
    fn default() -> Self {
        let CrossQueueConfig { probe_class, interval, .. } = CrossQueueConfig::default();
        Self { probe_class: probe_class.class() as u8, interval, silence: None }
    }
}

impl CrossQueueSpec {
    /// Writes every key out and gives the policy of flows whose data is of class `data_class`; `queues` is the
    /// [expanded](QueuesSpec::expanded) plan of the switches, which takes both classes.
    pub(super) fn resolve(&mut self, data_class: u8, queues: &QueuesSpec) -> Result<CrossQueueConfig, KeyError> {
        let refuse = |key: &str, why: String| Err((format!("cross_queue.{key}"), why));
        let default = CrossQueueConfig::every(self.interval);
        let silence = *self.silence.get_or_insert(default.silence);
        let config = CrossQueueConfig { probe_class: TrafficClass::new(self.probe_class), silence, ..default };
        match config.check() {
            Err(why @ CrossQueueError::Interval) => return refuse("interval", why.to_string()),
            Err(why @ CrossQueueError::Silence) => return refuse("silence", why.to_string()),
            Ok(()) => {}
        }
        let taking = |class: u8| queues.queue.iter().find(|queue| queue.classes.contains(&class));
        let watched = taking(self.probe_class).expect("classes were checked");
        if watched.classes.contains(&data_class) {
            let why = format!(
                "class {} goes through \"{}\", the queue of the data itself: probe the queue above it",
                self.probe_class, watched.name
            );
            return refuse("probe_class", why);
        }
        if watched.ecn.marker() == MarkerConfig::None && watched.red.is_none() {
            let why = format!(
                "class {} goes through \"{}\", which never marks, so that no flow would ever pause: give that queue `ecn`",
                self.probe_class, watched.name
            );
            return refuse("probe_class", why);
        }
        Ok(config)
    }
}
