//! The plots, as data for plotly.js.

use serde_json::{Value, json};

use super::escape::escape;
use super::exchange::exchange;
use super::figure::{Figure, axis, colour, layout, log_axis, short};
use super::series::{self, QueueId, SizePoint};
use crate::results::comparison::{ComparisonRow, Variant, group_names};
use crate::results::statistics::{self, Estimate, flows_by_group};
use crate::results::{FlowRow, RunResult};

/// How many of the fullest queues are drawn.
const QUEUES_SHOWN: usize = 4;

/// Plots under one heading.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) figures: Vec<Figure>,
}

/// What one colour stands for: a group of a run, or a variant's run.
struct Curve<'a> {
    name: String,
    colour: &'static str,
    run: &'a RunResult,
    group: u16,
    flows: Vec<&'a FlowRow>,
}

/// The plots of a single run, or of variants side by side.
pub(super) fn sections(variants: &[Variant<'_>], rows: &[ComparisonRow]) -> Vec<Section> {
    let mut sections = if let [variant] = variants { run_sections(variant.result) } else { group_sections(variants) };
    if let Some(figure) = exchange(rows) {
        sections.insert(0, Section { title: "What it costs, and what it buys".to_owned(), figures: vec![figure] });
    }
    for section in &mut sections {
        section.figures.retain(|figure| !figure.data.is_empty());
    }
    sections.retain(|section| !section.figures.is_empty());
    sections
}

/// Sections of one run: one colour per group.
fn run_sections(run: &RunResult) -> Vec<Section> {
    let flows = flows_by_group(run).into_iter().enumerate();
    let curves: Vec<_> = flows
        .map(|(index, flows)| {
            let name = escape(&run.groups[index].name);
            Curve { name, colour: colour(index), run, group: index as u16, flows }
        })
        .collect();
    let mut over_time = vec![throughput(&curves, true)];
    let queues = series::fullest_queues(run, QUEUES_SHOWN);
    let lines = queues.iter().enumerate().map(|(index, &queue)| queue_line(run, queue, &queue_name(run, queue), index));
    over_time.push(queue_figure("Queue length of the fullest queues".to_owned(), lines.collect()));
    vec![
        Section { title: "Flows".to_owned(), figures: flow_figures(&curves) },
        Section { title: "Over time".to_owned(), figures: over_time },
    ]
}

/// Sections of several runs: one per group, one colour per variant.
fn group_sections(variants: &[Variant<'_>]) -> Vec<Section> {
    let mut flows: Vec<_> = variants.iter().map(|variant| flows_by_group(variant.result)).collect();
    let mut sections = Vec::new();
    for group in group_names(variants) {
        let mut curves = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            let position = variant.result.groups.iter().position(|info| info.name == group);
            let Some(position) = position else { continue };
            let flows = std::mem::take(&mut flows[index][position]);
            let (name, colour) = (escape(variant.label), colour(index));
            curves.push(Curve { name, colour, run: variant.result, group: position as u16, flows });
        }
        let mut figures = flow_figures(&curves);
        figures.push(throughput(&curves, false));
        sections.push(Section { title: format!("Group {}", escape(group)), figures });
    }
    sections.push(Section { title: "Queues".to_owned(), figures: compared_queues(variants) });
    sections
}

fn flow_figures(curves: &[Curve<'_>]) -> Vec<Figure> {
    vec![slowdown_by_size(curves), fct_by_size(curves), slowdown_distribution(curves)]
}

fn slowdown_by_size(curves: &[Curve<'_>]) -> Figure {
    Figure {
        title: "Slowdown by flow size".to_owned(),
        note: "Completion time over the time the flow would take alone; 1 is ideal. Circles: median. Diamonds: 99th \
               percentile. Hollow: a lower bound."
            .into(),
        data: size_traces(curves, ("×", 1.0), statistics::slowdown),
        layout: layout(&size_axis(), &log_axis("slowdown (×)")),
    }
}

fn fct_by_size(curves: &[Curve<'_>]) -> Figure {
    Figure {
        title: "Flow completion time by flow size".to_owned(),
        note: "From the application's start to the receiver's last needed byte. Circles: median. Diamonds: 99th \
               percentile. Hollow: a lower bound."
            .into(),
        data: size_traces(curves, ("s", 1e-6), statistics::fct_us),
        layout: layout(&size_axis(), &time_axis("completion time")),
    }
}

/// `unit` is what values are drawn in, and what makes it of them.
fn size_traces(
    curves: &[Curve<'_>],
    unit: (&str, f64),
    value: fn(&FlowRow, &RunResult) -> Option<Estimate>,
) -> Vec<Value> {
    let points = |curve: &Curve<'_>| series::by_size(&curve.flows, |flow| value(flow, curve.run));
    let points: Vec<Vec<SizePoint>> = curves.iter().map(points).collect();
    // Of one size there is nothing to draw that the table does not say.
    if points.iter().all(|points| points.len() < 2) {
        return Vec::new();
    }
    let both = |(curve, points): (&Curve<'_>, &Vec<SizePoint>)| {
        [Percentile::Median, Percentile::P99].map(|percentile| size_trace(curve, points, percentile, unit))
    };
    curves.iter().zip(&points).filter(|(_, points)| !points.is_empty()).flat_map(both).collect()
}

/// Which of a size's percentiles a trace shows, and how it is drawn.
#[derive(Clone, Copy)]
enum Percentile {
    Median,
    P99,
}

impl Percentile {
    fn of(self, point: &SizePoint) -> Estimate {
        match self {
            Self::Median => point.p50,
            Self::P99 => point.p99,
        }
    }

    /// Name, dash of the line, symbol of the marks.
    fn style(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Median => ("p50", "solid", "circle"),
            Self::P99 => ("p99", "dot", "diamond"),
        }
    }
}

fn size_trace(curve: &Curve<'_>, points: &[SizePoint], percentile: Percentile, (unit, factor): (&str, f64)) -> Value {
    let (name, dash, symbol) = percentile.style();
    let symbol_of = |point: &SizePoint| {
        if percentile.of(point).lower_bound { format!("{symbol}-open") } else { symbol.to_owned() }
    };
    json!({
        "type": "scatter", "mode": "lines+markers", "name": format!("{} {name}", curve.name),
        "x": points.iter().map(|point| short(point.bytes)).collect::<Vec<_>>(),
        "y": points.iter().map(|point| short(factor * percentile.of(point).value)).collect::<Vec<_>>(),
        "customdata": points.iter().map(|point| point.flows).collect::<Vec<_>>(),
        "line": { "color": curve.colour, "dash": dash, "width": 2 },
        "marker": { "size": 7, "symbol": points.iter().map(symbol_of).collect::<Vec<_>>() },
        "hovertemplate": format!("%{{y:.4s}}{unit} at %{{x:.3s}}B<br>%{{customdata}} flows"),
    })
}

fn slowdown_distribution(curves: &[Curve<'_>]) -> Figure {
    let trace = |curve: &Curve<'_>| {
        let values = curve.flows.iter().filter_map(|flow| statistics::slowdown(flow, curve.run)).collect();
        let points = series::cumulative(values);
        (!points.is_empty()).then(|| {
            let mut trace = line(&curve.name, curve.colour, &points);
            trace["line"]["shape"] = json!("hv");
            trace["hovertemplate"] = json!("%{y:.2%} of flows at or below %{x:.4s}×");
            trace
        })
    };
    let mut y = axis("fraction of flows");
    y["range"] = json!([0, 1.02]);
    y["tickformat"] = json!(".0%");
    Figure {
        title: "Distribution of slowdown".to_owned(),
        note: "Further left is better. A curve that ends below 100 % has flows still under way at the end.".into(),
        data: curves.iter().filter_map(trace).collect(),
        layout: layout(&log_axis("slowdown (×)"), &y),
    }
}

fn throughput(curves: &[Curve<'_>], stacked: bool) -> Figure {
    let trace = |curve: &Curve<'_>| {
        let points = series::throughput(curve.run, curve.group);
        (!points.is_empty()).then(|| {
            let mut trace = line(&curve.name, curve.colour, &points);
            trace["hovertemplate"] = json!("%{y:.4s} Gbit/s at %{x:.4~f} ms");
            if stacked {
                trace["stackgroup"] = json!("all");
                trace["line"]["width"] = json!(0.5);
            }
            trace
        })
    };
    let mut y = axis("throughput (Gbit/s)");
    y["rangemode"] = json!("tozero");
    Figure {
        title: "Throughput over time".to_owned(),
        note: if stacked {
            "Payload delivered to receivers; areas stack up to the total."
        } else {
            "Payload delivered to receivers."
        }
        .into(),
        data: curves.iter().filter_map(trace).collect(),
        layout: layout(&axis("time (ms)"), &y),
    }
}

/// The fullest queues of the first variant that recorded any, each with a line per variant.
fn compared_queues(variants: &[Variant<'_>]) -> Vec<Figure> {
    let recorded = variants.iter().find(|variant| !variant.result.queue_samples.is_empty());
    let Some(reference) = recorded.map(|variant| variant.result) else { return Vec::new() };
    let queues = series::fullest_queues(reference, QUEUES_SHOWN);
    let figure = |&queue: &QueueId| {
        let lines = variants.iter().enumerate();
        let lines = lines.map(|(index, variant)| queue_line(variant.result, queue, &escape(variant.label), index));
        queue_figure(format!("Queue length: {}", queue_name(reference, queue)), lines.collect())
    };
    queues.iter().map(figure).collect()
}

fn queue_line(run: &RunResult, queue: QueueId, name: &str, index: usize) -> Value {
    let mut trace = line(name, colour(index), &series::queue_length(run, queue));
    trace["hovertemplate"] = json!("%{y:.4~f} kB at %{x:.4~f} ms");
    trace["line"]["width"] = json!(1.2);
    trace
}

fn queue_figure(title: String, data: Vec<Value>) -> Figure {
    let mut y = axis("queued (kB)");
    y["rangemode"] = json!("tozero");
    let note = "Bytes waiting at each look; where looks are many, the longest of neighbours.";
    Figure { title, note: note.into(), data, layout: layout(&axis("time (ms)"), &y) }
}

/// The queue's name, escaped; its numbers if the run lists no such port.
fn queue_name(run: &RunResult, (port, queue): QueueId) -> String {
    let row = run.ports.iter().find(|row| (row.port, row.queue) == (port, queue));
    row.map_or_else(
        || format!("port {port}, queue {queue}"),
        |row| escape(&format!("{}, {}", row.name, row.queue_name)),
    )
}

fn line(name: &str, colour: &str, points: &[(f64, f64)]) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "name": name, "line": { "color": colour, "width": 2 },
        "x": points.iter().map(|&(x, _)| short(x)).collect::<Vec<_>>(),
        "y": points.iter().map(|&(_, y)| short(y)).collect::<Vec<_>>(),
    })
}

/// A logarithmic axis of seconds, which prints 83.6 ms as the tables do.
fn time_axis(title: &str) -> Value {
    let mut axis = log_axis(title);
    axis["tickformat"] = json!("~s");
    axis["ticksuffix"] = json!("s");
    // Ticks between powers of ten would lack their unit.
    axis["dtick"] = json!(1);
    axis
}

fn size_axis() -> Value {
    let mut axis = log_axis("flow size");
    axis["dtick"] = json!(1);
    axis["ticksuffix"] = json!("B");
    axis
}
