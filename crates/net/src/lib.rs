//! Pliant's machines on real UDP sockets.
//!
//! [`socket`] batches datagrams with their ECN codepoints, [`driver`] runs one transport on a socket and a clock,
//! [`transfer`] moves a file with it. What is simulated is what runs here: the driver polls the same machines through
//! the same `drain`.

pub mod connection;
pub mod driver;
pub mod input_log;
pub mod socket;
pub mod transfer;
