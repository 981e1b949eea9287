//! What travels beside the packets under way, by handle: few have SACK blocks or a hold time.

use pliant_proto::packet::{Packet, SackBlocks};

/// A slab of SACK blocks.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    blocks: Vec<SackBlocks>,
    free: Vec<u32>,
}

impl Attachments {
    /// Keeps `sack` until [`Self::take`] and writes its handle into the packet.
    #[cold]
    pub(super) fn attach(&mut self, packet: &mut Packet, sack: &SackBlocks) {
        let handle = self.free.pop().unwrap_or(self.blocks.len() as u32);
        match self.blocks.get_mut(handle as usize) {
            Some(place) => *place = *sack,
            None => self.blocks.push(*sack),
        }
        packet.set_attachment(handle);
    }

    /// Gives back the blocks of a packet that has arrived or was dropped.
    #[inline]
    pub(super) fn take(&mut self, packet: &Packet) -> SackBlocks {
        if packet.has_attachment() { self.take_attached(packet) } else { SackBlocks::EMPTY }
    }

    #[cold]
    fn take_attached(&mut self, packet: &Packet) -> SackBlocks {
        self.free.push(packet.attachment());
        self.blocks[packet.attachment() as usize]
    }
}
