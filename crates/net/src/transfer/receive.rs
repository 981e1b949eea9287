//! The receiving side of a transfer.

use std::fs::Permissions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::packet::{Body, ByteRange, Ecn, EndpointId, Side, TrafficClass};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::tcp::TcpReceiver;
use pliant_proto::transport::{Event, Statistics, Transport};
use pliant_proto::wire;
use tempfile::NamedTempFile;

use super::{
    HASH_BYTES, HEADER_BYTES, NAP, PROGRESS_INTERVAL, Progress, Settings, TransferError, decode_header,
    require_loopback,
};
use crate::driver::{Application, Clock, Driver, Refused};
use crate::socket::{Datagram, Socket};

/// How long a receiver answers repeated packets after it has everything.
const LINGER: Span = Span::from_ms(300);
/// Bytes of the file hashed and written at once. A power of two, at whose multiples BLAKE3's tree has whole subtrees.
const PIECE_BYTES: u64 = 128 << 10;

/// Where received files go.
#[derive(Clone, Debug)]
pub enum Target {
    /// Into this directory, under the sender's name.
    Directory(PathBuf),
    /// Into this file.
    File(PathBuf),
    /// Nowhere: received, hashed and forgotten.
    Discard,
}

/// What was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The name that the sender gave.
    pub name: String,
    /// Where it is now, unless it was discarded.
    pub path: Option<PathBuf>,
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first packet to the last byte.
    pub elapsed: Duration,
    /// BLAKE3 hash of the content; it agrees with the sender's.
    pub hash: blake3::Hash,
    /// The transport's counts.
    pub statistics: Statistics,
    /// Datagrams that were not passed to the transport.
    pub refused: Refused,
}

/// Waits for a transfer on an address.
pub struct Receiver {
    socket: Socket,
    address: SocketAddr,
    settings: Settings,
}

impl Receiver {
    /// Listens on `address`, port 0 for any free one.
    pub fn bind(address: SocketAddr, mut settings: Settings) -> Result<Self, TransferError> {
        require_loopback(address)?;
        let socket_error = |error| TransferError::Socket { address, error };
        let socket = Socket::bind(address).map_err(socket_error)?;
        let address = socket.local_address().map_err(socket_error)?;
        // The kernel counts its overhead too: up to as much again, if nothing is coalesced.
        settings.receive_buffer = settings.receive_buffer.min(socket.receive_buffer_bytes() as u64 / 2);
        Ok(Self { socket, address, settings })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a sender and takes one file from it.
    pub fn receive(
        mut self,
        target: &Target,
        interrupted: &AtomicBool,
        mut progress: impl FnMut(Progress),
    ) -> Result<Received, TransferError> {
        let (peer, flow, first) = self.wait_for_sender(interrupted)?;
        let clock = Clock::start();
        let endpoint = EndpointId::new(flow, Side::Responder);
        let mut driver = Driver::new(TcpReceiver::new(self.settings.tcp()), self.socket, clock, endpoint, peer);
        let mut incoming = Incoming::new(target.clone(), self.settings.receive_buffer);
        let opening = Datagram { from: peer, ecn: Ecn::default(), bytes: &first };
        driver.datagram(opening, &mut incoming).map_err(|error| incoming.failed(peer, error))?;
        let mut all_at: Option<Instant> = None;
        let mut told_at = clock.now();
        loop {
            driver.turn(&mut incoming, NAP).map_err(|error| incoming.failed(peer, error))?;
            if incoming.received {
                all_at.get_or_insert(driver.now());
                if driver.silence() > LINGER || interrupted.load(Ordering::Relaxed) {
                    break;
                }
            } else if interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            } else if driver.silence() > self.settings.idle_timeout {
                return Err(TransferError::Silent { address: peer, timeout: self.settings.idle_timeout });
            }
            if driver.now().since(told_at) >= PROGRESS_INTERVAL {
                told_at = driver.now();
                progress(incoming.progress());
            }
        }
        let elapsed = all_at.unwrap_or(Instant::ZERO).since(Instant::ZERO);
        let (statistics, refused) = (driver.transport().statistics(), driver.refused());
        let (name, bytes) = (incoming.name.clone(), incoming.size);
        let (path, hash) = incoming.finish(peer)?;
        Ok(Received {
            name,
            path,
            bytes,
            elapsed: Duration::from_nanos(elapsed.as_ps() / 1000),
            hash,
            statistics,
            refused,
        })
    }

