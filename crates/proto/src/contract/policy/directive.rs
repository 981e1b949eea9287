//! What a transport and its policy say to each other.

use crate::packet::TrafficClass;

/// Where a flow stands when its policy is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Payload bytes acknowledged in sequence.
    pub acked_bytes: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
}

/// What a policy tells its transport to do from now on. The default changes nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Directive {
    /// New data, retransmissions and probes take this class; what is queued already keeps its own.
    pub class: Option<TrafficClass>,
    /// With `class`: packets of the new class overtake those sent before in the old one, which are not lost for it.
    pub overtakes: bool,
    /// The stream ends at this byte, or at the last one sent if that is later: unsent bytes beyond are given up.
    pub stream_end: Option<u64>,
    /// Nothing more is written: the stream ends once what is left of it is acknowledged.
    pub finish: bool,
    /// The controller's weight.
    pub weight: Option<f64>,
}

/// What a policy counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicyCounts {
    /// Payload bytes sent while giving way, retransmissions included.
    pub low_bytes: u64,
    /// Time spent giving way, in picoseconds.
    pub low_ps: u64,
}
