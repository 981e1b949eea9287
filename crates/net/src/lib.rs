//! Pliant's machines on real networks.
//!
//! [`socket`] batches datagrams with their traffic classes, [`connection`] says whom they are from and keeps others out,
//! [`flow`] chooses the machines, [`driver`] runs them on a socket and a clock, [`transfer`] moves a file with them, and
//! [`api`] gives them to other programs. [`switch`] forwards between interfaces through a plan's queues, and [`host`] runs
//! a scenario's flows beside it. What is simulated is what runs here: all of them poll the same machines through the same
//! `drain`, and driver and host do so in one loop (`event_loop`).

pub mod api;
pub mod clock;
pub mod connection;
pub mod driver;
pub mod entropy;
mod event_loop;
pub mod flow;
pub mod host;
pub mod input_log;
mod mmsg;
pub mod socket;
pub mod switch;
pub mod tcp_info;
pub mod transfer;

/// The longest start of `text` of at most `bytes` bytes that ends between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
