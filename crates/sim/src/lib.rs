//! Pliant's packet-level simulator: a driver of the machines in [`pliant_proto`].
//!
//! A scenario file says which network, queues, transports and traffic there are. It is read, resolved against all defaults,
//! and run; every packet of every flow crosses every queue on its path. The same seed gives the same events on every
//! machine, with any number of threads.
//!
//! # An example
//!
//! Hosts 1 and 2 send half a megabyte each to host 0 at the same time, and share its link of 10 Gbit/s:
//!
//! ```
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//!
//! use pliant_sim::run::run;
//! use pliant_sim::scenario::Scenario;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//! duration = "10ms"
//!
//! [topology]
//! kind = "star"
//! hosts = 3
//! link = { rate = "10Gbit/s", delay = "2us" }
//!
//! [traffic.updates]
//! kind = "incast"
//! sources = "1..3"
//! receivers = 0
//! size = "500kB"
//! load = 0.1
//! transport = "dctcp"
//! "#;
//! // The name stands in errors, which say file and line.
//! let scenario = Scenario::parse(text, Path::new("two.toml"))?.resolve()?;
//! let result = run(&scenario, &AtomicBool::new(false), &mut |_| {})?;
//! let seconds = result.flows.iter().filter_map(|flow| flow.fct()).map(|fct| fct.as_secs_f64());
//! // A megabyte at 10 Gbit/s takes 0.8 ms.
//! assert!(seconds.fold(0.0, f64::max) > 0.0008);
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Each layer uses those below it.
//!
//! | layer | what it does |
//! |---|---|
//! | [`experiment`] | a figure of a paper: runs, measures, claims, verdicts |
//! | [`report`], [`output`] | HTML pages; CSV, Parquet and JSON files |
//! | [`run`] | from a resolved scenario to a result |
//! | [`scenario`] | the file that a user writes: read, checked, resolved |
//! | [`families`] | what each transport family is called, may be told, and needs; how its flows are opened |
//! | [`engine`] | the event loop: networks, flows, hosts |
//! | [`oracle`], [`fluid`] | max-min shares, ideal completion times, fluid models: what results are held against |
//! | [`results`] | rows, and columns that are declared once |
//! | [`flow_log`] | flow logs of nfdump and tshark as traces |
//! | [`topology`], [`routing`], [`traffic`], [`workload`] | who is connected to whom, and who sends what when |
//! | [`recorder`] | samples over time |
//! | [`switch_config`] | queue plans in the words of switches and hosts, and back |
//! | [`tables`], [`reference`](mod@reference) | settings in tables of files, and the pages made from their declarations |
//!
//! # Members of other crates
//!
//! [`families::register_controller`] gives scenarios a congestion controller of yours, [`families::register`] a transport,
//! and [`scenario::register_discipline`] a queue discipline. `docs/extending.md` has an example of each.

mod cross_queue;
pub mod engine;
pub mod experiment;
pub mod families;
pub mod flow_log;
pub mod fluid;
pub mod one_line;
pub mod oracle;
pub mod output;
pub mod port_plans;
pub mod recorder;
pub mod reference;
pub mod report;
pub mod results;
pub mod routing;
pub mod run;
pub mod scenario;
pub mod suggest;
pub mod switch_config;
pub mod tables;
pub mod text_file;
pub mod topology;
pub mod traffic;
pub mod units_serde;
pub mod workload;
