//! A mirror that speaks HTTP.

mod deadline;
mod proxies;
mod redirect;

use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use pliant_net::transfer::{Mirror, MirrorError, MirrorFile};
use ureq::config::Config;
use ureq::http::header::{self, HeaderMap};
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, RustlsConnector, TcpConnector};
use ureq::{Agent, Body, ProxyProtocol};

use self::deadline::{WithDeadline, before};
use self::proxies::Proxies;
use self::redirect::{OwnHost, followed};
use crate::content_range;
use crate::s3::S3Access;
use crate::url::{Kind, MirrorUrl};

/// How long a server may take to answer, and for each piece of [`LEAST_BYTES_PER_S`] of what it sends.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// Fewest bytes that it sends while it is waited for so long: 1 KiB each second.
const LEAST_BYTES_PER_S: u64 = 1 << 10;
const MAX_REDIRECTS: u32 = 5;
/// Bytes that are read at once, of a response's head, and of a refusal.
const PIECE_BYTES: usize = 64 << 10;
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_REFUSAL_BYTES: u64 = 4 << 10;

/// A server of HTTP, HTTPS or S3 that has a file, or a folder of files.
#[derive(Clone, Debug)]
pub struct HttpMirror {
    url: MirrorUrl,
    /// It is that of a folder.
    is_folder: bool,
    s3: S3Access,
    patience: Duration,
    proxies: Proxies,
    agent: Agent,
}

impl HttpMirror {
    /// The file at a URL, of [`MirrorUrl::of_file`].
    pub fn of_file(url: MirrorUrl, s3: S3Access) -> Self {
        Self::new(url, false, s3, PATIENCE)
    }

    /// The files of a folder, of [`MirrorUrl::of_folder`].
    pub fn of_folder(url: MirrorUrl, s3: S3Access) -> Self {
        Self::new(url, true, s3, PATIENCE)
    }

    fn new(url: MirrorUrl, is_folder: bool, s3: S3Access, patience: Duration) -> Self {
        Self::by(url, is_folder, s3, patience, Proxies::from_environment(), None)
    }

    /// With a host of its own other than its URL's, if one is given.
    fn by(
        url: MirrorUrl,
        is_folder: bool,
        s3: S3Access,
        patience: Duration,
        proxies: Proxies,
        own: Option<OwnHost>,
    ) -> Self {
        let named = match &url.kind {
            Kind::Http(url) => url.clone(),
            Kind::S3 { bucket, key } => s3.url(bucket, key),
        };
        let config = Config::builder()
            .user_agent(concat!("pliant/", env!("CARGO_PKG_VERSION")))
            .accept("*/*")
            // Bytes of the file are counted, not those of something packed.
            .accept_encoding("identity")
            .http_status_as_error(false)
            .proxy(proxies.find(&named).cloned())
            // They are followed here: the library would read the body of a redirection to its end, if it has one.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(MAX_HEAD_BYTES)
            .timeout_connect(Some(CONNECT.min(patience)))
            .timeout_resolve(Some(CONNECT.min(patience)))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience))
            .timeout_per_write(Some(patience))
            // Who is asked without TLS may redirect to a place with it.
            .tls_config(TLS.clone())
            .build();
        let own = own.unwrap_or_else(|| OwnHost::of(&named, &proxies));
        let connector = ().chain(ConnectProxyConnector::default()).chain(TcpConnector::default());
        let agent = Agent::with_parts(config, connector.chain(WithDeadline).chain(RustlsConnector::default()), own);
        Self { url, is_folder, s3, patience, proxies, agent }
    }
}

/// TLS that believes whom this host believes.
static TLS: LazyLock<TlsConfig> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    let roots = found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect::<Vec<_>>();
    TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
});

impl Mirror for HttpMirror {
    fn name(&self) -> &str {
        &self.url.shown
    }

    fn only_file(&self) -> Option<String> {
        if self.is_folder { None } else { self.url.file_name() }
    }

    fn file(&self, name: &str) -> Box<dyn MirrorFile> {
        let url = if self.is_folder { self.url.file(name) } else { self.url.clone() };
        let (url, s3) = match url.kind {
            Kind::Http(url) => (url, None),
            Kind::S3 { bucket, key } => (self.s3.url(&bucket, &key), Some(self.s3.clone())),
        };
        let (proxies, agent) = (self.proxies.clone(), self.agent.clone());
        Box::new(HttpFile { url, s3, proxies, agent, patience: self.patience, tag: None })
    }
}

/// A file of such a server.
struct HttpFile {
    url: String,
    s3: Option<S3Access>,
    proxies: Proxies,
    agent: Agent,
    patience: Duration,
    /// Its `ETag` when its size was asked for: it is to be the same file until its end.
    tag: Option<String>,
}

