//! Whether a peer reports marks.
//!
//! A receiver that hides marks makes its sender go on where the network asks it to slow down. Which packets the network has
//! marked only the receiver sees; counts that do not add up (RFC 9000 section 13.4.2) tell of marks that are made up or
//! changed on the way, not of marks that are hidden. So the sender marks a packet of its own now and then, as a congested
//! switch would, and that one must be reported. Nobody can tell it from others.
//!
//! A probe that is not reported is no proof: its acknowledgement may be lost, and some networks erase marks. But when ten
//! more are missing than were reported, the flow goes on as RFC 9000 has it for a path that does not bear ECN: its packets
//! are not ECN-capable any more. Queues drop them where they would have marked them, and a receiver cannot hide a loss.
//! Who hides fewer than half of the marks is not noticed.

use super::octets::Octets;

/// Least packets between a probe whose fate is known and the next; as many as an octet says come on top.
const LEAST_GAP: u32 = 32;
/// Each probe that is reported doubles the gaps, so many times at most: a probe costs two acknowledgements and a batch.
const MOST_DOUBLINGS: u8 = 4;
/// So many more are missing than were reported.
const MISSING: u8 = 10;

/// What became of the packets that this side has marked.
#[derive(Default)]
pub(super) struct MarkProbes {
    /// Packets until the next, if a gap was drawn.
    gap: Option<u32>,
    doublings: u8,
    /// How many more are missing than were reported, at least 0.
    missing: u8,
    hidden: bool,
}

impl MarkProbes {
    /// Whether marks are not reported.
    #[inline]
    pub(super) fn are_hidden(&self) -> bool {
        self.hidden
    }

    /// Whether the next packet is to be marked. Asked for each while no probe is under way.
    #[inline]
    pub(super) fn is_due(&mut self, random: &mut Octets) -> bool {
        match &mut self.gap {
            Some(0) => {
                self.gap = None;
                !self.hidden
            }
            Some(gap) => {
                *gap -= 1;
                false
            }
            None => {
                self.gap = Some((LEAST_GAP + u32::from(random.next())) << self.doublings);
                false
            }
        }
    }

    /// A probe was reported.
    pub(super) fn note_reported(&mut self) {
        self.missing = self.missing.saturating_sub(1);
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
    }

    /// A probe has arrived, and nothing was said of its mark.
    pub(super) fn note_missing(&mut self) {
        self.missing += 1;
        self.doublings = 0;
        self.hidden |= self.missing >= MISSING;
    }
}
