"""Plots that a paper can use. Each takes matplotlib axes, or makes some, and returns them.

>>> import matplotlib; matplotlib.use("agg")
>>> import pliant, pliant.plots
>>> r = pliant.run(pliant.Scenario.load("demo").set("duration", "1ms"))
>>> pliant.plots.fct_cdf(r).get_xlabel()
'FCT (µs)'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import PliantError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._compare import Comparison
    from ._run import Result

_PS_PER_MS = 1e9


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.figure(layout="constrained").subplots()
    return made


def _frame(table: Any, columns: list[str]) -> Any:
    return table.select(columns).to_pandas()


def _groups(frame: Any, groups: list[str] | None) -> list[str]:
    there = list(dict.fromkeys(frame["group"].tolist()))
    for group in groups or []:
        if group not in there:
            raise PliantError(f"there is no traffic group {group!r}; there are: {', '.join(there)}")
    return there if groups is None else groups


def fct_cdf(result: Result, *, groups: list[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of flow completion times of each group.

    A flow that did not complete counts among the flows and never ends: its curve stays below 1.
    """
    ax = _axes(ax)
    frame = _frame(result.flows, ["group", "fct_us", "state"])
    frame = frame[frame["state"] != "ran_to_end"]
    for group in _groups(frame, groups):
        of_group = frame[frame["group"] == group]
        times = np.sort(of_group["fct_us"].dropna().to_numpy(dtype=float))
        part = np.arange(1, len(times) + 1) / max(len(of_group), 1)
        ax.step(times, part, where="post", label=group)
    ax.set(xscale="log", xlabel="FCT (µs)", ylabel="fraction of flows", ylim=(0, 1))
    ax.legend(frameon=False)
    return ax


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
    ax = _axes(ax)
    frame = _frame(result.flows, ["group", "size_bytes", "slowdown"]).dropna()
    for group in _groups(frame, groups):
        of_group = frame[frame["group"] == group].sort_values("size_bytes", kind="stable")
        parts = [part for part in np.array_split(np.arange(len(of_group)), buckets) if len(part)]
        sizes = of_group["size_bytes"].to_numpy(dtype=float)
        slowdowns = of_group["slowdown"].to_numpy(dtype=float)
        x = [float(np.median(sizes[part])) for part in parts]
        y = [float(np.quantile(slowdowns[part], quantile)) for part in parts]
        ax.plot(x, y, marker="o", markersize=3, label=group)
    ax.set(xscale="log", xlabel="flow size (bytes)", ylabel=f"slowdown, p{100 * quantile:g}")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def share_over_time(result: Result, *, groups: list[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw each group's part of the bytes that were delivered, over time. The scenario has a ``sample_interval``."""
    ax = _axes(ax)
    frame = _frame(result.throughput_series, ["at_ps", "group", "delivered_bytes"])
    if frame.empty:
        raise PliantError("the run has no series over time: set `sample_interval`")
    frame = frame.assign(group=frame["group"].astype(str))
    by_time = frame.pivot_table(index="at_ps", columns="group", values="delivered_bytes", aggfunc="sum", fill_value=0)
    shares = by_time.div(by_time.sum(axis=1), axis=0).fillna(0)
    for group in _groups(frame, groups):
        ax.plot(shares.index.to_numpy(dtype=float) / _PS_PER_MS, shares[group], label=group)
    ax.set(xlabel="time (ms)", ylabel="share of delivered bytes", ylim=(0, 1))
    ax.legend(frameon=False)
    return ax


def queue_heat_map(result: Result, *, ports: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the bytes in the queues of the fullest ports over time. The scenario has a ``sample_interval``."""
    ax = _axes(ax)
    frame = _frame(result.queue_series, ["at_ps", "port", "bytes"])
    if frame.empty:
        raise PliantError("the run has no series over time: set `sample_interval`")
    by_port = frame.pivot_table(index="port", columns="at_ps", values="bytes", aggfunc="sum", fill_value=0)
    # A queue that is empty has no sample: times without any are filled in.
    times = by_port.columns.to_numpy(dtype=float)
    step = float(np.min(np.diff(times))) if len(times) > 1 else 1.0
    grid = np.arange(round((times[-1] - times[0]) / step) + 1)
    filled = np.zeros((len(by_port), len(grid)))
    filled[:, np.rint((times - times[0]) / step).astype(int)] = by_port.to_numpy(dtype=float)
    fullest = np.argsort(filled.max(axis=1))[::-1][:ports]
    names = _frame(result.ports, ["port", "port_name"]).drop_duplicates("port").set_index("port")["port_name"]
    extent = (times[0] / _PS_PER_MS, (times[-1] + step) / _PS_PER_MS, len(fullest), 0)
    image = ax.imshow(filled[fullest] / 1e3, aspect="auto", interpolation="nearest", extent=extent, cmap="viridis")
    ax.set(xlabel="time (ms)", yticks=np.arange(len(fullest)) + 0.5)
    ax.set_yticklabels([str(names.loc[port]) for port in by_port.index[fullest]], fontsize="x-small")
    ax.figure.colorbar(image, ax=ax, label="queue (kB)")
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
