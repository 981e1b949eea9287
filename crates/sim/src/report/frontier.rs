//! A decision in words, and its frontier as a plot.

use serde_json::{Value, json};

use super::escape::escape;
use super::figure::{COLOURS, Dot, Figure, axis, from_zero, label_places, layout, short};
use super::measures::{Format, print};
use crate::results::decision::{Candidate, Decision, GoalMeasure, GoalUnit, GroupMeasure, Mean};
use crate::results::statistics::Estimate;

/// How values of a measure are printed.
fn format_of(measure: &GoalMeasure) -> Format {
    match measure.unit {
        GoalUnit::Time => Format::Time,
        GoalUnit::Rate => Format::Rate,
        GoalUnit::Ratio => Format::Percent,
        GoalUnit::Number => Format::Number,
    }
}

fn told(of: &GroupMeasure, mean: Mean) -> String {
    let value = |value: f64| print(Some(Estimate { value, lower_bound: false }), format_of(of.measure));
    match mean.half_width {
        Some(half) => format!("{} (±{})", value(mean.mean), value(half)),
        None => value(mean.mean),
    }
}

/// What was decided, in sentences.
pub fn decision_text(decision: &Decision) -> String {
    let (goal, cost) = (&decision.wish.goal, &decision.wish.cost);
    let mut text = match decision.chosen.map(|at| &decision.candidates[at]) {
        Some(chosen) => format!(
            "{} meets {goal} at the least cost: {} of {} is {}, {} of {} is {}. {} of {} meet the goal.",
            chosen.name,
            goal.of.measure.title,
            goal.of.group,
            told(&goal.of, chosen.goal),
            cost.measure.title,
            cost.group,
            told(cost, chosen.cost),
            decision.meeting(),
            decision.candidates.len()
        ),
        None => match decision.nearest() {
            Some(nearest) => format!(
                "No variant meets {goal}. {} comes nearest with {}{}. Loosen the goal, or add variants with other queues, \
                 transports or loads.",
                nearest.name,
                if nearest.is_bound { "at least " } else { "" },
                told(&goal.of, nearest.goal)
            ),
            None => format!("No variant has values of {} and {cost}.", goal.of),
        },
    };
    if let Some(rival) = decision.rival() {
        let price = told(cost, rival.cost);
        text.extend([
            " The seeds do not tell its cost from that of ",
            &*rival.name,
            ", ",
            &*price,
            ": more seeds may.",
        ]);
    }
    for sentence in &decision.left_out {
        text.extend([" ", &**sentence, "."]);
    }
    text
}

/// The factor to the unit that reads best, and its name: as in the tables.
pub(super) fn unit_of_axis(unit: GoalUnit, largest: f64) -> (f64, &'static str) {
    match unit {
        GoalUnit::Time if largest >= 999.5e3 => (1e-6, "s"),
        GoalUnit::Time if largest >= 999.5 => (1e-3, "ms"),
        GoalUnit::Time => (1.0, "µs"),
        GoalUnit::Rate if largest < 0.9995 => (1e3, "Mbit/s"),
        GoalUnit::Rate => (1.0, "Gbit/s"),
        GoalUnit::Ratio => (100.0, "%"),
        GoalUnit::Number => (1.0, ""),
    }
}

/// A linear axis of a measure, and the factor to its unit.
fn axis_of(of: &GroupMeasure, values: &[f64]) -> (Value, f64) {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let (factor, unit) = unit_of_axis(of.measure.unit, largest);
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let mut axis = axis(&format!("{}: {}{unit}", escape(&of.group), of.measure.title));
    from_zero(&mut axis, values);
    (axis, factor)
}

/// Most dots that all have their names beside them.
const MAX_LABELS: usize = 6;

