//! Where a redirection may lead.
//!
//! Whoever runs a mirror is trusted with one file, not with what else this host can reach. A redirection leads to other
//! servers of HTTP, but to this host, or to addresses of its link such as those of a cloud's metadata, only from there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::proxies::Proxies;

/// Why a redirection is not followed.
const NO_HTTP: &str = "it redirects to a place that is none of HTTP";
const UNENCRYPTED: &str = "it redirects from HTTPS to a place without";
const SECRET: &str = "it redirects to a URL with a name and a password";
const LOCAL: &str = "it redirects to an address of this host or of its link";
/// Most bytes of a URL that is redirected to.
const MAX_URL_BYTES: usize = 8 << 10;

/// The host of a mirror's URL. Looks up addresses, of that host and port without a question.
#[derive(Clone, Debug)]
pub(super) struct OwnHost {
    /// It and its port, and those of the proxies. At another port its name may not lead here: whoever runs the mirror may also
    /// say which address its name has, and may change that.
    places: Vec<(String, u16)>,
    /// It is an address of this host or of its link: redirections may lead to others.
    is_local: bool,
}

impl OwnHost {
    pub(super) fn of(url: &str, proxies: &Proxies) -> Self {
        let place = url.parse::<Uri>().ok().and_then(|url| place(&url));
        let is_local =
            place.as_ref().is_some_and(|(host, _)| host == "localhost" || literal(host).is_some_and(is_local));
        let proxies = proxies.all().map(|proxy| (proxy.host().to_ascii_lowercase(), proxy.port()));
        Self { places: place.into_iter().chain(proxies).collect(), is_local }
    }

    /// The place of this URL, as if it were elsewhere.
    #[cfg(test)]
    pub(super) fn elsewhere(url: &str) -> Self {
        Self { is_local: false, ..Self::of(url, &Proxies::default()) }
    }

    fn takes(&self, url: &Uri, addresses: &[std::net::SocketAddr]) -> bool {
        let is_own = self.is_local || place(url).is_some_and(|place| self.places.contains(&place));
        is_own || !addresses.iter().any(|address| is_local(address.ip()))
    }
}

/// The host and the port of a URL.
fn place(url: &Uri) -> Option<(String, u16)> {
    let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
    Some((url.host()?.to_ascii_lowercase(), url.port_u16().unwrap_or(usual)))
}

impl Resolver for OwnHost {
    fn resolve(&self, url: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = DefaultResolver::default().resolve(url, config, timeout)?;
        if self.takes(url, &found) { Ok(found) } else { Err(ureq::Error::Other(LOCAL.into())) }
    }
}

/// The address that a host's name in a URL is.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether an address is of this host, or of its link alone.
fn is_local(address: IpAddr) -> bool {
    let of_link = |six: &Ipv6Addr| six.segments()[0] & 0xffc0 == 0xfe80;
    let address = address.to_canonical();
    let is_special = match address {
        // Linux takes all of 0.0.0.0/8 for itself where nothing else is said.
        IpAddr::V4(four) => four.is_loopback() || four.is_link_local() || four.octets()[0] == 0,
        IpAddr::V6(six) => six.is_loopback() || six.is_unspecified() || of_link(&six),
    };
    is_special || is_of_an_interface(address)
}

