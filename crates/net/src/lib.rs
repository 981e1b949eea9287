//! Pliant's machines on real UDP sockets.
//!
//! [`socket`] batches datagrams with their ECN codepoints, [`driver`] runs one transport on a socket and a clock,
//! [`transfer`] moves a file with it. [`switch`] forwards between interfaces through a plan's queues. What is simulated is what runs here: the driver polls the same machines through
//! the same `drain`.

pub mod clock;
pub mod driver;
pub mod host;
pub mod input_log;
mod mmsg;
pub mod socket;
pub mod switch;
pub mod tcp_info;
pub mod transfer;
