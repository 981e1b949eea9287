//! Command lines as documentation writes them.

/// A text in which each line that ends in a backslash is one with the line below it.
pub(crate) fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start_matches(' '))
}

/// The words of a command, as a shell splits them at spaces outside single quotes.
pub(crate) fn words(command: &str) -> Vec<String> {
    let quoted = command.split('\'').enumerate();
    let words = quoted.flat_map(|(index, text)| match index % 2 {
        0 => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    });
    words.collect()
}
