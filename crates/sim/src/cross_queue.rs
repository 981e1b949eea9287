//! The table `cross_queue` of a traffic group: cross-queue congestion notification.

use pliant_proto::contract::cross_queue_notification::{CrossQueueConfig, CrossQueueError};
use pliant_proto::packet::TrafficClass;
use pliant_proto::settings;
use pliant_proto::settings::Range;
use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::marker::MarkerConfig;
use pliant_proto::time::Span;

use crate::tables::{KeyError, Tables, read_table, write};

/// The name of the table.
pub(crate) const CROSS_QUEUE_TABLE: &str = "cross_queue";

settings! {
    /// Pauses the group's flows while a queue above theirs is congested (TCP+). Its plain presence turns it on.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CrossQueueSettings {
        /// Traffic class of the probes and their echoes: that of the queue to watch, which marks and does not take the
        /// group's `class`.
        pub probe_class: u8 = 0 => [range: Range::up_to(31)],
        /// Time between probes.
        pub interval: Span = Span::from_us(100) => [range: Range::above(Span::ZERO), source: "low-priority TCP, section 5"],
        /// A paused flow that hears nothing for so long resumes.
        pub silence: Option<Span> = None => [default: "ten times `interval`", limits: "from `interval`"],
    }
}

/// The class that the table `cross_queue` asks for, with its key.
pub(crate) fn classes(tables: &Tables) -> Vec<(String, u8)> {
    let table = tables.get(CROSS_QUEUE_TABLE);
    let settings = table.and_then(|table| crate::tables::read::<CrossQueueSettings>(Some(table)).ok());
    settings.map(|settings| (format!("{CROSS_QUEUE_TABLE}.probe_class"), settings.probe_class)).into_iter().collect()
}

/// The policy of flows whose data is of class `data_class`, if there is such a table. Writes every key out. `plan` is that
/// of the switches, which takes both classes.
pub(crate) fn resolve(
    tables: &mut Tables,
    data_class: u8,
    plan: &QueuePlan,
) -> Result<Option<CrossQueueConfig>, KeyError> {
    if !tables.contains_key(CROSS_QUEUE_TABLE) {
        return Ok(None);
    }
    let refuse = |key: &str, why: String| Err((format!("{CROSS_QUEUE_TABLE}.{key}"), why));
    let mut settings: CrossQueueSettings = read_table(tables, CROSS_QUEUE_TABLE)?;
    let default = CrossQueueConfig::every(settings.interval);
    let silence = *settings.silence.get_or_insert(default.silence);
    let config = CrossQueueConfig { probe_class: TrafficClass::new(settings.probe_class), silence, ..default };
    match config.check() {
        Err(why @ CrossQueueError::Interval) => return refuse("interval", why.to_string()),
        Err(why @ CrossQueueError::Silence) => return refuse("silence", why.to_string()),
        Ok(()) => {}
    }
    let queue_of = |class: u8| usize::from(plan.queue_of_class[usize::from(class)]);
    let watched = &plan.queues[queue_of(settings.probe_class)];
    if queue_of(settings.probe_class) == queue_of(data_class) {
        let why = format!(
            "class {} goes through \"{}\", the queue of the data itself: probe the queue above it",
            settings.probe_class, watched.name
        );
        return refuse("probe_class", why);
    }
    if watched.marker == MarkerConfig::None {
        let why = format!(
            "class {} goes through \"{}\", which never marks, so that no flow would ever pause: give that queue `ecn`",
            settings.probe_class, watched.name
        );
        return refuse("probe_class", why);
    }
    tables.insert(CROSS_QUEUE_TABLE.to_owned(), write(&settings));
    Ok(Some(config))
}
