//! What many runs take, by the estimates of a few.

use pliant_sim::scenario::Estimate;

/// At most `most` of all runs, evenly spread; the others are taken to be like these.
pub(crate) fn sample<T>(runs: &[T], most: usize) -> impl Iterator<Item = &T> {
    runs.iter().step_by(runs.len().div_ceil(most).max(1))
}

/// Seconds of processor time of so many runs, by the estimates of some.
pub(crate) fn cpu_s_of_all(estimates: &[Estimate], runs: usize) -> f64 {
    let sampled: f64 = estimates.iter().map(Estimate::cpu_s).sum();
    sampled / estimates.len().max(1) as f64 * runs as f64
}
