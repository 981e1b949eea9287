//! What the preload library (`crates/preload`) and the daemon say to each other.
//!
//! The library runs inside programs of others, at any time: between `fork` and `exec`, in a signal handler. So nothing here
//! allocates or takes a lock, and all that is known of a connection is with its descriptor: it survives `dup`, `fork` and
//! `exec`. A program's end of a socket pair is bound to an abstract name that says where it leads ([`Connection`]), the
//! daemon's end to one that says how the connection stands ([`Outcome`]); an end without a name is not connected yet.

#![no_std]

mod name;
mod request;
mod rule;

pub use name::{Connection, MAX_NAME_BYTES, NameText, Outcome};
pub use request::{MAX_CLASS_BYTES, MAX_REQUEST_BYTES, REQUEST_HEAD_BYTES, Request};
pub use rule::{ServiceRule, WrongRule, any_matches};

/// Names the daemon's socket for programs. Without it the library does nothing.
pub const SOCKET_VARIABLE: &str = "PLIANT_PRELOAD_SOCKET";
/// Names the class of a program's connections; it may be missing.
pub const CLASS_VARIABLE: &str = "PLIANT_PRELOAD_CLASS";
/// The services that go through the daemon: rules with spaces between. All else is left alone.
pub const RULES_VARIABLE: &str = "PLIANT_PRELOAD_RULES";
/// The first byte of an answer that comes with a descriptor. Any other is an error's number (`errno`).
pub const HANDED_OVER: u8 = 0;
