//! Choices of flows and what is measured of them.

use std::collections::HashMap;

use pliant_proto::time::Span;
use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::run_ref::RunRef;
use super::values::{Statistic, bytes, exact, number, seconds};
use crate::experiment::context::{Failure, lacking};
use crate::results::statistics::{self, Estimate};
use crate::results::{FLOWS, FlowRow, FlowState, RunResult};

/// Some of the flows of a run.
#[derive(Clone)]
pub(in crate::experiment) struct Flows {
    run: RunRef,
    group: Option<u16>,
    filters: Vec<Filter>,
}

/// What a flow must be to stay.
#[derive(Clone, Copy)]
enum Filter {
    /// Compares its bytes with a limit.
    Size(fn(f64, f64) -> bool, f64),
    /// Starts in [from, until), in seconds.
    Started(f64, f64),
    Completed,
}

impl Flows {
    fn new(run: &RunRef, group: Option<&str>) -> Result<Self, Failure> {
        let group = group.map(|name| run.group(name)).transpose()?;
        Ok(Self { run: run.clone(), group, filters: Vec::new() })
    }

    fn with(&self, filter: Filter) -> Self {
        let mut narrower = self.clone();
        narrower.filters.push(filter);
        narrower
    }

    fn keeps(&self, flow: &FlowRow) -> bool {
        let passes = |filter: &Filter| match *filter {
            Filter::Size(compare, limit) => compare(flow.bytes as f64, limit),
            Filter::Started(from, until) => {
                let start = flow.start.as_secs_f64();
                from <= start && start < until
            }
            Filter::Completed => flow.state == FlowState::Completed,
        };
        self.group.is_none_or(|group| flow.group == group) && (self.run.is_check() || self.filters.iter().all(passes))
    }

    /// Visits the flows of every seed in question, seed by seed.
    fn each(&self, visit: &mut dyn FnMut(&FlowRow, &RunResult)) -> Result<(), Failure> {
        self.run.each(&mut |result| {
            for flow in result.flows.iter().filter(|flow| self.keeps(flow)) {
                visit(flow, result);
            }
        })
    }

    /// What `value` gives of each flow for which it gives anything; an error of none.
    fn estimates(&self, value: impl Fn(&FlowRow, &RunResult) -> Option<Estimate>) -> Result<Vec<Estimate>, Failure> {
        let mut values = Vec::new();
        self.each(&mut |flow, result| values.extend(value(flow, result)))?;
        if values.is_empty() { Err(self.nothing()) } else { Ok(values) }
    }

    fn statistic(&self, which: &str, value: impl Fn(&FlowRow, &RunResult) -> Option<Estimate>) -> Result<f64, Failure> {
        let statistic = Statistic::parse(which)?;
        let estimate = statistic.of(self.estimates(value)?);
        if estimate.lower_bound {
            self.run.context.note_lower_bound();
        }
        Ok(estimate.value)
    }

    fn sum(&self, value: impl Fn(&FlowRow) -> f64) -> Result<f64, Failure> {
        let mut sum = 0.0;
        self.each(&mut |flow, _| sum += value(flow))?;
        Ok(sum)
    }

    #[allow(clippy::unnecessary_box_returns, reason = "the engine boxes its errors")]
    fn nothing(&self) -> Failure {
        lacking(format!("run `{}` has no such flows", self.run.label()))
    }
}

