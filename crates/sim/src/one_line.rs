//! Text of others in messages of ours.

use std::fmt::{self, Display, Write};

/// Shows a value in one line that no terminal takes for a command, in the order in which it is written: control characters
/// are escaped, as in `\n`, and so are those that turn the direction of text (Unicode annex 9).
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
        for part in text.split_inclusive(is_escaped) {
            let plain = part.trim_end_matches(is_escaped);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

fn is_escaped(character: char) -> bool {
    let turns =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control()
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
            ("a\u{202e}fdp.exe", "a\\u{202e}fdp.exe"),
        ] {
            assert_eq!(OneLine(text).to_string(), shown);
        }
    }
}
