//! Pliant's machines on real networks.
//!
//! The transports, controllers and queues of [`pliant_proto`] are pure machines. This crate drives them with sockets and
//! clocks. The simulator drives the same machines by the same [`drain`](pliant_proto::transport::drain), so what was
//! simulated is what runs here.
//!
//! # An example
//!
//! One node accepts a byte stream, another one sends it, both in this process:
//!
//! ```
//! use std::io::{Read, Write};
//!
//! use pliant_net::api::Settings;
//! use pliant_net::api::blocking::Node;
//!
//! # fn main() -> std::io::Result<()> {
//! // Connections without keys are for loopback. Between hosts both sides need `Settings::keys`.
//! let any_port = "127.0.0.1:0".parse().unwrap();
//! let server = Node::bind(any_port, Settings::default())?;
//! let address = server.local_address();
//! let sending = std::thread::spawn(move || {
//!     let client = Node::client(any_port, Settings::default())?;
//!     let mut stream = client.connect(address)?;
//!     stream.write_all(b"hello")?;
//!     stream.finish()
//! });
//! let mut stream = server.accept()?;
//! let mut received = String::new();
//! stream.read_to_string(&mut received)?;
//! // Both sides finish: a stream that is dropped before is closed, whatever the other side still waits for.
//! stream.finish()?;
//! sending.join().unwrap()?;
//! assert_eq!(received, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Each layer uses those below it.
//!
//! | layer | what it does |
//! |---|---|
//! | [`api`] | byte streams and messages for programs, async and blocking |
//! | [`transfer`] | moves a file, a directory or a stream; one file from many sources |
//! | [`driver`] | connections with their transports on one UDP socket |
//! | [`host`] | many flows without connections on one UDP socket: a host of a testbed |
//! | `event_loop` | the loop of these two: arrivals, deadlines, departures |
//! | [`flow`] | which machines carry a flow, and what its sides tell each other first |
//! | [`connection`] | handshakes, encryption, limits on strangers: a pure machine |
//! | [`socket`], `mmsg` | batches of datagrams with DSCP and ECN |
//! | `day_clock` | which part of a schedule holds now |
//! | [`clock`], [`poll`], [`entropy`] | the operating system's time, waiting and randomness |
//!
//! Beside them stands [`switch`], a software switch that forwards between interfaces through the queues of a plan.
//! [`input_log`] records what a machine was told, so that it can be replayed without a socket.
//!
//! # Where to go on
//!
//! - [`api::Node`] for programs, [`transfer::send`] and [`transfer::Receiver`] for files.
//! - [`flow::FlowSettings`] for the transport, the contract and the traffic classes of a flow.
//! - [`connection::Keys`] for key files.
//! - `docs/network.md` for the protocol, `docs/testbed.md` for the switch.

pub mod allocator;
pub mod api;
pub mod bundle;
pub mod clock;
pub mod connection;
mod day_clock;
pub mod driver;
pub mod entropy;
mod event_loop;
pub mod flow;
pub mod host;
mod host_reports;
pub mod input_log;
mod mmsg;
pub mod poll;
mod ring;
mod seam;
pub mod socket;
pub mod switch;
pub mod tcp_info;
mod text;
pub mod transfer;
#[cfg(test)]
mod world;
