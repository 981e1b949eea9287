//! The HTML page: header, tables, plots.

use std::fmt::Write;

use serde_json::{Value, json};

use super::answer::answer;
use super::escape::escape;
use super::figure::{Figure, colour};
use super::figures::{Section, sections};
use super::frontier::{decision_text, frontier};
use super::measures::{Better, Format, Measure, measures, number, print, unit_shown};
use super::network::picture;
use super::shown::Shown;
use crate::results::comparison::{ComparisonRow, Variant, compare};
use crate::results::decision::Decision;
use crate::results::repetition::Repeated;
use crate::results::statistics::{Distribution, Estimate, FlowStatistics};
use crate::results::table::Column;
use crate::results::{PORTS, PortRow, RunResult};
use pliant_proto::switch::DropReason;

const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
/// plotly.js 4.1.1, its bundle of basic charts; licence in `assets/plotly-LICENSE`.
pub(crate) const PLOTLY: &str = include_str!("assets/plotly-basic.min.js");

/// Columns of queues that the report shows, under their titles.
const ADMITTED: &Column<PortRow> = PORTS.column("enqueued_packets");
const MARKED: &Column<PortRow> = PORTS.column("marked_packets");
const MOST: &Column<PortRow> = PORTS.column("max_packets");
const LEFT: &Column<PortRow> = PORTS.column("left_packets");

/// Rows of the table of queues.
const QUEUES_LISTED: usize = 10;

/// The whole page.
pub(super) fn page(
    title: &str,
    variants: &[Variant<'_>],
    repeated: Option<&Repeated>,
    decision: Option<&Decision>,
    scenario_toml: &str,
) -> String {
    let rows = compare(variants);
    let mut sections = sections(variants, &rows);
    if let Some(figure) = decision.and_then(frontier) {
        sections.insert(0, Section { title: "What meets the goal".to_owned(), figures: vec![figure] });
    }
    let title = escape(title);
    let mut body = format!(
        "<header><p class=\"brand\">Pliant</p><h1>{title}</h1>{}{}</header>\n",
        description(scenario_toml),
        identity(variants)
    );
    body.push_str(&warnings(variants));
    if let Some(answer) = repeated.and_then(answer) {
        writeln!(body, "<p class=\"answer\">{}</p>", escape(&answer)).expect("a string takes all");
    }
    if let Some(decision) = decision {
        writeln!(body, "<p class=\"answer\">{}</p>", escape(&decision_text(decision))).expect("a string takes all");
    }
    let shown = repeated.map_or_else(|| Shown::Once(rows.clone()), Shown::Repeated);
    body.push_str(&main_table(&shown, variants.len()));
    body.push_str(&size_table(&rows, variants.len()));
    let mut figures = 0;
    if let [first, ..] = variants {
        body.push_str(&picture(first.result, scenario_toml).unwrap_or_default());
    }
    for section in &sections {
        write!(body, "<section><h2>{}</h2><div class=\"grid\">", section.title).expect("a string takes all");
        for figure in &section.figures {
            body.push_str(&figure_card(figure, figures));
            figures += 1;
        }
        body.push_str("</div></section>\n");
    }
    body.extend(variants.iter().map(queue_table));
    body.push_str(&scenario_text(variants, scenario_toml));
    let figures = sections.iter().flat_map(|section| &section.figures);
    html(&title, &body, figures, PlottingLibrary::Inside)
}

/// What the scenario says of itself.
pub(super) fn description(scenario_toml: &str) -> String {
    let table = scenario_toml.parse::<toml::Table>().unwrap_or_default();
    match table.get("description").and_then(toml::Value::as_str) {
        Some(text) if !text.is_empty() => format!("<p class=\"description\">{}</p>", escape(text)),
        _ => String::new(),
    }
}

/// The whole scenario, folded away: a report that travels alone says what it is of.
fn scenario_text(variants: &[Variant<'_>], scenario_toml: &str) -> String {
    let of = match variants {
        [_] => String::new(),
        [first, ..] => format!(" of {}", escape(first.label)),
        [] => return String::new(),
    };
    format!("<details><summary>Scenario{of}</summary><pre>{}</pre></details>\n", escape(scenario_toml))
}

/// Where a page has the plotting library.
#[derive(Clone, Copy)]
pub(super) enum PlottingLibrary<'a> {
    /// In itself.
    Inside,
    /// In a file of this name beside it.
    Beside(&'a str),
}

/// A whole page that loads nothing but the library, if that stands beside it: `title` and `body` are markup, and the body has
/// a place for each figure.
pub(super) fn html<'f>(
    title: &str,
    body: &str,
    figures: impl Iterator<Item = &'f Figure>,
    library: PlottingLibrary<'_>,
) -> String {
    // The page may run what it carries, or what stands beside it, and load nothing else.
    let (allowed, library) = match library {
        PlottingLibrary::Inside => ("", format!("<script>{PLOTLY}</script>")),
        PlottingLibrary::Beside(file) => (" 'self' file:", format!("<script src=\"{file}\"></script>")),
    };
    let policy = format!(
        "default-src 'none'; script-src 'unsafe-inline'{allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title} – Pliant</title>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}<p class=\"note\">In a plot: drag to zoom, double-click to return.</p>\n</main>\n{library}\n\
         <script type=\"application/json\" id=\"figures\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        figures_json(figures)
    )
}

/// The figures' data. Without `<` no text in it can end the script element that carries it.
fn figures_json<'f>(figures: impl Iterator<Item = &'f Figure>) -> String {
    let data: Vec<Value> = figures.map(|figure| json!({ "data": figure.data, "layout": figure.layout })).collect();
    Value::from(data).to_string().replace('<', "\\u003c")
}

