//! What the operating system counts of a connection.

#![allow(unsafe_code, reason = "no well-kept crate reads TCP_INFO")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// Segments that a connection of TCP has sent again.
pub fn retransmissions(stream: &impl AsFd) -> io::Result<u32> {
    // SAFETY: zeroes are a value of this plain C struct.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the struct.
    let result = unsafe {
        let descriptor = stream.as_fd().as_raw_fd();
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            ptr::from_mut(&mut info).cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info.tcpi_total_retrans) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    /// A connection on loopback that has sent nothing has sent nothing again; what is no connection is an error.
    #[test]
    fn a_fresh_connection_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(super::retransmissions(&stream).unwrap(), 0);
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(super::retransmissions(&udp).is_err());
    }
}
