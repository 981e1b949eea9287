//! Quantities of samples over time, as REFLEX flows and the windows of senders have them.

use pliant_proto::time::Instant;
use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::{RunRef, seconds};
use crate::experiment::evaluate::{Failure, lacking};
use crate::results::RunResult;
use crate::suggest;

/// The name of a quantity and its value; none where it is not known.
type Quantity<S> = (&'static str, fn(&S) -> Option<f64>);

/// A kind of sample, and what can be asked of it.
pub(super) struct Sampled<S: 'static> {
    /// The samples of a run.
    pub(super) samples: fn(&RunResult) -> &[S],
    /// Traffic group and time of a sample.
    pub(super) key: fn(&S) -> (u16, Instant),
    pub(super) quantities: &'static [Quantity<S>],
    /// What a run without them may lack.
    pub(super) hint: &'static str,
}

impl<S> Sampled<S> {
    /// Time, in seconds, and value of each sample of a group in [from, until) that has one, of every seed in question.
    fn chosen(
        &self,
        run: &RunRef,
        group: &str,
        quantity: &str,
        from: f64,
        until: f64,
    ) -> Result<Vec<(f64, f64)>, Failure> {
        let index = run.group(group)?;
        let Some((_, value)) = self.quantities.iter().find(|(name, _)| *name == quantity) else {
            let names: Vec<String> = self.quantities.iter().map(|(name, _)| (*name).to_owned()).collect();
            return Err(suggest::unknown("quantity", quantity, &names).as_str().into());
        };
        let mut found = Vec::new();
        run.each(&mut |result| {
            for sample in (self.samples)(result) {
                let (group, at) = (self.key)(sample);
                let at = at.as_secs_f64();
                if group == index && (run.is_check() || (from..until).contains(&at)) {
                    found.extend(value(sample).map(|value| (at, value)));
                }
            }
        })?;
        if found.is_empty() {
            let (label, hint) = (run.label(), self.hint);
            return Err(lacking(format!("run `{label}` has no `{quantity}` of `{group}`: {hint}")));
        }
        Ok(found)
    }

    /// The values in a window of time.
    pub(super) fn register_values(&'static self, engine: &mut Engine, name: &str) {
        let values = |run: RunRef, group: ImmutableString, quantity: ImmutableString, from: Dynamic, until: Dynamic| {
            let found = self.chosen(&run, &group, &quantity, seconds(&from)?, seconds(&until)?)?;
            Ok::<Array, Failure>(found.into_iter().map(|(_, value)| Dynamic::from_float(value)).collect())
        };
        engine.register_fn(name, values);
    }

    /// Pairs of seconds and value.
    pub(super) fn register_series(&'static self, engine: &mut Engine, name: &str) {
        let series = |run: RunRef, group: ImmutableString, quantity: ImmutableString| {
            let found = self.chosen(&run, &group, &quantity, 0.0, f64::INFINITY)?;
            let pair = |(at, value): (f64, f64)| Dynamic::from_array([at, value].map(Dynamic::from_float).to_vec());
            Ok::<Array, Failure>(found.into_iter().map(pair).collect())
        };
        engine.register_fn(name, series);
    }
}
