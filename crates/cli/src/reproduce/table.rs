//! Verdicts on a terminal, and for programs.

use std::fmt::Write;

use pliant_sim::experiment::{ClaimOutcome, Class, FigureOutcome, Quantity, Verdict};
use serde::Serialize;

/// Characters in a line of text.
const WIDTH: usize = 120;
/// Most characters of the columns verdict, paper and ours.
const WIDEST: [usize; 3] = [26, 30, 40];

/// A claim for programs.
#[derive(Serialize)]
struct Row<'a> {
    paper: &'a str,
    figure: &'a str,
    claim: &'a str,
    paper_value: &'a Quantity,
    ours: &'a Quantity,
    verdict: Verdict,
    scaled: Option<&'a str>,
    why: Option<&'a str>,
    class: Option<Class>,
}

/// One object per claim.
pub(super) fn json(outcomes: &[FigureOutcome]) -> String {
    let rows = outcomes.iter().flat_map(|figure| figure.claims.iter().map(move |claim| (figure, claim)));
    let row = |(figure, claim): (&FigureOutcome, &ClaimOutcome)| {
        serde_json::to_value(Row {
            paper: &figure.paper,
            figure: &figure.figure,
            claim: &claim.claim,
            paper_value: &claim.paper,
            ours: &claim.ours,
            verdict: claim.verdict,
            scaled: claim.scaled.as_deref(),
            why: claim.why.as_deref(),
            class: claim.class,
        })
        .expect("a row is plain data")
    };
    let mut text = serde_json::to_string_pretty(&rows.map(row).collect::<Vec<_>>()).expect("rows are plain data");
    text.push('\n');
    text
}

/// A block per figure, a line or a few per claim.
pub(super) fn text(outcomes: &[FigureOutcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        writeln!(text, "{} {}: {}", outcome.paper, outcome.figure, outcome.title).expect(TAKES_ALL);
        let cells = |claim: &ClaimOutcome| [claim.remark(), claim.paper.print(&claim.unit), claim.print_ours()];
        let rows: Vec<[String; 3]> = outcome.claims.iter().map(cells).collect();
        let heads = ["verdict", "paper", "ours"];
        let width = |column: usize| {
            let widest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            widest.clamp(heads[column].len(), WIDEST[column])
        };
        let widths = [width(0), width(1), width(2)];
        row(&mut text, heads, widths, "claim");
        for (claim, cells) in outcome.claims.iter().zip(&rows) {
            row(&mut text, cells.each_ref().map(String::as_str), widths, &claim.claim);
            if let Some(why) = &claim.why {
                row(&mut text, [""; 3], widths, &format!("why: {why}"));
            }
            if let Some(mechanism) = &claim.mechanism {
                let mark = if mechanism.agrees { "within" } else { "outside" };
                let without = format!("without {} ({})", mechanism.name, mechanism.off);
                row(&mut text, [mark, "", &mechanism.ours.print(&claim.unit)], widths, &without);
            }
            if let Some(none) = claim.no_mechanism {
                row(&mut text, [""; 3], widths, &format!("no mechanism to switch off: {}", none.title()));
            }
            for line in &claim.sensitivity {
                let setting = format!("{} = {}", line.axis, line.value);
                let mark = if line.agrees { "within" } else { "outside" };
                row(&mut text, [mark, "", &line.ours.print(&claim.unit)], widths, &setting);
            }
        }
        if let Some(scaled) = &outcome.scaled {
            wrap(&mut text, "  ", "    ", &format!("scaled: {scaled}"));
        }
        text.push('\n');
    }
    let all = outcomes.iter().flat_map(|figure| &figure.claims);
    let count = |verdict| all.clone().filter(|claim| claim.verdict == verdict && !claim.is_check()).count();
    let counts = [Verdict::Agrees, Verdict::Scaled, Verdict::Differs];
    let counts = counts.map(|verdict| format!("{} {}", count(verdict), verdict.name())).join(", ");
    let figures = if outcomes.len() == 1 { "figure" } else { "figures" };
    let checks = match all.clone().filter(|claim| claim.is_check()).count() {
        0 => String::new(),
        checks => format!("; checks without a paper's value: {checks}"),
    };
    writeln!(text, "{} {figures}, claims: {counts}{checks}", outcomes.len()).expect(TAKES_ALL);
    text
}

/// One row: three narrow columns, and a last one over as many lines as it needs.
fn row(text: &mut String, cells: [&str; 3], widths: [usize; 3], last: &str) {
    let mut start = String::from("  ");
    for (cell, width) in cells.into_iter().zip(widths) {
        write!(start, "{cell:width$}  ").expect(TAKES_ALL);
    }
    let indent = " ".repeat(2 + widths.iter().map(|width| width + 2).sum::<usize>());
    wrap(text, &start, &indent, last);
}

const TAKES_ALL: &str = "a string takes all";

/// Adds `content` in lines, the first of which begins with `start`, the others with `indent`.
fn wrap(text: &mut String, start: &str, indent: &str, content: &str) {
    let mut line = start.to_owned();
    let mut is_fresh = true;
    for word in content.split_whitespace() {
        if !is_fresh && line.chars().count() + word.chars().count() > WIDTH {
            writeln!(text, "{}", line.trim_end()).expect(TAKES_ALL);
            indent.clone_into(&mut line);
        }
        line.push_str(word);
        line.push(' ');
        is_fresh = false;
    }
    writeln!(text, "{}", line.trim_end()).expect(TAKES_ALL);
}
