//! What a run will take, roughly, before it runs.

use std::fmt;

use pliant_proto::transport::any::AnyTransport;

use super::super::resolved::Resolved;
use crate::results::FlowRow;
use crate::traffic::{FlowSpec, UNLIMITED_BYTES};

/// Flows counted one by one; beyond, the rest is taken to be like these.
const COUNTED_FLOWS: u64 = 200_000;
/// Packet-hops that a core carries per second, at the low end (large fabrics, several queues).
const HOPS_PER_SECOND: f64 = 8e6;
/// Memory of a port with its queues while they are short, in bytes.
const PORT_BYTES: u64 = 1_000;
/// Bytes of an entry of a table of flowlets.
const FLOWLET_BYTES: u64 = 16;
/// Most flows taken to be under way at once.
const FLOWS_AT_ONCE: u64 = 100_000;

/// A rough forecast of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Flows that start.
    pub flows: u64,
    /// Packets crossing a link, data and acknowledgements.
    pub packet_hops: f64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl Estimate {
    /// Processor time, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.packet_hops / HOPS_PER_SECOND
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flows, packet_hops, memory_bytes } = *self;
        let (hops, seconds, memory) = (packet_hops / 1e6, self.cpu_s(), memory_bytes as f64 / 1e6);
        write!(f, "about {flows} flows, {hops:.1} M packet-hops, {seconds:.1} s of processor time, {memory:.0} MB")
    }
}

impl Resolved {
    /// A rough forecast of the run: the flows it will start, at their sizes, without losses.
    pub fn estimate(&self) -> Estimate {
        let (mut flows, mut packets, mut share) = (0u64, 0.0, 1.0);
        // A trace that vanished is told of when the scenario runs.
        for flow in self.traffic().into_iter().flatten() {
            let most = self.most_bytes(&flow);
            flows += 1;
            let shared_by = self.groups[usize::from(flow.group)].traffic.flows_that_share();
            packets += flow.bytes.min(most).div_ceil(u64::from(self.mss())) as f64 / f64::from(shared_by);
            if flows == COUNTED_FLOWS {
                share = (self.spec.duration.as_ps() as f64 / flow.start.as_ps().max(1) as f64).max(1.0);
                break;
            }
        }
        let flows = (flows as f64 * share) as u64;
        let memory_bytes = self.network_bytes()
            + flows * size_of::<FlowRow>() as u64
            + flows.min(FLOWS_AT_ONCE) * 3 * size_of::<AnyTransport>() as u64;
        // Every second packet is acknowledged.
        let hops_per_packet = 1.5 * self.routing.max_hops() as f64;
        Estimate { flows, packet_hops: packets * share * hops_per_packet, memory_bytes }
    }

    /// Memory of the network before its first flow, in bytes.
    pub fn network_bytes(&self) -> u64 {
        let built = self.topology.memory_bytes() + self.routing.memory_bytes();
        let flowlets = u64::from(self.spec.flowlet_table.unwrap_or(0)) * u64::from(self.topology.switches());
        built as u64 + self.topology.links().len() as u64 * PORT_BYTES + flowlets * FLOWLET_BYTES
    }

    /// Most bytes that one flow can move: at its host's rate; of one without an end, which has time to find its
    /// bottleneck, at that of its path.
    fn most_bytes(&self, flow: &FlowSpec) -> u64 {
        if flow.bytes < UNLIMITED_BYTES {
            return self.fabric.host_rate.bytes_in(self.spec.duration.plus(self.drain()));
        }
        let rates = self.path(flow.source, flow.destination).map(|link| link.rate);
        rates.min().unwrap_or(self.fabric.host_rate).bytes_in(self.spec.duration)
    }
}
