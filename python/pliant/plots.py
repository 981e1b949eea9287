"""Plots that a paper can use. Each takes matplotlib axes, or makes some, and returns them.

``pliant.plotly_plots`` draws the plots of a run by plotly.

>>> import matplotlib; matplotlib.use("agg")
>>> import pliant, pliant.plots
>>> r = pliant.run(pliant.Scenario.load("demo").set("duration", "1ms"))
>>> pliant.plots.fct_cdf(r).get_xlabel()
'FCT (µs)'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _drawings
from ._errors import PliantError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._compare import Comparison
    from ._run import Result


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.figure(layout="constrained").subplots()
    return made


def _lines(drawing: _drawings.Curves, ax: Axes | None) -> Axes:
    ax = _axes(ax)
    for curve in drawing.curves:
        ax.plot(
            curve.x,
            curve.y,
            drawstyle="steps-post" if drawing.steps else "default",
            marker="o" if drawing.points else None,
            markersize=3,
            label=curve.name,
        )
    ax.set(xlabel=drawing.x_label, ylabel=drawing.y_label)
    if drawing.x_log:
        ax.set_xscale("log")
    ax.set_ylim(0, drawing.y_most)
    ax.legend(frameon=False)
    return ax


def fct_cdf(result: Result, *, groups: list[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of flow completion times of each group.

    A flow that did not complete counts among the flows and never ends: its curve stays below 1.
    """
    return _lines(_drawings.fct_cdf(result, groups), ax)


def slowdown_by_size(
    result: Result,
    *,
    quantile: float = 0.99,
    buckets: int = 12,
    groups: list[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a quantile of the slowdown (FCT over the ideal one) by flow size, in buckets of equally many flows.

    Only completed flows have a slowdown.
    """
    return _lines(_drawings.slowdown_by_size(result, quantile, buckets, groups), ax)


def share_over_time(result: Result, *, groups: list[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw each group's part of the bytes that were delivered, over time. The scenario has a ``sample_interval``."""
    return _lines(_drawings.share_over_time(result, groups), ax)


def queue_heat_map(result: Result, *, ports: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the bytes in the queues of the fullest ports over time. The scenario has a ``sample_interval``."""
    drawing = _drawings.queue_heat_map(result, ports)
    ax = _axes(ax)
    extent = (drawing.begin, drawing.end, len(drawing.rows), 0)
    image = ax.imshow(drawing.values, aspect="auto", interpolation="nearest", extent=extent, cmap="viridis")
    ax.set(xlabel=drawing.x_label, yticks=np.arange(len(drawing.rows)) + 0.5)
    ax.set_yticklabels(drawing.rows, fontsize="x-small")
    ax.figure.colorbar(image, ax=ax, label=drawing.value_label)
    return ax


def changes(comparison: Comparison, measure: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the changes of a measure against the first variant, with 95 % intervals."""
    rows = comparison.changes
    if not rows:
        raise PliantError("a comparison of one seed or one variant has no changes")
    measure = rows[0]["measure"] if measure is None else measure
    rows = [row for row in rows if row["measure"] == measure]
    if not rows:
        there = ", ".join(dict.fromkeys(row["measure"] for row in comparison.changes))
        raise PliantError(f"there is no measure {measure!r}; there are: {there}")
    ax = _axes(ax)
    groups = list(dict.fromkeys(row["group"] for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    width = 0.8 / len(groups)
    for index, group in enumerate(groups):
        of_group = [row for row in rows if row["group"] == group]
        x = [variants.index(row["variant"]) + (index - (len(groups) - 1) / 2) * width for row in of_group]
        y = [100 * row["change"] for row in of_group]
        below = [100 * (row["change"] - row["low"]) for row in of_group]
        above = [100 * (row["high"] - row["change"]) for row in of_group]
        ax.bar(x, y, width, yerr=(below, above), capsize=3, label=group)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(variants)), variants)
    ax.set(ylabel=f"{measure}: change against {comparison.labels[0]} (%)")
    ax.legend(frameon=False)
    return ax


def figure(plot: dict[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw a plot of a reproduction. The paper's own points are dashed, the spread over seeds is a band."""
    ax = _axes(ax)
    series = plot["series"]
    for index, curve in enumerate(series):
        style: dict[str, Any] = {"label": curve["name"], "color": f"C{index % 10}"}
        x, y = np.asarray(curve["x"], dtype=float), np.asarray(curve["y"], dtype=float)
        if plot["kind"] == "bars":
            width = 0.8 / len(series)
            ax.bar(
                x + (index - (len(series) - 1) / 2) * width, y, width, hatch="//" if curve["paper"] else None, **style
            )
            continue
        line = "none" if plot["kind"] == "points" else "--" if curve["paper"] else "-"
        draws_steps = plot["kind"] in ("cdf", "ccdf")
        marker = "o" if plot["kind"] == "points" else None
        ax.plot(
            x,
            y,
            linestyle=line,
            marker=marker,
            markersize=3,
            drawstyle="steps-post" if draws_steps else "default",
            **style,
        )
        spread = curve["spread"]
        if any(spread) and line != "none":
            low = [ends[0] if ends else value for ends, value in zip(spread, curve["y"], strict=True)]
            high = [ends[1] if ends else value for ends, value in zip(spread, curve["y"], strict=True)]
            ax.fill_between(x, low, high, alpha=0.2, linewidth=0, color=style["color"])
    if plot["categories"]:
        ax.set_xticks(range(len(plot["categories"])), plot["categories"])
    ax.set(title=plot["title"], xlabel=plot["x_label"], ylabel=plot["y_label"])
    if plot["x_log"]:
        ax.set_xscale("log")
    if plot["y_log"]:
        ax.set_yscale("log")
    ax.legend(frameon=False)
    return ax