/// Registers `name` both as a statistic of the flows' values and, without an argument, as their list.
fn register_values<V>(engine: &mut Engine, name: &'static str, value: V)
where
    V: Fn(&FlowRow, &Flows, &RunResult) -> Option<Estimate> + Copy + 'static,
{
    engine.register_fn(name, move |flows: &mut Flows, which: ImmutableString| {
        flows.statistic(&which, |flow, result| value(flow, flows, result))
    });
    engine.register_fn(name, move |flows: &mut Flows| {
        let values = flows.estimates(|flow, result| value(flow, flows, result))?;
        if values.iter().any(|value| value.lower_bound) {
            flows.run.context.note_lower_bound();
        }
        Ok::<Array, Failure>(values.into_iter().map(|estimate| Dynamic::from_float(estimate.value)).collect())
    });
}

/// The names of the measures that columns of flows declare.
pub(super) fn column_names() -> Vec<String> {
    let (sums, each) = (FLOWS.sums().map(|(name, _)| name), FLOWS.each().map(|(name, _)| name));
    sums.chain(each).map(str::to_owned).collect()
}

/// The measures that columns of flows declare: sums, in which a flow without a value counts nothing, and values of each
/// flow that has one.
pub(super) fn register_columns(engine: &mut Engine) {
    for (name, column) in FLOWS.sums() {
        engine.register_fn(name, move |flows: &mut Flows| flows.sum(|flow| column.number(flow).unwrap_or(0.0)));
    }
    for (name, quantity) in FLOWS.each() {
        register_values(engine, name, move |flow, _, _| quantity.of(flow).map(exact));
    }
}

pub(super) fn register_choice(engine: &mut Engine) {
    engine.register_fn("flows", |run: RunRef| Flows::new(&run, None));
    engine.register_fn("flows", |run: RunRef, group: ImmutableString| Flows::new(&run, Some(&group)));
}

pub(super) fn register_size(engine: &mut Engine, name: &'static str, compare: fn(f64, f64) -> bool) {
    engine.register_fn(name, move |flows: &mut Flows, limit: Dynamic| {
        Ok::<Flows, Failure>(flows.with(Filter::Size(compare, bytes(&limit)?)))
    });
}

pub(super) fn register_started(engine: &mut Engine) {
    engine.register_fn("started", |flows: &mut Flows, from: Dynamic, until: Dynamic| {
        Ok::<Flows, Failure>(flows.with(Filter::Started(seconds(&from)?, seconds(&until)?)))
    });
}

pub(super) fn register_completed(engine: &mut Engine) {
    engine.register_fn("completed", |flows: &mut Flows| flows.with(Filter::Completed));
}

pub(super) fn register_count(engine: &mut Engine) {
    engine.register_fn("count", |flows: &mut Flows| flows.sum(|_| 1.0));
}

pub(super) fn register_unfinished(engine: &mut Engine) {
    engine.register_fn("unfinished", |flows: &mut Flows| {
        flows.sum(|flow| f64::from(u8::from(flow.state == FlowState::Unfinished)))
    });
}

/// Completion times, in microseconds times `unit`.
pub(super) fn register_times(engine: &mut Engine, name: &'static str, unit: f64) {
    register_values(engine, name, move |flow, _, result| {
        let estimate = statistics::fct_us(flow, result)?;
        Some(Estimate { value: estimate.value * unit, ..estimate })
    });
}

pub(super) fn register_slowdown(engine: &mut Engine) {
    register_values(engine, "slowdown", |flow, _, result| statistics::slowdown(flow, result));
}

/// Bytes delivered over the time that the flow was open.
pub(super) fn register_rate(engine: &mut Engine) {
    register_values(engine, "rate_gbit_per_s", |flow, _, result| {
        let open = flow.completed.unwrap_or(result.end()).since(flow.start).as_secs_f64();
        (open > 0.0).then(|| exact(flow.delivered_bytes as f64 * 8e-9 / open))
    });
}

pub(super) fn register_delivered_fraction(engine: &mut Engine) {
    register_values(engine, "delivered_fraction", |flow, _, _| {
        Some(exact(flow.delivered_bytes as f64 / flow.bytes as f64))
    });
}

pub(super) fn register_given_up_fraction(engine: &mut Engine) {
    register_values(engine, "given_up_fraction", |flow, _, _| {
        Some(exact(flow.given_up_bytes as f64 / flow.bytes as f64))
    });
}

/// Registers the part of its open time that a flow spent in some way.
fn register_part_of_time(engine: &mut Engine, name: &'static str, spent: fn(&FlowRow) -> Span) {
    register_values(engine, name, move |flow, _, result| {
        let open = flow.completed.unwrap_or(result.end()).since(flow.start).as_secs_f64();
        (open > 0.0).then(|| exact(spent(flow).as_secs_f64() / open))
    });
}

pub(super) fn register_low_time_fraction(engine: &mut Engine) {
    register_part_of_time(engine, "low_time_fraction", |flow| flow.low_time);
}

pub(super) fn register_paused_fraction(engine: &mut Engine) {
    register_part_of_time(engine, "paused_fraction", |flow| flow.paused);
}

/// Data packets sent again over those that were sent: full packets of what was delivered, and what was sent again.
pub(super) fn register_retransmission_rate(engine: &mut Engine) {
    register_values(engine, "retransmission_rate", |flow, flows, _| {
        let again = f64::from(flow.retransmissions);
        let sent = flow.delivered_bytes.div_ceil(flows.run.mss()) as f64 + again;
        (sent > 0.0).then(|| exact(again / sent))
    });
}

/// Completion time in a baseline over that here, flow by flow: above 1 the flow is faster here. Runs of the same
/// traffic number their flows alike; what is compared must be the same flow. Flows that completed in neither are left
/// out; one that is under way at the end of one run enters with the time it has taken.
pub(super) fn register_speed_ups(engine: &mut Engine) {
    engine.register_fn("speed_ups", |flows: &mut Flows, baseline: Flows| speed_ups(flows, &baseline));
}

fn speed_ups(flows: &Flows, baseline: &Flows) -> Result<Array, Failure> {
    let time = |flow: &FlowRow, result: &RunResult| statistics::fct_us(flow, result);
    let mut before: HashMap<(u64, u64), (FlowRow, Option<Estimate>)> = HashMap::new();
    baseline.each(&mut |flow, result| {
        before.insert((result.seed, flow.id), (*flow, time(flow, result)));
    })?;
    let (mut ratios, mut stranger, mut bounded) = (Array::new(), None, false);
    flows.each(&mut |flow, result| {
        let Some((other, before)) = before.get(&(result.seed, flow.id)) else { return };
        let identity = |flow: &FlowRow| (flow.source, flow.destination, flow.bytes, flow.start);
        if identity(other) != identity(flow) {
            stranger = Some(flow.id);
        }
        if let (Some(now), Some(before)) = (time(flow, result), before) {
            if now.lower_bound && before.lower_bound {
                return;
            }
            bounded |= now.lower_bound || before.lower_bound;
            ratios.push(Dynamic::from_float(before.value / now.value));
        }
    })?;
    if let Some(id) = stranger.filter(|_| !flows.run.is_check()) {
        let (ours, theirs) = (flows.run.label(), baseline.run.label());
        return Err(format!("flow {id} of run `{ours}` is another one in run `{theirs}`").as_str().into());
    }
    if bounded {
        flows.run.context.note_lower_bound();
    }
    if ratios.is_empty() { Err(flows.nothing()) } else { Ok(ratios) }
}

/// The numbers of a list.
pub(super) fn numbers(list: &Array) -> Result<Vec<f64>, Failure> {
    let numbers = list.iter().map(number).collect::<Option<Vec<_>>>();
    numbers.ok_or_else(|| "the list does not hold numbers alone".into())
}
