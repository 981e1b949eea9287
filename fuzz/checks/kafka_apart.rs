//! Whatever another daemon says of a response whose records travel apart, nothing of it is a panic, and what is put together
//! is a response.

use pliant_kafka::apart::{Carried, Report};

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(report) = Report::parse(bytes) {
        assert_eq!(report.encode(), bytes);
    }
    // What comes behind the first length is messages that were asked for again.
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (head, again) = rest.split_at(rest.len().min(u16::from_be_bytes(*length) as usize));
    let Ok(mut carried) = Carried::parse(head) else { return };
    let _ = carried.take_again(again);
    let report = carried.report();
    assert_eq!(Report::parse(&report.encode()), Ok(report));
    let mut whole = Vec::new();
    if carried.write(&mut whole).is_ok() {
        assert_eq!(whole[..4], ((whole.len() - 4) as u32).to_be_bytes());
    }
}
