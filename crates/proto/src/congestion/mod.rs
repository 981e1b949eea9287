//! Congestion controllers: they compute a window, and nothing else.
//!
//! Loss detection, retransmission and the ECN echo belong to the transport ([`crate::transport::tcp`]). A controller
//! learns of acknowledgements and congestion, and says how many bytes may be in flight. Each controller has a file. A
//! new one needs its file, a line here, and an entry in the list of algorithms.rs, which generates [`AnyController`] and
//! [`Algorithm`]. Scenarios know it once it is a member of the TCP family (`MEMBERS` in pliant-sim's families/tcp.rs). A
//! controller of another crate needs none of these: [`AnyController::foreign`] takes it.

mod algorithms;
pub mod bounded;
mod controller;
pub mod cubic;
pub mod cubic_linux;
pub mod dctcp;
pub mod delay_history;
mod foreign;
pub mod hystart;
pub mod hystart_linux;
pub mod ledbat;
pub mod ledbat_plus_plus;
pub mod reno;
pub mod tcp_lp;
#[cfg(test)]
mod tests;
pub mod weighted_fair;

pub use algorithms::{Algorithm, AnyController, ControllerSettings, UnknownAlgorithm};
pub use controller::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
pub use foreign::{Foreign, ForeignController};
