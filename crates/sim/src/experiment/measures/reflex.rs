//! How flows under REFLEX stood over time. Needs `sample_interval` in the scenario.

use pliant_proto::contract::reflex::Phase;

use super::sampled::Sampled;
use crate::results::{REFLEX_SERIES, ReflexSample};

pub(super) static STANDINGS: Sampled<ReflexSample> = Sampled {
    samples: |result| &result.reflex_samples,
    key: |sample| (sample.group, sample.standing.at),
    table: &REFLEX_SERIES,
    combined: &[
        ("rate_gbit_per_s", |sample| sample.rate() * 8e-9),
        ("exploits", |sample| f64::from(u8::from(sample.standing.phase == Phase::Exploit))),
    ],
    hint: "is it REFLEX, with a sample_interval?",
};
