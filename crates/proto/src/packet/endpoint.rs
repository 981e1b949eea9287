//! Where a packet goes.

/// Which side of a flow: the one that opened it, or the one that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Side {
    /// Opened the flow; sends its data.
    Initiator,
    /// Receives the flow's data.
    Responder,
}

/// One side of one flow, in 32 bits: the address that a packet carries. Drivers give out the flow numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct EndpointId(u32);

impl EndpointId {
    /// Largest flow number.
    pub const MAX_FLOW: u32 = u32::MAX >> 1;

    /// The endpoint on `side` of flow number `flow`.
    #[inline]
    pub const fn new(flow: u32, side: Side) -> Self {
        assert!(flow <= Self::MAX_FLOW);
        Self(flow << 1 | matches!(side, Side::Responder) as u32)
    }

    /// The endpoint with this [`EndpointId::index`].
    #[inline]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The flow's number.
    #[inline]
    pub const fn flow(self) -> u32 {
        self.0 >> 1
    }

    /// Which side of the flow.
    #[inline]
    pub const fn side(self) -> Side {
        if self.0 & 1 == 0 { Side::Initiator } else { Side::Responder }
    }

    /// The other side of the same flow.
    #[inline]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// `2 * flow + side`: dense, for tables with one entry per endpoint.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_sides_are_peers() {
        let endpoint = EndpointId::new(7, Side::Responder);
        assert_eq!((endpoint.flow(), endpoint.peer().side()), (7, Side::Initiator));
        assert_eq!(endpoint.peer().peer(), endpoint);
    }
}
