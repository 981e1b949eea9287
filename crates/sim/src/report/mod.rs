//! The report of a run, or of a comparison of runs: one HTML page that opens from disk without a network, the same
//! table as plain text for a terminal, and as JSON for programs.

use serde::Serialize;

use crate::experiment::{FigureOutcome, Size};
use crate::results::RunResult;
use crate::results::comparison::{ComparisonRow, Variant, compare};
use crate::results::decision::Decision;
use crate::results::repetition::{Change, Repeated};
use shown::Shown;

mod answer;
mod escape;
mod exchange;
mod figure;
mod figures;
mod frontier;
mod measures;
mod network;
mod page;
mod reproduction;
mod roles;
mod series;
mod shown;
mod sweep;
mod table;

pub use answer::answer;
pub use frontier::decision_text;
pub(crate) use page::PLOTLY;
pub use sweep::{Sweep, render_sweep, sweep_json};
pub use table::{TextTable, repeated_text_table, text_table};

/// The HTML report of one run of a resolved scenario, which it quotes.
pub fn render(result: &RunResult, scenario_toml: &str) -> String {
    page::page(&result.scenario, &[Variant { label: "", result }], None, None, scenario_toml)
}

/// The HTML report of several variants side by side; `title` names what they have in common, and the resolved scenario is
/// that of the first. Its table is of all seeds, if there are several; its plots are of `variants`, the first seed's runs.
pub fn render_comparison(
    title: &str,
    variants: &[Variant<'_>],
    repeated: Option<&Repeated>,
    decision: Option<&Decision>,
    scenario_toml: &str,
) -> String {
    page::page(title, variants, repeated, decision, scenario_toml)
}

/// The HTML report of figures that were reproduced: each drawn as the paper draws it, under it the claims.
pub fn render_reproduction(figures: &[FigureOutcome], size: Size) -> String {
    reproduction::page(figures, size)
}

/// The comparison's table as JSON: one object per traffic group and variant, with all statistics, of the first seed; of
/// several seeds also the changes against the first variant, with their intervals.
pub fn comparison_json(
    title: &str,
    variants: &[Variant<'_>],
    repeated: Option<&Repeated>,
    decision: Option<&Decision>,
) -> String {
    comparison_json_in(title, variants, repeated, decision, &[])
}

/// The same, with the names of the variants' output folders.
pub(crate) fn comparison_json_in(
    title: &str,
    variants: &[Variant<'_>],
    repeated: Option<&Repeated>,
    decision: Option<&Decision>,
    folders: &[String],
) -> String {
    #[derive(Serialize)]
    struct Comparison<'a> {
        title: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        variants: Vec<&'a str>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        folders: &'a [String],
        rows: Vec<ComparisonRow>,
        #[serde(skip_serializing_if = "Option::is_none")]
        seeds: Option<&'a [u64]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changes: Option<Vec<ChangeRow<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<serde_json::Value>,
    }
    let labels = variants.iter().map(|variant| variant.label).collect();
    let comparison = Comparison {
        title,
        answer: repeated.and_then(answer),
        variants: labels,
        folders,
        rows: compare(variants),
        seeds: repeated.map(Repeated::seeds),
        changes: repeated.map(changes),
        decision: decision.map(sweep::decision_json),
    };
    let mut text = serde_json::to_string_pretty(&comparison).expect("a comparison is plain data");
    text.push('\n');
    text
}

/// One measure of one group in one variant, against the first variant, over all seeds.
#[derive(Serialize)]
struct ChangeRow<'a> {
    group: &'a str,
    variant: &'a str,
    measure: &'static str,
    /// Mean over the seeds: microseconds, Gbit/s or a ratio, as in the rows.
    mean: f64,
    #[serde(flatten)]
    change: Change,
    /// Whether the interval leaves out zero.
    seen: bool,
}

fn changes(repeated: &Repeated) -> Vec<ChangeRow<'_>> {
    let (rows, shown) = (repeated.rows(), Shown::Repeated(repeated));
    let measures = measures::measures(rows, usize::MAX);
    let of_row = |index: usize| {
        let shown = &shown;
        measures.iter().filter_map(move |measure| {
            let (change, mean) = (shown.change(measure, index)?, shown.value(measure, index)?.value);
            let (group, variant) = (&*rows[index].group.name, &*rows[index].variant);
            Some(ChangeRow { group, variant, measure: measure.title, mean, change, seen: change.is_seen() })
        })
    };
    (0..rows.len()).flat_map(of_row).collect()
}

#[cfg(test)]
mod tests;
