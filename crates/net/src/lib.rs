//! Pliant's machines on real UDP sockets.
//!
//! [`socket`] batches datagrams with their traffic classes, [`connection`] says whom they are from and keeps others out,
//! [`flow`] chooses the machines, [`driver`] runs them on a socket and a clock, [`transfer`] moves a file with them, [`api`] gives
//! them to other programs. What
//! is simulated is what runs here: the driver polls the same machines through the same `drain`.

pub mod api;
pub mod connection;
pub mod driver;
pub mod entropy;
pub mod flow;
pub mod input_log;
pub mod socket;
pub mod transfer;
