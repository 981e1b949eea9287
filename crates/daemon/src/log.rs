//! What a daemon says on standard error of what others have sent.

/// Says something of a part of the daemon.
pub(crate) fn say(part: &str, what: &str) {
    eprintln!("{}", line(part, what));
}

/// One line, in which no terminal finds a command: names of brokers, topics and files are others' text.
fn line(part: &str, what: &str) -> String {
    format!("{part}: {}", what.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_one_line() {
        for (what, shown) in [
            ("größer als `a`", "größer als `a`"),
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
