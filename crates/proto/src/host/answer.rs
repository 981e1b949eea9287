//! What a host answers its transports.

/// What a host answers one of its transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostAnswer {
    /// It is this flow's turn, to send a pull or a packet.
    Turn,
    /// More of a message may be sent.
    Grant {
        /// Bytes of the message that may be sent, from its first.
        end: u64,
        /// Level of priority for them, from 0.
        level: u8,
    },
    /// The object that the flow brings a part of is complete: another of its flows has brought the rest.
    ObjectComplete,
}
