//! What a comparison is about, in one plot: how much one group gives up, and what another gains by it.

use serde_json::json;

use super::escape::escape;
use super::figure::{Dot, Figure, axis, colour, from_zero, label_places, layout, short};
use super::frontier::unit_of_axis;
use super::roles::roles;
use crate::results::comparison::ComparisonRow;
use crate::results::decision::GoalUnit;

/// A dot per variant: across, what the flexible group keeps; up, the 99th percentile of the other's completion times. `None`
/// of a single group or variant, and where a value is missing everywhere.
pub(super) fn exchange(rows: &[ComparisonRow]) -> Option<Figure> {
    let (giving, gaining) = roles(rows)?;
    let of_group = |name: &str| -> Vec<&ComparisonRow> { rows.iter().filter(|row| row.group.name == name).collect() };
    let [gives, gains] = [giving, gaining].map(of_group);

    let times = gains.iter().filter_map(|row| Some(row.group.all.fct_us?.p99.value));
    let (factor, unit) = unit_of_axis(GoalUnit::Time, times.fold(0.0, f64::max));
    let dot = |row: &&ComparisonRow| {
        let kept = gives.iter().find(|of| of.variant_index == row.variant_index)?.share_kept?;
        let p99 = row.group.all.fct_us?.p99;
        let symbol = if p99.lower_bound { "circle-open" } else { "circle" };
        let label = escape(&row.variant);
        Some(json!({
            "type": "scatter", "mode": "markers+text", "name": label, "text": [label],
            "cliponaxis": false, "x": [short(100.0 * kept)], "y": [short(factor * p99.value)], "showlegend": false,
            "marker": { "size": 12, "color": colour(row.variant_index), "symbol": symbol },
            "hovertemplate": format!("%{{y:.4~f}} {unit} at %{{x:.3~f}} % kept"),
        }))
    };
    let mut data: Vec<_> = gains.iter().filter_map(dot).collect();
    if data.len() < 2 {
        return None;
    }
    let at = |trace: &serde_json::Value, axis: &str| trace[axis][0].as_f64().unwrap_or(0.0);
    let (xs, ys): (Vec<f64>, Vec<f64>) = data.iter().map(|trace| (at(trace, "x"), at(trace, "y"))).unzip();
    let dots: Vec<Dot> = data
        .iter()
        .map(|trace| Dot {
            x: at(trace, "x"),
            y: at(trace, "y"),
            characters: trace["name"].as_str().map_or(0, |name| name.chars().count()),
        })
        .collect();
    for (trace, place) in data.iter_mut().zip(label_places(&dots)) {
        trace["textposition"] = json!(place);
    }
    let [giving, gaining] = [giving, gaining].map(escape);
    let mut x = axis(&format!("{giving}: share kept (%)"));
    from_zero(&mut x, &xs);
    let mut y = axis(&format!("{gaining}: FCT p99 ({unit})"));
    from_zero(&mut y, &ys);
    Some(Figure {
        title: format!("What {gaining} gains, and what {giving} gives for it"),
        note: "Further down is faster for the one, further right is better for the other. Hollow: a lower bound."
            .into(),
        data,
        layout: layout(&x, &y),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::comparison::{Variant, compare};
    use crate::results::samples;

    /// Across stands the group with a contract, or else the one of the largest class.
    #[test]
    fn the_flexible_group_stands_across() {
        let mut result = samples::run();
        let title = |result: &crate::results::RunResult| {
            let variants = [Variant { label: "a", result }, Variant { label: "<b>", result }];
            let figure = exchange(&compare(&variants)).unwrap();
            assert_eq!((figure.data.len(), &figure.data[1]["name"]), (2, &json!("&lt;b&gt;")));
            assert_eq!(figure.data[0]["x"][0], 100.0);
            figure.layout["xaxis"]["title"]["text"].as_str().unwrap().to_owned()
        };
        assert_eq!(title(&result), "training: share kept (%)");
        result.groups[1].contract = "none".into();
        result.groups[0].class = "1 (low)".into();
        assert_eq!(title(&result), "search: share kept (%)");
        assert!(exchange(&compare(&[Variant { label: "a", result: &result }])).is_none());
    }
}
