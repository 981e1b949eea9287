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

/// The longest start of `text` of at most `bytes` bytes that ends between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
