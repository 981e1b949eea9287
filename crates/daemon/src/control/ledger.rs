//! What an exit has left out of a topic.

use serde::{Deserialize, Serialize};

use crate::mutex::lock;
use crate::shared::Shared;

/// Most ranges of an answer, of all partitions.
const MAX_RANGES: usize = 200_000;

/// What an exit has left out of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KafkaLedger {
    /// The class of the doors that bear it.
    pub class: String,
    /// The topic's number in hexadecimal digits; empty if clients fetch by its name.
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// Records that were fetched, each once.
    pub fetched: u64,
    /// Of these, those that were left out.
    pub lost: u64,
    /// Of those that are not among them, so many may be lost, and nobody has said whether they are: they are under way, or
    /// the door that was to tell has gone.
    #[serde(default)]
    pub unsettled: u64,
    /// The offsets of those that were left out, first and last of each range, as far as the broker still has them.
    pub lost_offsets: Vec<(i64, i64)>,
    /// There are more ranges than are told.
    pub truncated: bool,
}

impl KafkaLedger {
    /// Of all partitions, in order.
    pub(crate) fn of(shared: &Shared, topic: &str) -> Result<Vec<Self>, String> {
        let exit = shared.lossy.as_ref().ok_or("this daemon has no `exit.kafka_ledger`")?;
        let mut room = MAX_RANGES;
        let all = exit.ledgers.all().into_iter().filter(|(key, _)| key.topic == topic);
        let ledgers: Vec<Self> = all
            .map(|(key, ledger)| {
                let ledger = lock(&ledger);
                let mut lost = ledger.lost();
                let lost_offsets: Vec<_> = lost.by_ref().take(room).collect();
                room -= lost_offsets.len();
                let (counts, truncated) = (ledger.counts(), lost.next().is_some());
                Self {
                    class: key.class,
                    topic_id: key.id,
                    partition: key.partition,
                    fetched: counts.fetched,
                    lost: counts.lost,
                    unsettled: ledger.unsettled(),
                    lost_offsets,
                    truncated,
                }
            })
            .collect();
        if ledgers.is_empty() {
            return Err(format!("nothing of a topic `{topic}` has been fetched by doors that bear loss of it"));
        }
        Ok(ledgers)
    }
}
