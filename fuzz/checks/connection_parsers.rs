//! What peers and files say before there is trust: datagrams of the connection layer, openings, answers, announcements,
//! offers, orders and key files are refused without panic, or are exactly what encodes to them.

use pliant_net::connection::{Keys, decode};
use pliant_net::flow::{Answer, Opening};
use pliant_net::transfer::{Announcement, Offered, PushNotice, Request};

pub(crate) fn check(bytes: &[u8]) {
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
    if let Some(offered) = Offered::decode(bytes) {
        assert_eq!(offered.encode(), bytes);
    }
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(request.encode(), bytes);
    }
    if let Some(order) = PushNotice::decode(bytes) {
        assert_eq!(order.encode(), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Keys::parse(text, "key");
    }
}
