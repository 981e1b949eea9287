//! Nothing is left to be done later.

use super::{FILES, none, root};

/// In two parts each, since this file is read, too.
const LEFT_OVER: [[&str; 2]; 6] =
    [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["to", "do!"], ["unimplemented", "!"], ["db", "g!"]];

#[test]
fn no_word_is_left_over() {
    let mut findings = Vec::new();
    for file in FILES.iter() {
        // What is no text was not written by people.
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        for word in LEFT_OVER.map(|parts| parts.concat()).iter().filter(|word| text.contains(word.as_str())) {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| has_word(line, word)) {
                findings.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    none(&findings);
}

/// Whether a word stands there by itself: not in `mktemp`'s row of letters.
fn has_word(line: &str, word: &str) -> bool {
    let in_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        !line[..at].ends_with(in_word) && (word.ends_with('!') || !after.starts_with(in_word))
    })
}
