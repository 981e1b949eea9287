"""The plots of a run as figures of plotly, for notebooks and browsers. ``pliant.plots`` draws the same by matplotlib.

>>> import pliant, pliant.plotly_plots
>>> r = pliant.run(pliant.Scenario.load("demo").set("duration", "1ms"))
>>> pliant.plotly_plots.fct_cdf(r).layout.xaxis.title.text
'FCT (µs)'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _drawings

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from ._run import Result


def _graph_objects() -> Any:
    try:
        import plotly.graph_objects
    except ModuleNotFoundError:
        raise ImportError("this needs the package plotly: `pip install plotly`") from None
    return plotly.graph_objects


def _lines(drawing: _drawings.Curves) -> Figure:
    go = _graph_objects()
    figure: Figure = go.Figure()
    mode = "lines+markers" if drawing.points else "lines"
    line = {"shape": "hv" if drawing.steps else "linear"}
    for curve in drawing.curves:
        figure.add_trace(go.Scatter(x=curve.x, y=curve.y, name=curve.name, mode=mode, line=line))
    figure.update_xaxes(title=drawing.x_label, type="log" if drawing.x_log else "linear")
    figure.update_yaxes(title=drawing.y_label, rangemode="tozero")
    if drawing.y_most is not None:
        figure.update_yaxes(range=[0, drawing.y_most])
    figure.update_layout(showlegend=True)
    return figure


def fct_cdf(result: Result, *, groups: list[str] | None = None) -> Figure:
    """Draw the cumulative distribution of flow completion times of each group, as ``pliant.plots.fct_cdf``."""
    return _lines(_drawings.fct_cdf(result, groups))


def slowdown_by_size(
    result: Result, *, quantile: float = 0.99, buckets: int = 12, groups: list[str] | None = None
) -> Figure:
    """Draw a quantile of the slowdown by flow size, as ``pliant.plots.slowdown_by_size``."""
    return _lines(_drawings.slowdown_by_size(result, quantile, buckets, groups))


def share_over_time(result: Result, *, groups: list[str] | None = None) -> Figure:
    """Draw each group's part of the bytes that were delivered, as ``pliant.plots.share_over_time``."""
    return _lines(_drawings.share_over_time(result, groups))


def queue_heat_map(result: Result, *, ports: int = 20) -> Figure:
    """Draw the bytes in the queues of the fullest ports over time, as ``pliant.plots.queue_heat_map``."""
    go = _graph_objects()
    drawing = _drawings.queue_heat_map(result, ports)
    # The ends of the steps. Rows go by number, since two ports may have one name.
    edges = np.linspace(drawing.begin, drawing.end, drawing.values.shape[1] + 1)
    bar = {"title": drawing.value_label}
    heat = go.Heatmap(x=edges, y=np.arange(len(drawing.rows)), z=drawing.values, colorscale="Viridis", colorbar=bar)
    figure: Figure = go.Figure(heat)
    figure.update_xaxes(title=drawing.x_label)
    figure.update_yaxes(autorange="reversed", tickvals=np.arange(len(drawing.rows)), ticktext=drawing.rows)
    return figure
