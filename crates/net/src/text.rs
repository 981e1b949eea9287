//! Text within a limit of bytes.

/// The longest start of `text` of at most `bytes` bytes that ends between characters.
pub(crate) fn truncated(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
