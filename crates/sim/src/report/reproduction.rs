//! The page of a reproduction: each figure's plots, and under them what the paper says and what came out.

use std::fmt::Write;

use serde_json::{Value, json};

use super::escape::escape;
use super::figure::{Figure, axis, colour, layout, log_axis, short};
use super::page::{PlottingLibrary, figure_card, html};
use super::series::MAX_POINTS;
use crate::experiment::{
    ClaimOutcome, FigureOutcome, PlotAxis, PlotData, PlotKind, PlotPoint, Quantity, SeriesData, Size, Verdict,
};

/// Colour of what was read off the paper.
const PAPER_COLOUR: &str = "#94a3b8";
/// Most points of a curve with marks on it.
const MARKED_POINTS: usize = 60;

/// The whole page.
pub(super) fn page(outcomes: &[FigureOutcome], size: Size) -> String {
    let papers: Vec<&str> = outcomes.iter().map(|outcome| outcome.paper.as_str()).collect();
    let title = match papers.first() {
        Some(first) if papers.iter().all(|paper| paper == first) => format!("Reproduction of {}", escape(first)),
        _ => "Reproduction".to_owned(),
    };
    let mut body = format!("<header><p class=\"brand\">Pliant</p><h1>{title}</h1>{}</header>\n", facts(outcomes, size));
    body.push_str(&overview(outcomes));
    let mut figures: Vec<Figure> = Vec::new();
    for outcome in outcomes {
        let heading = format!("{} {}: {}", outcome.paper, outcome.figure, outcome.title);
        write!(
            body,
            "<section id=\"{}\"><h2>{}</h2><p class=\"note\">Section {}. {}</p>",
            anchor(outcome),
            escape(&heading),
            escape(&outcome.section),
            escape(&outcome.setup)
        )
        .expect(TAKES_ALL);
        if !outcome.plots.is_empty() {
            body.push_str("<div class=\"grid\">");
            for plot in &outcome.plots {
                let figure = draw(plot);
                body.push_str(&figure_card(&figure, figures.len()));
                figures.push(figure);
            }
            body.push_str("</div>");
        }
        body.push_str(&claims_table(outcome));
        body.push_str("</section>\n");
    }
    html(&title, &body, figures.iter(), PlottingLibrary::Inside)
}

const TAKES_ALL: &str = "a string takes all";

fn anchor(outcome: &FigureOutcome) -> String {
    escape(&format!("{}-{}", outcome.paper, outcome.figure))
}

fn facts(outcomes: &[FigureOutcome], size: Size) -> String {
    let count = |verdict| {
        let claims = outcomes.iter().flat_map(|outcome| &outcome.claims);
        claims.filter(|claim| claim.verdict == verdict && !claim.is_check()).count().to_string()
    };
    let checks = outcomes.iter().flat_map(|outcome| &outcome.claims).filter(|claim| claim.is_check()).count();
    let items = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("size", size.name().to_owned()),
        ("figures", outcomes.len().to_string()),
        ("agrees", count(Verdict::Agrees)),
        ("scaled", count(Verdict::Scaled)),
        ("differs", count(Verdict::Differs)),
        ("checks", checks.to_string()),
    ];
    let items = items.map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
    format!("<dl>{}</dl>", items.concat())
}

/// A line for each figure, with a mark for each claim.
fn overview(outcomes: &[FigureOutcome]) -> String {
    let mark = |claim: &ClaimOutcome| {
        format!("<span class=\"verdict {}\" title=\"{}\"></span>", claim.verdict.name(), escape(&claim.claim))
    };
    let line = |outcome: &FigureOutcome| {
        format!(
            "<tr><th scope=\"row\"><a href=\"#{}\">{} {}</a></th><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
            anchor(outcome),
            escape(&outcome.paper),
            escape(&outcome.figure),
            escape(&outcome.title),
            outcome.claims.iter().map(mark).collect::<String>()
        )
    };
    format!(
        "<section class=\"index\"><div class=\"scroll\"><table><thead><tr><th scope=\"col\">figure</th><th class=\"text\" scope=\"col\">\
         shows</th><th class=\"text\" scope=\"col\">claims</th></tr></thead><tbody>{}</tbody></table></div><p class=\"note\">\
         <b>agrees</b>: within the claim's tolerance. <b>scaled</b>: within it, at a size smaller than the paper's. \
         <b>differs</b>: not within it. <b>check</b>: a claim of ours, for which the paper has no value.</p></section>\n",
        outcomes.iter().map(line).collect::<String>()
    )
}

fn claims_table(outcome: &FigureOutcome) -> String {
    let mut rows = String::new();
    for claim in &outcome.claims {
        let why = claim.why.as_deref().map_or_else(String::new, |why| format!("<small>{}</small>", escape(why)));
        write!(
            rows,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{}</td><td class=\"text\"><span class=\"verdict {}\"></span>{}{why}</td></tr>",
            escape(&claim.claim),
            variations(claim),
            escape(&claim.paper.print(&claim.unit)),
            escape(&claim.print_ours()),
            claim.verdict.name(),
            escape(&if claim.is_check() { format!("check: {}", claim.remark()) } else { claim.remark() }),
        )
        .expect(TAKES_ALL);
    }
    let mut scaled: Vec<&str> = Vec::new();
    for claim in &outcome.claims {
        scaled.extend(claim.scaled.as_deref().filter(|sentence| !scaled.contains(sentence)));
    }
    let scaled = scaled.iter().map(|sentence| format!("<p class=\"note\"><b>Scaled</b>: {}</p>", escape(sentence)));
    format!(
        "<div class=\"scroll claims\"><table><thead><tr><th scope=\"col\">claim</th><th scope=\"col\">paper</th>\
         <th scope=\"col\">ours</th><th class=\"text\" scope=\"col\">verdict</th></tr></thead><tbody>{rows}</tbody></table>\
         </div>{}",
        scaled.collect::<String>()
    )
}

