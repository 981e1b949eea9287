//! Scenarios on a real network.
//!
//! [`run::run`] takes the scenario that the simulator takes and yields the result that it yields. Every host is a
//! process with the host's flows in it, and one more process holds all links, queues and switches of the topology
//! ([`pliant_net::switch`]). With privileges each host lives in a network namespace with one interface; without, hosts
//! are addresses on loopback.
//!
//! Namespaces have no names and interfaces are made inside of them: when the processes are gone, killed or not, the
//! kernel removes both, so nothing is ever left to clean up. Every process dies with its parent.

mod control;
pub mod host;
mod kernel_tcp;
mod messages;
mod namespaces;
pub mod network;
pub mod pattern;
pub mod plan;
mod result;
pub mod run;
pub mod switch;
