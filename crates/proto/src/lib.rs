//! Pliant's pure machines: transports, congestion controllers and switch ports that decide, and touch nothing.
//!
//! Time and packets go in, packets and deadlines come out. There is no clock, no socket and no random number of a
//! machine's own; the crate is `no_std`, so it cannot cheat. Whoever has a clock and a wire is a *driver*: the simulator
//! (`pliant-sim`), the UDP runtime and the software switch (`pliant-net`) are small ones of the same machines. What was
//! simulated is what runs.
//!
//! # Layers
//!
//! Each uses those above it.
//!
//! | layer | modules | what it is |
//! |---|---|---|
//! | quantities | [`time`], [`units`], [`rng`] | picoseconds, bytes, rates; random streams by name |
//! | packets | [`packet`], [`wire`] | the one packet type of 32 bytes, and its bytes in a datagram |
//! | recovery | [`recovery`] | what transports are made of: timeouts, scoreboards, reassembly |
//! | control | [`congestion`], [`contract`] | how much may be in flight; how far an application's traffic may bend |
//! | endpoints | [`transport`], [`host`] | one side of one flow; what the flows of one host share |
//! | ports | [`switch`] | queues, markers, schedulers, shapers, and the wire behind them |
//! | drivers' part | [`event_queue`] | the earliest deadline first |
//!
//! [`transport::any`] and the list in [`congestion`] name the members. Members of other crates are variants there, too:
//! [`ForeignTransport`](transport::any::ForeignTransport), [`AnyController::foreign`](congestion::AnyController::foreign)
//! and [`ForeignDiscipline`](switch::ForeignDiscipline).
//!
//! # Two sides of a transport, driven by hand
//!
//! A driver tells a transport what happens and then takes all it has to say: packets, events, the next deadline
//! ([`transport::drain`] takes them in one call). Here the wire takes 10 microseconds and loses nothing, and each packet is
//! acknowledged at once, so that no deadline comes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pliant_proto::congestion::Algorithm;
//! use pliant_proto::packet::ByteRange;
//! use pliant_proto::time::{Instant, Span};
//! use pliant_proto::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
//! use pliant_proto::transport::{Command, Event, Transport};
//!
//! let config = Arc::new(TcpConfig { ack_every: 1, ..TcpConfig::default() });
//! let mut sender = TcpSender::new(Arc::clone(&config), Algorithm::Cubic.controller(config.mss));
//! let mut receiver = TcpReceiver::new(config);
//! let (mut now, mut delivered, mut finished) = (Instant::ZERO, 0, false);
//!
//! sender.handle_command(now, Command::Send { bytes: 100_000 });
//! sender.handle_command(now, Command::Finish);
//! while !finished {
//!     // All that the sender may send now crosses the wire.
//!     let wire: Vec<_> = std::iter::from_fn(|| sender.poll_transmit(now)).collect();
//!     now = now.after(Span::from_us(10));
//!     for packet in wire {
//!         receiver.handle_packet(now, &packet, &Default::default());
//!     }
//!     while let Some(event) = receiver.poll_event() {
//!         if let Event::Deliver(ByteRange { end, .. }) = event {
//!             delivered = end;
//!         }
//!     }
//!     // The acknowledgements cross it the other way, with what travels beside them.
//!     let mut answers = Vec::new();
//!     while let Some(packet) = receiver.poll_transmit(now) {
//!         answers.push((packet, *receiver.sack_blocks()));
//!     }
//!     now = now.after(Span::from_us(10));
//!     for (packet, sack) in answers {
//!         sender.handle_packet(now, &packet, &sack);
//!     }
//!     while let Some(event) = sender.poll_event() {
//!         finished |= event == Event::Finished;
//!     }
//! }
//! assert_eq!((delivered, sender.poll_timeout()), (100_000, None));
//! ```
//!
//! # A congestion controller
//!
//! A controller hears of acknowledgements and of congestion, and answers how many bytes may be in flight. This one adds a
//! segment per round trip and halves; [`AnyController::foreign`](congestion::AnyController::foreign) makes it a member.
//!
//! ```
//! use pliant_proto::congestion::{AckSample, AnyController, Congestion, CongestionControl, EcnMode};
//!
//! #[derive(Clone, Debug)]
//! struct Halving {
//!     window: u64,
//!     mss: u64,
//! }
//!
//! impl CongestionControl for Halving {
//!     fn on_ack(&mut self, sample: &AckSample) {
//!         if sample.window_limited && !sample.in_recovery {
//!             self.window += self.mss * sample.acked / self.window;
//!         }
//!     }
//!
//!     fn on_congestion(&mut self, _event: &Congestion) {
//!         self.window = (self.window / 2).max(self.mss);
//!     }
//!
//!     fn window(&self) -> u64 {
//!         self.window
//!     }
//!
//!     fn ssthresh(&self) -> u64 {
//!         // It never starts slowly.
//!         self.mss
//!     }
//!
//!     fn ecn_mode(&self) -> EcnMode {
//!         EcnMode::Off
//!     }
//! }
//!
//! let mut member = AnyController::foreign(Halving { window: 14_600, mss: 1460 });
//! member.set_weight(2.0); // What it does not say stays at its default: a weight means nothing to it.
//! assert_eq!(member.window(), 14_600);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod congestion;
pub mod contract;
pub mod event_queue;
pub mod host;
pub mod packet;
pub mod recovery;
pub mod rng;
pub mod settings;
pub mod switch;
pub mod time;
pub mod transport;
mod unit_text;
pub mod units;
pub mod wire;
