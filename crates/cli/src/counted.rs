//! Numbers of things.

/// So many things: `1 rule`, `2 rules`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
