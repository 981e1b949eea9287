//! The far end: opens connections to services, of those that the configuration allows.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pliant_net::bundle::{AcceptedStream, reset_code};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::header::{CONNECTED, Service};
use crate::relay::relay;
use crate::rules::ServiceRule;

/// How long a service may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects a stream to the service that its header names.
pub(crate) async fn serve(accepted: AcceptedStream, allow: &[ServiceRule]) {
    let AcceptedStream { header, mut stream, .. } = accepted;
    match connect(&header, allow).await {
        Ok(tcp) => {
            if stream.write_all(&[CONNECTED]).await.is_ok() {
                relay(tcp, stream).await;
            }
        }
        Err(code) => stream.reset(code),
    }
}

/// A connection to a service, or the code with which its stream is reset.
async fn connect(header: &[u8], allow: &[ServiceRule]) -> Result<TcpStream, u8> {
    let service = str::from_utf8(header).ok().and_then(Service::parse).ok_or(reset_code::DENIED)?;
    // Names are resolved here and only here; what they mean is what is allowed or not.
    let found: Vec<SocketAddr> = match lookup_host((service.host.as_str(), service.port)).await {
        Ok(found) => found.collect(),
        Err(_) => return Err(if allow.is_empty() { reset_code::DENIED } else { reset_code::UNREACHABLE }),
    };
    let allowed = |address: &&SocketAddr| allow.iter().any(|rule| rule.matches(address.ip(), address.port()));
    let mut failure = reset_code::DENIED;
    for address in found.iter().filter(allowed) {
        failure = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => code_of(&error),
            Err(_) => reset_code::TIMED_OUT,
        };
    }
    Err(failure)
}

fn code_of(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => reset_code::REFUSED,
        io::ErrorKind::TimedOut => reset_code::TIMED_OUT,
        _ => reset_code::UNREACHABLE,
    }
}
