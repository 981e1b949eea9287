//! The software switch: frames between interfaces, through the queues of a plan at its rates.
//!
//! | part | what it does |
//! |---|---|
//! | [`fabric`] | links, queues and the way between them: pure, and the simulator's |
//! | [`frame`] | reads Ethernet and IP headers, writes marks with their checksums |
//! | [`faults`] | loss, duplication, corruption, reordering and blackouts, where asked for |
//! | [`forwarder`] | keeps the frames, and puts the others together: what both drivers below drive |
//! | [`counters`] | what was counted, as text and for Prometheus |
//! | [`ethernet`] | on interfaces, by packet sockets; needs CAP_NET_RAW |
//! | [`repeater`] | no switch: what the kernel's part of one costs |
//! | [`relay`] | on loopback, by UDP; needs nothing |
//!
//! One process and one thread hold all switches of a network: a frame crosses the kernel once between two hosts,
//! whatever the number of links between them.

pub mod counters;
mod driver;
mod error;
pub mod ethernet;
pub mod fabric;
pub mod faults;
pub mod forwarder;
mod forwarding_table;
pub mod frame;
mod frame_pool;
mod gro;
mod packet_ring;
pub mod relay;
pub mod repeater;
#[cfg(test)]
mod tests;
mod wire_size;

pub use driver::SwitchDriver;
pub use error::SwitchError;
pub use fabric::{FabricConfig, Ingress, LinkConfig, LoadBalancing, NextHop};
pub use faults::FaultConfig;
pub use forwarder::{PortCounters, Switch, SwitchConfig};
pub use forwarding_table::ForwardingTable;
pub use wire_size::WireSize;