fn fails(why: impl Into<String>) -> MirrorError {
    MirrorError { why: why.into(), passes: false }
}

fn may_pass(why: impl Into<String>) -> MirrorError {
    MirrorError { why: why.into(), passes: true }
}

impl HttpFile {
    /// Asks for a range of bytes, first and last, wherever that leads.
    fn ask(&self, first: u64, last: u64) -> Result<Response<Body>, MirrorError> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut response = self.ask_at(&url, first, last)?;
            let status = response.status();
            match status {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                    return Ok(response);
                }
                // A signature is for one host.
                _ if self.s3.is_none() && status.is_redirection() => {
                    let Some(to) = header_text(response.headers(), header::LOCATION) else {
                        return Err(fails(format!("{status}: it redirects to nowhere")));
                    };
                    url = followed(&url, to).map_err(fails)?;
                }
                status => {
                    let deadline = Instant::now() + self.patience;
                    return Err(match self.proxy(&url) {
                        Some(proxy) if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                            fails(format!("the proxy {proxy} refuses: {status}"))
                        }
                        proxy => {
                            let refused = before(deadline, || refused(status, &mut response, self.s3.as_ref()));
                            beside(proxy.as_deref(), refused)
                        }
                    });
                }
            }
        }
        Err(fails("it redirects more than five times"))
    }

    /// Asks there, and nowhere else.
    fn ask_at(&self, url: &str, first: u64, last: u64) -> Result<Response<Body>, MirrorError> {
        let range = format!("bytes={first}-{last}");
        let proxy = self.proxies.find(url);
        if let Some(proxy) =
            proxy.filter(|proxy| !matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https))
        {
            let (host, port) = (proxy.host(), proxy.port());
            return Err(fails(format!(
                "the proxy {host}:{port} is one of SOCKS: mirrors are asked through HTTP proxies"
            )));
        }
        let mut request = self.agent.get(url);
        if proxy != self.agent.config().proxy() {
            request = request.config().proxy(proxy.cloned()).build();
        }
        if let Some(s3) = &self.s3 {
            let url: Uri = url.parse().map_err(|_| fails("its endpoint is no URL: is AWS_ENDPOINT_URL right?"))?;
            let host = url.authority().map_or("", |authority| authority.as_str());
            for (name, value) in s3.sign(host, url.path(), &range, chrono::Utc::now()) {
                request = request.header(name, value);
            }
        }
        let called = request.header(header::RANGE, range).call();
        called.map_err(|error| through(self.proxy(url).as_deref(), &error))
    }

    /// Host and port of the proxy that is asked for a URL; nothing of a name and a password.
    fn proxy(&self, url: &str) -> Option<String> {
        self.proxies.find(url).map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
    }
}

/// What is said of a failure where a proxy was asked, which may be its own.
fn beside(proxy: Option<&str>, error: MirrorError) -> MirrorError {
    match proxy {
        Some(proxy) => MirrorError { why: format!("{} (through the proxy {proxy})", error.why), ..error },
        None => error,
    }
}

/// Why no response came, of the server or of the proxy.
fn through(proxy: Option<&str>, error: &ureq::Error) -> MirrorError {
    match (proxy, error) {
        (Some(proxy), ureq::Error::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            may_pass(format!("nobody answers at the proxy {proxy}: connection refused"))
        }
        (Some(proxy), ureq::Error::ConnectProxyFailed(why)) => fails(format!("the proxy {proxy} refuses: {why}")),
        (Some(proxy), ureq::Error::HostNotFound) => fails(format!("the host of the proxy {proxy} is not found")),
        (proxy, error) => beside(proxy, explained(error)),
    }
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Why a status is none to go on with.
fn refused(status: StatusCode, response: &mut Response<Body>, s3: Option<&S3Access>) -> MirrorError {
    let code = s3.and_then(|_| {
        let mut refusal = String::new();
        let read = response.body_mut().as_reader().take(MAX_REFUSAL_BYTES).read_to_string(&mut refusal);
        let code = refusal.split_once("<Code>")?.1.split_once("</Code>")?.0;
        let plain = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        read.ok().filter(|_| plain).map(|_| format!(" ({code})"))
    });
    let code = code.unwrap_or_default();
    let anonymous = s3.is_some_and(|s3| s3.keys.is_none());
    let why = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => "it has no such file",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if anonymous => {
            "it does not give it to who has no key: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "it does not give it to who asks",
        _ if status.is_redirection() && s3.is_some() => "the bucket is elsewhere: is AWS_REGION right?",
        _ => "it does not give it",
    };
    let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    MirrorError { why: format!("{status}{code}: {why}"), passes }
}

/// Why no response came.
fn explained(error: &ureq::Error) -> MirrorError {
    match error {
        ureq::Error::Timeout(_) => fails("it does not answer in time"),
        ureq::Error::HostNotFound => fails("its host is not found"),
        ureq::Error::Other(why) => fails(why.to_string()),
        ureq::Error::Rustls(error) => fails(format!("TLS: {error}")),
        ureq::Error::Tls(why) => fails(format!("TLS: {why}")),
        ureq::Error::Io(error) => io_failed(error),
        ureq::Error::Protocol(error) => fails(format!("it does not speak HTTP: {error}")),
        ureq::Error::LargeResponseHeader(..) => fails("the head of its answer is too long"),
        error => fails(error.to_string()),
    }
}

fn io_failed(error: &std::io::Error) -> MirrorError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|cause| cause as _);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<rustls::Error>() {
            return fails(format!("TLS: {error}"));
        }
        if let Some(ureq::Error::Timeout(_)) = inner.downcast_ref::<ureq::Error>() {
            return fails("it does not answer in time");
        }
        cause = inner.source();
    }
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => fails("it does not answer in time"),
        std::io::ErrorKind::ConnectionRefused => may_pass("nobody answers there: connection refused"),
        std::io::ErrorKind::UnexpectedEof => may_pass("it ended early"),
        _ => may_pass(error.to_string()),
    }
}

