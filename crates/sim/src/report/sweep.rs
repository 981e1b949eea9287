//! The page of a sweep: a small plot for each group and measure, a table of means, and the decision if there is one.

use std::fmt::Write;

use serde_json::{Value, json};

use super::escape::escape;
use super::figure::{Figure, axis, colour, layout, short};
use super::frontier::{decision_text, frontier, unit_of_axis};
use super::measures::{Format, print};
use super::page::{PlottingLibrary, description, figure_card, html};
use crate::results::decision::{Decision, GOAL_MEASURES, GoalMeasure, GoalUnit, Mean, Observed};
use crate::results::repetition::half_interval;
use crate::results::statistics::Estimate;

/// Measures that are drawn, in this order.
const DRAWN: [&str; 5] = ["fct_mean", "fct_p99", "slowdown_p99", "goodput", "share_kept"];
/// Points in the table; a sweep may have thousands, and its CSV file has all.
const MAX_ROWS: usize = 400;
/// Values of the axis across that each have a tick.
const MAX_TICKS: usize = 6;
/// Lines of a small plot, beyond which colours repeat and nobody tells them apart.
const MAX_LINES: usize = 8;

/// A sweep as its page shows it.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    /// What it is called.
    pub title: &'a str,
    /// Keys and their values; a choice has one value of each.
    pub axes: &'a [(String, Vec<String>)],
    /// What was observed at each choice, the last axis fastest. Choices of which no run is finished have no seeds.
    pub observed: &'a [Observed],
    /// How many seeds each choice should have.
    pub seeds: u64,
    /// What follows from the user's goal.
    pub decision: Option<&'a Decision>,
    /// The command that makes it again.
    pub again: &'a str,
    /// The scenario of the first point.
    pub scenario_toml: &'a str,
}

