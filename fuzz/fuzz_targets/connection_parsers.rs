//! What peers and files say before there is trust: datagrams of the connection layer, openings, answers, announcements and
//! key files are refused without panic, or are exactly what encodes to them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pliant_net::connection::{Keys, decode};
use pliant_net::flow::{Answer, Opening};
use pliant_net::transfer::Announcement;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    if let Some(opening) = Opening::decode(bytes) {
        // Families that are not known are left out, so only what is left is the same.
        assert_eq!(Opening::decode(&opening.encode()), Some(opening));
    }
    if let Some(answer) = Answer::decode(bytes) {
        assert_eq!(answer.encode(), bytes);
    }
    if let Ok(announcement) = Announcement::decode(bytes) {
        assert_eq!(announcement.encode(), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Keys::parse(text, "key");
    }
});
