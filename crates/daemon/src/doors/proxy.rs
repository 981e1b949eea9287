//! A door that programs use as their proxy: SOCKS5 (RFC 1928, CONNECT only) and HTTP, distinguished by the first byte.
//! HTTP's CONNECT (RFC 9110, section 9.3.6) is a tunnel. Any other request, with an absolute address in its first line
//! (RFC 9112, section 3.2.2), goes to that server in its usual form, and is the last one of its connection.
//!
//! A program may give a user name (RFC 1929, or Basic of RFC 7617). It is the class of the connection, instead of the
//! route's. The password is ignored.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pliant_net::bundle::BundleNode;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::open::{OpenError, open};
use crate::config::NextHop;
use crate::header::Service;
use crate::relay::relay;
use crate::rules::HostRule;
use crate::shared::OpenDoor;

/// How long a program may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an HTTP request.
const MAX_REQUEST_BYTES: u64 = 16 << 10;

const SOCKS_VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const USER_NAME: u8 = 2;
/// Version of the negotiation of a user name (RFC 1929).
const USER_NAME_VERSION: u8 = 1;
const NOT_ACCEPTABLE: u8 = 0xff;

/// Replies of SOCKS5 (RFC 1928, section 6).
mod reply {
    pub(super) const SUCCEEDED: u8 = 0;
    pub(super) const FAILURE: u8 = 1;
    pub(super) const NOT_ALLOWED: u8 = 2;
    pub(super) const NETWORK_UNREACHABLE: u8 = 3;
    pub(super) const HOST_UNREACHABLE: u8 = 4;
    pub(super) const REFUSED: u8 = 5;
    pub(super) const TTL_EXPIRED: u8 = 6;
    pub(super) const COMMAND_NOT_SUPPORTED: u8 = 7;
    pub(super) const ADDRESS_NOT_SUPPORTED: u8 = 8;
}

/// Serves a connection. A program that breaks off or violates the protocol ends only its own connection.
pub(super) async fn serve(
    tcp: TcpStream,
    node: &BundleNode,
    routes: &[(HostRule, NextHop)],
    classes: &[String],
    door: &OpenDoor,
) {
    let _ = connect(tcp, node, routes, classes, door).await;
}

/// A program's end: its connection, or a substitute in tests.
pub(crate) trait ProgramStream: AsyncRead + AsyncWrite + Unpin {}
impl<P: AsyncRead + AsyncWrite + Unpin> ProgramStream for P {}

/// A program's request.
pub(crate) struct AskedService {
    pub(crate) service: Service,
    /// Empty if the program named none.
    class: String,
    /// Bytes that the service gets first.
    pub(crate) head: Vec<u8>,
}

/// The protocols.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Socks,
    /// A tunnel.
    Connect,
    /// One request.
    Http,
}

async fn connect(
    tcp: TcpStream,
    node: &BundleNode,
    routes: &[(HostRule, NextHop)],
    classes: &[String],
    door: &OpenDoor,
) -> io::Result<()> {
    // What a program sends behind its request stays in the buffer until the answer: it is asked not to send any.
    let mut program = BufReader::new(tcp);
    let (language, asked) = timeout(REQUEST_TIMEOUT, request(&mut program)).await??;
    let AskedService { service, class, mut head } = match asked {
        Ok(request) => request,
        Err(code) => return answer(&mut program, language, code).await,
    };
    let Some(next_hop) = route(routes, &service.host) else {
        return answer(&mut program, language, reply::NOT_ALLOWED).await;
    };
    let mut next_hop = next_hop.clone();
    if !class.is_empty() {
        if !classes.contains(&class) {
            return answer(&mut program, language, reply::NOT_ALLOWED).await;
        }
        next_hop.class = class;
    }
    let stream = match open(node, &next_hop, &service).await {
        Ok(stream) => stream,
        Err(error) => {
            door.tell(&error.to_string());
            return answer(&mut program, language, code_of(&error)).await;
        }
    };
    answer(&mut program, language, reply::SUCCEEDED).await?;
    head.extend_from_slice(program.buffer());
    let mut stream = stream;
    stream.write_all(&head).await?;
    relay(program.into_inner(), stream).await;
    Ok(())
}

/// The most specific route to a host.
fn route<'r>(routes: &'r [(HostRule, NextHop)], host: &str) -> Option<&'r NextHop> {
    let exact = routes.iter().filter_map(|(rule, next_hop)| Some((rule.exactness(host)?, next_hop)));
    // The first of equals.
    exact.rev().max_by_key(|(exactness, _)| *exactness).map(|(_, next_hop)| next_hop)
}

fn code_of(error: &OpenError) -> u8 {
    let error = match error {
        // Neither the service nor its host has been asked.
        OpenError::Silent { .. } => return reply::NETWORK_UNREACHABLE,
        OpenError::Peer { .. } => return reply::FAILURE,
        OpenError::Service { error, .. } => error,
    };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => reply::REFUSED,
        io::ErrorKind::PermissionDenied => reply::NOT_ALLOWED,
        io::ErrorKind::HostUnreachable => reply::HOST_UNREACHABLE,
        io::ErrorKind::TimedOut => reply::TTL_EXPIRED,
        _ => reply::FAILURE,
    }
}

