//! stub
use pliant_proto::time::{Instant, Span};
pub enum FlowState {
    Completed,
    Unfinished,
    SentWithLoss,
}
pub struct FlowRow {
    pub id: u64,
    pub group: u16,
    pub source: u32,
    pub destination: u32,
    pub bytes: u64,
    pub start: Instant,
    pub completed: Option<Instant>,
    pub ideal_fct: Span,
    pub delivered_bytes: u64,
    pub state: FlowState,
    pub retransmissions: u32,
    pub timeouts: u32,
    pub marks: u32,
    pub drops: u32,
}
#[derive(Clone, Debug)]
pub struct QueueSample {
    pub at: Instant,
    pub port: u32,
    pub queue: u8,
    pub packets: u32,
    pub bytes: u64,
}
#[derive(Clone, Debug)]
pub struct ThroughputSample {
    pub at: Instant,
    pub group: u16,
    pub delivered_bytes: u64,
}
