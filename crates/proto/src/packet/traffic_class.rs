//! What every queue looks at.

/// The ECN codepoint of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: congestion drops it.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0): what senders here use.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

/// Number of traffic classes a packet can name.
pub const CLASSES: usize = 32;

/// The octet every queue looks at: traffic class (5 bits), drop colour (1 bit), ECN (2 bits). It maps one to one to
/// the IP header's DSCP and ECN fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct TrafficClass(u8);

impl TrafficClass {
    const RED: u8 = 0b100;

    /// Class number `class` (below [`CLASSES`]), green, not ECN-capable.
    #[inline]
    pub const fn new(class: u8) -> Self {
        assert!((class as usize) < CLASSES);
        Self(class << 3)
    }

    /// The octet, as it stands in the IP header's traffic class field.
    #[inline]
    pub const fn octet(self) -> u8 {
        self.0
    }

    /// The traffic class in an IP header's octet; every octet is one.
    #[inline]
    pub const fn from_octet(octet: u8) -> Self {
        Self(octet)
    }

    /// The class number, which a queue plan maps to a queue.
    #[inline]
    pub const fn class(self) -> usize {
        (self.0 >> 3) as usize
    }

    /// Whether a colour-aware dropper may drop it first.
    #[inline]
    pub const fn is_red(self) -> bool {
        self.0 & Self::RED != 0
    }

    /// The same class, red (dropped first) or green.
    #[inline]
    pub const fn with_red(self, red: bool) -> Self {
        if red { Self(self.0 | Self::RED) } else { Self(self.0 & !Self::RED) }
    }

    /// The ECN codepoint.
    #[inline]
    pub const fn ecn(self) -> Ecn {
        match self.0 & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The same class and colour with another ECN codepoint.
    #[inline]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !0b11 | ecn as u8)
    }

    /// Whether a switch may mark it.
    #[inline]
    pub const fn is_ect(self) -> bool {
        self.0 & 0b11 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_class_keeps_its_parts_apart() {
        for octet in 0..=255u8 {
            let class = TrafficClass::from_octet(octet);
            let rebuilt = TrafficClass::new(class.class() as u8).with_red(class.is_red()).with_ecn(class.ecn());
            assert_eq!(rebuilt.octet(), octet);
        }
    }
}
