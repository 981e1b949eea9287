//! The command that gives the same numbers again.

/// The words of this command, quoted for a shell, after `change` made of them what it wants.
pub(crate) fn command(change: impl FnOnce(&mut Vec<String>)) -> String {
    let mut words: Vec<String> = std::env::args().collect();
    "pliant".clone_into(&mut words[0]);
    change(&mut words);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
