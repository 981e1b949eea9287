//! Flows of the operating system's TCP: a thread each.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_net::clock::SharedClock;
use pliant_net::tcp_info;
use pliant_proto::time::Instant;
use pliant_sim::traffic::UNLIMITED_BYTES;
use rustix::net::sockopt;

use crate::pattern::Pattern;

/// Bytes per system call.
const PIECE_BYTES: usize = 64 << 10;
/// How often a waiting thread looks whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a connection is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// First port; a group listens at its number above it.
const FIRST_PORT: u16 = 7801;

/// One flow to send.
#[derive(Clone, Debug)]
pub(crate) struct KernelFlow {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) group: u16,
    pub(crate) octet: u8,
    pub(crate) congestion: &'static str,
    pub(crate) to: std::net::Ipv4Addr,
}

/// Where a sender stands.
#[derive(Debug, Default)]
pub(crate) struct KernelSender {
    pub(crate) finished: AtomicBool,
    pub(crate) retransmissions: AtomicU64,
}

impl KernelSender {
    fn count(&self, stream: &TcpStream) {
        if let Ok(segments) = tcp_info::retransmissions(stream) {
            self.retransmissions.store(segments.into(), Ordering::Relaxed);
        }
    }
}

/// Where a receiver stands.
#[derive(Debug, Default)]
pub(crate) struct KernelProgress {
    pub(crate) group: u16,
    pub(crate) delivered: AtomicU64,
    pub(crate) wrong: AtomicU64,
    /// Picoseconds since the epoch, zero before.
    pub(crate) received_ps: AtomicU64,
}

/// All flows of the operating system that end here, by number.
pub(crate) type KernelReceivers = Arc<Mutex<BTreeMap<u64, Arc<KernelProgress>>>>;

/// What threads share.
#[derive(Clone)]
pub(crate) struct KernelTcp {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) clock: SharedClock,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) receivers: KernelReceivers,
}

impl KernelTcp {
    /// Listens for the flows of a group, whose acknowledgements carry this octet.
    pub(crate) fn listen(&self, at: std::net::Ipv4Addr, group: u16, octet: u8) -> io::Result<()> {
        let listener = TcpListener::bind(SocketAddrV4::new(at, FIRST_PORT + group))?;
        // Connections inherit it, and so do their first answers.
        sockopt::set_ip_tos(&listener, octet)?;
        let shared = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                std::thread::spawn(move || shared.receive(stream, group));
            }
        });
        Ok(())
    }

    fn receive(&self, mut stream: TcpStream, group: u16) -> Option<()> {
        let mut number = [0; 8];
        stream.read_exact(&mut number).ok()?;
        let number = u64::from_be_bytes(number);
        let progress = Arc::new(KernelProgress { group, ..KernelProgress::default() });
        self.receivers.lock().ok()?.insert(number, Arc::clone(&progress));
        let mut buffer = vec![0; PIECE_BYTES];
        let mut offset = 0;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    let wrong = self.pattern.wrong(number, offset, &buffer[..bytes]);
                    offset += bytes as u64;
                    progress.wrong.fetch_add(wrong, Ordering::Relaxed);
                    progress.delivered.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        let now = self.clock.now().since(Instant::ZERO).as_ps();
        progress.received_ps.store(now.max(1), Ordering::Relaxed);
        Some(())
    }

    /// Sends a flow, beginning now; `progress` follows it until the peer has read all of it.
    pub(crate) fn send(&self, flow: KernelFlow, progress: Arc<KernelSender>) {
        let shared = self.clone();
        std::thread::spawn(move || {
            // A flow that fails stays unfinished: its row says so.
            if shared.send_all(&flow, &progress).is_ok() {
                progress.finished.store(true, Ordering::Relaxed);
            }
        });
    }

    fn send_all(&self, flow: &KernelFlow, progress: &KernelSender) -> io::Result<()> {
        let stream = connect(flow)?;
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
        write_all(&stream, &flow.number.to_be_bytes(), &self.stop)?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut offset = 0;
        while offset < flow.bytes {
            let bytes = (flow.bytes - offset).min(PIECE_BYTES as u64) as usize;
            self.pattern.fill(flow.number, offset, &mut buffer[..bytes]);
            write_all(&stream, &buffer[..bytes], &self.stop)?;
            offset += bytes as u64;
            progress.count(&stream);
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        // The peer closes once it has read all.
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        loop {
            progress.count(&stream);
            match (&stream).read(&mut [0]) {
                Ok(_) => return Ok(()),
                Err(error) if is_timeout(&error) && !self.stop.load(Ordering::Relaxed) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A connection whose every packet, the first included, carries the flow's octet.
fn connect(flow: &KernelFlow) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_tcp_congestion(&socket, flow.congestion)?;
    sockopt::set_ip_tos(&socket, flow.octet)?;
    sockopt::set_tcp_user_timeout(&socket, CONNECT_TIMEOUT.as_millis() as u32)?;
    rustix::net::connect(socket.as_fd(), &SocketAddrV4::new(flow.to, FIRST_PORT + flow.group))?;
    Ok(TcpStream::from(socket))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], stop: &AtomicBool) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_timeout(&error) && !stop.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a flow of so many bytes has an end.
pub(crate) fn has_end(bytes: u64) -> bool {
    bytes != UNLIMITED_BYTES
}
