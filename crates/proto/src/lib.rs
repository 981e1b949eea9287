//! Pliant's pure machines.
//!
//! Everything that decides lives here: transports, congestion controllers, switch ports. Time and packets go in,
//! packets and deadlines come out; there is no clock, no socket and no randomness. `no_std` keeps it so. The
//! simulator, the UDP runtime and the software switch are small drivers of these machines.
//!
//! Read in this order: [`packet`] (what travels), [`transport`] (the interface every endpoint has),
//! [`transport::tcp`] (the reliable byte stream), [`congestion`] (how much may be in flight), [`switch`] (what a
//! port does to packets).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod congestion;
pub mod contract;
pub mod event_queue;
pub mod host;
pub mod packet;
pub mod recovery;
pub mod rng;
pub mod switch;
pub mod time;
pub mod transport;
pub mod units;
pub mod wire;
