//! Runs of one scenario in several variants, side by side.

use serde::Serialize;

use super::RunResult;
use super::statistics::{GroupStatistics, by_group};

/// One run and what it is called in a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// What was varied: `training = reflex`.
    pub label: &'a str,
    /// The run.
    pub result: &'a RunResult,
}

/// One traffic group in one variant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ComparisonRow {
    /// Label of the variant.
    pub variant: String,
    /// Index of the variant.
    #[serde(skip)]
    pub variant_index: usize,
    /// Rate of the group's flows while they are open, relative to that of the group of this name in the first variant:
    /// what a flexible class keeps when it gives way. `None` where the first variant delivered nothing of it.
    pub share_kept: Option<f64>,
    /// The group's statistics.
    #[serde(flatten)]
    pub group: GroupStatistics,
}

/// Rows of all groups in all `variants`: by group in the order of first appearance, then by variant.
pub fn compare(variants: &[Variant<'_>]) -> Vec<ComparisonRow> {
    let labels: Vec<&str> = variants.iter().map(|variant| variant.label).collect();
    let statistics: Vec<_> = variants.iter().map(|variant| by_group(variant.result)).collect();
    compare_statistics(&labels, &statistics)
}

/// The same of the statistics of each variant and their labels.
pub(super) fn compare_statistics(
    labels: &[impl AsRef<str>],
    statistics: &[Vec<GroupStatistics>],
) -> Vec<ComparisonRow> {
    let mut names: Vec<&str> = Vec::new();
    for group in statistics.iter().flatten() {
        if !names.contains(&group.name.as_str()) {
            names.push(&group.name);
        }
    }
    let mut rows = Vec::new();
    for name in names {
        let of_name = |groups: &[GroupStatistics]| groups.iter().find(|group| group.name == name).cloned();
        let reference =
            statistics.first().and_then(|groups| of_name(groups)).map(|group| group.all.flow_rate_gbit_per_s);
        for (variant_index, (label, groups)) in labels.iter().zip(statistics).enumerate() {
            let Some(group) = of_name(groups) else { continue };
            let share = |rate: f64| group.all.flow_rate_gbit_per_s / rate;
            rows.push(ComparisonRow {
                variant: label.as_ref().to_owned(),
                variant_index,
                share_kept: reference.filter(|&rate| rate > 0.0).map(share),
                group,
            });
        }
    }
    rows
}

/// Names of all groups of all `variants`, in the order of first appearance.
pub fn group_names<'a>(variants: &[Variant<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for group in variants.iter().flat_map(|variant| variant.result.groups.iter()) {
        if !names.contains(&group.name.as_str()) {
            names.push(&group.name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn share_kept_is_relative_to_the_same_group_in_the_first_variant() {
        let first = samples::run();
        let mut second = samples::run();
        for flow in second.flows.iter_mut().filter(|flow| flow.group == 1) {
            flow.delivered_bytes /= 2;
        }
        let variants = [Variant { label: "a", result: &first }, Variant { label: "b", result: &second }];
        let rows = compare(&variants);
        let seen: Vec<_> = rows.iter().map(|row| (row.group.name.as_str(), row.variant.as_str())).collect();
        assert_eq!(seen, [("search", "a"), ("search", "b"), ("training", "a"), ("training", "b")]);
        assert_eq!(rows[0].share_kept, Some(1.0));
        assert_eq!(rows[1].share_kept, Some(1.0));
        assert!((rows[3].share_kept.unwrap() - 0.5).abs() < 1e-3);
    }

    #[test]
    fn a_group_that_the_first_variant_lacks_has_no_reference() {
        let mut first = samples::run();
        first.groups.pop();
        first.flows.retain(|flow| flow.group == 0);
        let variants = [Variant { label: "a", result: &first }, Variant { label: "b", result: &samples::run() }];
        let rows = compare(&variants);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2].share_kept, None);
    }
}
