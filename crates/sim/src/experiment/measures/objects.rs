//! Objects that came from many sources: when, and how much of them from whom.

use pliant_proto::time::Span;
use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::run_ref::RunRef;
use super::values::{Statistic, exact};
use crate::experiment::context::{Failure, lacking};
use crate::results::objects::ObjectRow;
use crate::results::statistics::Estimate;
use crate::results::{OBJECTS, RunResult};

/// The objects of a run.
#[derive(Clone)]
pub(in crate::experiment) struct Objects {
    run: RunRef,
    group: Option<u16>,
}

impl Objects {
    fn new(run: &RunRef, group: Option<&str>) -> Result<Self, Failure> {
        let group = group.map(|name| run.group(name)).transpose()?;
        Ok(Self { run: run.clone(), group })
    }

    fn each(&self, visit: &mut dyn FnMut(&ObjectRow, &RunResult)) -> Result<(), Failure> {
        self.run.each(&mut |result| {
            for object in result.objects() {
                if self.group.is_none_or(|group| object.group == group) {
                    visit(&object, result);
                }
            }
        })
    }

    fn values(&self, value: impl Fn(&ObjectRow, &RunResult) -> Option<Estimate>) -> Result<Vec<Estimate>, Failure> {
        let mut values = Vec::new();
        self.each(&mut |object, result| values.extend(value(object, result)))?;
        if values.is_empty() {
            return Err(lacking(format!("run `{}` has no such objects", self.run.label())));
        }
        if values.iter().any(|value| value.lower_bound) {
            self.run.context.note_lower_bound();
        }
        Ok(values)
    }
}

/// Registers `name` both as a statistic of the objects' values and, without an argument, as their list.
fn register_values<V>(engine: &mut Engine, name: &'static str, value: V)
where
    V: Fn(&ObjectRow, &RunResult) -> Option<Estimate> + Copy + 'static,
{
    engine.register_fn(name, move |objects: &mut Objects, which: ImmutableString| {
        let statistic = Statistic::parse(&which)?;
        Ok::<f64, Failure>(statistic.of(objects.values(value)?).value)
    });
    engine.register_fn(name, move |objects: &mut Objects| {
        let values = objects.values(value)?;
        Ok::<Array, Failure>(values.into_iter().map(|estimate| Dynamic::from_float(estimate.value)).collect())
    });
}

/// The names of the measures that columns of objects declare.
pub(super) fn column_names() -> Vec<String> {
    OBJECTS.each().map(|(name, _)| name.to_owned()).collect()
}

/// The measures that columns of objects declare: values of each object that has one.
pub(super) fn register_columns(engine: &mut Engine) {
    for (name, quantity) in OBJECTS.each() {
        register_values(engine, name, move |object, _| quantity.of(object).map(exact));
    }
}

pub(super) fn register_choice(engine: &mut Engine) {
    engine.register_fn("objects", |run: RunRef| Objects::new(&run, None));
    engine.register_fn("objects", |run: RunRef, group: ImmutableString| Objects::new(&run, Some(&group)));
}

/// Task completion times in milliseconds; of an object under way the time it has taken.
pub(super) fn register_completion(engine: &mut Engine) {
    register_values(engine, "completion_ms", |object, result| {
        let so_far = || result.end().since(object.start);
        let time = object.completion_time();
        let ms = |span: Span| span.as_secs_f64() * 1e3;
        Some(Estimate { value: ms(time.unwrap_or_else(so_far)), lower_bound: time.is_none() })
    });
}

/// What fraction of its symbols came beyond need.
pub(super) fn register_excess(engine: &mut Engine) {
    register_values(engine, "excess_fraction", |object, _| {
        Some(exact(object.excess_symbols as f64 / object.symbols.max(1) as f64))
    });
}

/// What fraction of its blocks had to be decoded.
pub(super) fn register_decoded(engine: &mut Engine) {
    register_values(engine, "decoded_fraction", |object, _| {
        let blocks = object.decoded_blocks + object.whole_blocks;
        Some(exact(f64::from(object.decoded_blocks) / f64::from(blocks.max(1))))
    });
}

/// Timeouts of all its flows.
pub(super) fn register_timeouts(engine: &mut Engine) {
    register_values(engine, "object_timeouts", |object, _| Some(exact(f64::from(object.timeouts))));
}

/// The part of its object that each flow brought, in [0, 1]: a list over flows.
pub(super) fn register_parts(engine: &mut Engine) {
    engine.register_fn("parts", |objects: &mut Objects| {
        let mut parts = Array::new();
        objects.run.each(&mut |result| {
            let all = result.objects();
            for flow in &result.flows {
                let of = |object: &&ObjectRow| (object.group, Some(object.object)) == (flow.group, flow.object);
                if objects.group.is_none_or(|group| flow.group == group)
                    && let Some(object) = all.iter().find(of)
                {
                    let all = object.delivered_bytes.max(1) as f64;
                    parts.push(Dynamic::from_float(flow.delivered_bytes as f64 / all));
                }
            }
        })?;
        if parts.is_empty() {
            return Err(lacking(format!("run `{}` has no such objects", objects.run.label())));
        }
        Ok::<Array, Failure>(parts)
    });
}
