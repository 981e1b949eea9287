//! Which proxy is asked for a mirror.

use ureq::Proxy;
use ureq::http::Uri;
use ureq::http::uri::Scheme;

/// The proxies of the environment.
#[derive(Clone, Default, Debug)]
pub(super) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
}

impl Proxies {
    /// Those of the variables that curl and others read.
    pub(super) fn from_environment() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// Those of these variables. Names in small letters come first, and those of a scheme. An empty one stands for no proxy.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| variable(name).or_else(|| variable(&name.to_uppercase()));
        let spared = either("no_proxy").unwrap_or_default();
        let proxy = |name| {
            let url = either(name).or_else(|| either("all_proxy"))?;
            let named = Proxy::new(url.trim()).ok()?;
            let mut proxy = Proxy::builder(named.protocol()).host(named.host()).port(named.port());
            if let Some(user) = named.username() {
                proxy = proxy.username(user);
            }
            if let Some(password) = named.password() {
                proxy = proxy.password(password);
            }
            for hosts in spared.split(',').map(str::trim).filter(|hosts| !hosts.is_empty()) {
                proxy = proxy.no_proxy(hosts);
            }
            proxy.build().ok()
        };
        Self { http: proxy("http_proxy"), https: proxy("https_proxy") }
    }

    /// The proxy for a URL, if one is asked for it.
    pub(super) fn find(&self, url: &str) -> Option<&Proxy> {
        let url: Uri = url.parse().ok()?;
        let proxy = if url.scheme() == Some(&Scheme::HTTPS) { &self.https } else { &self.http };
        proxy.as_ref().filter(|proxy| !proxy.is_no_proxy(&url))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Proxy> {
        self.http.iter().chain(&self.https)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A URL's scheme chooses the proxy, as in curl; `all_proxy` is for what has none of its own, and `no_proxy` for none.
    #[test]
    fn proxies_are_chosen_by_scheme() {
        let find = |variables: &[(&str, &str)], url: &str| {
            let value =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            Proxies::of(value).find(url).map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
        };
        let (plain, tls) = ("http://mirror.example/x", "https://mirror.example/x");
        let both = [("HTTP_PROXY", "http://a:1"), ("https_proxy", "http://user:secret@b:2"), ("ALL_PROXY", "c:3")];
        assert_eq!(find(&both, plain).as_deref(), Some("a:1"));
        assert_eq!(find(&both, tls).as_deref(), Some("b:2"));
        assert_eq!(find(&both[..1], tls), None);
        assert_eq!(find(&both[1..2], plain), None);
        assert_eq!(find(&both[2..], plain).as_deref(), Some("c:3"));
        assert_eq!(find(&both[2..], tls).as_deref(), Some("c:3"));
        assert_eq!(find(&[("HTTP_PROXY", "a:1"), ("http_proxy", "b:2")], plain).as_deref(), Some("b:2"));
        assert_eq!(find(&[("http_proxy", ""), ("all_proxy", "c:3")], plain), None);
        let spared = |hosts| find(&[("all_proxy", "c:3"), ("NO_PROXY", hosts)], plain);
        assert_eq!(spared("other.example, mirror.example"), None);
        assert_eq!(spared("*"), None);
        assert_eq!(spared(".example"), None);
        assert_eq!(spared("other.example").as_deref(), Some("c:3"));
    }
}
