//! Sends bytes over one QUIC stream on loopback and prints one JSON line: CPU seconds per GB (10^9 bytes) on each side,
//! and the rate at the receiver.
//!
//! Sender and receiver are two processes, each one thread, so that their CPU time can be told apart. Encryption is on
//! and the path MTU is what quinn discovers up to its default of 1452 bytes: the internet's setting, not loopback's.

// A benchmark reads the clock, and its byte counts are far below 2^52.
#![allow(clippy::disallowed_methods, clippy::cast_precision_loss)]

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quinn::{ClientConfig, Endpoint, ServerConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

type Outcome<T> = Result<T, Box<dyn Error>>;

const DEFAULT_BYTES: u64 = 1_000_000_000;
const WRITE_BYTES: usize = 64 * 1024;
const SERVER_NAME: &str = "localhost";

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match std::env::args().nth(1).as_deref() {
        Some("receive") => runtime.block_on(receive()),
        Some(bytes) => runtime.block_on(run(bytes.parse::<NonZeroU64>()?.get())),
        None => runtime.block_on(run(DEFAULT_BYTES)),
    }
}

/// What the receiver measured, handshake excluded.
struct Received {
    bytes: u64,
    cpu_s: f64,
    elapsed_s: f64,
}

/// The locked version: the crate exports none.
fn quinn_version() -> &'static str {
    let after_name = include_str!("../Cargo.lock").split("name = \"quinn\"\nversion = \"").nth(1);
    after_name.and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

/// User and system seconds of this process.
fn cpu_seconds() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// The receiving process: prints its port and certificate, takes one stream, prints what that cost.
async fn receive() -> Outcome<()> {
    let identity = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    let certificate = identity.cert.der().clone();
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der())?;
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    let endpoint = Endpoint::server(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    println!("{}", endpoint.local_addr()?.port());
    println!("{}", hex(&certificate));

    let connection = endpoint.accept().await.ok_or("endpoint closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let (start, cpu_start) = (Instant::now(), cpu_seconds()?);
    let mut bytes = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        bytes += chunk.bytes.len() as u64;
    }
    println!("{} {} {}", bytes, cpu_seconds()? - cpu_start, start.elapsed().as_secs_f64());
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

/// The sending process: starts the receiver, sends, prints the result.
async fn run(bytes: u64) -> Outcome<()> {
    let mut child = Command::new(std::env::current_exe()?).arg("receive").stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("receiver has no stdout")?).lines();
    let port: u16 = next_line(&mut lines)?.parse()?;
    let certificate = CertificateDer::from(unhex(&next_line(&mut lines)?)?);

    let sender_cpu_s = send(bytes, port, certificate).await?;
    let received = parse_received(&next_line(&mut lines)?)?;
    child.wait()?;
    if received.bytes != bytes {
        return Err(format!("sent {bytes} bytes, received {}", received.bytes).into());
    }
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "{{\"scenario\":\"loopback\",\"system\":\"quinn\",\"version\":\"{}\",\"bytes\":{bytes},\"gbit_per_s\":{:.3},\
         \"sender_cpu_s_per_gb\":{:.4},\"receiver_cpu_s_per_gb\":{:.4}}}",
        quinn_version(),
        gigabytes * 8.0 / received.elapsed_s,
        sender_cpu_s / gigabytes,
        received.cpu_s / gigabytes,
    );
    Ok(())
}

/// Returns the CPU seconds of sending, handshake excluded.
async fn send(bytes: u64, port: u16, certificate: CertificateDer<'static>) -> Outcome<f64> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    endpoint.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    let connection = endpoint.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SERVER_NAME)?.await?;

    let cpu_start = cpu_seconds()?;
    let mut stream = connection.open_uni().await?;
    let zeros = Bytes::from(vec![0; WRITE_BYTES]);
    let mut left = bytes;
    while left > 0 {
        let chunk = zeros.slice(..zeros.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        left -= chunk.len() as u64;
        stream.write_chunk(chunk).await?;
    }
    stream.finish()?;
    // The receiver closes the connection once it has everything.
    connection.closed().await;
    Ok(cpu_seconds()? - cpu_start)
}

fn next_line(lines: &mut Lines<BufReader<ChildStdout>>) -> Outcome<String> {
    Ok(lines.next().ok_or("the receiver ended early")??)
}

fn parse_received(line: &str) -> Outcome<Received> {
    let fields: Vec<&str> = line.split(' ').collect();
    match fields[..] {
        [bytes, cpu_s, elapsed_s] => {
            Ok(Received { bytes: bytes.parse()?, cpu_s: cpu_s.parse()?, elapsed_s: elapsed_s.parse()? })
        }
        _ => Err(format!("the receiver reported {line:?}").into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
        text
    })
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    (0..text.len())
        .step_by(2)
        .map(|at| Ok(u8::from_str_radix(text.get(at..at + 2).ok_or("odd hexadecimal")?, 16)?))
        .collect()
}
