//! Pliant's packet-level simulator: a driver of the machines in `pliant_proto`.
