//! What a daemon says on standard error of what others have sent.

use std::io::Write;

/// Says something of a part of the daemon. What is said may be lost, for example if a disk is full: `eprintln!` would panic.
pub(crate) fn say(part: &str, what: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n", line(part, what)).as_bytes());
}

/// One line, in which no terminal finds a command: names of brokers, topics and files are others' text.
fn line(part: &str, what: &str) -> String {
    // Quotes are no command, and stand in many sentences.
    let plain = |c: char| matches!(c, '\'' | '"');
    let shown: String =
        what.chars().map(|c| if plain(c) { c.to_string() } else { c.escape_debug().to_string() }).collect();
    format!("{part}: {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_one_line() {
        for (what, shown) in [
            ("größer als `a`", "größer als `a`"),
            ("a frame's \"length\"", "a frame's \"length\""),
            (
                "broker 1 advertises `\u{1b}[2J\nkafka exit: all is well`",
                "broker 1 advertises `\\u{1b}[2J\\nkafka exit: all is well`",
            ),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(line("kafka door", what), format!("kafka door: {shown}"));
        }
    }
}
