//! Quantities of samples over time, as REFLEX flows and the windows of senders have them.

use pliant_proto::time::Instant;
use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::run_ref::RunRef;
use super::values::seconds;
use crate::experiment::context::{Failure, lacking};
use crate::results::RunResult;
use crate::results::table::Table;
use crate::suggest;

/// The name of a quantity that is more than one column, and its value.
type Combined<S> = (&'static str, fn(&S) -> f64);

/// How a quantity is taken of a sample; `None` where it is not known.
type Value<S> = Box<dyn Fn(&S) -> Option<f64>>;

/// A kind of sample, and what can be asked of it.
pub(super) struct Sampled<S: 'static> {
    /// The samples of a run.
    pub(super) samples: fn(&RunResult) -> &[S],
    /// Traffic group and time of a sample.
    pub(super) key: fn(&S) -> (u16, Instant),
    /// The table of the samples, whose columns declare quantities.
    pub(super) table: &'static Table<S>,
    pub(super) combined: &'static [Combined<S>],
    /// What a run without them may lack.
    pub(super) hint: &'static str,
}

impl<S> Sampled<S> {
    /// The quantity with this name. The error suggests another name.
    fn quantity(&self, name: &str) -> Result<Value<S>, Failure> {
        if let Some(&(_, value)) = self.combined.iter().find(|(own, _)| *own == name) {
            return Ok(Box::new(move |sample| Some(value(sample))));
        }
        if let Some((_, quantity)) = self.table.each().find(|(own, _)| *own == name) {
            return Ok(Box::new(move |sample| quantity.of(sample)));
        }
        let names = self.combined.iter().map(|(own, _)| *own).chain(self.table.each().map(|(own, _)| own));
        let names: Vec<String> = names.map(str::to_owned).collect();
        Err(suggest::unknown("quantity", name, &names).as_str().into())
    }

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
        let value = self.quantity(quantity)?;
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
