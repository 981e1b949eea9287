//! Counts of refused datagrams.

/// Refused datagrams, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Not a datagram or packet of this protocol.
    pub malformed: u64,
    /// Of no connection here, or from a wrong address.
    pub stray: u64,
    /// Sent by this side and returned by somebody.
    pub reflected: u64,
    /// Not sealed or signed with the right key.
    pub forged: u64,
    /// Seen before.
    pub replayed: u64,
    /// Without a cookie, or with an invalid one: answered with a cookie.
    pub unproven: u64,
    /// Beyond a limit.
    pub excessive: u64,
}
