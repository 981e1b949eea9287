//! A door that programs name as their proxy: SOCKS5 (RFC 1928, without authentication, CONNECT only) and HTTP CONNECT
//! (RFC 9110, section 9.3.6), told apart by the first byte.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use pliant_net::bundle::BundleNode;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{accept_all, open};
use crate::config::{Proxy, Way};
use crate::header::Service;
use crate::relay::relay;

/// How long a program may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an HTTP request.
const MAX_REQUEST_BYTES: u64 = 16 << 10;

const SOCKS_VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const NOT_ACCEPTABLE: u8 = 0xff;

/// Replies of SOCKS5 (RFC 1928, section 6).
mod reply {
    pub(super) const SUCCEEDED: u8 = 0;
    pub(super) const FAILURE: u8 = 1;
    pub(super) const NOT_ALLOWED: u8 = 2;
    pub(super) const HOST_UNREACHABLE: u8 = 4;
    pub(super) const REFUSED: u8 = 5;
    pub(super) const TTL_EXPIRED: u8 = 6;
    pub(super) const COMMAND_NOT_SUPPORTED: u8 = 7;
    pub(super) const ADDRESS_NOT_SUPPORTED: u8 = 8;
}

/// Serves a door for ever.
pub(crate) async fn serve(listener: TcpListener, node: Arc<BundleNode>, proxy: Proxy) {
    let proxy = Arc::new(proxy);
    accept_all(listener, node, move |node, tcp| {
        let proxy = proxy.clone();
        async move {
            // A program that breaks off, or breaks the protocol, ends its connection alone.
            let _ = connect(tcp, &node, &proxy).await;
        }
    })
    .await;
}

/// The two languages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Socks,
    Http,
}

async fn connect(tcp: TcpStream, node: &BundleNode, proxy: &Proxy) -> io::Result<()> {
    // What a program sends behind its request stays in the buffer until the answer: it is asked not to send any.
    let mut program = BufReader::new(tcp);
    let (language, asked) = timeout(REQUEST_TIMEOUT, request(&mut program)).await??;
    let service = match asked {
        Ok(service) => service,
        Err(code) => return answer(&mut program, language, code).await,
    };
    let Some(way) = route(proxy, &service.host) else {
        return answer(&mut program, language, reply::NOT_ALLOWED).await;
    };
    let stream = match open(node, way, &service).await {
        Ok(stream) => stream,
        Err(error) => return answer(&mut program, language, code_of(&error)).await,
    };
    answer(&mut program, language, reply::SUCCEEDED).await?;
    if program.buffer().is_empty() {
        relay(program.into_inner(), stream).await;
        return Ok(());
    }
    let early = program.buffer().to_vec();
    let mut stream = stream;
    stream.write_all(&early).await?;
    relay(program.into_inner(), stream).await;
    Ok(())
}

/// The most exact route to a host.
fn route<'p>(proxy: &'p Proxy, host: &str) -> Option<&'p Way> {
    let exact = proxy.routes.iter().filter_map(|(rule, way)| Some((rule.exactness(host)?, way)));
    // The first of equals.
    exact.rev().max_by_key(|(exactness, _)| *exactness).map(|(_, way)| way)
}

fn code_of(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => reply::REFUSED,
        io::ErrorKind::PermissionDenied => reply::NOT_ALLOWED,
        io::ErrorKind::HostUnreachable => reply::HOST_UNREACHABLE,
        io::ErrorKind::TimedOut => reply::TTL_EXPIRED,
        _ => reply::FAILURE,
    }
}

/// What a program wants, or the reply that it gets instead. An error ends its connection without one.
async fn request(program: &mut BufReader<TcpStream>) -> io::Result<(Language, Result<Service, u8>)> {
    if program.fill_buf().await?.first() == Some(&SOCKS_VERSION) {
        Ok((Language::Socks, socks_request(program).await?))
    } else {
        Ok((Language::Http, http_request(program).await?))
    }
}

async fn socks_request(program: &mut BufReader<TcpStream>) -> io::Result<Result<Service, u8>> {
    let _version = program.read_u8().await?;
    let mut methods = vec![0; program.read_u8().await?.into()];
    program.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        program.write_all(&[SOCKS_VERSION, NOT_ACCEPTABLE]).await?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    program.write_all(&[SOCKS_VERSION, NO_AUTHENTICATION]).await?;
    let mut fixed = [0; 4];
    program.read_exact(&mut fixed).await?;
    let [version, command, _, kind] = fixed;
    if version != SOCKS_VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => Ipv4Addr::from_bits(program.read_u32().await?).to_string(),
        4 => Ipv6Addr::from_bits(program.read_u128().await?).to_string(),
        3 => {
            let mut name = vec![0; program.read_u8().await?.into()];
            program.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?
        }
        _ => return Ok(Err(reply::ADDRESS_NOT_SUPPORTED)),
    };
    let port = program.read_u16().await?;
    if command != CONNECT {
        return Ok(Err(reply::COMMAND_NOT_SUPPORTED));
    }
    // Names are held to what a header can say.
    let text = Service { host, port }.text();
    Ok(Service::parse(&text).ok_or(reply::ADDRESS_NOT_SUPPORTED))
}

async fn http_request(program: &mut BufReader<TcpStream>) -> io::Result<Result<Service, u8>> {
    let mut left = MAX_REQUEST_BYTES;
    let mut first = String::new();
    loop {
        let mut line = Vec::new();
        let count = (&mut *program).take(left).read_until(b'\n', &mut line).await? as u64;
        left -= count;
        let line = str::from_utf8(&line).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        if first.is_empty() {
            line.clone_into(&mut first);
        }
    }
    let mut words = first.split(' ');
    let (method, target, version) = (words.next(), words.next().unwrap_or(""), words.next().unwrap_or(""));
    if !version.starts_with("HTTP/1.") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if method != Some("CONNECT") {
        return Ok(Err(reply::COMMAND_NOT_SUPPORTED));
    }
    Ok(Service::parse(target).ok_or(reply::ADDRESS_NOT_SUPPORTED))
}

async fn answer(program: &mut BufReader<TcpStream>, language: Language, code: u8) -> io::Result<()> {
    match language {
        // The address that the far end connects from is its own business: all zeros.
        Language::Socks => program.write_all(&[SOCKS_VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?,
        Language::Http => {
            let status = match code {
                reply::SUCCEEDED => "200 Connection established",
                reply::NOT_ALLOWED => "403 Forbidden",
                reply::COMMAND_NOT_SUPPORTED => "405 Method Not Allowed",
                reply::ADDRESS_NOT_SUPPORTED => "400 Bad Request",
                reply::TTL_EXPIRED => "504 Gateway Timeout",
                _ => "502 Bad Gateway",
            };
            let rest = if code == reply::SUCCEEDED { "" } else { "Content-Length: 0\r\nConnection: close\r\n" };
            program.write_all(format!("HTTP/1.1 {status}\r\n{rest}\r\n").as_bytes()).await?;
        }
    }
    program.flush().await?;
    if code != reply::SUCCEEDED {
        program.shutdown().await?;
    }
    Ok(())
}
