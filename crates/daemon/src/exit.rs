//! The far end: opens connections to the services that the configuration allows.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use pliant_handover::ServiceRule;
use pliant_net::bundle::{AcceptedStream, AcceptedStreams, ExpectedMessages, reset_code};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::header::{Service, StreamHeader, connected};
use crate::lossy::{Path, carry};
use crate::questions::Questions;
use crate::relay::relay;
use crate::shared::{ServedConnection, Shared};

/// How long a service may take to answer at each of its addresses, and at how many of them it is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ADDRESSES: usize = 8;

/// Connects streams of peers to services. When there will be none any more, the daemon ends.
pub(crate) async fn serve(mut streams: AcceptedStreams, shared: Arc<Shared>) {
    loop {
        let accepted = match streams.next().await {
            Ok(accepted) => accepted,
            Err(error) => return shared.fail(&error),
        };
        if shared.is_draining() {
            accepted.stream.reset(reset_code::REFUSED);
            continue;
        }
        // Who shares a key is told apart by address.
        let peer = accepted.name.clone().unwrap_or_else(|| accepted.peer.ip().to_string());
        let Some(served) = shared.serve_peer(&peer) else {
            accepted.stream.reset(reset_code::TOO_MANY);
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let _counted = shared.count_connection();
            serve_one(accepted, &shared, &served).await;
        });
    }
}

/// Connects a stream to the service that its header names.
async fn serve_one(accepted: AcceptedStream, shared: &Shared, served: &ServedConnection) {
    let AcceptedStream { peer, class, header, name, mut stream } = accepted;
    let Some(StreamHeader { service, lossy }) = StreamHeader::parse(&header) else {
        return stream.reset(reset_code::DENIED);
    };
    match connect(&service, name.as_deref(), shared, &served.questions).await {
        Ok(tcp) => {
            // Without a ledger nothing is left out.
            let lossy = lossy.as_ref().zip(shared.lossy.as_ref());
            let expected = lossy
                .filter(|(rules, _)| rules.carries_messages())
                .and_then(|_| shared.node.expect_messages(&class).ok());
            if stream.write_all(&connected(expected.as_ref().map(ExpectedMessages::token))).await.is_err() {
                return;
            }
            match lossy {
                Some((rules, exit)) => {
                    let path = Path { node: &shared.node, peer, class, unpacking: &served.unpacking };
                    carry(tcp, stream, &path, rules, exit, expected.as_ref()).await;
                }
                None => relay(tcp, stream).await,
            }
        }
        Err(code) => stream.reset(code),
    }
}

/// A connection to a service, or the code for the reset of its stream.
async fn connect(
    service: &Service,
    peer: Option<&str>,
    shared: &Shared,
    questions: &Questions,
) -> Result<TcpStream, u8> {
    let exit = shared.exit();
    let allow = exit.rules.of(peer);
    // Who may reach nothing asks for no names.
    if allow.clone().next().is_none() {
        return Err(reset_code::DENIED);
    }
    let allowed = |address: &SocketAddr| {
        let allows = |rule: &ServiceRule| rule.matches(address.ip(), address.port());
        allow.clone().any(allows) && !shared.is_own_door(*address)
    };
    let found = addresses(service, questions).await.map_err(|error| code_of(&error))?;
    let mut failure = reset_code::DENIED;
    for address in found.into_iter().map(reached).filter(allowed).take(MAX_ADDRESSES) {
        failure = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => code_of(&error),
            Err(_) => reset_code::TIMED_OUT,
        };
    }
    Err(failure)
}

/// The addresses of a service. Names are resolved here and only here; what they mean is what is allowed or not.
async fn addresses(service: &Service, questions: &Questions) -> io::Result<Vec<SocketAddr>> {
    let Service { host, port } = service.clone();
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(vec![(address, port).into()]),
        Err(_) => questions.ask(move || (host, port).to_socket_addrs().map(Iterator::collect)).await,
    }
}

/// The address that a connection to this one reaches: the kernel takes the unspecified address for loopback.
fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        // An address of IPv6 may have a scope.
        IpAddr::V6(_) => return address,
        ip @ IpAddr::V4(_) => ip,
    };
    (ip, address.port()).into()
}

fn code_of(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => reset_code::REFUSED,
        io::ErrorKind::TimedOut => reset_code::TIMED_OUT,
        _ => reset_code::UNREACHABLE,
    }
}