impl Sweep<'_> {
    /// Names of the groups, in the order of first appearance.
    fn groups(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for group in self.observed.iter().flat_map(|choice| &choice.seeds).flat_map(|(_, groups)| groups) {
            let name = group["name"].as_str().unwrap_or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The mean of a measure of a group at a choice over the seeds that have it, and whether one of them is a bound.
    fn mean(&self, choice: usize, group: &str, measure: &GoalMeasure) -> Option<(Mean, bool)> {
        let mut values = Vec::new();
        let mut is_bound = false;
        for (_, groups) in &self.observed[choice].seeds {
            let of_group = groups.iter().find(|of| of["name"] == *group);
            if let Some((value, bound)) = of_group.and_then(|group| measure.read(group)) {
                values.push(value);
                is_bound |= bound;
            }
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then(|| (Mean { mean, half_width: half_interval(&values) }, is_bound))
    }

    /// The axis across plots: of numbers if one is, and that with the most values.
    fn across(&self) -> Option<usize> {
        let is_numeric = |values: &[String]| values.iter().all(|value| number_in(value).is_some());
        let rank = |&at: &usize| (is_numeric(&self.axes[at].1), self.axes[at].1.len());
        (0..self.axes.len()).filter(|&at| self.axes[at].1.len() > 1).rev().max_by_key(rank)
    }

    /// The value that choice number `choice` has on an axis.
    fn place(&self, choice: usize, axis: usize) -> usize {
        let faster: usize = self.axes[axis + 1..].iter().map(|(_, values)| values.len()).product();
        choice / faster % self.axes[axis].1.len()
    }

    /// The values of a choice on all axes but one, as people read them.
    fn label_without(&self, choice: usize, without: Option<usize>) -> String {
        let parts = self.axes.iter().enumerate().filter(|(at, (_, values))| Some(*at) != without && values.len() > 1);
        let part = |(at, (key, values)): (usize, &(String, Vec<String>))| {
            let value = &values[self.place(choice, at)];
            let short = key.rsplit('.').next().unwrap_or(key);
            if key == "variant" { value.clone() } else { format!("{short} {value}") }
        };
        parts.map(part).collect::<Vec<_>>().join(", ")
    }

    /// Sentences about choices that lack runs.
    fn lacking(&self) -> Vec<String> {
        let lacks = |choice: &&Observed| (choice.seeds.len() as u64) < self.seeds;
        let sentence =
            |choice: &Observed| format!("{} has {} of {} seeds", choice.name, choice.seeds.len(), self.seeds);
        self.observed.iter().filter(lacks).map(sentence).collect()
    }
}

/// The number that a value begins with, if it is one with a unit.
fn number_in(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(text.len());
    let unit = text[end..].trim();
    text[..end].parse().ok().filter(|_| unit.len() <= 6 && !unit.contains(['-', '_', '.']))
}

/// The page. The plotting library stands beside it, in the file of this name.
pub fn render_sweep(sweep: &Sweep<'_>, library: &str) -> String {
    let title = escape(sweep.title);
    let finished: usize = sweep.observed.iter().map(|choice| choice.seeds.len()).sum();
    let mut body = format!(
        "<header><p class=\"brand\">Pliant</p><h1>{title}</h1>{}<dl><div><dt>version</dt><dd>{}</dd></div><div><dt>runs</dt>\
         <dd>{finished} of {}</dd></div><div><dt>seeds</dt><dd>{}</dd></div></dl></header>\n",
        description(sweep.scenario_toml),
        env!("CARGO_PKG_VERSION"),
        sweep.observed.len() as u64 * sweep.seeds,
        sweep.seeds,
    );
    if let Some(decision) = sweep.decision {
        writeln!(body, "<p class=\"answer\">{}</p>", escape(&decision_text(decision))).expect(TAKES_ALL);
    }
    for sentence in sweep.lacking() {
        writeln!(body, "<p class=\"warning\">{}: the same command runs what is missing.</p>", escape(&sentence))
            .expect(TAKES_ALL);
    }
    writeln!(body, "<p class=\"note\">{}</p>", escape(&how_to_read(sweep))).expect(TAKES_ALL);
    let mut figures = Vec::new();
    if let Some(figure) = sweep.decision.and_then(frontier) {
        body.push_str("<section id=\"goal\"><h2>What meets the goal, and what it costs</h2><div class=\"grid\">");
        body.push_str(&figure_card(&figure, figures.len()));
        body.push_str("</div></section>\n");
        figures.push(figure);
    }
    for (number, group) in sweep.groups().into_iter().enumerate() {
        let drawn: Vec<Figure> = DRAWN.iter().filter_map(|name| small(sweep, group, name)).collect();
        if drawn.is_empty() {
            continue;
        }
        write!(body, "<section id=\"group-{number}\"><h2>Group {}</h2><div class=\"grid small\">", escape(group))
            .expect(TAKES_ALL);
        for figure in drawn {
            body.push_str(&figure_card(&figure, figures.len()));
            figures.push(figure);
        }
        body.push_str("</div></section>\n");
    }
    body.push_str(&table(sweep));
    write!(
        body,
        "<p class=\"note\">Again: <code>{}</code></p>\n<details><summary>Scenario of the first point</summary><pre>{}</pre>\
         </details>\n",
        escape(sweep.again),
        escape(sweep.scenario_toml)
    )
    .expect(TAKES_ALL);
    html(&title, &body, figures.iter(), PlottingLibrary::Beside(library))
}

/// What all plots have in common.
fn how_to_read(sweep: &Sweep<'_>) -> String {
    let mut text = match sweep.seeds {
        1 => "Every point is one run: without more seeds nothing says how far chance moves it.".to_owned(),
        seeds => format!("Every point is a mean over {seeds} seeds. Bars are 95 % intervals, cut off below zero."),
    };
    let measures = || GOAL_MEASURES.iter().filter(|measure| DRAWN.contains(&measure.name));
    let groups = sweep.groups();
    let is_bound = |choice: usize| {
        let mut all =
            groups.iter().flat_map(|group| measures().filter_map(|measure| sweep.mean(choice, group, measure)));
        all.any(|(_, bound)| bound)
    };
    if (0..sweep.observed.len()).any(is_bound) {
        text += " A hollow dot is a lower bound: flows were still under way.";
    }
    if let Some(first) = sweep.observed.first() {
        write!(text, " The share kept is the rate of a group's flows against that at {}.", first.name)
            .expect(TAKES_ALL);
    }
    text
}

const TAKES_ALL: &str = "a string takes all";

/// A line's name, and of its points the place on the axis, the mean, and whether that is a lower bound.
type Line = (String, Vec<(usize, Mean, bool)>);

/// One small plot: a measure of a group across the axis, a line for each combination of the others.
fn small(sweep: &Sweep<'_>, group: &str, name: &str) -> Option<Figure> {
    let measure = GOAL_MEASURES.iter().find(|measure| measure.name == name).expect("it is one of them");
    let across = sweep.across();
    let mut lines: Vec<Line> = Vec::new();
    for choice in 0..sweep.observed.len() {
        let Some((mean, bound)) = sweep.mean(choice, group, measure) else { continue };
        let place = across.map_or(0, |axis| sweep.place(choice, axis));
        let label = sweep.label_without(choice, across);
        match lines.iter_mut().find(|(of, _)| *of == label) {
            Some((_, points)) => points.push((place, mean, bound)),
            None => lines.push((label, vec![(place, mean, bound)])),
        }
    }
    // Of a first candidate all is kept: alone that says nothing.
    let is_constant = lines.iter().flat_map(|(_, points)| points).all(|(_, mean, _)| mean.mean == 1.0);
    if lines.is_empty() || (measure.unit == GoalUnit::Ratio && is_constant) {
        return None;
    }
    let largest = lines.iter().flat_map(|(_, points)| points).map(|(_, mean, _)| mean.mean).fold(0.0, f64::max);
    let (factor, unit) = unit_of_axis(measure.unit, largest);
    let values: &[String] = across.map_or(&[], |axis| &sweep.axes[axis].1);
    let numbers: Option<Vec<f64>> = values.iter().map(|value| number_in(value)).collect();
    let x_of = |place: usize| match &numbers {
        Some(numbers) if !numbers.is_empty() => json!(numbers[place]),
        _ => json!(values.get(place).map_or_else(String::new, |value| escape(value))),
    };
    let hidden = lines.len().saturating_sub(MAX_LINES);
    let data = lines.iter().take(MAX_LINES).enumerate().map(|(index, (label, points))| {
        let y: Vec<f64> = points.iter().map(|(_, mean, _)| short(factor * mean.mean)).collect();
        let half: Vec<f64> = points.iter().map(|(_, mean, _)| short(factor * mean.half_width.unwrap_or(0.0))).collect();
        // No measure is negative: a bar that went below zero would squeeze all that is above it.
        let below: Vec<f64> = half.iter().zip(&y).map(|(half, mean)| half.min(*mean)).collect();
        let symbols: Vec<&str> =
            points.iter().map(|&(_, _, bound)| if bound { "circle-open" } else { "circle" }).collect();
        json!({
            "type": "scatter", "mode": "lines+markers", "name": escape(label), "y": y,
            "x": points.iter().map(|&(place, ..)| x_of(place)).collect::<Vec<Value>>(),
            "error_y": {
                "type": "data", "symmetric": false, "array": half, "arrayminus": below, "thickness": 1.2, "width": 3,
            },
            "line": { "color": colour(index), "width": 2 },
            "marker": { "size": 6, "color": colour(index), "symbol": symbols },
        })
    });
    let key = across.map_or_else(String::new, |axis| escape(&sweep.axes[axis].0));
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let mut y = axis(&format!("{}{unit}", measure.title));
    y["rangemode"] = json!("tozero");
    let left_out = if hidden > 0 { format!("{hidden} more lines are in the table.") } else { String::new() };
    let mut x = axis(&key);
    if let Some(numbers) = numbers.as_ref().filter(|numbers| (2..=MAX_TICKS).contains(&numbers.len())) {
        (x["tickvals"], x["ticktext"]) = (json!(numbers), json!(values));
    }
    let mut layout = layout(&x, &y);
    // A line that stands for nothing but the group has no name, and needs no legend.
    layout["showlegend"] = json!(lines.iter().any(|(label, _)| !label.is_empty()));
    let data = data.collect();
    Some(Figure { title: measure.title.to_owned(), note: left_out.into(), data, layout })
}

/// A row for each choice and group with the means of all measures that some row has.
fn table(sweep: &Sweep<'_>) -> String {
    let groups = sweep.groups();
    let rows: Vec<(usize, &str)> =
        (0..sweep.observed.len()).flat_map(|choice| groups.iter().map(move |&group| (choice, group))).collect();
    let has = |measure: &&GoalMeasure| {
        let mut values = rows.iter().filter_map(|&(choice, group)| sweep.mean(choice, group, measure));
        values.any(|(mean, _)| mean.mean != 0.0)
    };
    let columns: Vec<&GoalMeasure> = GOAL_MEASURES.iter().filter(has).collect();
    let heads: Vec<String> = columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.title)).collect();
    let head = heads.concat();
    let varied: Vec<usize> = (0..sweep.axes.len()).filter(|&at| sweep.axes[at].1.len() > 1).collect();
    let head_of = |key: &str| format!("<th scope=\"col\" class=\"text\">{}</th>", escape(key));
    let keys = match &varied[..] {
        [] => head_of("point"),
        varied => varied.iter().map(|&at| head_of(&sweep.axes[at].0)).collect(),
    };
    let mut body = String::new();
    for &(choice, group) in rows.iter().take(MAX_ROWS) {
        let cell = |column: &&GoalMeasure| {
            let Some((mean, lower_bound)) = sweep.mean(choice, group, column) else { return "<td>–</td>".to_owned() };
            let format = format_of(column);
            let value = print(Some(Estimate { value: mean.mean, lower_bound }), format);
            let half = mean.half_width.map(|half| print(Some(Estimate { value: half, lower_bound: false }), format));
            let half = half.map_or_else(String::new, |half| format!("<small>±{half}</small>"));
            format!("<td>{value}{half}</td>")
        };
        let of_axis = |&at: &usize| {
            let value = escape(&sweep.axes[at].1[sweep.place(choice, at)]);
            format!("<th scope=\"row\">{value}</th>")
        };
        let point = match &varied[..] {
            [] => format!("<th scope=\"row\">{}</th>", escape(&sweep.observed[choice].name)),
            varied => varied.iter().map(of_axis).collect(),
        };
        write!(
            body,
            "<tr>{point}<td class=\"text\">{}</td>{}</tr>",
            escape(group),
            columns.iter().map(cell).collect::<String>()
        )
        .expect(TAKES_ALL);
    }
    let more = match rows.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        more => format!("<p class=\"note\">{more} more rows are in sweep.csv.</p>"),
    };
    format!(
        "<section id=\"table\"><h2>All points</h2><div class=\"scroll\"><table><thead><tr>{keys}\
         <th scope=\"col\" class=\"text\">group</th>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}</section>\n"
    )
}

