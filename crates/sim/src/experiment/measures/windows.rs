//! Windows of senders over time. Needs `sample_interval` and `sample_windows` in the scenario.

use super::sampled::Sampled;
use crate::results::WindowSample;

pub(super) const WINDOWS: Sampled<WindowSample> = Sampled {
    samples: |result| &result.window_samples,
    key: |sample| (sample.group, sample.at),
    quantities: &[
        ("packets", |sample| Some(sample.window.packets)),
        ("alpha", |sample| sample.window.alpha),
        ("rtt_us", |sample| Some(sample.window.rtt.as_us_f64())),
    ],
    hint: "does it sample windows?",
};
