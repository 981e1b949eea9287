//! Windows of senders over time. Needs `sample_interval` and `sample_windows` in the scenario.

use super::sampled::Sampled;
use crate::results::{WINDOW_SERIES, WindowSample};

pub(super) static WINDOWS: Sampled<WindowSample> = Sampled {
    samples: |result| &result.window_samples,
    key: |sample| (sample.group, sample.at),
    table: &WINDOW_SERIES,
    combined: &[],
    hint: "does it sample windows?",
};
