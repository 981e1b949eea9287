//! The table of groups and variants as plain text.

use super::measures::{Measure, measures};
use crate::results::comparison::{Variant, compare};

/// The table of every traffic group in every variant, aligned for a terminal. One run is one variant; its label is
/// not shown.
pub fn text_table(variants: &[Variant<'_>]) -> String {
    let columns: Vec<&Measure> = measures(variants.len()).collect();
    let compared = variants.len() > 1;
    let second = if compared { "variant" } else { "transport" };
    let line = |labels: [&str; 2], cells: fn(&Measure) -> &'static str| {
        let cells = columns.iter().map(|measure| cells(measure));
        labels.into_iter().chain(cells).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut lines = vec![line(["group", second], |measure| measure.title), line(["", ""], |measure| measure.unit)];
    let mut group_before = String::new();
    for row in compare(variants) {
        // A group's name is told once.
        let name = if row.group.name == group_before { String::new() } else { row.group.name.clone() };
        let variant = if compared { row.variant.clone() } else { row.group.transport.clone() };
        let labels = [printable(&name), printable(&variant)];
        lines.push(labels.into_iter().chain(columns.iter().map(|measure| measure.print(&row))).collect());
        group_before = row.group.name;
    }
    let mut text = aligned(&lines);
    if text.contains('≥') {
        text.push_str("≥: flows still under way at the end make it a lower bound\n");
    }
    text
}

/// `text` without control characters, which could rewrite a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Joins cells to lines, the first two columns flush left, the others flush right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for cells in lines {
        let mut line = String::new();
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            line.push_str(if column == 0 { "" } else { "  " });
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if column < 2 { ("", padding.as_str()) } else { (padding.as_str(), "") };
            line.extend([before, cell, after]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn columns_align_whatever_they_hold() {
        let result = samples::run();
        let variants =
            [Variant { label: "all dctcp", result: &result }, Variant { label: "µ\u{1b}[2J", result: &result }];
        let text = text_table(&variants);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 4 + usize::from(text.contains('≥')));
        assert!(lines[0].starts_with("group") && lines[0].contains("share kept"));
        assert!(lines[2].starts_with("search") && lines[3].starts_with("  "), "a group's name is told once");
        assert!(!text.contains('\u{1b}'), "no escape sequence reaches the terminal");
        let ends: Vec<_> = [0, 2, 3, 4, 5].map(|line: usize| lines[line].chars().count()).to_vec();
        assert!(ends.iter().all(|&end| end == ends[0]), "{text}");
    }

    #[test]
    fn one_run_shows_transports_and_no_share_kept() {
        let text = text_table(&[Variant { label: "x", result: &samples::run() }]);
        assert!(text.contains("transport") && text.contains("reflex") && !text.contains("share kept"), "{text}");
    }
}
