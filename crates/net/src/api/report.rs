//! What an application is told of its connection.

use std::net::SocketAddr;
use std::time::Duration;

use pliant_proto::transport::Statistics;

use crate::flow::Protocol;

/// How a connection stands.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The peer.
    pub peer: SocketAddr,
    /// How data is carried.
    pub protocol: Protocol,
    /// What the transport that sends has counted, as of the last iteration.
    pub sender: Statistics,
    /// What the transport that receives has counted.
    pub receiver: Statistics,
    /// How late what was [announced](super::Stream::set_done_by) will be, once that is known; [`Duration::MAX`] if nothing
    /// moves.
    pub late: Option<Duration>,
}

/// What became of a flow's messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Messages that the flow had.
    pub messages: u32,
    /// Messages that arrived.
    pub delivered: u32,
    /// Those that did not, in order.
    pub missing: Vec<u32>,
}
