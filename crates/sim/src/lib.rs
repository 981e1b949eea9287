//! Pliant's packet-level simulator: a driver of the machines in `pliant_proto`.

pub mod oracle;
pub mod routing;
pub mod topology;
pub mod units_serde;
