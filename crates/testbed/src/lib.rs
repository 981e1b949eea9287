//! Scenarios on a real network.
//!
//! [`run()`] takes the scenario that the simulator takes and yields the result that it yields. Every host is a process
//! with the host's flows in it. One more process holds all links, queues and switches of the topology
//! ([`pliant_net::switch`]).
//!
//! With privileges each host lives in a network namespace with one interface. Without, hosts are addresses on loopback.
//! Namespaces have no names, and interfaces are made inside of them: once the processes are gone, killed or not, the
//! kernel removes both. Every process dies with its parent.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//!
//! use pliant_net::switch::FaultConfig;
//! use pliant_net::switch::ethernet::Mode;
//! use pliant_sim::scenario::Scenario;
//! use pliant_testbed::{Options, run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::load(Path::new("two.toml"))?.resolve()?;
//! let options = Options {
//!     // It is started once for each host, and once for the switch.
//!     program: "pliant".into(),
//!     mode: Mode::Fidelity,
//!     on_loopback: true,
//!     real_time: false,
//!     faults: FaultConfig::default(),
//!     fault_text: String::new(),
//! };
//! let (result, headroom) = run(&scenario, &options, &AtomicBool::new(false), &mut |_| {})?;
//! println!("{} flows; {}", result.flows.len(), headroom.text());
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`network`] | which scenarios can run here, and the switch that stands for their topology |
//! | [`host`], [`switch`] | what the processes do |
//! | `mail`, `controller` | the controller of objects, which runs in the parent |
//! | `namespaces`, `processes` | what the parent starts and connects |
//! | `messages`, `result`, `headroom` | what the processes report, and what is made of it |
//! | [`plan`] | the file that `pliant switch` reads |
//! | [`pattern`] | payload in which every wrong byte is seen |

mod controller;
mod error;
mod headroom;
pub mod host;
mod kernel_tcp;
mod mail;
mod messages;
mod namespaces;
pub mod network;
mod options;
pub mod pattern;
pub mod plan;
mod processes;
mod real_time;
mod result;
mod run;
pub mod switch;

pub use error::TestbedError;
pub use headroom::Headroom;
pub use options::{Options, Progress};
pub use run::run;
