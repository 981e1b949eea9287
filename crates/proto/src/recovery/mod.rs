//! Recovery: how long to wait, what is lost, what arrived out of order. Shared by every window transport.

pub(crate) mod delivery;
pub(crate) mod flight;
pub mod proportional_rate;
pub mod rack;
pub mod reassembly;
pub mod rtt;
pub mod scoreboard;
