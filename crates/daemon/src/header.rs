//! What a door says to an exit, and what an exit answers.
//!
//! A stream's header is the service, `HOST:PORT`. For a broker of a Kafka cluster whose records need not all arrive, a line
//! with the rules about topics follows. The first byte that comes back says that the connection to it stands, and how
//! records travel; if it does not stand, the stream is reset with the reason.

use std::io;

use pliant_net::bundle::MessageToken;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::lossy::rules::TopicRules;

/// The connection to the service stands.
const CONNECTED: u8 = 1;
/// It stands, and records of a Kafka broker travel apart from it; the token follows by which messages are called for.
const CONNECTED_APART: u8 = 2;

/// What an exit answers.
pub(crate) fn connected(messages: Option<MessageToken>) -> Vec<u8> {
    messages.map_or_else(|| vec![CONNECTED], |token| [&[CONNECTED_APART][..], &token].concat())
}

/// Reads what an exit answers.
pub(crate) async fn read_connected(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<MessageToken>> {
    match from.read_u8().await? {
        CONNECTED => Ok(None),
        CONNECTED_APART => {
            let mut token = MessageToken::default();
            from.read_exact(&mut token).await?;
            Ok(Some(token))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Most bytes of a host's name (RFC 1035, section 2.3.4).
pub(crate) const MAX_HOST_BYTES: usize = 255;

/// A service: a host, by address or name, and a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Service {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Service {
    /// From `HOST:PORT`, where an IPv6 address stands in brackets.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let plain = !host.is_empty() && host.len() <= MAX_HOST_BYTES && bare.is_some() == host.contains(':');
        let named = host.chars().all(|c| c.is_ascii_graphic() && !"[]/@".contains(c));
        (plain && named).then_some(())?;
        Some(Self { host: host.to_owned(), port: port.parse().ok().filter(|port| *port > 0)? })
    }

    pub(crate) fn text(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// What a stream is opened for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StreamHeader {
    pub(crate) service: Service,
    /// Records of a Kafka broker may be left out by these.
    pub(crate) lossy: Option<TopicRules>,
}

impl StreamHeader {
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let text = str::from_utf8(header).ok()?;
        let Some((service, rules)) = text.split_once('\n') else {
            return Some(Self { service: Service::parse(text)?, lossy: None });
        };
        Some(Self { service: Service::parse(service)?, lossy: Some(TopicRules::parse(rules)?) })
    }

    pub(crate) fn text(&self) -> String {
        let rules = self.lossy.as_ref().map(|rules| format!("\n{}", rules.text()));
        self.service.text() + &rules.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_rules_round_trip() {
        let text =
            "kafka:9092\n[{\"topics\":\"clicks.*\",\"min_delivery\":800000,\"compacted\":false,\"always\":true}]";
        let header = StreamHeader::parse(text.as_bytes()).unwrap();
        assert_eq!(header.text(), text);
        assert_eq!(StreamHeader::parse(b"kafka:9092").unwrap().lossy, None);
        for wrong in [&b"kafka:9092\n"[..], b"kafka:9092\n{}", b"kafka\n[]", b"kafka:9092\n[]\n[]", b"\xff:1"] {
            assert_eq!(StreamHeader::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn services_round_trip_and_nonsense_is_none() {
        for text in ["127.0.0.1:6379", "[2001:db8::7]:80", "db.rack2.example:5432"] {
            assert_eq!(Service::parse(text).unwrap().text(), text);
        }
        for text in ["", "a", "a:", "a:0", "a:65536", ":80", "2001:db8::7:80", "[a]:80", "a b:80", "a\n:80", "[::1:80"]
        {
            assert_eq!(Service::parse(text), None, "{text:?}");
        }
    }
}
