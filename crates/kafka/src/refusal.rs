//! What a door does not serve, and the limits of what it does.

use thiserror::Error;

use crate::walk::Malformed;

/// Longest frame, in bytes. Text that is not Kafka's reads as a longer one.
pub const MAX_FRAME: usize = 1 << 30;
/// Longest response that is kept in memory to be changed, in bytes: twice what brokers put into a fetch's response.
pub const MAX_REWRITTEN: usize = 128 << 20;
/// Most requests that wait for their responses.
pub const MAX_PENDING: usize = 1 << 18;

/// Why a connection is not served on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The client speaks TLS.
    #[error("the client speaks TLS, which a Kafka door does not end; use a listener without TLS")]
    Tls,
    /// The broker speaks TLS.
    #[error("the broker speaks TLS, which a Kafka door does not begin; lead it to a listener without TLS")]
    BrokerTls,
    /// The client asks for Kerberos.
    #[error(
        "the client asks for SASL with GSSAPI (Kerberos), which binds the broker's name; the broker was made to refuse it: use \
         PLAIN, SCRAM or OAUTHBEARER"
    )]
    Kerberos,
    /// The client begins SASL in version 0.
    #[error(
        "the client begins SASL in version 0, whose tokens travel without headers; the broker was made to refuse it: use a \
         client of Kafka 1.0 or newer"
    )]
    SaslTokens,
    /// A frame is longer than any of Kafka's, or than what may be kept.
    #[error("a frame of {bytes} bytes is too long (at most {most}); is this Kafka's protocol?")]
    Oversized {
        /// Its length.
        bytes: usize,
        /// What is allowed.
        most: usize,
    },
    /// A frame's length is negative or shorter than its header.
    #[error("a frame's length of {0} bytes is impossible")]
    Length(i32),
    /// The connection ends within a frame, or a message within a field.
    #[error("a message is cut short")]
    Truncated,
    /// A message's fields do not fit its layout.
    #[error("a message cannot be read as its version says")]
    Malformed,
    /// A request that is not known.
    #[error("requests with the key {0} are not known here")]
    UnknownKey(i16),
    /// A request of a version that is not known.
    #[error("{api} requests of version {version} are not known here")]
    UnknownVersion {
        /// Which request.
        api: &'static str,
        /// Of which version.
        version: i16,
    },
    /// Too many requests wait for their responses.
    #[error("more than {MAX_PENDING} requests wait for their responses")]
    TooManyRequests,
    /// A response that belongs to no request.
    #[error("the broker answers request {got}, while {} is due", expected.map_or("none".to_owned(), |due| due.to_string()))]
    Uncorrelated {
        /// The number that came.
        got: i32,
        /// The number that was to come, if any was.
        expected: Option<i32>,
    },
    /// A broker follows another one by a path on which records may be left out.
    #[error("broker {0} fetches as a replica, and a replica has to have every record")]
    Replica(i32),
    /// A door says that more was lost than may be.
    #[error("the door reports more lost records than the bound allows")]
    Bound,
    /// A broker that clients cannot be led to.
    #[error("{0}")]
    Broker(String),
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Truncated => Self::Truncated,
            Malformed::Length | Malformed::Text => Self::Malformed,
        }
    }
}
