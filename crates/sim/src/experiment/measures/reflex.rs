//! How flows under REFLEX stood over time. Needs `sample_interval` in the scenario.

use pliant_proto::contract::reflex::Phase;

use super::sampled::Sampled;
use crate::results::ReflexSample;

pub(super) const STANDINGS: Sampled<ReflexSample> = Sampled {
    samples: |result| &result.reflex_samples,
    key: |sample| (sample.group, sample.standing.at),
    quantities: &[
        ("rate_gbit_per_s", |sample| Some(sample.rate() * 8e-9)),
        ("fair_gbit_per_s", |sample| sample.standing.fair_rate.map(|rate| rate * 8e-9)),
        ("rate_budget_mb", |sample| Some(sample.standing.rate_budget * 1e-6)),
        ("delivery_budget_mb", |sample| Some(sample.standing.delivery_budget * 1e-6)),
        ("low", |sample| Some(f64::from(u8::from(sample.standing.low)))),
        ("exploits", |sample| Some(f64::from(u8::from(sample.standing.phase == Phase::Exploit)))),
    ],
    hint: "is it REFLEX, with a sample_interval?",
};
