//! The receiving side of a transfer.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
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
    FIXED_HEADER_BYTES, HASH_BYTES, NAP, Progress, Settings, TransferError, decode_fixed_header, require_loopback,
};
use crate::driver::{Application, Clock, Driver, Refused};
use crate::socket::{Datagram, Socket};

/// How long a receiver answers repeated packets after it has everything.
const LINGER: Span = Span::from_ms(300);

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
    pub fn bind(address: SocketAddr, settings: Settings) -> Result<Self, TransferError> {
        require_loopback(address)?;
        let socket_error = |error| TransferError::Socket { address, error };
        let socket = Socket::bind(address).map_err(socket_error)?;
        let address = socket.local_address().map_err(socket_error)?;
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
        loop {
            driver.turn(&mut incoming, NAP).map_err(|error| incoming.failed(peer, error))?;
            if interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            if incoming.received {
                all_at.get_or_insert_with(|| clock.now());
                if driver.silence() > LINGER {
                    break;
                }
            } else if driver.silence() > self.settings.idle_timeout {
                return Err(TransferError::Silent { address: peer, timeout: self.settings.idle_timeout });
            }
            progress(Progress { done_bytes: incoming.body_bytes, total_bytes: incoming.size });
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
struct Incoming {
    target: Target,
    /// Payload by stream offset modulo its length, from the first byte not delivered.
    window: Box<[u8]>,
    delivered: u64,
    head: Vec<u8>,
    header_bytes: usize,
    name: String,
    size: u64,
    body_bytes: u64,
    output: Output,
    hasher: blake3::Hasher,
    trailer: Vec<u8>,
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
    fn new(target: Target, window_bytes: u64) -> Self {
        Self {
            target,
            window: vec![0; window_bytes as usize].into(),
            delivered: 0,
            head: Vec::new(),
            header_bytes: FIXED_HEADER_BYTES,
            name: String::new(),
            size: 0,
            body_bytes: 0,
            output: Output::Unopened,
            hasher: blake3::Hasher::new(),
            trailer: Vec::new(),
            received: false,
            problem: None,
        }
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

    /// Takes delivered bytes, in order.
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = if self.head.len() < self.header_bytes {
                let count = bytes.len().min(self.header_bytes - self.head.len());
                self.head.extend_from_slice(&bytes[..count]);
                if self.head.len() == self.header_bytes {
                    self.read_header()?;
                }
                count
            } else if self.body_bytes < self.size {
                let count = (self.size - self.body_bytes).min(bytes.len() as u64) as usize;
                self.hasher.update(&bytes[..count]);
                if let Output::Temporary { file, path } = &mut self.output {
                    let written = file.write_all(&bytes[..count]);
                    written.inspect_err(|_| self.problem = Some(Problem::File(path.clone())))?;
                }
                self.body_bytes += count as u64;
                count
            } else {
                if self.trailer.len() + bytes.len() > HASH_BYTES {
                    return Err(self.refuse("it is longer than announced"));
                }
                self.trailer.extend_from_slice(bytes);
                bytes.len()
            };
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Reads the fixed header, then, when it is there too, the name, and opens the output.
    fn read_header(&mut self) -> io::Result<()> {
        let fixed = self.head[..FIXED_HEADER_BYTES].try_into().expect("the fixed header is complete");
        let (name_bytes, size) = decode_fixed_header(fixed).map_err(|why| self.refuse(why))?;
        self.header_bytes = FIXED_HEADER_BYTES + name_bytes;
        if self.head.len() < self.header_bytes {
            return Ok(());
        }
        self.size = size;
        self.name = String::from_utf8_lossy(&self.head[FIXED_HEADER_BYTES..]).into_owned();
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
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file =
            NamedTempFile::new_in(directory).inspect_err(|_| self.problem = Some(Problem::File(path.clone())))?;
        self.output = Output::Temporary { file, path };
        Ok(())
    }

    /// Compares the hashes and puts the file into its place.
    fn finish(self, address: SocketAddr) -> Result<(Option<PathBuf>, blake3::Hash), TransferError> {
        let hash = self.hasher.finalize();
        let Ok(expected) = <[u8; HASH_BYTES]>::try_from(self.trailer.as_slice()) else {
            return Err(TransferError::NotATransfer { address, why: "it is shorter than announced" });
        };
        if hash != expected {
            return Err(TransferError::HashMismatch { name: self.name, got: hash, expected: expected.into() });
        }
        match self.output {
            Output::Temporary { file, path } => match file.persist(&path) {
                Ok(_) => Ok((Some(path), hash)),
                Err(failed) => Err(TransferError::File { path, error: failed.error }),
            },
            Output::Discarded | Output::Unopened => Ok((None, hash)),
        }
    }
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
        let beyond =
            (offset - self.delivered.min(offset)).saturating_add(payload.len() as u64) > self.window.len() as u64;
        if payload.is_empty() || beyond {
            return Ok(());
        }
        let at = (offset % self.window.len() as u64) as usize;
        let until_end = payload.len().min(self.window.len() - at);
        self.window[at..at + until_end].copy_from_slice(&payload[..until_end]);
        self.window[..payload.len() - until_end].copy_from_slice(&payload[until_end..]);
        Ok(())
    }

    fn event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Deliver(ByteRange { start, end }) => {
                assert_eq!(start, self.delivered, "bytes are delivered in order");
                let window = std::mem::take(&mut self.window);
                let (at, bytes) = ((start % window.len() as u64) as usize, (end - start) as usize);
                let until_end = bytes.min(window.len() - at);
                let taken =
                    self.take(&window[at..at + until_end]).and_then(|()| self.take(&window[..bytes - until_end]));
                self.window = window;
                self.delivered = end;
                taken
            }
            Event::Received => {
                self.received = true;
                if let Output::Temporary { file, path } = &mut self.output {
                    let flushed = File::sync_all(file.as_file());
                    flushed.inspect_err(|_| self.problem = Some(Problem::File(path.clone())))?;
                }
                Ok(())
            }
            Event::Connected | Event::Release(_) | Event::Finished => Ok(()),
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
