//! Apache Kafka's protocol, as far as a door between clients and brokers needs it.
//!
//! ```text
//! client -- requests --> Connection::take_request  --> broker
//! client <-- responses -- Connection::take_response <-- broker
//! ```
//!
//! Everything here is a machine over bytes: no socket, no clock. Most frames pass through as they come, in pieces of
//! any size. A door changes two things only: the addresses that brokers advertise, so that clients come back through the
//! door, and the list of versions, so that no message is used whose layout this crate does not know.

mod api;
mod connection;
mod refusal;
mod rewrite;
mod walk;

pub use connection::Connection;
pub use refusal::{MAX_FRAME, MAX_PENDING, MAX_REWRITTEN, Refusal};
pub use rewrite::{Advertised, Local};
