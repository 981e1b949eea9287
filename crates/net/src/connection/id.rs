//! Numbers of connections.

/// A connection's number is its place in the table, with random bits above.
pub(super) const INDEX_BITS: u32 = 14;

/// A connection's number at this endpoint. It is not reused soon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    /// Bits of a connection's number. With two more for a flow and a side it fills a packet's address.
    pub const BITS: u32 = 30;

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Its place among the endpoint's connections, from 0: for tables with an entry per connection.
    pub const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}
