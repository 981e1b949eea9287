//! Why switches cannot start.

use std::io;

/// Why a switch cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no such interface.
    #[error("interface {name}: {error}")]
    Interface {
        /// Its name.
        name: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The user may not.
    #[error(
        "interface {name}: packet sockets need root, or the capability CAP_NET_RAW; a plan of relay ports needs neither"
    )]
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// An address of a relay cannot be bound.
    #[error("cannot use {address}: {error}")]
    Address {
        /// The address.
        address: std::net::SocketAddrV4,
        /// The system's reason.
        error: io::Error,
    },
}

impl SwitchError {
    /// What an error means at an interface.
    pub(super) fn of(name: &str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { name: name.to_owned() },
            _ => Self::Interface { name: name.to_owned(), error },
        }
    }
}
