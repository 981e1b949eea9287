//! Pliant's packet-level simulator: a driver of the machines in `pliant_proto`.

pub mod traffic;
mod units_serde;
pub mod workload;
