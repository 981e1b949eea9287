//! stub
use pliant_proto::time::Instant;
#[derive(Clone, Debug)]
pub struct FlowSpec {
    pub start: Instant,
    pub source: u32,
    pub destination: u32,
    pub bytes: u64,
    pub group: u16,
    pub sequence: u64,
}
