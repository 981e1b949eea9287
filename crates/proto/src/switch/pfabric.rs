//! The order of a pFabric queue (Alizadeh et al., SIGCOMM 2013, section 4.1).
//!
//! Queues are two bandwidth-delay products deep, some tens of packets, so a search through all costs little.

use alloc::collections::VecDeque;

use crate::packet::Packet;

/// The packet that leaves next: the earliest of the flow whose packet is the most urgent, so that a flow's packets are
/// not reordered and its earliest, which everything else waits for, does not starve.
pub(super) fn next(packets: &VecDeque<Packet>) -> Option<usize> {
    let urgent = packets.iter().min_by_key(|packet| packet.priority())?;
    packets.iter().position(|packet| packet.to == urgent.to)
}

/// The packet that makes room for an arriving one of `priority`: the least urgent, the latest of several. `None` if that
/// is the arriving one.
pub(super) fn victim(packets: &VecDeque<Packet>, priority: u32) -> Option<usize> {
    let (index, worst) = packets.iter().enumerate().max_by_key(|(_, packet)| packet.priority())?;
    (worst.priority() > priority).then_some(index)
}
