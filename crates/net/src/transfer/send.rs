//! The sending side of a transfer.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::congestion::CongestionControl;
use pliant_proto::packet::{EndpointId, Side};
use pliant_proto::time::Span;
use pliant_proto::transport::tcp::TcpSender;
use pliant_proto::transport::{Command, Event, Statistics, Transport};

use super::{
    HASH_BYTES, HEADER_BYTES, NAP, PROGRESS_INTERVAL, Progress, Settings, TransferError, encode_header,
    require_loopback,
};
use crate::driver::{Application, Clock, Driver, Refused};
use crate::socket::Socket;

/// Bytes read from the file at once: they are read, hashed and copied while in the cache.
const CHUNK_BYTES: usize = 64 << 10;

/// What was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first packet to the last acknowledgement.
    pub elapsed: Duration,
    /// BLAKE3 hash of the content.
    pub hash: blake3::Hash,
    /// Congestion window at the end, in bytes.
    pub window_bytes: u64,
    /// The transport's counts.
    pub statistics: Statistics,
    /// Datagrams that were not passed to the transport.
    pub refused: Refused,
}

/// A file to be sent.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Source {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        let fail = |error| TransferError::File { path: path.into(), error };
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if !metadata.is_file() {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        Ok(Self { path: path.into(), file, bytes: metadata.len() })
    }
}

/// Sends `source` to the receiver at `to`. Returns when all of it is acknowledged.
pub fn send(
    source: Source,
    to: SocketAddr,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
) -> Result<Sent, TransferError> {
    require_loopback(to)?;
    settings.check()?;
    let socket_error = |error| TransferError::Socket { address: to, error };
    let any = SocketAddr::new(if to.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() }, 0);
    let socket = Socket::bind(any).map_err(socket_error)?;
    let (path, total_bytes) = (source.path.clone(), source.bytes);
    let mut outgoing = Outgoing::new(source);
    let clock = Clock::start();
    // The port makes flow numbers of one host's transfers differ.
    let flow = u32::from(socket.local_address().map_err(socket_error)?.port());
    let transport = TcpSender::new(settings.tcp(), settings.controller());
    let mut driver = Driver::new(transport, socket, clock, EndpointId::new(flow, Side::Initiator), to);
    let failed = |error: io::Error, outgoing: &Outgoing| {
        if outgoing.file_failed {
            TransferError::File { path: path.clone(), error }
        } else {
            TransferError::Socket { address: to, error }
        }
    };
    let stream_bytes = outgoing.stream_bytes();
    for command in [Command::Send { bytes: stream_bytes }, Command::Finish] {
        driver.command(command, &mut outgoing).map_err(|error| failed(error, &outgoing))?;
    }
    let mut told_at = clock.now();
    while !outgoing.finished {
        driver.turn(&mut outgoing, NAP).map_err(|error| failed(error, &outgoing))?;
        if interrupted.load(Ordering::Relaxed) {
            return Err(TransferError::Interrupted);
        }
        check_silence(driver.silence(), outgoing.connected, to, settings)?;
        if driver.now().since(told_at) >= PROGRESS_INTERVAL {
            told_at = driver.now();
            let done_bytes = outgoing.released.saturating_sub(HEADER_BYTES).min(total_bytes);
            progress(Progress { done_bytes, total_bytes });
        }
    }
    Ok(Sent {
        bytes: total_bytes,
        elapsed: Duration::from_nanos(clock.now().as_ps() / 1000),
        hash: outgoing.hash(),
        window_bytes: driver.transport().controller().window(),
        statistics: driver.transport().statistics(),
        refused: driver.refused(),
    })
}

fn check_silence(
    silence: Span,
    connected: bool,
    address: SocketAddr,
    settings: &Settings,
) -> Result<(), TransferError> {
    let timeout = if connected { settings.idle_timeout } else { settings.connect_timeout };
    match (silence > timeout, connected) {
        (false, _) => Ok(()),
        (true, true) => Err(TransferError::Silent { address, timeout }),
        (true, false) => Err(TransferError::NoAnswer { address, timeout }),
    }
}