/// A program's request, or the reply that it gets instead. An error ends its connection without a reply.
pub(crate) async fn request<P: ProgramStream>(
    program: &mut BufReader<P>,
) -> io::Result<(Language, Result<AskedService, u8>)> {
    if program.fill_buf().await?.first() == Some(&SOCKS_VERSION) {
        Ok((Language::Socks, socks_request(program).await?))
    } else {
        http_request(program).await
    }
}

async fn socks_request<P: ProgramStream>(program: &mut BufReader<P>) -> io::Result<Result<AskedService, u8>> {
    let _version = program.read_u8().await?;
    let mut methods = vec![0; program.read_u8().await?.into()];
    program.read_exact(&mut methods).await?;
    // A program that has a user name offers both.
    let class = if methods.contains(&USER_NAME) {
        program.write_all(&[SOCKS_VERSION, USER_NAME]).await?;
        user_name(program).await?
    } else if methods.contains(&NO_AUTHENTICATION) {
        program.write_all(&[SOCKS_VERSION, NO_AUTHENTICATION]).await?;
        String::new()
    } else {
        program.write_all(&[SOCKS_VERSION, NOT_ACCEPTABLE]).await?;
        return Err(io::ErrorKind::InvalidData.into());
    };
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
    Ok(Service::parse(&text)
        .map(|service| AskedService { service, class, head: Vec::new() })
        .ok_or(reply::ADDRESS_NOT_SUPPORTED))
}

/// The user name of a program, whatever its password.
async fn user_name<P: ProgramStream>(program: &mut BufReader<P>) -> io::Result<String> {
    if program.read_u8().await? != USER_NAME_VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut name = vec![0; program.read_u8().await?.into()];
    program.read_exact(&mut name).await?;
    let mut password = vec![0; program.read_u8().await?.into()];
    program.read_exact(&mut password).await?;
    program.write_all(&[USER_NAME_VERSION, reply::SUCCEEDED]).await?;
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}

async fn http_request<P: ProgramStream>(
    program: &mut BufReader<P>,
) -> io::Result<(Language, Result<AskedService, u8>)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut left = MAX_REQUEST_BYTES;
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        left -= (&mut *program).take(left).read_until(b'\n', &mut line).await? as u64;
        let line = String::from_utf8(line).map_err(|_| invalid())?;
        let Some(line) = line.strip_suffix('\n').map(|line| line.trim_end_matches('\r')) else { return Err(invalid()) };
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let Some((first, headers)) = lines.split_first() else { return Err(invalid()) };
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(invalid()) };
    if !version.starts_with("HTTP/1.") {
        return Err(invalid());
    }
    let mut class = String::new();
    let mut kept = String::new();
    for header in headers {
        let (name, value) = header.split_once(':').ok_or_else(invalid)?;
        // Neither a name with a space behind it nor the rest of another line (RFC 9112, sections 5.1 and 5.2): the server might
        // read as a header what the proxy did not.
        if name.is_empty() || name.contains(char::is_whitespace) || value.contains('\r') {
            return Err(invalid());
        }
        if name.eq_ignore_ascii_case("proxy-authorization") {
            class = basic_user(value).ok_or_else(invalid)?;
        }
        // What is between the program and its proxy stays there.
        if !["proxy-authorization", "proxy-connection", "connection", "keep-alive"]
            .contains(&name.to_ascii_lowercase().as_str())
        {
            kept.push_str(header);
            kept.push_str("\r\n");
        }
    }
    if method == "CONNECT" {
        let request = Service::parse(target).map(|service| AskedService { service, class, head: Vec::new() });
        return Ok((Language::Connect, request.ok_or(reply::ADDRESS_NOT_SUPPORTED)));
    }
    let Some((service, path)) = server_of(target) else {
        return Ok((Language::Http, Err(reply::COMMAND_NOT_SUPPORTED)));
    };
    let head = format!("{method} {path} {version}\r\n{kept}Connection: close\r\n\r\n").into_bytes();
    Ok((Language::Http, Ok(AskedService { service, class, head })))
}

/// The server and the path of an address such as `http://host:8000/file?x`.
fn server_of(target: &str) -> Option<(Service, String)> {
    let (scheme, rest) = target.split_at_checked("http://".len())?;
    scheme.eq_ignore_ascii_case("http://").then_some(())?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (server, path) = rest.split_at(end);
    // A user name in an address is for the server, in a header; here it names nothing.
    let server = server.rsplit_once('@').map_or(server, |(_, server)| server);
    let service = Service::parse(server).or_else(|| Service::parse(&format!("{server}:80")))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((service, path))
}

