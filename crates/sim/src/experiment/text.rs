//! What the documents of records have in common.

use serde::Serialize;

/// What is said of a claim that differs and has no class.
pub(super) const UNEXPLAINED: &str = "differs: not yet explained";

pub(super) const TAKES_ALL: &str = "a string takes all";

/// Records as a file.
pub(super) fn to_json(records: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(records).expect("records are plain data");
    text.push('\n');
    text
}

/// Text that may stand in a table's cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