    /// The address, flow number and bytes of the first request for a connection.
    fn wait_for_sender(&mut self, interrupted: &AtomicBool) -> Result<(SocketAddr, u32, Vec<u8>), TransferError> {
        let address = self.address;
        let socket_error = |error| TransferError::Socket { address, error };
        let mut opening = None;
        while opening.is_none() {
            if interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            self.socket.wait_readable(NAP).map_err(socket_error)?;
            self.socket
                .receive(|datagram| {
                    if opening.is_none()
                        && datagram.from.ip().is_loopback()
                        && let Ok((packet, _, _)) = wire::decode(datagram.bytes, TrafficClass::default())
                        && let (Body::Syn { .. }, Side::Responder) = (packet.body(), packet.to.side())
                    {
                        opening = Some((datagram.from, packet.to.flow(), datagram.bytes.to_vec()));
                    }
                })
                .map_err(socket_error)?;
        }
        Ok(opening.expect("the loop ends with one"))
    }
}

/// The stream behind a receiver: header, file, hash.
pub(super) struct Incoming {
    target: Target,
    /// What arrived and is not taken yet. The file's byte `n` lies at `n` modulo its length, so that no piece wraps.
    window: Box<[u8]>,
    /// The stream is complete up to here.
    delivered: u64,
    /// The stream is hashed and written up to here.
    taken: u64,
    name: String,
    size: u64,
    output: Output,
    hasher: blake3::Hasher,
    received: bool,
    problem: Option<Problem>,
}

/// What made an operation fail, beside the socket.
enum Problem {
    NotATransfer(&'static str),
    File(PathBuf),
}

enum Output {
    Unopened,
    Discarded,
    Temporary { file: NamedTempFile, path: PathBuf },
}

impl Incoming {
    /// A stream of which up to `receive_buffer` bytes may arrive ahead of the first byte missing.
    pub(super) fn new(target: Target, receive_buffer: u64) -> Self {
        let window_bytes = receive_buffer.next_multiple_of(PIECE_BYTES) + PIECE_BYTES;
        Self {
            target,
            window: vec![0; window_bytes as usize].into(),
            delivered: 0,
            taken: 0,
            name: String::new(),
            size: 0,
            output: Output::Unopened,
            hasher: blake3::Hasher::new(),
            received: false,
            problem: None,
        }
    }

    fn progress(&self) -> Progress {
        Progress { done_bytes: self.taken.saturating_sub(HEADER_BYTES), total_bytes: self.size }
    }

    fn failed(&mut self, address: SocketAddr, error: io::Error) -> TransferError {
        match self.problem.take() {
            Some(Problem::NotATransfer(why)) => TransferError::NotATransfer { address, why },
            Some(Problem::File(path)) => TransferError::File { path, error },
            None => TransferError::Socket { address, error },
        }
    }

    fn refuse(&mut self, why: &'static str) -> io::Error {
        self.problem = Some(Problem::NotATransfer(why));
        io::Error::other(why)
    }

    /// Where the stream's byte `offset` lies in the window.
    fn position(&self, offset: u64) -> usize {
        let window = self.window.len() as u64;
        ((offset + (window - HEADER_BYTES)) % window) as usize
    }

    fn file_end(&self) -> u64 {
        HEADER_BYTES + self.size
    }

    /// Takes what was delivered: the header, then whole pieces, and the rest of the file with its last byte.
    fn take(&mut self) -> io::Result<()> {
        if self.taken < HEADER_BYTES {
            if self.delivered < HEADER_BYTES {
                return Ok(());
            }
            self.read_header()?;
            self.taken = HEADER_BYTES;
        }
        if self.delivered > self.file_end() + HASH_BYTES as u64 {
            return Err(self.refuse("it is longer than announced"));
        }
        while self.taken < self.file_end() {
            let end = (self.taken + PIECE_BYTES).min(self.file_end());
            if self.delivered < end {
                break;
            }
            self.take_piece(end)?;
        }
        Ok(())
    }

    fn take_piece(&mut self, end: u64) -> io::Result<()> {
        let at = self.position(self.taken);
        let piece = &self.window[at..at + (end - self.taken) as usize];
        self.hasher.update(piece);
        if let Output::Temporary { file, path } = &mut self.output {
            file.write_all(piece).inspect_err(|_| self.problem = Some(Problem::File(path.clone())))?;
        }
        self.taken = end;
        Ok(())
    }

