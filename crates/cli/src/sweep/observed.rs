//! What the finished points of a sweep observed, as its report and a goal look at it.

use pliant_sim::results::decision::Observed;
use serde_json::Value;

use super::plan::Point;
use crate::grid::{self, Choice};

/// Every choice with the statistics of its finished seeds; shares are of the first choice's rate. `title` names the only one.
pub(super) fn observed(choices: &[Choice], points: &[Point], title: &str) -> Vec<Observed> {
    let of_choice = |choice: &Choice| {
        let finished = points.iter().filter(|point| point.choice == *choice && point.is_finished());
        let groups = |point: &Point| {
            let summary = point.summary()?;
            let groups: Vec<Value> = summary["groups"].as_array()?.clone();
            Some((point.seed, groups))
        };
        let label = grid::label(choice);
        let label = label.strip_prefix("variant=").map_or(label.clone(), str::to_owned);
        let name = if label.is_empty() { title.to_owned() } else { label };
        Observed { name, seeds: finished.filter_map(groups).collect() }
    };
    let mut observed: Vec<Observed> = choices.iter().map(of_choice).collect();
    if let Some(first) = observed.first().cloned() {
        for choice in &mut observed {
            choice.add_shares_kept(&first);
        }
    }
    observed
}
