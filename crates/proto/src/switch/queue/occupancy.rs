//! What a queue holds, and why it refuses.

/// What is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// Packets.
    pub packets: u32,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// Why a packet was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// The queue's own limit.
    Tail,
    /// The limit of red packets.
    Colour,
    /// The shared buffer or its dynamic threshold.
    SharedBuffer,
    /// The marker, for a packet that cannot be marked.
    Early,
    /// None of the queue's: the link loses packets.
    Loss,
}

impl DropReason {
    /// Every reason, in the order of [`QueueCounters::dropped`](super::QueueCounters::dropped).
    pub const ALL: [Self; 5] = [Self::Tail, Self::Colour, Self::SharedBuffer, Self::Early, Self::Loss];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::Colour => "colour",
            Self::SharedBuffer => "shared_buffer",
            Self::Early => "early",
            Self::Loss => "loss",
        }
    }
}
