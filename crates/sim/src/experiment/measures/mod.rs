//! What expressions can measure.
//!
//! A measure of one column is named where the column is declared (`results`). Every other measure is an entry of
//! [`COMBINED`]: its name, and how the engine gets it. Measures of flows, queues and groups look at runs through
//! [`flows::Flows`], [`queues::Queues`] and [`RunRef`], which know the run, the seeds and whether this is a check.
//! `docs/experiments.md` has a line for each measure; a test compares.

mod flows;
mod fluid;
mod lists;
mod objects;
mod queues;
mod reflex;
mod sampled;
mod throughput;
mod windows;

use std::rc::Rc;

use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use rhai::{Dynamic, Engine, ImmutableString, Map};

use super::axes::Scalar;
use super::evaluate::{Context, Failure};
use crate::results::RunResult;
use crate::results::statistics::{self, Estimate};
use crate::suggest;

/// What the names of our types begin with, which errors leave out.
pub(super) const TYPE_PREFIX: &str = "pliant_sim::experiment::measures::";

/// A function of expressions.
struct Measure {
    name: &'static str,
    register: fn(&mut Engine),
}

/// The names of all measures.
pub(super) fn names() -> Vec<String> {
    let combined = COMBINED.iter().map(|measure| measure.name.to_owned());
    let columns = [flows::column_names(), objects::column_names(), throughput::column_names(), queues::column_names()];
    combined.chain(columns.into_iter().flatten()).collect()
}

/// Makes all measures known to the engine.
pub(super) fn register(engine: &mut Engine) {
    for measure in COMBINED {
        (measure.register)(engine);
    }
    flows::register_columns(engine);
    objects::register_columns(engine);
    throughput::register_columns(engine);
    queues::register_columns(engine);
}

/// The measures that are more than one column.
const COMBINED: &[Measure] = &[
    // Flows: which, and what of them.
    Measure { name: "flows", register: flows::register_choice },
    Measure {
        name: "size_at_least",
        register: |engine| flows::register_size(engine, "size_at_least", |size, limit| size >= limit),
    },
    Measure {
        name: "size_above",
        register: |engine| flows::register_size(engine, "size_above", |size, limit| size > limit),
    },
    Measure {
        name: "size_at_most",
        register: |engine| flows::register_size(engine, "size_at_most", |size, limit| size <= limit),
    },
    Measure {
        name: "size_below",
        register: |engine| flows::register_size(engine, "size_below", |size, limit| size < limit),
    },
    Measure { name: "started", register: flows::register_started },
    Measure { name: "completed", register: flows::register_completed },
    Measure { name: "count", register: flows::register_count },
    Measure { name: "unfinished", register: flows::register_unfinished },
    Measure { name: "fct_s", register: |engine| flows::register_times(engine, "fct_s", 1e-6) },
    Measure { name: "fct_ms", register: |engine| flows::register_times(engine, "fct_ms", 1e-3) },
    Measure { name: "fct_us", register: |engine| flows::register_times(engine, "fct_us", 1.0) },
    Measure { name: "slowdown", register: flows::register_slowdown },
    Measure { name: "rate_gbit_per_s", register: flows::register_rate },
    Measure { name: "delivered_fraction", register: flows::register_delivered_fraction },
    Measure { name: "retransmission_rate", register: flows::register_retransmission_rate },
    Measure { name: "speed_ups", register: flows::register_speed_ups },
    Measure { name: "given_up_fraction", register: flows::register_given_up_fraction },
    Measure { name: "low_time_fraction", register: flows::register_low_time_fraction },
    Measure { name: "paused_fraction", register: flows::register_paused_fraction },
    // Objects of many sources.
    Measure { name: "objects", register: objects::register_choice },
    Measure { name: "completion_ms", register: objects::register_completion },
    Measure { name: "excess_fraction", register: objects::register_excess },
    Measure { name: "decoded_fraction", register: objects::register_decoded },
    Measure { name: "object_timeouts", register: objects::register_timeouts },
    Measure { name: "parts", register: objects::register_parts },
    // REFLEX.
    Measure { name: "reflex_values", register: |engine| reflex::STANDINGS.register_values(engine, "reflex_values") },
    Measure { name: "reflex_series", register: |engine| reflex::STANDINGS.register_series(engine, "reflex_series") },
    // Windows of senders.
    Measure { name: "window_values", register: |engine| windows::WINDOWS.register_values(engine, "window_values") },
    Measure { name: "window_series", register: |engine| windows::WINDOWS.register_series(engine, "window_series") },
    // The fluid model.
    Measure { name: "fluid", register: fluid::register_model },
    Measure { name: "fluid_mean", register: fluid::register_mean },
    Measure { name: "fluid_series", register: fluid::register_series },
    // Queues of ports.
    Measure { name: "queues", register: queues::register_choice },
    Measure { name: "occupancy_series", register: queues::register_series },
    Measure { name: "dropped_packets", register: queues::register_drops },
    // Lists of numbers.
    Measure { name: "statistic", register: lists::register_statistic },
    Measure { name: "sum", register: lists::register_sum },
    Measure { name: "share_below", register: lists::register_share_below },
    Measure { name: "jain", register: lists::register_jain },
];