fn format_of(measure: &GoalMeasure) -> Format {
    match measure.unit {
        GoalUnit::Time => Format::Time,
        GoalUnit::Rate => Format::Rate,
        GoalUnit::Ratio => Format::Percent,
        GoalUnit::Number => Format::Number,
    }
}

/// The same for programs: a row for each choice and group.
pub fn sweep_json(sweep: &Sweep<'_>) -> String {
    let groups = sweep.groups();
    let mut rows = Vec::new();
    for (choice, observed) in sweep.observed.iter().enumerate() {
        let values: serde_json::Map<String, Value> = sweep
            .axes
            .iter()
            .enumerate()
            .map(|(at, (key, values))| (key.clone(), json!(values[sweep.place(choice, at)])))
            .collect();
        let seeds: Vec<u64> = observed.seeds.iter().map(|(seed, _)| *seed).collect();
        for group in &groups {
            let measures: serde_json::Map<String, Value> = GOAL_MEASURES
                .iter()
                .filter_map(|measure| {
                    let (mean, is_bound) = sweep.mean(choice, group, measure)?;
                    let value = json!({ "mean": mean.mean, "half_width": mean.half_width, "lower_bound": is_bound });
                    Some((measure.name.to_owned(), value))
                })
                .collect();
            rows.push(json!({ "choice": values, "group": group, "seeds": seeds, "measures": measures }));
        }
    }
    let decision = sweep.decision.map(decision_json);
    let whole = json!({ "title": sweep.title, "seeds": sweep.seeds, "rows": rows, "decision": decision });
    let mut text = serde_json::to_string_pretty(&whole).expect("plain data");
    text.push('\n');
    text
}