/// A candidate's name with the last part of each key: "one queue load=0.1".
fn brief(name: &str) -> String {
    let word = |word: &str| match word.split_once('=') {
        Some((key, value)) => format!("{}={value}", key.rsplit('.').next().unwrap_or(key)),
        None => word.to_owned(),
    };
    name.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A dot per candidate with its intervals, the frontier as a line, the limit, and the chosen one marked. `None` of fewer than
/// two.
pub(super) fn frontier(decision: &Decision) -> Option<Figure> {
    let all = &decision.candidates;
    if all.len() < 2 {
        return None;
    }
    let goal = &decision.wish.goal;
    let costs: Vec<f64> = all.iter().map(|candidate| candidate.cost.mean).collect();
    let goals: Vec<f64> = all.iter().map(|candidate| candidate.goal.mean).chain([goal.limit]).collect();
    let (x_axis, x_factor) = axis_of(&decision.wish.cost, &costs);
    let (y_axis, y_factor) = axis_of(&goal.of, &goals);
    // Among many dots only those that matter have room for a name; the others tell it when they are pointed at.
    let labels: Vec<String> = all
        .iter()
        .enumerate()
        .map(|(at, candidate)| {
            let matters = candidate.on_frontier || decision.chosen == Some(at);
            if all.len() <= MAX_LABELS || matters { brief(&candidate.name) } else { String::new() }
        })
        .collect();
    let dot = |(candidate, label): (&Candidate, &String)| Dot {
        x: candidate.cost.mean,
        y: candidate.goal.mean,
        characters: label.chars().count(),
    };
    let places = label_places(&all.iter().zip(&labels).map(dot).collect::<Vec<_>>());
    let mut on_frontier: Vec<_> = all.iter().filter(|candidate| candidate.on_frontier).collect();
    on_frontier.sort_by(|a, b| a.cost.mean.total_cmp(&b.cost.mean));
    let mut data = vec![json!({
        "type": "scatter", "mode": "lines", "name": "frontier", "hoverinfo": "skip",
        "x": on_frontier.iter().map(|candidate| short(x_factor * candidate.cost.mean)).collect::<Vec<_>>(),
        "y": on_frontier.iter().map(|candidate| short(y_factor * candidate.goal.mean)).collect::<Vec<_>>(),
        "line": { "color": "#94a3b8", "width": 1.5, "dash": "dot" },
    })];
    for (at, candidate) in all.iter().enumerate() {
        let is_chosen = decision.chosen == Some(at);
        let (name, label) = (escape(&candidate.name), escape(&labels[at]));
        let bars = |mean: Mean, factor: f64| {
            let array: Vec<f64> = mean.half_width.iter().map(|half| short(factor * half)).collect();
            json!({ "type": "data", "array": array, "thickness": 1.2, "width": 3 })
        };
        data.push(json!({
            "type": "scatter", "mode": "markers+text", "name": name, "showlegend": false, "cliponaxis": false,
            "text": [if is_chosen { format!("<b>{label}</b>") } else { label }], "textposition": places[at],
            "x": [short(x_factor * candidate.cost.mean)], "y": [short(y_factor * candidate.goal.mean)],
            "error_x": bars(candidate.cost, x_factor), "error_y": bars(candidate.goal, y_factor),
            "marker": {
                "size": if is_chosen { 16 } else { 10 }, "color": if candidate.meets { COLOURS[2] } else { COLOURS[7] },
                "symbol": if is_chosen { "star" } else if candidate.is_bound { "circle-open" } else { "circle" },
            },
        }));
    }
    let mut layout = layout(&x_axis, &y_axis);
    layout["shapes"] = json!([{
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": short(y_factor * goal.limit), "y1": short(y_factor * goal.limit),
        "line": { "color": COLOURS[1], "width": 1, "dash": "dash" },
    }]);
    Some(Figure {
        title: escape(&format!("Goal {goal}")),
        note: "Dashed: the limit. Green: meets it. Star: meets it at the least cost. Dotted: the frontier, on which nothing is \
               better in both. Bars: 95 % intervals of the means. Hollow: a lower bound."
            .into(),
        data,
        layout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::decision::{Observed, Wish};

    fn decision(limit: &str) -> Decision {
        let observed = |name: &str, us: f64, kept: f64| Observed {
            name: name.to_owned(),
            seeds: (1..=2)
                .map(|seed| {
                    let fct = json!({ "p99": { "value": us, "lower_bound": false } });
                    let copies = json!({ "name": "copies", "share_kept": kept });
                    (seed, vec![json!({ "name": "web", "all": { "fct_us": fct } }), copies])
                })
                .collect(),
        };
        let wish = Wish::parse(&format!("web.fct_p99 < {limit}"), "copies.share_kept").unwrap();
        wish.decide(&[observed("shared", 40_000.0, 1.0), observed("strict", 10_000.0, 0.5)])
    }

    #[test]
    fn names_of_points_are_brief() {
        assert_eq!(brief("one queue requests.load=0.1 queues.limit=1.5MB"), "one queue load=0.1 limit=1.5MB");
        assert_eq!(brief("DWRR 9:1"), "DWRR 9:1");
    }

    #[test]
    fn decisions_are_told_and_drawn() {
        let met = decision("20ms");
        assert_eq!(
            decision_text(&met),
            "strict meets web.fct_p99 < 20ms at the least cost: FCT p99 of web is 10.0 ms (±0 µs), share kept of copies is \
             50.0 % (±0 %). 1 of 2 meet the goal."
        );
        let figure = frontier(&met).unwrap();
        assert_eq!(figure.layout["yaxis"]["title"]["text"], "web: FCT p99 (ms)");
        assert!(figure.layout["yaxis"]["type"].is_null() && figure.layout["xaxis"]["type"].is_null(), "linear axes");
        let star = figure.data.iter().find(|trace| trace["marker"]["symbol"] == "star").unwrap();
        assert_eq!((&star["name"], &star["y"][0]), (&json!("strict"), &json!(10.0)));
        let none = decision_text(&decision("1ms"));
        assert!(none.starts_with("No variant meets web.fct_p99 < 1ms. strict comes nearest with 10.0 ms"), "{none}");
    }
}
