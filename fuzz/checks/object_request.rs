//! What the door of files reads of a request, its path and its range, whatever that is: nothing leads out of the folder, and a
//! range lies within the file.

use std::path::Component;

use pliant_daemon::parsers::{object_in_folder, object_name, object_range};

const MAX_NAME_BYTES: usize = 255;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (path, range) = text.split_once('\n').unwrap_or((text, text));
    if let Some(name) = object_name(path) {
        assert!(!name.is_empty() && !name.contains('/') && !name.starts_with('.') && name.len() <= MAX_NAME_BYTES);
    }
    if let Some((folder, path)) = object_in_folder(path) {
        assert!(!folder.is_empty() && !folder.contains('/') && !folder.starts_with('.'));
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
    }
    for bytes in [0, 1, 1 << 20, u64::MAX] {
        if let Some(part) = object_range(range, bytes) {
            assert!(part.start < part.end && part.end <= bytes);
        }
    }
}
