//! What the flows of one host have in common: machines of which a driver keeps one set per host.
//!
//! A transport is one side of one flow and knows no other. Where flows of a host must take turns, its transports ask by
//! [`Event::AskHost`](crate::transport::Event), and the driver brings the answer as a [`Command`]. Requests are
//! answered in the order of the machine, never inside the call that asks, so no transport calls another.

pub mod turns;

use self::turns::Turns;
use crate::packet::EndpointId;
use crate::time::Instant;
use crate::transport::Command;
use crate::units::Rate;

/// What a transport wants of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRequest {
    /// A turn to send a pull, answered by `Command::Turn`. Turns go round, each as long as the packet pulled takes.
    PullTurn {
        /// Bytes of the packet that the pull lets go, on the wire.
        bytes: u16,
    },
    /// The turn asked for is not needed any more.
    EndPullTurn,
}

/// The shared machines of one host.
#[derive(Clone, Debug)]
pub struct Host {
    pulls: Turns,
}

impl Host {
    /// The machines of a host whose link has this rate.
    pub fn new(link: Rate) -> Self {
        Self { pulls: Turns::new(link) }
    }

    /// Takes a request of one of the host's endpoints.
    pub fn handle_request(&mut self, endpoint: EndpointId, request: HostRequest) {
        match request {
            HostRequest::PullTurn { bytes } => self.pulls.request(endpoint, 0, bytes),
            HostRequest::EndPullTurn => self.pulls.withdraw(endpoint),
        }
    }

    /// The next answer that is due.
    pub fn poll(&mut self, now: Instant) -> Option<(EndpointId, Command)> {
        Some((self.pulls.poll(now)?, Command::Turn))
    }

    /// When an answer is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pulls.next_at()
    }
}
