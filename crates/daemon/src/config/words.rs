//! What a reader of TOML says, in the words of a person who writes a file.

/// What was expected, by the names of types.
const EXPECTED: &[(&str, &str)] = &[
    ("a nonzero usize", "a whole number from 1"),
    ("usize", "a whole number from 0"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "text in quotes"),
    ("path string", "a path in quotes"),
    ("socket address", ADDRESS),
    ("a sequence", "a list in brackets"),
    ("a map", "a table"),
];
/// What takes one is a table.
const STRUCT: &str = "struct ";
const ADDRESS: &str = "an address and a port in quotes, such as \"127.0.0.1:7411\"";

/// A message on one line, without names of types.
pub(super) fn in_words(message: &str) -> String {
    let message = message.trim_end().replace('\n', " ");
    if message == "invalid socket address syntax" {
        return format!("expected {ADDRESS}; names of hosts are not taken here");
    }
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message };
    let of_struct = expected.strip_prefix(STRUCT).map(|_| "a table");
    let known = EXPECTED.iter().find(|(name, _)| *name == expected).map(|(_, words)| *words);
    of_struct.or(known).map_or_else(|| message.clone(), |words| format!("{before}expected {words}"))
}