impl MirrorFile for HttpFile {
    fn bytes(&mut self) -> Result<u64, MirrorError> {
        let response = self.ask(0, 0)?;
        let headers = response.headers();
        let bytes = header_text(headers, header::CONTENT_RANGE).and_then(content_range::read).map(|(_, bytes)| bytes);
        let bytes = match response.status() {
            StatusCode::PARTIAL_CONTENT => bytes,
            // Of no bytes there is no first one.
            StatusCode::RANGE_NOT_SATISFIABLE => bytes.filter(|bytes| *bytes == 0),
            // It knows no ranges: it gives all of the file, or nothing.
            _ => header_text(headers, header::CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok()),
        };
        self.tag = header_text(headers, header::ETAG).map(str::to_owned);
        bytes.ok_or_else(|| fails("it does not say how large the file is"))
    }

    fn read(
        &mut self,
        range: Range<u64>,
        bytes: u64,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), MirrorError> {
        let mut response = self.ask(range.start, range.end - 1)?;
        let headers = response.headers();
        let said = header_text(headers, header::CONTENT_RANGE).and_then(content_range::read);
        match (response.status(), said) {
            (StatusCode::PARTIAL_CONTENT, Some((Some(part), all))) => {
                if all != bytes {
                    return Err(fails(format!("its file has {all} bytes, and not {bytes}")));
                }
                if part.start != range.start || part.end > range.end {
                    return Err(fails("it sends another part than was asked for"));
                }
            }
            (StatusCode::OK, _) if range == (0..bytes) => {}
            (StatusCode::OK, _) => return Err(fails("it gives the whole file where a part is asked for")),
            (StatusCode::RANGE_NOT_SATISFIABLE, said) => {
                let all = said.map_or(String::new(), |(_, all)| format!(": it has {all} bytes"));
                return Err(fails(format!("its file ends before byte {}{all}", range.start)));
            }
            _ => return Err(fails("it does not say which part it sends")),
        }
        let tag = header_text(headers, header::ETAG);
        if let (Some(before), Some(tag)) = (&self.tag, tag)
            && before != tag
        {
            return Err(fails("its file was changed while it was fetched"));
        }
        let mut left = range.end - range.start;
        // Such a body says where it ends, and may go on with trailers without end.
        let ends_later = headers.contains_key(header::TRANSFER_ENCODING);
        let mut body = response.body_mut().as_reader();
        let mut piece = vec![0; PIECE_BYTES];
        let (mut until, mut came) = (Instant::now() + self.patience, 0);
        // One more read than there are bytes: what is sent beyond is seen, and the connection can be used again.
        loop {
            let read = match before(until, || body.read(&mut piece)) {
                Ok(read) => read,
                Err(_) if Instant::now() >= until => {
                    return Err(fails(format!("it has sent {came} bytes in {} s", self.patience.as_secs())));
                }
                Err(error) => return Err(io_failed(&error)),
            };
            match (read, left) {
                (0, 0) => return Ok(()),
                (0, _) => return Err(may_pass("it ended early")),
                (read, _) if read as u64 > left => return Err(fails("it sends more than was asked for")),
                _ => {}
            }
            left -= read as u64;
            came += read as u64;
            let taking = Instant::now();
            if take(&piece[..read]).is_break() || left == 0 && ends_later {
                return Ok(());
            }
            // The time of who takes it does not count.
            until += taking.elapsed();
            if came >= LEAST_BYTES_PER_S * self.patience.as_secs() {
                (until, came) = (Instant::now() + self.patience, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
