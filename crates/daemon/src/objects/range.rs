//! Requested ranges of bytes (RFC 9110, section 14).

use std::ops::Range;

/// The requested part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// All of it, also for several ranges, or a range in a form that need not be understood.
    All,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// A range outside of the file.
    NotThere,
}

/// Reads a `Range` header for a file of this many bytes.
pub(crate) fn asked(header: &str, bytes: u64) -> Asked {
    let Some(range) = header.trim().strip_prefix("bytes=").map(str::trim) else { return Asked::All };
    let Some((first, last)) = range.split_once('-').filter(|_| !range.contains(',')) else { return Asked::All };
    // A plus sign is no digit here.
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>());
    match (first, last) {
        ("", "") => Asked::All,
        ("", last) => match number(last) {
            Some(Ok(0)) => Asked::NotThere,
            Some(_) if bytes == 0 => Asked::NotThere,
            Some(last) => Asked::Part(bytes.saturating_sub(last.unwrap_or(u64::MAX))..bytes),
            None => Asked::All,
        },
        (first, last) => {
            let (Some(first), Some(last)) = (number(first), number(last)) else { return Asked::All };
            let first = first.unwrap_or(u64::MAX);
            let last = if range.ends_with('-') { u64::MAX } else { last.unwrap_or(u64::MAX) };
            match first {
                _ if last < first => Asked::All,
                first if first >= bytes => Asked::NotThere,
                first => Asked::Part(first..last.saturating_add(1).min(bytes)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The examples of RFC 9110, section 14.1.2, of a file of 10,000 bytes, and what is no range.
    #[test]
    fn ranges_are_read_as_the_standard_says() {
        for (header, expected) in [
            ("bytes=0-499", Asked::Part(0..500)),
            ("bytes=500-999", Asked::Part(500..1000)),
            ("bytes=-500", Asked::Part(9500..10_000)),
            ("bytes=9500-", Asked::Part(9500..10_000)),
            ("bytes=0-0", Asked::Part(0..1)),
            ("bytes=0-18446744073709551615", Asked::Part(0..10_000)),
            ("bytes=-20000", Asked::Part(0..10_000)),
            ("bytes=-99999999999999999999", Asked::Part(0..10_000)),
            ("bytes=10000-", Asked::NotThere),
            ("bytes=99999999999999999999-", Asked::NotThere),
            ("bytes=-0", Asked::NotThere),
            ("bytes=0-0,-1", Asked::All),
            ("bytes=5-4", Asked::All),
            ("bytes=-", Asked::All),
            ("bytes=+1-2", Asked::All),
            ("bytes=a-b", Asked::All),
            ("lines=1-2", Asked::All),
            ("", Asked::All),
        ] {
            assert_eq!(asked(header, 10_000), expected, "{header}");
        }
        assert_eq!((asked("bytes=0-", 0), asked("bytes=-1", 0)), (Asked::NotThere, Asked::NotThere));
    }

    proptest! {
        /// Whatever is said, a part lies within the file and has a byte.
        #[test]
        fn parts_lie_within_the_file(header in "(bytes=)?[-0-9, ]{0,24}", bytes in any::<u64>()) {
            if let Asked::Part(range) = asked(&header, bytes) {
                prop_assert!(range.start < range.end && range.end <= bytes);
            }
        }

        /// A range that is said plainly is the one that is meant.
        #[test]
        fn plain_ranges_are_what_they_say(first in 0u64..1000, length in 1u64..1000, bytes in 2000u64..9999) {
            let header = format!("bytes={first}-{}", first + length - 1);
            prop_assert_eq!(asked(&header, bytes), Asked::Part(first..first + length));
        }
    }
}
