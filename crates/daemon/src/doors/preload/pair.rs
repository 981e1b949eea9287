//! A socket pair that stands for a TCP connection.
//!
//! Until the far end has answered, the program's end is full and cannot be written to, so for `poll` and `epoll` the
//! `connect` is in progress. Then the daemon's end gets a name with the result (`pliant_handover`).
//!
//! The kernel reports a reset to a program only if the daemon's end is closed while bytes wait there. So one byte that
//! was already forwarded stays there, and is taken only at a regular end. A byte keeps its whole buffer in the kernel,
//! and a large buffer would leave the program no room to write. So after a large write none stays.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use pliant_handover::{Connection, NameText, Outcome};
use pliant_net::bundle::BundleStream;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, recv, send, shutdown,
    socketpair, sockopt,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, split};
use tokio::net::UnixStream;

/// Buffer of each end, which the kernel doubles. With a larger one, a program would notice too late that its bytes are
/// not moving.
const BUFFER_BYTES: usize = 16 << 10;
/// Most bytes of a write whose last byte can stay. With the kernel's overhead they are less than a quarter of the
/// buffer.
const MAX_LEFT_BUFFER_BYTES: usize = 2048;
/// Bytes copied at once.
const PIECE_BYTES: usize = 64 << 10;

/// Makes names unique.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The daemon's end.
pub(super) struct Pair {
    daemon: UnixStream,
    connection: Connection,
    /// Bytes that fill the program's end.
    filling: usize,
}

/// The program's end.
pub(super) struct ProgramEnd(OwnedFd);

impl AsFd for ProgramEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn bind_name(end: impl AsFd, name: &NameText) -> io::Result<()> {
    Ok(bind(end, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?)
}

impl Pair {
    /// An unconnected pair for a connection to `service`, as the program names it.
    pub(super) fn new(service: SocketAddr) -> io::Result<(Self, ProgramEnd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (program, daemon) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        for end in [&program, &daemon] {
            sockopt::set_socket_send_buffer_size(end, BUFFER_BYTES)?;
        }
        let connection = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let connection = Connection { process: std::process::id(), number, service };
            match bind_name(&program, &connection.name()) {
                Ok(()) => break connection,
                // A daemon of another container has the same number of its process.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        };
        let mut filling = 0;
        loop {
            match send(&program, &[0; MAX_LEFT_BUFFER_BYTES], SendFlags::DONTWAIT) {
                Ok(count) => filling += count,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let daemon = UnixStream::from_std(StdUnixStream::from(daemon))?;
        Ok((Self { daemon, connection, filling }, ProgramEnd(program)))
    }

    /// Sets the result. If it is connected, the program can write from now on. If not, this end must be dropped.
    pub(super) fn settle(&mut self, outcome: Outcome) -> io::Result<()> {
        bind_name(&self.daemon, &self.connection.outcome(outcome))?;
        if outcome == Outcome::Connected {
            // The last byte is left.
            let mut filling = std::mem::replace(&mut self.filling, 0) - 1;
            let mut piece = [0; MAX_LEFT_BUFFER_BYTES];
            while filling > 0 {
                let most = filling.min(piece.len());
                filling -= recv(&self.daemon, &mut piece[..most], RecvFlags::DONTWAIT)?.0;
            }
        }
        Ok(())
    }

    /// Carries bytes in both directions until both sides have ended. An error on one side resets the other.
    pub(super) async fn relay(self, stream: BundleStream) {
        let (from_stream, to_stream) = split(stream);
        let out = from_program(&self.daemon, to_stream);
        let back = to_program(&self.daemon, from_stream);
        // The stream is reset when it is dropped, and so is the program's end by the byte that is left.
        let _ = tokio::try_join!(out, back);
    }
}

async fn from_program(program: &UnixStream, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    // Small at first: most connections are idle.
    let mut piece = vec![0; 4 << 10];
    let mut left = 1;
    loop {
        let (count, ended) = peek(program, &mut piece, left).await?;
        to.write_all(&piece[left..count]).await?;
        let keep = usize::from(!ended && count - left <= MAX_LEFT_BUFFER_BYTES);
        let mut taken = keep;
        while taken < count {
            taken += recv(program, &mut piece[taken..count], RecvFlags::DONTWAIT)?.0;
        }
        left = keep;
        if ended {
            return to.shutdown().await;
        }
        if count == piece.len() && count < PIECE_BYTES {
            piece.resize(PIECE_BYTES, 0);
        }
    }
}

/// Reads what a program has written, without taking it. Returns how much there is, including what stayed, and whether
/// that is all.
async fn peek(program: &UnixStream, piece: &mut [u8], left: usize) -> io::Result<(usize, bool)> {
    loop {
        // What a program writes before it ends is there when its end is seen.
        let ended = program.ready(Interest::READABLE).await?.is_read_closed();
        let look = || {
            let (count, _) = recv(program, &mut *piece, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
            if count > left || ended || count == 0 { Ok(count) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        match program.try_io(Interest::READABLE, look) {
            Ok(count) => return Ok((count, count <= left)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn to_program(program: &UnixStream, mut from: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut piece = vec![0; 4 << 10];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return Ok(shutdown(program, Shutdown::Write)?);
        }
        let mut written = 0;
        while written < count {
            let send = || Ok(send(program, &piece[written..count], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?);
            written += program.async_io(Interest::WRITABLE, send).await?;
        }
        if count == piece.len() && count < PIECE_BYTES {
            piece.resize(PIECE_BYTES, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn ready(end: &impl AsFd) -> PollFlags {
        let mut of = [PollFd::new(end, PollFlags::IN | PollFlags::OUT)];
        poll(&mut of, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        of[0].revents()
    }

    fn in_runtime<T>(of: impl FnOnce() -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        of()
    }

    /// An end is not ready for anything until it is known what became of it.
    #[test]
    fn a_pair_is_ready_once_it_is_connected() {
        in_runtime(|| {
            let (mut pair, program) = Pair::new(([127, 0, 0, 1], 80).into()).unwrap();
            assert_eq!(ready(&program), PollFlags::empty());
            pair.settle(Outcome::Connected).unwrap();
            assert_eq!(ready(&program), PollFlags::OUT);
        });
    }

    /// Failed, or the daemon gone: the program's end has an error either way.
    #[test]
    fn an_end_that_is_dropped_is_an_error() {
        in_runtime(|| {
            for outcome in [Some(Outcome::Failed(111)), Some(Outcome::Connected), None] {
                let (mut pair, program) = Pair::new(([127, 0, 0, 1], 80).into()).unwrap();
                if let Some(outcome) = outcome {
                    pair.settle(outcome).unwrap();
                }
                drop(pair);
                assert!(ready(&program).contains(PollFlags::OUT | PollFlags::HUP));
                assert_eq!(sockopt::socket_error(&program).unwrap(), Err(Errno::CONNRESET), "{outcome:?}");
            }
        });
    }

    /// The byte that is left leaves a program room to write.
    #[test]
    fn what_is_left_leaves_room() {
        in_runtime(|| {
            let (mut pair, program) = Pair::new(([127, 0, 0, 1], 80).into()).unwrap();
            pair.settle(Outcome::Connected).unwrap();
            for _ in 0..100 {
                send(&program, &[1; MAX_LEFT_BUFFER_BYTES], SendFlags::DONTWAIT).unwrap();
                let mut all = [0; MAX_LEFT_BUFFER_BYTES];
                assert_eq!(recv(&pair.daemon, &mut all, RecvFlags::DONTWAIT).unwrap().0, all.len());
                assert_eq!(ready(&program), PollFlags::OUT);
            }
        });
    }
}