pub(super) fn figure_card(figure: &Figure, index: usize) -> String {
    let take = |what: &str, name: &str| {
        format!("<button type=\"button\" data-figure=\"{index}\" data-take=\"{what}\">{name}</button>")
    };
    format!(
        "<figure><h3>{}</h3><div class=\"plot\" id=\"figure-{index}\" role=\"img\" tabindex=\"0\" aria-label=\"{}\"></div>\
         {}<p class=\"take\">{}{}{}</p><div class=\"data\" id=\"data-{index}\" hidden></div></figure>",
        figure.title,
        alternative(figure),
        if figure.note.is_empty() { String::new() } else { format!("<figcaption>{}</figcaption>", figure.note) },
        take("svg", "SVG"),
        take("csv", "CSV"),
        take("table", "Table")
    )
}

/// A plot in words, for who does not see it: what it shows, and each series from where to where.
fn alternative(figure: &Figure) -> String {
    let unit = |axis: &str| figure.layout[axis]["title"]["text"].as_str().unwrap_or_default().to_owned();
    let series = figure.data.iter().filter_map(|trace| {
        let values = || trace["y"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let name = trace["name"].as_str().unwrap_or_default();
        Some(if least == most {
            format!("{name} {}", number(most))
        } else {
            format!("{name} from {} to {}", number(least), number(most))
        })
    });
    let series: Vec<String> = series.take(16).collect();
    format!("{}: {} by {}. {}", figure.title, unit("yaxis"), unit("xaxis"), series.join("; ")).replace('"', "&quot;")
}

/// What identifies the runs: one line for a run, a table for several.
fn identity(variants: &[Variant<'_>]) -> String {
    if let [variant] = variants {
        let items = facts(variant.result).map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
        return format!("<dl>{}</dl>", items.concat());
    }
    let Some(first) = variants.first() else { return String::new() };
    let names = facts(first.result).map(|(name, _)| format!("<th scope=\"col\">{name}</th>")).concat();
    let row = |(index, variant): (usize, &Variant<'_>)| {
        let values = facts(variant.result).map(|(_, value)| format!("<td>{value}</td>")).concat();
        format!("<tr><th scope=\"row\">{}{}</th>{values}</tr>", swatch(index), escape(variant.label))
    };
    let rows: String = variants.iter().enumerate().map(row).collect();
    format!(
        "<details><summary>{} runs: seeds, versions, cost</summary><div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">variant</th>{names}</tr></thead><tbody>{rows}</tbody></table></div></details>",
        variants.len()
    )
}

fn facts(run: &RunResult) -> [(&'static str, String); 8] {
    [
        ("version", escape(&run.version)),
        ("seed", run.seed.to_string()),
        ("digest", if run.digest == 0 { "none".to_owned() } else { format!("<code>{}</code>", run.digest_text()) }),
        ("simulated", format!("{} ms", number(run.simulated.as_secs_f64() * 1e3))),
        ("flows", print_count(run.flows.len() as u64)),
        ("wall time", format!("{} s", number(run.wall_s))),
        ("CPU time", format!("{} s", number(run.cpu_s))),
        (
            "packet-hops",
            format!("{} ({} M/CPU-s)", print_count(run.packet_hops), number(run.hops_per_cpu_second() / 1e6)),
        ),
    ]
}

fn print_count(count: u64) -> String {
    print(Some(Estimate { value: count as f64, lower_bound: false }), Format::Count)
}

fn warnings(variants: &[Variant<'_>]) -> String {
    let named =
        |variant: &Variant<'_>| if variant.label.is_empty() { "This run".into() } else { escape(variant.label) };
    let paragraph = |text: String| format!("<p class=\"warning\">{text}</p>\n");
    let mut texts = Vec::new();
    for variant in variants {
        if variant.result.interrupted {
            let ms = number(variant.result.simulated.as_secs_f64() * 1e3);
            texts.push(paragraph(format!("{} was interrupted: results cover the first {ms} ms only.", named(variant))));
        }
        if let Some(why) = &variant.result.overloaded {
            texts.push(paragraph(format!(
                "{} overloaded its testbed and is no result: {}.",
                named(variant),
                escape(why)
            )));
        }
    }
    texts.concat()
}

fn swatch(index: usize) -> String {
    format!("<span class=\"swatch\" style=\"background:{}\"></span>", colour(index))
}

/// The table of groups, and in a comparison of their variants: what this does to the traffic.
fn main_table(shown: &Shown<'_>, variants: usize) -> String {
    let rows = shown.rows();
    // Columns that say nothing are named below the table.
    let (zero, columns): (Vec<&Measure>, Vec<&Measure>) =
        measures(rows, variants).into_iter().partition(|measure| measure.is_all_zero(rows));
    let head = columns.iter().map(|measure| format!("<th scope=\"col\">{}{}</th>", measure.title, unit(measure.unit)));
    let second = if variants > 1 { "variant" } else { "transport" };
    let title = if variants > 1 { "What it does to the traffic" } else { "Result" };
    let mut html = format!(
        "<section><h2>{title}</h2><div class=\"scroll\"><table class=\"main\"><thead><tr><th scope=\"col\">group</th>\
         <th scope=\"col\">{second}</th>{}</tr></thead>",
        head.collect::<String>()
    );
    let mut at = 0;
    for (position, group) in rows.chunk_by(|a, b| a.group.name == b.group.name).enumerate() {
        html.push_str("<tbody>");
        let first = at;
        for (index, row) in group.iter().enumerate() {
            html.push_str("<tr>");
            if index == 0 {
                // Colours tell groups apart in a run, variants in a comparison.
                let swatch = if variants > 1 { String::new() } else { swatch(position) };
                html.push_str(&group_cell(&swatch, group));
            }
            html.push_str(&variant_cell(row, variants, !is_of_one_class(group)));
            let reference = (index > 0 && group[0].variant_index == 0).then_some(first);
            html.extend(columns.iter().map(|measure| value_cell(measure, shown, at, reference)));
            html.push_str("</tr>");
            at += 1;
        }
        html.push_str("</tbody>");
    }
    html.push_str("</table></div>");
    if !zero.is_empty() {
        let names: Vec<&str> = zero.iter().map(|measure| measure.title).collect();
        write!(html, "<p class=\"note\">0 everywhere: {}.</p>", names.join(", ")).expect("a string takes all");
    }
    if let Shown::Repeated(repeated) = shown {
        html.push_str(&repeated_note(repeated));
    }
    html.push_str(&main_notes(rows, variants));
    html.push_str("</section>\n");
    html
}

fn main_notes(rows: &[ComparisonRow], variants: usize) -> String {
    let objects = if rows.iter().any(|row| row.group.objects.is_some()) {
        " <b>Object</b>: time until a receiver had all of an object, whatever number of flows brought it."
    } else {
        ""
    };
    let promised = if rows.iter().any(|row| row.group.min_share < 1.0 && row.group.all.fair_share.is_some()) {
        " <b>Below promise</b>: part of the flows that got less of their max-min fair rate than <code>min_share</code> \
         promises; <b>least share</b>: what the worst of them got."
    } else {
        ""
    };
    let compared = if variants > 1 {
        " <b>Share kept</b>: rate of the group's flows while they are open, relative to the first variant. Changes are \
         against the first variant."
    } else {
        ""
    };
    format!(
        "<p class=\"note\"><b>FCT</b>: flow completion time, from the application's start to the receiver's last needed \
         byte. <b>Slowdown</b>: FCT over the time the flow would take alone on its path; 1 is ideal. <b>Goodput</b>: \
         payload delivered over the time from the first start to the last completion, or the end of the run.{objects}{promised}{compared} <b>≥</b>: flows still under way at the end, which count with the time they have taken so far, could raise it.</p>"
    )
}

fn unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!("<small>{unit}</small>") }
}

/// Whether a group is in the same class, taken by queues of the same name, in every variant.
fn is_of_one_class(group: &[ComparisonRow]) -> bool {
    group.iter().all(|row| row.group.class == group[0].group.class)
}

fn group_cell(swatch: &str, group: &[ComparisonRow]) -> String {
    let (name, class) = (escape(&group[0].group.name), escape(&group[0].group.class));
    let class = if is_of_one_class(group) { format!("<small>class {class}</small>") } else { String::new() };
    format!("<th scope=\"rowgroup\" rowspan=\"{}\">{swatch}{name}{class}</th>", group.len())
}

fn variant_cell(row: &ComparisonRow, variants: usize, with_class: bool) -> String {
    let (transport, contract) = (escape(&row.group.transport), escape(&row.group.contract));
    if variants > 1 {
        let (swatch, label) = (swatch(row.variant_index), escape(&row.variant));
        let class = if with_class { format!("class {} · ", escape(&row.group.class)) } else { String::new() };
        format!("<th scope=\"row\">{swatch}{label}<small>{class}{transport} · contract {contract}</small></th>")
    } else {
        format!("<th scope=\"row\">{transport}<small>contract {contract}</small></th>")
    }
}

fn value_cell(measure: &Measure, shown: &Shown<'_>, at: usize, reference: Option<usize>) -> String {
    let change = match shown {
        Shown::Once(rows) => reference.and_then(|reference| change_once(measure, &rows[at], &rows[reference])),
        Shown::Repeated(_) => shown.change(measure, at).zip(shown.change_text(measure, at)).map(|(change, text)| {
            let improved = (change.change < 0.0) == (measure.better == Better::Less);
            let class = match measure.better {
                Better::Neither => "",
                _ if !change.is_seen() => "",
                _ if improved => " class=\"better\"",
                _ => " class=\"worse\"",
            };
            format!("<small{class}>{text}</small>")
        }),
    };
    format!("<td>{}{}</td>", print(shown.value(measure, at), measure.format), change.unwrap_or_default())
}

/// The relative change of a measure of which less or more is better. It has no colour: one run says nothing about chance.
fn change_once(measure: &Measure, row: &ComparisonRow, reference: &ComparisonRow) -> Option<String> {
    let (now, before) = (measure.value(row)?, measure.value(reference)?);
    let known = !now.lower_bound && !before.lower_bound && before.value != 0.0;
    if !known || measure.better == Better::Neither || measure.format == Format::Count {
        return None;
    }
    let percent = 100.0 * (now.value / before.value - 1.0);
    let text = match percent {
        size if size.abs() < 0.5 => "±0 %".to_owned(),
        size if size > 900.0 => format!("×{}", number(now.value / before.value)),
        size => format!("{}{:.0} %", if size > 0.0 { "+" } else { "−" }, size.abs()),
    };
    Some(format!("<small>{text}</small>"))
}

/// What a table over several seeds says.
fn repeated_note(repeated: &Repeated) -> String {
    let seeds: Vec<String> = repeated.seeds().iter().map(u64::to_string).collect();
    format!(
        "<p class=\"note\">Means over {} seeds ({}). Every variant has the same arrivals under each seed; a change is that of \
         the geometric mean against the first variant, with its 95 % interval (Student's, over the seeds), in colour where the \
         interval leaves out zero. <b>≈</b>: no difference seen. The plots are of seed {}.</p>",
        seeds.len(),
        seeds.join(", "),
        seeds[0]
    )
}

/// Statistics by flow size, folded away.
fn size_table(rows: &[ComparisonRow], variants: usize) -> String {
    let mut body = String::new();
    for row in rows {
        for size in &row.group.by_size {
            let variant =
                if variants > 1 { format!("<td class=\"text\">{}</td>", escape(&row.variant)) } else { String::new() };
            write!(
                body,
                "<tr><td class=\"text\">{}</td>{variant}<td class=\"text\">{}</td>{}</tr>",
                escape(&row.group.name),
                size_label(size.up_to_bytes),
                size_cells(&size.statistics)
            )
            .expect("a string takes all");
        }
    }
    let variant = if variants > 1 { "<th scope=\"col\" class=\"text\">variant</th>" } else { "" };
    let head = ["FCT mean", "FCT p50", "FCT p95", "FCT p99"].map(|title| format!("<th scope=\"col\">{title}</th>"));
    let more = ["slowdown mean", "slowdown p50", "slowdown p95", "slowdown p99"];
    let more = more.map(|title| format!("<th scope=\"col\">{title}{}</th>", unit("×")));
    format!(
        "<details><summary>By flow size</summary><div class=\"scroll\"><table><thead><tr><th scope=\"col\">group</th>\
         {variant}<th scope=\"col\" class=\"text\">flow size</th><th scope=\"col\">flows</th><th scope=\"col\">unfinished</th>{}{}\
         </tr></thead><tbody>{body}</tbody></table></div></details>\n",
        head.concat(),
        more.concat()
    )
}

fn size_cells(statistics: &FlowStatistics) -> String {
    let values = |distribution: Option<Distribution>| match distribution {
        Some(Distribution { mean, p50, p95, p99 }) => [Some(mean), Some(p50), Some(p95), Some(p99)],
        None => [None; 4],
    };
    let counts = [statistics.flows, statistics.unfinished].map(|count| format!("<td>{}</td>", print_count(count)));
    let cells = |of, format| values(of).map(|value| format!("<td>{}</td>", print(value, format)));
    let numbers = [cells(statistics.fct_us, Format::Time), cells(statistics.slowdown, Format::Number)];
    counts.into_iter().chain(numbers.into_iter().flatten()).collect()
}

fn size_label(up_to_bytes: Option<u64>) -> String {
    match up_to_bytes {
        Some(bytes) => format!("up to {}", pliant_proto::units::Bytes(bytes)),
        None => "larger".to_owned(),
    }
}

/// The queues that dropped, marked or held most, folded away.
fn queue_table(variant: &Variant<'_>) -> String {
    let mut ports: Vec<&PortRow> = variant.result.ports.iter().collect();
    let rank = |port: &PortRow| (port.dropped_packets(), port.counters.marked_packets, port.counters.max_packets);
    ports.sort_by_key(|port| std::cmp::Reverse(rank(port)));
    ports.truncate(QUEUES_LISTED);
    if ports.is_empty() {
        return String::new();
    }
    let title = if variant.label.is_empty() { String::new() } else { format!(" of {}", escape(variant.label)) };
    let head = |title: &str, of: &str| format!("<th scope=\"col\">{title}{}</th>", unit(of));
    let heads = [
        head(ADMITTED.title, ""),
        head(MARKED.title, unit_shown(MARKED)),
        head("drops", "packets"),
        head(MOST.title, unit_shown(MOST)),
        head(LEFT.title, unit_shown(LEFT)),
    ];
    format!(
        "<details><summary>Busiest queues{title}</summary><div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">port</th><th scope=\"col\" class=\"text\">queue</th>{}<th scope=\"col\" class=\"text\">why dropped</th></tr></thead>\
         <tbody>{}</tbody></table></div></details>\n",
        heads.concat(),
        ports.into_iter().map(queue_row).collect::<String>()
    )
}

fn queue_row(port: &PortRow) -> String {
    let reasons = DropReason::ALL.into_iter().filter(|&reason| port.dropped(reason).packets > 0);
    let reasons = reasons
        .map(|reason| format!("{} {}", reason.name().replace('_', " "), print_count(port.dropped(reason).packets)));
    let reasons: Vec<_> = reasons.collect();
    format!(
        "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td class=\"text\">{}</td></tr>",
        escape(&port.name),
        escape(&port.queue_name),
        print_count(ADMITTED.count(port)),
        print_count(MARKED.count(port)),
        print_count(port.dropped_packets()),
        print_count(MOST.count(port)),
        print_count(LEFT.count(port)),
        if reasons.is_empty() { "–".to_owned() } else { reasons.join(", ") }
    )
}
