//! What serde says of a mistake, in a user's words.

use super::group::group_keys;

/// serde's message about a value of the wrong kind, without the names of Rust's types; others as they are.
pub(crate) fn in_words(message: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: "];
    let told = kinds.iter().find_map(|kind| message.strip_prefix(kind)?.split_once(", expected "));
    let Some((found, expected)) = told else { return message.to_owned() };
    if let Some((number, "i128" | "u128")) = found.rsplit_once(" as ") {
        return format!("{number} is too large");
    }
    let found = match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => found.replacen("string", "text", 1).replacen("floating point", "number", 1),
    };
    let expected = match expected {
        "a string" if found.starts_with("integer") || found.starts_with("number") => {
            "text in quotes should be; a quantity has its unit, as in \"5us\""
        }
        "a string" => "text in quotes should be",
        "a boolean" => "true or false should be",
        "a sequence" => "a list should be",
        "f64" => "a number should be",
        "u8" => "a whole number from 0 to 255 should be",
        "u16" => "a whole number from 0 to 65535 should be",
        "u32" | "u64" | "usize" => "a whole number from 0 on, not too large, should be",
        other if other == "a map" || other.contains("struct") || other.contains("enum") => "a table should be",
        other => return format!("{found} where {other} should be"),
    };
    format!("{found} where {expected}")
}

/// Keys that may stand beside an unknown key although serde, which sees only the flattened part, does not know them.
pub(super) fn keys_beside(path: &str) -> Vec<String> {
    let in_group = path.starts_with("traffic.") && path.matches('.').count() == 2;
    if in_group { group_keys().into_iter().map(str::to_owned).collect() } else { Vec::new() }
}
