//! Which bytes a response has.

use std::ops::Range;

/// What a `Content-Range` says: the bytes, unless there are none, and those of the whole file.
pub(crate) fn read(text: &str) -> Option<(Option<Range<u64>>, u64)> {
    let (range, bytes) = text.trim().strip_prefix("bytes ")?.trim().split_once('/')?;
    let bytes = number(bytes)?;
    if range == "*" {
        return Some((None, bytes));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last < bytes).then_some((Some(first..last + 1), bytes))
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The examples of RFC 9110, section 14.4, and what is none.
    #[test]
    fn ranges_are_read() {
        assert_eq!(read("bytes 42-1233/1234"), Some((Some(42..1234), 1234)));
        assert_eq!(read("bytes */1234"), Some((None, 1234)));
        for wrong in [
            "",
            "bytes",
            "bytes 42-1233/*",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes +1-2/10",
            "bytes 0-0/99999999999999999999",
            "seconds 0-1/2",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    proptest! {
        /// What is written comes back; nothing makes it panic, and what it says lies within the file.
        #[test]
        fn ranges_come_back(first in any::<u64>(), length in 1u64..1000, more in 0u64..1000, text in "bytes [-*/0-9 ]{0,30}") {
            if let Some(bytes) = first.checked_add(length + more) {
                let said = format!("bytes {first}-{}/{bytes}", first + length - 1);
                prop_assert_eq!(read(&said), Some((Some(first..first + length), bytes)));
            }
            if let Some((Some(range), bytes)) = read(&text) {
                prop_assert!(range.start < range.end && range.end <= bytes);
            }
        }
    }
}
