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
//!
//! Where a topic's records need not all arrive, an exit beside the brokers has a [`LossyConnection`] in between: it takes
//! the responses to fetches apart, a [`thin`](thin::thin) leaves records out within a bound, and a
//! [`Ledger`](ledger::Ledger) knows which. Or records travel [apart] from the response, in messages that the path may lose.

pub mod apart;
mod api;
pub mod batch;
mod connection;
pub mod ledger;
mod refusal;
mod rewrite;
pub mod thin;
mod walk;

pub use connection::{
    Connection, Fetched, LearnTopic, LossyConnection, RequestHead, Subject, Thinner, TopicName, topics,
};
pub use refusal::{MAX_FRAME, MAX_PENDING, MAX_REWRITTEN, Refusal};
pub use rewrite::{Advertised, Local};
