//! Text of others in messages of ours.

use std::fmt::{self, Display, Write};

/// Shows a value in one line that no terminal takes for a command: control characters are escaped, as in `\n`.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'b>(&'f mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        for (text, shown) in [
            ("", ""),
            ("größer als `a\\b`", "größer als `a\\b`"),
            ("a\nb\r\n", "a\\nb\\r\\n"),
            ("\u{1b}[2Jgone\u{7f}", "\\u{1b}[2Jgone\\u{7f}"),
            ("\u{85}", "\\u{85}"),
        ] {
            assert_eq!(OneLine(text).to_string(), shown);
        }
    }
}
