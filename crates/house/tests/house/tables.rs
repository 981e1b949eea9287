//! Tables of pages are tables to whoever renders them.

use super::{files_in, none, text};

/// Cells of a row, whose code may hold bars. `None`: this is no row.
fn cells(line: &str) -> Option<usize> {
    let inner = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    let outside_code: String = inner.split('`').step_by(2).collect();
    Some(outside_code.replace("\\|", "").matches('|').count() + 1)
}

fn is_delimiter(line: &str) -> bool {
    let inner = line.strip_prefix('|').and_then(|rest| rest.trim_end().strip_suffix('|'));
    inner.is_some_and(|inner| {
        inner.split('|').all(|cell| cell.contains('-') && cell.trim().chars().all(|letter| "-:".contains(letter)))
    })
}

/// Without a head of as many cells GitHub prints the bars. Cells beyond the head's are dropped there.
#[test]
fn rows_have_the_cells_of_their_head() {
    let mut findings = Vec::new();
    for file in files_in("", ".md") {
        let page = text(file);
        let (mut in_block, mut head, mut before) = (false, None, "");
        for (number, line) in page.lines().enumerate() {
            in_block ^= line.starts_with("```");
            if in_block {
                continue;
            }
            let of_line = cells(line);
            if is_delimiter(line) {
                head = of_line;
            }
            let other = if is_delimiter(line) { cells(before) != of_line } else { head.is_some() && head != of_line };
            match of_line {
                None => head = None,
                Some(_) if other => {
                    findings.push(format!("{}:{}: not the cells of its head", file.display(), number + 1));
                }
                Some(_) => {}
            }
            before = line;
        }
    }
    none(&findings);
}