/// The user name of a header's `Basic` credentials.
fn basic_user(value: &str) -> Option<String> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then_some(())?;
    let text = String::from_utf8(BASE64_STANDARD.decode(credentials.trim()).ok()?).ok()?;
    Some(text.split_once(':')?.0.to_owned())
}

async fn answer(program: &mut BufReader<TcpStream>, language: Language, code: u8) -> io::Result<()> {
    match language {
        // The address that the far end connects from is its own business: all zeros.
        Language::Socks => program.write_all(&[SOCKS_VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?,
        // The server's own answer follows.
        Language::Http if code == reply::SUCCEEDED => {}
        Language::Connect | Language::Http => {
            let status = match code {
                reply::SUCCEEDED => "200 Connection established",
                reply::NOT_ALLOWED => "403 Forbidden",
                reply::COMMAND_NOT_SUPPORTED => "405 Method Not Allowed",
                reply::ADDRESS_NOT_SUPPORTED => "400 Bad Request",
                reply::NETWORK_UNREACHABLE | reply::TTL_EXPIRED => "504 Gateway Timeout",
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

#[cfg(test)]
mod tests {
    use pliant_net::connection::Closed;
    use pliant_proto::time::Span;

    use super::*;

    /// What the far daemon does not answer is not what a service refuses.
    #[test]
    fn replies_tell_the_far_daemon_from_the_service() {
        let next_hop = NextHop { to: "hostb".into(), peer: "192.0.2.7:7411".parse().unwrap(), class: "bulk".into() };
        let service = Service::parse("db:5432").unwrap();
        let refused = io::ErrorKind::ConnectionRefused;
        for (error, code, shown) in [
            (
                io::Error::new(refused, Closed::WrongKey),
                reply::NETWORK_UNREACHABLE,
                "hostb at 192.0.2.7:7411: somebody answers, but not to this key",
            ),
            (
                io::Error::new(io::ErrorKind::TimedOut, Closed::NoAnswer(Span::from_secs(10))),
                reply::NETWORK_UNREACHABLE,
                "hostb at 192.0.2.7:7411: no answer within 10s; it does not run, or does not know this key",
            ),
            (io::Error::new(refused, Closed::Busy), reply::FAILURE, "hostb at 192.0.2.7:7411: it has no room"),
            (refused.into(), reply::REFUSED, "db:5432: connection refused"),
            (io::ErrorKind::TimedOut.into(), reply::TTL_EXPIRED, "db:5432: timed out"),
        ] {
            let error = OpenError::new(&next_hop, &service, error);
            assert_eq!(code_of(&error), code, "{error}");
            assert!(error.to_string().contains(shown), "{error}");
        }
    }

    #[test]
    fn servers_and_paths_of_addresses() {
        for (target, expected) in [
            ("http://a.example/x?y", Some(("a.example:80", "/x?y"))),
            ("HTTP://a.example:8000", Some(("a.example:8000", "/"))),
            ("http://u:p@[::1]:8000?q", Some(("[::1]:8000", "/?q"))),
            ("https://a.example/", None),
            ("/x", None),
            ("http://", None),
            ("héhéhé", None),
        ] {
            let found = server_of(target).map(|(service, path)| (service.text(), path));
            assert_eq!(found, expected.map(|(service, path)| (service.to_owned(), path.to_owned())), "{target}");
        }
    }

    /// What a program means for the proxy goes no further, in whatever spelling.
    #[tokio::test]
    async fn headers_for_the_proxy_stay_here() {
        let head = async |headers: &str| {
            let bytes = format!("GET http://a.example/x HTTP/1.1\r\n{headers}\r\n");
            let mut program = BufReader::new(tokio::io::join(bytes.as_bytes(), tokio::io::sink()));
            request(&mut program).await.ok().and_then(|(_, asked)| asked.ok()).map(|asked| asked.head)
        };
        let kept = b"GET /x HTTP/1.1\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        for own in ["", "PROXY-Authorization: Basic YTpi\r\n", "Proxy-Connection: x\r\nKEEP-ALIVE: y\r\n"] {
            assert_eq!(head(&format!("{own}Accept: */*\r\n")).await.as_deref(), Some(&kept[..]), "{own}");
        }
        for wrong in [
            "Proxy-Authorization : Basic YTpi\r\n",
            "Proxy-Authorization: Basic\r\n YTpi: x\r\n",
            "Accept: */*\rProxy-Authorization: Basic YTpi\r\n",
            ": x\r\n",
        ] {
            assert_eq!(head(wrong).await, None, "{wrong:?}");
        }
    }

    #[test]
    fn user_names_of_basic_credentials() {
        // RFC 7617, section 2.
        assert_eq!(basic_user(" Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").as_deref(), Some("Aladdin"));
        for wrong in ["", "Basic", "Basic ?", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic QWxhZGRpbg=="] {
            assert_eq!(basic_user(wrong), None, "{wrong}");
        }
    }
}
