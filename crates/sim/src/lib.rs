//! Pliant's packet-level simulator: a driver of the machines in `pliant_proto`.

mod cross_queue;
pub mod engine;
pub mod experiment;
pub mod families;
pub mod fluid;
pub mod one_line;
pub mod oracle;
pub mod output;
pub mod recorder;
pub mod reference;
pub mod report;
pub mod results;
pub mod routing;
pub mod run;
pub mod scenario;
pub mod suggest;
pub mod tables;
pub mod text_file;
pub mod topology;
pub mod traffic;
pub mod units_serde;
pub mod workload;