    /// Reads the header and opens the output.
    fn read_header(&mut self) -> io::Result<()> {
        let at = self.position(0);
        let header = self.window[at..at + HEADER_BYTES as usize].try_into().expect("the header does not wrap");
        (self.name, self.size) = decode_header(header).map_err(|why| self.refuse(why))?;
        let path = match &self.target {
            Target::Discard => {
                self.output = Output::Discarded;
                return Ok(());
            }
            Target::File(path) => path.clone(),
            Target::Directory(directory) => match plain_name(&self.name) {
                Some(name) => directory.join(name),
                None => return Err(self.refuse("the name it gives is not a plain file name")),
            },
        };
        let file = temporary_beside(&path).inspect_err(|_| self.problem = Some(Problem::File(path.clone())))?;
        self.output = Output::Temporary { file, path };
        Ok(())
    }

    /// The hash that ends the stream; `None` if the stream ended before.
    fn trailer(&self) -> Option<[u8; HASH_BYTES]> {
        let whole = self.taken >= HEADER_BYTES && self.delivered == self.file_end() + HASH_BYTES as u64;
        whole.then(|| std::array::from_fn(|byte| self.window[self.position(self.file_end() + byte as u64)]))
    }

    /// Compares the hashes and puts the file into its place.
    fn finish(self, address: SocketAddr) -> Result<(Option<PathBuf>, blake3::Hash), TransferError> {
        let Some(expected) = self.trailer() else {
            return Err(TransferError::NotATransfer { address, why: "it is shorter than announced" });
        };
        let hash = self.hasher.finalize();
        if hash != expected {
            return Err(TransferError::HashMismatch { name: self.name, got: hash, expected: expected.into() });
        }
        let Output::Temporary { file, path } = self.output else { return Ok((None, hash)) };
        // On the disk before it takes the place of another.
        let placed = file.as_file().sync_all().and_then(|()| file.persist(&path).map_err(|failed| failed.error));
        match placed {
            Ok(_) => Ok((Some(path), hash)),
            Err(error) => Err(TransferError::File { path, error }),
        }
    }
}

/// A file that vanishes unless it is put into its place, with the permissions that any new file gets.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let created = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(directory);
    // The error would name the temporary file, which means nothing to the user.
    created.map_err(|error| error.kind().into())
}

/// The name if it names a file in the directory itself, so that no sender writes elsewhere.
fn plain_name(name: &str) -> Option<&str> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
    plain.then_some(name)
}

impl Application for Incoming {
    fn read(&mut self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, offset: u64, payload: &[u8]) -> io::Result<()> {
        // The machine refuses what lies outside the window; so does the buffer, before it.
        let skip = self.delivered.saturating_sub(offset).min(payload.len() as u64);
        let (offset, payload) = (offset.saturating_add(skip), &payload[skip as usize..]);
        let last = self.taken + self.window.len() as u64;
        if payload.is_empty() || offset > last || last - offset < payload.len() as u64 {
            return Ok(());
        }
        let at = self.position(offset);
        let until_end = payload.len().min(self.window.len() - at);
        self.window[at..at + until_end].copy_from_slice(&payload[..until_end]);
        self.window[..payload.len() - until_end].copy_from_slice(&payload[until_end..]);
        Ok(())
    }

    fn event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Deliver(ByteRange { start, end }) => {
                assert_eq!(start, self.delivered, "bytes are delivered in order");
                self.delivered = end;
                self.take()
            }
            Event::Received => {
                self.received = true;
                Ok(())
            }
            // A transfer is a stream of bytes: there are no messages.
            Event::Connected
            | Event::Release(_)
            | Event::Finished
            | Event::Ask(_)
            | Event::AskHost(_)
            | Event::DeliverMessage { .. }
            | Event::GiveUp { .. }
            | Event::DeliverSymbol { .. }
            | Event::ToController(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for (name, plain) in
            [("a.bin", true), ("..", false), ("../x", false), ("/etc/passwd", false), ("", false), ("a\0b", false)]
        {
            assert_eq!(plain_name(name).is_some(), plain, "{name:?}");
        }
    }
}
