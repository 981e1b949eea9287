//! Connections: handshakes, keys, addresses and their ends.
//!
//! ```text
//! initiator                                      responder
//!   Hello  ------------------------------------>   keeps nothing
//!          <------------------------------------  Cookie, for this hello
//!   Hello with it, Noise message 1  ----------->   the address is proven, and the key
//!          <------------------------------------  Welcome, Noise message 2
//!   Ping, sealed  ----------------------------->   now the connection counts
//! ```
//!
//! [`Endpoint`] is a machine like the transports: datagrams and time go in; datagrams, events and deadlines come out.
//! It has no socket and no clock, and its random numbers follow from a given seed.
//!
//! The cookie is part of the Noise handshake, and so is the time of message 1. So a recorded hello is valid only for
//! the address and the run of the endpoint that its cookie belongs to, for ten seconds, and only until a later one of
//! the same caller was accepted. In limits, an address is an IPv4 address or a /64 of IPv6.
//!
//! What attackers can cause, with the tests in `tests.rs` that show it:
//!
//! | attacker | cost to the endpoint | test |
//! |---|---|---|
//! | sends from forged addresses | an answer shorter than what they sent | `answers_do_not_amplify`, `half_open_handshakes_cost_nothing` |
//! | can receive at their address, has no key | one failed decryption per hello: at most [`Config::forged_per_second`] for an address, [`Config::handshakes_per_second`] for all strangers; memory for at most a thousand addresses | `garbage_is_charged_to_its_source`, `nobody_pays_for_another` |
//! | has many addresses, no key | the same. Strangers may have to wait; peers that have proven themselves do not | `garbage_is_charged_to_its_source` |
//! | records a genuine hello, sends it from elsewhere, later, or to another receiver | a failed decryption | `recorded_hellos_are_worth_nothing` |
//! | repeats a genuine hello within ten seconds, from its address | a decryption and a cookie | `a_hello_is_taken_once` |
//! | withholds a genuine hello and sends it from its address, within ten seconds and before a later one | one of [`Config::max_unconfirmed`] places for [`Config::idle_timeout`] | `unconfirmed_connections_are_bounded` |
//! | answers a hello that they have not seen | a count | `cookies_answer_one_hello`, `hints_do_not_stop_a_handshake` |
//! | has a key, does not complete handshakes | [`Config::max_unconfirmed_per_address`] places, half of all from many addresses | `an_address_has_its_share_of_places`, `strangers_do_not_keep_out_who_is_known` |
//! | has a key, completes them | [`Config::max_per_peer`] of [`Config::max_connections`] slots | `connections_per_peer_are_bounded` |
//! | has a key of its own, completes them from many addresses | the same | `many_addresses_give_a_key_no_more_connections` |
//! | changes, repeats, reflects or forges sealed datagrams | a count | `nothing_but_what_was_sent_arrives` |
//! | sends copies of a peer's datagrams from elsewhere, ahead of them | a question, five times a second | `copies_from_elsewhere_move_nothing` |
//! | sends datagrams of unknown connections | 100 resets a second, each shorter than what it answers. Meanwhile restarts may go unnoticed until the idle timeout | `resets_are_limited` |
//! | sees a datagram and shows it to another host with the same key | a reset that is not believed | `another_host_cannot_reset` |
//! | sees a hello on its way and answers first | a delay of that one call | |
//!
//! Without keys ([`Keys::Plain`]), everybody who can receive at an address has "a key", and everybody who sees
//! datagrams can forge them.
//!
//! A peer's address may change, by a NAT or on another network (RFC 9000 section 9). Its newest sealed datagram from
//! the new address is answered by a question. Everything else follows once the peer has answered it from there. Unlike
//! in QUIC, the called side may move too: it is the peer with whom the keys were agreed, and a file's receiver is as
//! mobile as its sender. It is heard only if no firewall or NAT at the caller blocks its new address, which is why RFC
//! 9000 does not let it move. Plain connections do not move. An attacker who sees a peer's datagrams and its answer,
//! and forwards both faster than they travel, is believed until the peer is heard again, as in RFC 9000 section 9.3.3.
//! Such an attacker could also withhold what it sees.
//!
//! A peer that has forgotten a connection because of a restart proves it with a token that only holders of its key on
//! its host can make (as in RFC 9000 section 10.3; [`Config::host`]). Refusals before that are hints, believed only
//! while nobody else answers. A peer without room is called again, at growing intervals, for [`Config::busy_timeout`].

mod config;
mod cookie;
mod datagram;
mod endpoint;
mod event;
mod handshake;
mod id;
mod initiations;
mod keys;
mod noise;
mod peers;
mod random;
mod rate_limiter;
mod refused;
mod replay;
mod seal;
mod sources;
mod state;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use datagram::{
    Datagram, MAX_NOTICE_BYTES, MAX_OPENING_BYTES, RefusalCode, SEALED_HEADER_BYTES, Security, TAG_BYTES, VERSION,
    decode,
};
pub use endpoint::{Accept, Arrival, Endpoint};
pub use event::{Caller, Closed, ConnectError, Event, KeyChangeError};
pub use id::ConnectionId;
pub use keys::{KeyError, KeyUpdates, Keys};
pub use noise::KEY_BYTES;
pub(crate) use peers::require_right;
pub use peers::{Peer, Rights, check_name};
pub(crate) use random::Random;
pub use refused::Refused;
pub use seal::PACKETS_PER_KEY;
pub(crate) use sources::source_of;
