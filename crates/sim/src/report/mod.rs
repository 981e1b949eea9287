//! The report of a run, or of a comparison of runs: one HTML page that opens from disk without a network, the same
//! table as plain text for a terminal, and as JSON for programs.

use serde::Serialize;

use crate::experiment::{FigureOutcome, Size};
use crate::results::RunResult;
use crate::results::comparison::{ComparisonRow, Variant, compare};

mod escape;
mod exchange;
mod figure;
mod figures;
mod measures;
mod page;
mod reproduction;
mod series;
mod table;

pub use table::{TextTable, text_table};

/// The HTML report of one run of a resolved scenario, which it quotes.
pub fn render(result: &RunResult, scenario_toml: &str) -> String {
    page::page(&result.scenario, &[Variant { label: "", result }], scenario_toml)
}

/// The HTML report of several variants side by side; `title` names what they have in common, and the resolved scenario is
/// that of the first.
pub fn render_comparison(title: &str, variants: &[Variant<'_>], scenario_toml: &str) -> String {
    page::page(title, variants, scenario_toml)
}

/// The HTML report of figures that were reproduced: each drawn as the paper draws it, under it the claims.
pub fn render_reproduction(figures: &[FigureOutcome], size: Size) -> String {
    reproduction::page(figures, size)
}

/// The comparison's table as JSON: one object per traffic group and variant, with all statistics.
pub fn comparison_json(title: &str, variants: &[Variant<'_>]) -> String {
    comparison_json_in(title, variants, &[])
}

/// The same, with the names of the variants' output folders.
pub(crate) fn comparison_json_in(title: &str, variants: &[Variant<'_>], folders: &[String]) -> String {
    #[derive(Serialize)]
    struct Comparison<'a> {
        title: &'a str,
        variants: Vec<&'a str>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        folders: &'a [String],
        rows: Vec<ComparisonRow>,
    }
    let labels = variants.iter().map(|variant| variant.label).collect();
    let comparison = Comparison { title, variants: labels, folders, rows: compare(variants) };
    let mut text = serde_json::to_string_pretty(&comparison).expect("a comparison is plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
