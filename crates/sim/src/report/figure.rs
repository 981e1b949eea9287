//! A plot, and what all plots have in common.

use std::borrow::Cow;

use serde_json::{Value, json};

/// Colours that remain apart for colour-blind readers (after Okabe and Ito, darkened for lines on white).
pub(super) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#b8558f", "#8a6d00", "#3c9fd6", "#7a5195", "#555555"];

/// The colour of the group or variant with this index.
pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// One plot.
pub(super) struct Figure {
    pub(super) title: String,
    /// How to read it, in one line.
    pub(super) note: Cow<'static, str>,
    pub(super) data: Vec<Value>,
    pub(super) layout: Value,
}

/// `value` with six significant digits, which is finer than any screen and halves the page.
pub(super) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().expect("a number that was just printed")
}

pub(super) fn axis(title: &str) -> Value {
    json!({
        "title": { "text": title, "standoff": 8 }, "gridcolor": "#e6eaef", "linecolor": "#9aa5b1", "showline": true,
        "zeroline": false, "ticks": "outside", "tickcolor": "#9aa5b1", "ticklen": 4, "automargin": true,
    })
}

/// Lets an axis begin at zero, unless all its values would be pressed into the far third.
pub(super) fn from_zero(axis: &mut Value, values: &[f64]) {
    let (low, _) = extent(values);
    if low == 0.0 {
        axis["rangemode"] = json!("tozero");
    }
}

/// From where to where an axis goes for these values.
fn extent(values: &[f64]) -> (f64, f64) {
    let (least, most) =
        values.iter().fold((f64::MAX, 0.0f64), |(least, most), &value| (least.min(value), most.max(value)));
    if least < most * 2.0 / 3.0 || least >= most { (0.0, most.max(f64::MIN_POSITIVE)) } else { (least, most) }
}

/// A dot with a label, as a plot shows it.
pub(super) struct Dot {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Characters of its label.
    pub(super) characters: usize,
}

/// Width and height of a plot in pixels, and of a character and half a dot in it, by which labels are kept apart.
const PLOT: (f64, f64) = (560.0, 290.0);
const CHARACTER: f64 = 7.0;
const HALF_DOT: f64 = 8.0;

/// Where the label of each dot stands, so that it covers no other dot or label; above it if there is no such place.
pub(super) fn label_places(dots: &[Dot]) -> Vec<&'static str> {
    const PLACES: [(&str, f64, f64); 8] = [
        ("top center", 0.0, 1.0),
        ("bottom center", 0.0, -1.0),
        ("middle right", 1.0, 0.0),
        ("middle left", -1.0, 0.0),
        ("top right", 1.0, 1.0),
        ("bottom right", 1.0, -1.0),
        ("top left", -1.0, 1.0),
        ("bottom left", -1.0, -1.0),
    ];
    let place = |value: f64, (low, high): (f64, f64), pixels: f64| (value - low) / (high - low) * pixels;
    let xs = extent(&dots.iter().map(|dot| dot.x).collect::<Vec<_>>());
    let ys = extent(&dots.iter().map(|dot| dot.y).collect::<Vec<_>>());
    let centres: Vec<(f64, f64)> =
        dots.iter().map(|dot| (place(dot.x, xs, PLOT.0), place(dot.y, ys, PLOT.1))).collect();
    // Left, right, below, above of what is taken.
    let around = |(x, y): (f64, f64), half: (f64, f64)| [x - half.0, x + half.0, y - half.1, y + half.1];
    let overlap = |a: &[f64; 4], b: &[f64; 4]| a[0] < b[1] && b[0] < a[1] && a[2] < b[3] && b[2] < a[3];
    let markers: Vec<[f64; 4]> = centres.iter().map(|&centre| around(centre, (HALF_DOT, HALF_DOT))).collect();
    let mut labels: Vec<[f64; 4]> = Vec::new();
    let mut chosen = Vec::new();
    for (at, dot) in dots.iter().enumerate() {
        if dot.characters == 0 {
            chosen.push(PLACES[0].0);
            continue;
        }
        let half = (dot.characters as f64 * CHARACTER / 2.0, HALF_DOT);
        let label = |(_, right, up): (&str, f64, f64)| {
            let centre = (centres[at].0 + right * (half.0 + HALF_DOT), centres[at].1 + up * 2.0 * HALF_DOT);
            around(centre, half)
        };
        let is_free = |&&candidate: &&(&str, f64, f64)| {
            let taken = label(candidate);
            let others = markers.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, marker)| marker);
            !labels.iter().chain(others).any(|other| overlap(&taken, other))
        };
        let best = *PLACES.iter().find(is_free).unwrap_or(&PLACES[0]);
        labels.push(label(best));
        chosen.push(best.0);
    }
    chosen
}

pub(super) fn log_axis(title: &str) -> Value {
    let mut axis = axis(title);
    axis["type"] = json!("log");
    axis["exponentformat"] = json!("SI");
    axis["minexponent"] = json!(2);
    axis["dtick"] = json!("D2");
    axis
}

pub(super) fn layout(x: &Value, y: &Value) -> Value {
    json!({
        "xaxis": x, "yaxis": y, "height": 360, "margin": { "l": 56, "r": 20, "t": 8, "b": 44 },
        "font": { "family": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif", "size": 12, "color": "#334155" },
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "hovermode": "closest", "showlegend": true,
        "legend": { "orientation": "h", "traceorder": "normal", "x": 0, "y": 1.02, "yanchor": "bottom", "font": { "size": 12 } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels of dots that are close stand apart; others stand above their dot.
    #[test]
    fn labels_keep_clear_of_each_other() {
        let dot = |x: f64, y: f64| Dot { x, y, characters: 12 };
        assert_eq!(label_places(&[dot(1.0, 1.0), dot(9.0, 9.0)]), ["top center", "top center"]);
        let close = label_places(&[dot(53.8, 1.39), dot(54.0, 1.36), dot(54.2, 2.7), dot(50.4, 2.0)]);
        assert_eq!(close, ["top center", "bottom center", "top center", "top center"]);
        let same = label_places(&[dot(1.0, 1.0), dot(1.0, 1.0), dot(1.0, 1.0)]);
        assert_eq!(same.len(), 3);
        assert_ne!(same[0], same[1]);
        assert!(label_places(&[]).is_empty());
    }

    /// An axis begins at zero where values come near it, and not where they are all far away.
    #[test]
    fn far_values_leave_zero_out() {
        let begins = |values: &[f64]| {
            let mut axis = axis("x");
            from_zero(&mut axis, values);
            axis["rangemode"] == "tozero"
        };
        assert!(begins(&[1.0, 2.0]) && begins(&[5.0]) && begins(&[]) && begins(&[0.0, 3.0]));
        assert!(!begins(&[50.4, 54.5]));
    }
}
