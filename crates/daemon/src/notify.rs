//! Messages to the service manager that has started the daemon (`sd_notify(3)`).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The state of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceState {
    /// It serves.
    Ready,
    /// It drains and then ends.
    Stopping,
}

/// Tells the service manager, if there is one: it names its socket in `NOTIFY_SOCKET`.
///
/// # Errors
///
/// If the socket is named and cannot be written to.
pub fn notify(state: ServiceState) -> io::Result<()> {
    std::env::var_os("NOTIFY_SOCKET").map_or(Ok(()), |socket| send(&socket, state))
}

fn send(socket: &OsStr, state: ServiceState) -> io::Result<()> {
    let line: &[u8] = match state {
        ServiceState::Ready => b"READY=1",
        ServiceState::Stopping => b"STOPPING=1",
    };
    // A leading @ stands for the zero byte of an abstract name.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(line, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<u8> {
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).unwrap();
        bytes[..count].to_vec()
    }

    /// Both forms of `NOTIFY_SOCKET` that `sd_notify(3)` names.
    #[test]
    fn a_path_and_an_abstract_name_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let named = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), ServiceState::Ready).unwrap();
        assert_eq!(received(&named), b"READY=1");

        let name = format!("pliant-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let hidden = UnixDatagram::bind_addr(&abstract_name).unwrap();
        send(OsStr::new(&format!("@{name}")), ServiceState::Stopping).unwrap();
        assert_eq!(received(&hidden), b"STOPPING=1");

        send(OsStr::new("/nobody/here"), ServiceState::Ready).unwrap_err();
    }
}
