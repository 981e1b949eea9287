//! A forwarder of TCP connections over QUIC, as small as quinn allows: what the daemon's forward door is compared with.
//!
//! `forward far ADDRESS CERTIFICATE` waits for a peer, whose streams begin with the address of a service and a newline.
//! `forward near ADDRESS CERTIFICATE LOCAL=SERVICE...` carries what connects to each local address to its service. The far
//! end writes the certificate, the near end reads it. Runtime, windows and packet sizes are the libraries' defaults.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_buf};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SERVER_NAME: &str = "localhost";
/// Of each direction of a connection; as much as the daemon copies at once.
const BUFFER_BYTES: usize = 64 << 10;
const MAX_STREAMS: u32 = 20_000;

#[tokio::main]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["far", address, certificate] => far(address.parse()?, certificate.as_ref()).await,
        ["near", address, certificate, forwards @ ..] => near(address.parse()?, certificate.as_ref(), forwards).await,
        _ => Err("forward far ADDRESS CERTIFICATE, or forward near ADDRESS CERTIFICATE LOCAL=SERVICE...".into()),
    }
}

async fn far(address: SocketAddr, certificate: &Path) -> Outcome<()> {
    let identity = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der())?;
    let mut config = ServerConfig::with_single_cert(vec![identity.cert.der().clone()], key)?;
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::server(config, address)?;
    std::fs::write(certificate, identity.cert.der())?;
    let connection = endpoint.accept().await.ok_or("endpoint closed")?.await?;
    loop {
        let (send, receive) = connection.accept_bi().await?;
        // A connection that fails ends alone.
        tokio::spawn(async move { serve(send, receive).await.ok() });
    }
}

async fn serve(send: SendStream, mut receive: RecvStream) -> Outcome<()> {
    let mut service = Vec::new();
    loop {
        match receive.read_u8().await? {
            b'\n' => break,
            byte => service.push(byte),
        }
    }
    let tcp = TcpStream::connect(String::from_utf8(service)?).await?;
    carry(tcp, send, receive).await
}

async fn near(address: SocketAddr, certificate: &Path, forwards: &[&str]) -> Outcome<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(certificate)?))?;
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    // Others have their turns meanwhile.
    transport.keep_alive_interval(Some(Duration::from_secs(5)));
    config.transport_config(Arc::new(transport));
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address, SERVER_NAME)?.await?;
    for forward in forwards {
        let (local, service) = forward.split_once('=').ok_or("LOCAL=SERVICE is wanted")?;
        let (listener, service) = (TcpListener::bind(local).await?, format!("{service}\n"));
        tokio::spawn(accept(listener, connection.clone(), service));
    }
    Err(connection.closed().await.into())
}

async fn accept(listener: TcpListener, connection: Connection, service: String) -> Outcome<()> {
    loop {
        let (tcp, _) = listener.accept().await?;
        let (connection, service) = (connection.clone(), service.clone());
        tokio::spawn(async move {
            let (mut send, receive) = connection.open_bi().await.ok()?;
            send.write_all(service.as_bytes()).await.ok()?;
            carry(tcp, send, receive).await.ok()
        });
    }
}

async fn carry(tcp: TcpStream, mut send: SendStream, mut receive: RecvStream) -> Outcome<()> {
    tcp.set_nodelay(true)?;
    let (from_tcp, mut to_tcp) = tcp.into_split();
    let out = async {
        copy_buf(&mut tokio::io::BufReader::with_capacity(BUFFER_BYTES, from_tcp), &mut send).await?;
        send.finish().map_err(std::io::Error::other)
    };
    let back = async {
        while let Some(chunk) = receive.read_chunk(BUFFER_BYTES, true).await? {
            to_tcp.write_all(&chunk.bytes).await?;
        }
        to_tcp.shutdown().await
    };
    tokio::try_join!(out, back)?;
    Ok(())
}