/// A run, with every seed in question.
#[derive(Clone)]
pub(super) struct RunRef {
    pub(super) context: Rc<Context>,
    pub(super) point: usize,
}

impl RunRef {
    /// Visits the result of each seed in question.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&RunResult)) -> Result<(), Failure> {
        self.context.each_result(self.point, visit)
    }

    /// The index of a traffic group.
    pub(super) fn group(&self, name: &str) -> Result<u16, Failure> {
        let groups = &self.context.plan.points[self.point].groups;
        let found = groups.iter().position(|group| group == name);
        found.map(|index| index as u16).ok_or_else(|| suggest::unknown("traffic group", name, groups).as_str().into())
    }

    /// Payload bytes of a full packet.
    pub(super) fn mss(&self) -> u64 {
        u64::from(self.context.plan.points[self.point].mss)
    }

    pub(super) fn is_check(&self) -> bool {
        self.context.is_check
    }

    pub(super) fn label(&self) -> String {
        self.context.plan.label(self.point)
    }
}

/// `run(NAME)`: the way to everything else.
pub(super) fn register_run(engine: &mut Engine, context: &Rc<Context>) {
    let find = |context: &Rc<Context>, name: &str, named: &[(String, Scalar)]| {
        let point = context.point(name, named)?;
        Ok::<_, Failure>(RunRef { context: Rc::clone(context), point })
    };
    let own = Rc::clone(context);
    engine.register_fn("run", move |name: ImmutableString| find(&own, &name, &[]));
    let own = Rc::clone(context);
    engine.register_fn("run", move |name: ImmutableString, values: Map| {
        let scalar =
            |value: &Dynamic| number(value).map_or_else(|| Scalar::of_text(&value.to_string()), Scalar::Number);
        let named: Vec<_> = values.iter().map(|(axis, value)| (axis.to_string(), scalar(value))).collect();
        find(&own, &name, &named)
    });
}

/// The number that `value` is.
pub(super) fn number(value: &Dynamic) -> Option<f64> {
    value.as_float().ok().or_else(|| value.as_int().ok().map(|number| number as f64))
}

/// A time: a text with its unit, or seconds.
fn seconds(value: &Dynamic) -> Result<f64, Failure> {
    quantity(value, |text| text.parse::<Span>().ok().map(Span::as_secs_f64), "a time such as \"5ms\", or seconds")
}

/// A size: a text with its unit, or bytes.
fn bytes(value: &Dynamic) -> Result<f64, Failure> {
    quantity(value, |text| text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64), "a size such as \"10kB\", or bytes")
}

fn quantity(value: &Dynamic, parse: fn(&str) -> Option<f64>, what: &str) -> Result<f64, Failure> {
    let text = value.clone().into_string();
    let found = number(value).or_else(|| parse(text.as_ref().ok()?));
    found.ok_or_else(|| format!("`{value}` is not {what}").as_str().into())
}

/// What is taken of many values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Statistic {
    Mean,
    Min,
    Max,
    /// Standard deviation of the population.
    Deviation,
    /// In tenths of a percent, by nearest rank.
    Permille(usize),
}

impl Statistic {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "mean" => return Ok(Self::Mean),
            "min" => return Ok(Self::Min),
            "max" => return Ok(Self::Max),
            "std" => return Ok(Self::Deviation),
            _ => {}
        }
        let percent = text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
        let permille =
            percent.map(|percent| percent * 10.0).filter(|permille| (permille - permille.round()).abs() < 1e-9);
        match permille.map(|permille| permille.round() as usize).filter(|permille| (1..=1000).contains(permille)) {
            Some(permille) => Ok(Self::Permille(permille)),
            None => Err(format!("`{text}` is no statistic: mean, min, max, std, or a percentile such as p99 or p99.9")
                .as_str()
                .into()),
        }
    }

    /// The statistic of `values`, of which there is at least one.
    pub(super) fn of(self, mut values: Vec<Estimate>) -> Estimate {
        assert!(!values.is_empty(), "a statistic of something");
        statistics::sort(&mut values);
        match self {
            Self::Min => values[0],
            Self::Max => Estimate {
                value: values[values.len() - 1].value,
                lower_bound: values.iter().any(|value| value.lower_bound),
            },
            Self::Permille(permille) => statistics::permille(&values, permille),
            Self::Mean => Estimate { value: mean(&values), lower_bound: values.iter().any(|value| value.lower_bound) },
            Self::Deviation => {
                let mean = mean(&values);
                let squares = values.iter().map(|estimate| (estimate.value - mean).powi(2)).sum::<f64>();
                // Of flows still under way nothing is known: neither a bound below nor one above.
                let lower_bound = values.iter().any(|value| value.lower_bound);
                Estimate { value: (squares / values.len() as f64).sqrt(), lower_bound }
            }
        }
    }
}

fn mean(values: &[Estimate]) -> f64 {
    values.iter().map(|estimate| estimate.value).sum::<f64>() / values.len() as f64
}

fn exact(value: f64) -> Estimate {
    Estimate { value, lower_bound: false }
}

#[cfg(test)]
mod tests;
