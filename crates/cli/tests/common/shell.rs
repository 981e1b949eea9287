//! Command lines as documentation writes them.

/// The words of a command, as a shell splits them at spaces outside single quotes.
pub(crate) fn words(command: &str) -> Vec<String> {
    let quoted = command.split('\'').enumerate();
    let words = quoted.flat_map(|(index, text)| match index % 2 {
        0 => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    });
    words.collect()
}
