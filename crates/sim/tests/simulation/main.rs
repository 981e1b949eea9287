//! The simulator against theory: known answers of controllers and schedulers, oracles, and properties of every run.

mod common;
mod credits;
mod dctcp_table;
mod invariants;
mod loss_rate;
mod maxmin;
mod order;
mod s1;
mod udp;
