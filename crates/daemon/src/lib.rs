//! The daemon: carries connections of unmodified programs under a contract.
//!
//! ```text
//! program -- TCP --> door --> stream --> bundle (peer, class) --> one UDP socket --> ... --> exit --> TCP --> service
//! ```
//!
//! One daemon runs at each end. A door takes a program's connection, a stream of a bundle carries it, and the far
//! daemon's exit opens the connection to the service. All streams of a class to a peer share one contract and one
//! congestion state. An exit denies all connections that its configuration does not allow.
//!
//! The daemon also offers files, and fetches files for its programs from several hosts at once.

mod change;
mod check;
mod config;
pub mod control;
pub mod doctor;
mod doors;
mod exit;
mod header;
mod local_socket;
mod log;
mod lossy;
mod mutex;
mod notify;
mod objects;
#[doc(hidden)]
pub mod parsers;
mod places;
pub mod program;
mod questions;
mod relay;
mod rules;
mod run;
mod shared;
mod this_host;
mod topics;
mod users;

pub use config::{Config, ConfigError};
pub use notify::{ServiceState, notify};
pub use pliant_handover::{
    CLASS_VARIABLE as PRELOAD_CLASS_VARIABLE, RULES_VARIABLE as PRELOAD_RULES_VARIABLE,
    SOCKET_VARIABLE as PRELOAD_SOCKET_VARIABLE,
};
pub use run::{Daemon, use_all_descriptors};
