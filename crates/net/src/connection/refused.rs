//! Counts of datagrams that were refused.

/// What became of datagrams that were of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Not a datagram or packet of this protocol.
    pub malformed: u64,
    /// Of no connection here, or from another address.
    pub stray: u64,
    /// Sent by this side: somebody returned it.
    pub reflected: u64,
    /// Not sealed or signed with the right key.
    pub forged: u64,
    /// Seen before.
    pub replayed: u64,
    /// Without a cookie, or with a bad one: answered with a cookie.
    pub unproven: u64,
    /// Beyond a limit.
    pub excessive: u64,
}