/// The stream behind a sender: header, file, hash.
pub(super) struct Outgoing {
    header: [u8; HEADER_BYTES as usize],
    source: Source,
    chunk: Vec<u8>,
    /// Offset of `chunk` in the file.
    chunk_at: u64,
    /// Bytes of the file hashed so far, from its start.
    hashed: u64,
    hasher: blake3::Hasher,
    released: u64,
    connected: bool,
    finished: bool,
    file_failed: bool,
}

impl Outgoing {
    pub(super) fn new(source: Source) -> Self {
        let name = source.path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned());
        Self {
            header: encode_header(&name, source.bytes),
            source,
            chunk: Vec::new(),
            chunk_at: 0,
            hashed: 0,
            hasher: blake3::Hasher::new(),
            released: 0,
            connected: false,
            finished: false,
            file_failed: false,
        }
    }

    fn stream_bytes(&self) -> u64 {
        HEADER_BYTES + self.source.bytes + HASH_BYTES as u64
    }

    fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Reads file bytes through a chunk. New data is asked for in order, so every chunk is hashed as it is read first;
    /// what is sent again may lie before the chunk.
    fn read_file(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            if at < self.chunk_at {
                let before = (self.chunk_at - at).min((into.len() - done) as u64) as usize;
                self.source.file.read_exact_at(&mut into[done..done + before], at)?;
                done += before;
                continue;
            }
            let skip = (at - self.chunk_at) as usize;
            if skip >= self.chunk.len() {
                self.read_next_chunk()?;
                continue;
            }
            let count = (self.chunk.len() - skip).min(into.len() - done);
            into[done..done + count].copy_from_slice(&self.chunk[skip..skip + count]);
            done += count;
        }
        Ok(())
    }

    fn read_next_chunk(&mut self) -> io::Result<()> {
        self.chunk_at += self.chunk.len() as u64;
        let bytes = (self.source.bytes - self.chunk_at).min(CHUNK_BYTES as u64) as usize;
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "read beyond the end of the file"));
        }
        self.chunk.resize(bytes, 0);
        self.source.file.read_exact_at(&mut self.chunk, self.chunk_at)?;
        self.hasher.update(&self.chunk);
        self.hashed += bytes as u64;
        Ok(())
    }

    /// Hashes what was not read yet; nothing, when the stream is read in order.
    fn hash_rest(&mut self) -> io::Result<()> {
        while self.hashed < self.source.bytes {
            self.read_next_chunk()?;
        }
        Ok(())
    }
}

impl Application for Outgoing {
    fn read(&mut self, offset: u64, payload: &mut [u8]) -> io::Result<()> {
        let file_end = HEADER_BYTES + self.source.bytes;
        let (mut offset, mut rest) = (offset, payload);
        while !rest.is_empty() {
            let end = if offset < HEADER_BYTES {
                HEADER_BYTES
            } else if offset < file_end {
                file_end
            } else {
                u64::MAX
            };
            let count = (end - offset).min(rest.len() as u64) as usize;
            let (part, tail) = rest.split_at_mut(count);
            if offset < HEADER_BYTES {
                part.copy_from_slice(&self.header[offset as usize..][..count]);
            } else if offset < file_end {
                self.read_file(offset - HEADER_BYTES, part).inspect_err(|_| self.file_failed = true)?;
            } else {
                self.hash_rest().inspect_err(|_| self.file_failed = true)?;
                let hash = self.hash();
                part.copy_from_slice(&hash.as_bytes()[(offset - file_end) as usize..][..count]);
            }
            offset += count as u64;
            rest = tail;
        }
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Connected => self.connected = true,
            Event::Release(range) => {
                self.connected = true;
                self.released = range.end;
            }
            Event::Finished => self.finished = true,
            // A transfer is a stream of bytes: there are no messages.
            Event::Deliver(_)
            | Event::Received
            | Event::Ask(_)
            | Event::AskHost(_)
            | Event::DeliverMessage { .. }
            | Event::GiveUp { .. }
            | Event::DeliverSymbol { .. }
            | Event::ToController(_) => {}
        }
        Ok(())
    }
}