/// Ours without the mechanism that the paper gives, and by settings.
fn variations(claim: &ClaimOutcome) -> String {
    let line = |name: &str, ours: &Quantity, agrees: bool| {
        let mark = if agrees { "within tolerance" } else { "outside" };
        format!("<small>{}: {}, {mark}</small>", escape(name), escape(&ours.print(&claim.unit)))
    };
    let mechanism = claim.mechanism.iter().map(|mechanism| {
        let name = format!("without {} ({})", mechanism.name, mechanism.off);
        line(&name, &mechanism.ours, mechanism.agrees)
    });
    let none = claim.no_mechanism.map(|none| format!("<small>no mechanism to switch off: {}</small>", none.title()));
    let settings = claim.sensitivity.iter();
    let settings = settings.map(|row| line(&format!("{} = {}", row.axis, row.value), &row.ours, row.agrees));
    mechanism.chain(none).chain(settings).collect()
}

/// A plot as plotly draws it.
fn draw(plot: &PlotData) -> Figure {
    let mut ours = 0;
    // What the paper has is drawn over ours.
    let (paper, own): (Vec<&SeriesData>, Vec<&SeriesData>) = plot.series.iter().partition(|series| series.paper);
    let traces = own.into_iter().chain(paper).map(|series| {
        let colour = if series.paper { PAPER_COLOUR } else { colour(ours) };
        ours += usize::from(!series.paper);
        trace(plot, series, colour)
    });
    let data = traces.collect();
    let mut layout = layout(&axis_of(&plot.x), &axis_of(&plot.y));
    if plot.kind == PlotKind::Bars {
        layout["barmode"] = json!("group");
    }
    if plot.kind == PlotKind::Cdf && plot.y.title.is_empty() {
        layout["yaxis"]["title"]["text"] = json!("fraction of flows");
    }
    Figure { title: escape(&plot.title), note: escape(&plot.note).into(), data, layout }
}

fn axis_of(spec: &PlotAxis) -> Value {
    let title = escape(&spec.title);
    let mut axis = if spec.log { log_axis(&title) } else { axis(&title) };
    let end = |end: Option<f64>| end.map(|end| if spec.log { end.log10() } else { end });
    match (end(spec.min), end(spec.max)) {
        (None, None) => {}
        (least, most) => {
            axis["range"] = json!([least, most]);
            if least.is_none() || most.is_none() {
                // plotly completes the open end.
                axis["autorange"] = json!(if least.is_none() { "min" } else { "max" });
            }
        }
    }
    axis
}

fn trace(plot: &PlotData, series: &SeriesData, colour: &str) -> Value {
    let points = thinned(&series.points);
    let y: Vec<f64> = points.iter().map(|point| short(point.y)).collect();
    let mut trace = json!({ "name": escape(&series.name), "y": y });
    if plot.kind == PlotKind::Bars {
        let name =
            |point: &PlotPoint| plot.categories.get(point.x as usize).map_or_else(String::new, |name| escape(name));
        trace["type"] = json!("bar");
        trace["x"] = json!(points.iter().map(name).collect::<Vec<_>>());
        trace["marker"] = json!({ "color": colour });
    } else {
        let mode = match plot.kind {
            PlotKind::Points => "markers",
            PlotKind::Lines if points.len() <= MARKED_POINTS => "lines+markers",
            _ => "lines",
        };
        trace["type"] = json!("scatter");
        trace["mode"] = json!(mode);
        trace["x"] = json!(points.iter().map(|point| short(point.x)).collect::<Vec<_>>());
        trace["marker"] = json!({ "color": colour, "size": 6 });
        trace["line"] = json!({ "color": colour, "width": 2, "dash": if series.paper { "dash" } else { "solid" } });
        if matches!(plot.kind, PlotKind::Cdf | PlotKind::Ccdf) {
            trace["line"]["shape"] = json!("hv");
        }
    }
    if points.iter().any(|point| point.spread.is_some()) {
        let above = points.iter().map(|point| short(point.spread.map_or(0.0, |(_, most)| most - point.y)));
        let below = points.iter().map(|point| short(point.spread.map_or(0.0, |(least, _)| point.y - least)));
        trace["error_y"] = json!({
            "type": "data", "symmetric": false, "array": above.collect::<Vec<_>>(),
            "arrayminus": below.collect::<Vec<_>>(), "thickness": 1.2, "width": 3, "color": "#475569",
        });
    }
    trace
}

/// At most as many points as a screen shows; the last ones stay, where tails are.
fn thinned(points: &[PlotPoint]) -> Vec<PlotPoint> {
    let finite: Vec<PlotPoint> =
        points.iter().copied().filter(|point| point.x.is_finite() && point.y.is_finite()).collect();
    let tail = finite.len().saturating_sub(MAX_POINTS / 4);
    let step = tail.div_ceil(MAX_POINTS * 3 / 4).max(1);
    let shown = finite.iter().enumerate().filter(|(rank, _)| *rank >= tail || rank.is_multiple_of(step));
    shown.map(|(_, point)| *point).collect()
}
