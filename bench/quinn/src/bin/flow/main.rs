//! One bulk flow over QUIC between two hosts: quinn's CUBIC, with which `make conformance` compares Pliant's.
//!
//! `flow receive ADDRESS CERTIFICATE END` takes one stream and prints how many of its bytes had been read in order at END.
//! `flow send ADDRESS CERTIFICATE START END [OPTION]...` connects at START, sends until END and prints what its
//! connection counted. Times are seconds since 1970. The receiver writes the certificate, the sender reads it.
//!
//! Packets are fixed at 1472 bytes of UDP payload, 1500 of IP, and leave one by one. Flow control does not limit. All else
//! is quinn's default: CUBIC from 12,000 bytes on, pacing, an acknowledgement for every second packet or after 25 ms. Options
//! of the sender change one mechanism each:
//!
//! - `ack_every=N`: it asks for an acknowledgement after N packets (draft-ietf-quic-ack-frequency)
//! - `slow_start=rfc5681`, `growth=rfc9438`: see [`cubic`]

// It is a driver: it reads clocks. Windows are far below 2^52 bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod cubic;

use std::convert::Infallible;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cubic::Variant;
use quinn::congestion::CubicConfig;
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, SendStream, ServerConfig, TransportConfig, VarInt,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::{Instant, sleep_until, timeout_at};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SERVER_NAME: &str = "localhost";
/// What an IP packet of 1500 bytes has room for.
const UDP_PAYLOAD_BYTES: u16 = 1472;
/// Of the stream, at either end: hundreds of times what fits into the path.
const BUFFER_BYTES: u32 = 64 << 20;
const WRITE_BYTES: usize = 64 << 10;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, certificate, end] => {
            runtime.block_on(receive(address.parse()?, certificate.as_ref(), end))
        }
        ["send", address, certificate, start, end, options @ ..] => {
            runtime.block_on(send(address.parse()?, certificate.as_ref(), [start, end], options))
        }
        _ => Err("flow receive ADDRESS CERTIFICATE END, or flow send ADDRESS CERTIFICATE START END [OPTION]...".into()),
    }
}

/// A time of day on the clock by which is waited.
fn moment(seconds: &str) -> Outcome<Instant> {
    let at = UNIX_EPOCH + Duration::try_from_secs_f64(seconds.parse()?)?;
    let wait = at.duration_since(SystemTime::now()).map_err(|_| format!("{seconds} is in the past"))?;
    Ok(Instant::now() + wait)
}

fn transport(options: &[&str]) -> Outcome<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(UDP_PAYLOAD_BYTES)
        .min_mtu(UDP_PAYLOAD_BYTES)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .stream_receive_window(VarInt::from_u32(BUFFER_BYTES))
        .send_window(u64::from(BUFFER_BYTES));
    let mut variant = Variant::default();
    for option in options {
        match option.split_once('=') {
            Some(("ack_every", packets)) => {
                let mut acks = AckFrequencyConfig::default();
                let more = packets.parse::<u32>()?.checked_sub(1).ok_or("ack_every is at least 1")?;
                // A packet out of order is still acknowledged at once.
                acks.ack_eliciting_threshold(VarInt::from_u32(more)).reordering_threshold(VarInt::from_u32(1));
                transport.ack_frequency_config(Some(acks));
            }
            Some(("slow_start", "rfc5681")) => variant.slow_start_by_ack = true,
            Some(("growth", "rfc9438")) => variant.rfc9438 = true,
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    if variant == Variant::default() {
        transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
    } else {
        transport.congestion_controller_factory(Arc::new(variant));
    }
    Ok(Arc::new(transport))
}

async fn receive(address: SocketAddr, certificate: &Path, end: &str) -> Outcome<()> {
    let end = moment(end)?;
    let identity = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der())?;
    let mut config = ServerConfig::with_single_cert(vec![identity.cert.der().clone()], key)?;
    config.transport_config(transport(&[])?);
    let endpoint = Endpoint::server(config, address)?;
    std::fs::write(certificate, identity.cert.der())?;
    let mut bytes = 0;
    if let Ok(Err(error)) = timeout_at(end, count(&endpoint, &mut bytes)).await {
        return Err(error);
    }
    println!("{{\"delivered\":{bytes}}}");
    Ok(())
}

async fn count(endpoint: &Endpoint, bytes: &mut u64) -> Outcome<Infallible> {
    let connection = endpoint.accept().await.ok_or("endpoint closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    loop {
        *bytes += stream.read_chunk(usize::MAX, true).await?.ok_or("the stream ended early")?.bytes.len() as u64;
    }
}

async fn send(address: SocketAddr, certificate: &Path, times: [&str; 2], options: &[&str]) -> Outcome<()> {
    let [start, end] = times.map(moment);
    let (start, end) = (start?, end?);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(certificate)?))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport(options)?);
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    endpoint.set_default_client_config(config);

    sleep_until(start).await;
    let connection = timeout_at(end, endpoint.connect(address, SERVER_NAME)?).await.map_err(|_| "no connection")??;
    let mut stream = connection.open_uni().await?;
    if let Ok(Err(error)) = timeout_at(end, fill(&mut stream)).await {
        return Err(error);
    }
    report(&connection);
    Ok(())
}

async fn fill(stream: &mut SendStream) -> Outcome<Infallible> {
    let zeros = Bytes::from(vec![0; WRITE_BYTES]);
    loop {
        stream.write_chunk(zeros.clone()).await?;
    }
}

fn report(connection: &Connection) {
    let path = connection.stats().path;
    println!(
        "{{\"sent\":{},\"lost\":{},\"congestion_events\":{},\"cwnd\":{}}}",
        path.sent_packets, path.lost_packets, path.congestion_events, path.cwnd
    );
}