/// A decision for programs.
pub(super) fn decision_json(decision: &Decision) -> Value {
    json!({
        "goal": decision.wish.goal.to_string(),
        "cost": decision.wish.cost.to_string(),
        "chosen": decision.chosen.map(|at| &decision.candidates[at].name),
        "text": decision_text(decision),
        "candidates": decision.candidates,
        "left_out": decision.left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::decision::Wish;

    fn axes() -> Vec<(String, Vec<String>)> {
        let values = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        vec![
            ("variant".to_owned(), values(&["shared", "strict"])),
            ("web.load".to_owned(), values(&["0.2", "0.4", "0.6"])),
        ]
    }

    /// Two variants at three loads, of which the last has one seed of two.
    fn observed() -> Vec<Observed> {
        let point = |index: usize| {
            let seeds = if index == 5 { 1 } else { 2 };
            let us = 1000.0 * (index + 1) as f64;
            let group = move |seed: u64| {
                let p99 = json!({ "value": us + seed as f64, "lower_bound": index == 2 });
                json!({ "name": "web", "all": { "fct_us": { "p99": p99 }, "goodput_gbit_per_s": 2.0, "drops": 0 } })
            };
            Observed {
                name: format!("point <{index}>"),
                seeds: (1..=seeds).map(|seed| (seed, vec![group(seed)])).collect(),
            }
        };
        (0..6).map(point).collect()
    }

    #[test]
    fn one_page_shows_lines_intervals_and_what_is_missing() {
        let (axes, observed) = (axes(), observed());
        let decision = Wish::parse("web.fct_p99 < 3ms", "web.goodput").unwrap().decide(&observed);
        let sweep = Sweep {
            title: "a <sweep>",
            axes: &axes,
            observed: &observed,
            seeds: 2,
            decision: Some(&decision),
            again: "pliant sweep x",
            scenario_toml: "",
        };
        let figure = small(&sweep, "web", "fct_p99").unwrap();
        assert_eq!((figure.data.len(), &figure.data[1]["name"]), (2, &json!("strict")));
        assert_eq!(figure.data[0]["x"], json!([0.2, 0.4, 0.6]), "the loads stand across");
        assert_eq!(figure.data[0]["marker"]["symbol"][2], "circle-open");
        assert_eq!(figure.layout["yaxis"]["title"]["text"], "FCT p99 (ms)");
        assert_eq!(figure.layout["showlegend"], true);
        for row in 0..2 {
            let (bar, y) = (&figure.data[row]["error_y"], &figure.data[row]["y"]);
            for at in 0..3 {
                let [half, below, mean] =
                    [&bar["array"][at], &bar["arrayminus"][at], &y[at]].map(|value| value.as_f64().unwrap());
                assert!(half > 0.0 || (row, at) == (1, 2), "an interval");
                assert_eq!(below, half.min(mean), "a bar ends at zero");
            }
        }
        let page = render_sweep(&sweep, "plotly.js");
        for part in
            ["a &lt;sweep&gt;", "src=\"plotly.js\"", "point &lt;5&gt; has 1 of 2 seeds", "pliant sweep x", "11 of 12"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.len() < 60_000, "the library is not in it: {} bytes", page.len());
        assert!(!page.contains("<th scope=\"col\">drops</th>"), "columns of zeros are left out");
        let json: Value = serde_json::from_str(&sweep_json(&sweep)).unwrap();
        assert_eq!((json["rows"].as_array().unwrap().len(), &json["rows"][5]["seeds"]), (6, &json!([1])));
        assert_eq!(json["rows"][3]["choice"], json!({ "variant": "strict", "web.load": "0.2" }));
        assert_eq!(json["decision"]["chosen"], "point <0>");
    }

    #[test]
    fn a_line_without_a_name_has_no_legend() {
        let observed = &observed()[..3];
        let sweep = Sweep {
            title: "loads",
            axes: &axes()[1..],
            observed,
            seeds: 2,
            decision: None,
            again: "pliant sweep x",
            scenario_toml: "",
        };
        let figure = small(&sweep, "web", "fct_p99").unwrap();
        assert_eq!((figure.data.len(), &figure.layout["showlegend"]), (1, &json!(false)));
    }

    #[test]
    fn values_with_units_are_numbers() {
        assert_eq!(["0.2", "20ms", "1e3", "100Gbit/s"].map(number_in), [Some(0.2), Some(20.0), Some(1e3), Some(100.0)]);
        assert_eq!(["strict", "dwrr-9-1", "9-1"].map(number_in), [None; 3]);
    }
}
