//! Windows of senders over time. Needs `sample_interval` and `sample_windows` in the scenario.

use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::{RunRef, seconds};
use crate::experiment::evaluate::{Failure, lacking};
use crate::results::WindowSample;
use crate::scenario::suggest;

/// A quantity of a sample; none where it is not known.
type Value = fn(&WindowSample) -> Option<f64>;

/// What can be asked of a sample.
const QUANTITIES: [(&str, Value); 3] = [
    ("packets", |sample| Some(sample.window.packets)),
    ("alpha", |sample| sample.window.alpha),
    ("rtt_us", |sample| Some(sample.window.rtt.as_us_f64())),
];

/// Time, in seconds, and value of each sample of a group in [from, until) that has one, of every seed in question.
fn chosen(run: &RunRef, group: &str, quantity: &str, from: f64, until: f64) -> Result<Vec<(f64, f64)>, Failure> {
    let index = run.group(group)?;
    let Some((_, value)) = QUANTITIES.iter().find(|(name, _)| *name == quantity) else {
        let names = QUANTITIES.map(|(name, _)| name.to_owned());
        return Err(suggest::unknown("quantity", quantity, &names).as_str().into());
    };
    let mut found = Vec::new();
    run.each(&mut |result| {
        for sample in result.window_samples.iter().filter(|sample| sample.group == index) {
            let at = sample.at.as_secs_f64();
            if run.is_check() || (from..until).contains(&at) {
                found.extend(value(sample).map(|value| (at, value)));
            }
        }
    })?;
    if found.is_empty() {
        let label = run.label();
        return Err(lacking(format!("run `{label}` has no `{quantity}` of `{group}`: does it sample windows?")));
    }
    Ok(found)
}

/// The values in a window of time.
pub(super) fn register_values(engine: &mut Engine) {
    let values = |run: RunRef, group: ImmutableString, quantity: ImmutableString, from: Dynamic, until: Dynamic| {
        let found = chosen(&run, &group, &quantity, seconds(&from)?, seconds(&until)?)?;
        Ok::<Array, Failure>(found.into_iter().map(|(_, value)| Dynamic::from_float(value)).collect())
    };
    engine.register_fn("window_values", values);
}

/// Pairs of seconds and value.
pub(super) fn register_series(engine: &mut Engine) {
    let series = |run: RunRef, group: ImmutableString, quantity: ImmutableString| {
        let found = chosen(&run, &group, &quantity, 0.0, f64::INFINITY)?;
        let pair = |(at, value): (f64, f64)| Dynamic::from_array([at, value].map(Dynamic::from_float).to_vec());
        Ok::<Array, Failure>(found.into_iter().map(pair).collect())
    };
    engine.register_fn("window_series", series);
}
