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
        "xaxis": x, "yaxis": y, "height": 360, "margin": { "l": 56, "r": 40, "t": 8, "b": 44 },
        "font": { "family": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif", "size": 12, "color": "#334155" },
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "hovermode": "closest", "showlegend": true,
        "modebar": { "orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": "#94a3b8", "activecolor": "#334155" },
        "legend": { "orientation": "h", "traceorder": "normal", "x": 0, "y": 1.02, "yanchor": "bottom", "font": { "size": 12 } },
    })
}