/// Whether an interface of this host has an address: what is sent there comes from there. Nothing is sent.
fn is_of_an_interface(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

/// The URL to which `location` leads from `from` (RFC 3986, section 5).
pub(super) fn followed(from: &str, location: &str) -> Result<String, &'static str> {
    let (from, location) = (from.parse::<Uri>().map_err(|_| NO_HTTP)?, location.trim());
    let location = location.split('#').next().unwrap_or_default();
    let (scheme, authority) = (from.scheme_str().unwrap_or_default(), from.authority().map_or("", |all| all.as_str()));
    let begins_with_scheme = location.split_once(':').is_some_and(|(before, _)| !before.contains(['/', '?']));
    let url = if begins_with_scheme {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", from.path())
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let to: Uri = url.parse().map_err(|_| NO_HTTP)?;
    let (Some("http" | "https"), Some(authority), true) = (to.scheme_str(), to.authority(), url.len() <= MAX_URL_BYTES)
    else {
        return Err(NO_HTTP);
    };
    // Each one is held to this, not only the first: who is led to TLS is not led away from it.
    if scheme == "https" && to.scheme_str() != Some(scheme) {
        return Err(UNENCRYPTED);
    }
    if authority.as_str().contains('@') {
        return Err(SECRET);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 3986, section 5.4.1, with servers of HTTP, and what is none of HTTP.
    #[test]
    fn locations_are_followed() {
        let from = "http://a/b/c/d;p?q";
        for (location, expected) in [
            ("g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g/x", "http://g/x"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("g#s", "http://a/b/c/g"),
            (" https://other:8443/x?y=http://z ", "https://other:8443/x?y=http://z"),
            ("g?to=a:b", "http://a/b/c/g?to=a:b"),
        ] {
            assert_eq!(followed(from, location).as_deref(), Ok(expected), "{location}");
        }
        for (location, why) in [
            ("file:///etc/passwd", NO_HTTP),
            ("ftp://other/x", NO_HTTP),
            ("http:///x", NO_HTTP),
            ("http:x", NO_HTTP),
            ("gopher:x", NO_HTTP),
            ("http://user:secret@other/x", SECRET),
            (&format!("/{}", "x".repeat(MAX_URL_BYTES)), NO_HTTP),
        ] {
            assert_eq!(followed(from, location), Err(why), "{location}");
        }
        assert_eq!(followed("https://a/b", "https://c/d").as_deref(), Ok("https://c/d"));
        assert_eq!(followed("https://a/b", "//c/d").as_deref(), Ok("https://c/d"));
        assert_eq!(followed("https://a/b", "http://a/b"), Err(UNENCRYPTED));
    }

    /// From elsewhere nothing leads to this host or its link, by whatever form of its address; from there it does, and a host
    /// leads to itself and to its proxy.
    #[test]
    fn this_host_is_not_led_to() {
        let at = |addresses: &[&str]| {
            addresses.iter().map(|ip| (ip.parse::<IpAddr>().unwrap(), 80).into()).collect::<Vec<_>>()
        };
        let takes = |own: &OwnHost, url: &str, addresses: &[&str]| own.takes(&url.parse().unwrap(), &at(addresses));
        let far = OwnHost::of("http://Mirror.example/x", &Proxies::default());
        for local in
            ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "::1", "::", "fe80::1", "::ffff:127.0.0.1"]
        {
            assert!(!takes(&far, "http://other/x", &[local]), "{local}");
            assert!(!takes(&far, "http://other/x", &["192.0.2.1", local]), "one of several: {local}");
            assert!(takes(&far, "http://mirror.EXAMPLE:80/y", &[local]), "what the user names: {local}");
            assert!(!takes(&far, "http://mirror.example:6379/y", &[local]), "another port of it: {local}");
        }
        assert!(takes(&far, "http://other/x", &["198.51.100.1", "10.255.255.254", "2001:db8::1"]));
        for near in ["http://127.0.0.1:8000/x", "http://localhost/x", "http://[::1]/x"] {
            assert!(takes(&OwnHost::of(near, &Proxies::default()), "http://other/x", &["127.0.0.1"]), "{near}");
        }
        let proxies = Proxies::of(|name| (name == "all_proxy").then(|| "http://127.0.0.1:3128".to_owned()));
        let behind = OwnHost::of("http://mirror.example/x", &proxies);
        assert!(takes(&behind, "http://127.0.0.1:3128", &["127.0.0.1"]));
        assert!(!takes(&behind, "http://127.0.0.1:3129", &["127.0.0.1"]));
    }

    /// An address that an interface of this host has is of this host, whatever its kind.
    #[test]
    fn addresses_of_interfaces_are_of_this_host() {
        // Nothing is sent: this only chooses the address that this host would send from.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("198.51.100.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(is_local(own), "{own}");
        }
        assert!(!is_local("198.51.100.1".parse().unwrap()));
    }
}
