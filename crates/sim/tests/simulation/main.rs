//! The simulator against theory: known answers of controllers and schedulers, oracles, and properties of every run.

mod atp;
mod atp_wan;
mod bounded;
mod common;
mod credits;
mod cross_queue;
mod dccp;
mod dctcp_table;
mod done_by;
mod homa;
mod invariants;
mod loss_rate;
mod maxmin;
mod ndp;
mod near_opt;
mod order;
mod ports;
mod push;
mod random_scenarios;
mod reflex;
mod s1;
mod scavengers;
mod scdp;
mod scenarios;
mod settings;
mod udp;
