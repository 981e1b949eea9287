"""What the plots of a run show: ``plots`` draws it by matplotlib, ``plotly_plots`` by plotly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._errors import PliantError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._run import Result

    Numbers: TypeAlias = NDArray[np.float64]

_PS_PER_MS = 1e9
_NO_SERIES = "the run has no series over time: set `sample_interval`"


@dataclass(frozen=True)
class Curve:
    """A line of a plot."""

    name: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class Curves:
    """Lines over one axis."""

    curves: list[Curve]
    x_label: str
    y_label: str
    x_log: bool = False
    """Whether the axis is logarithmic."""
    y_most: float | None = None
    """The end of the other axis, which begins at 0; ``None`` where the curves give it."""
    steps: bool = False
    """Whether a value holds until the next one."""
    points: bool = False
    """Whether values are marked."""


@dataclass(frozen=True)
class HeatMap:
    """Values of named rows in steps of an axis."""

    rows: list[str]
    begin: float
    """Where the first step begins."""
    end: float
    """Where the last step ends."""
    values: Numbers
    """A row for each name, a column for each step."""
    x_label: str
    value_label: str


def _frame(table: Any, columns: list[str]) -> Any:
    return table.select(columns).to_pandas()


def _groups(frame: Any, groups: list[str] | None) -> list[str]:
    there = list(dict.fromkeys(frame["group"].tolist()))
    for group in groups or []:
        if group not in there:
            raise PliantError(f"there is no traffic group {group!r}; there are: {', '.join(there)}")
    return there if groups is None else groups


def fct_cdf(result: Result, groups: list[str] | None) -> Curves:
    """Give the part of each group's flows that had completed within a time."""
    frame = _frame(result.flows, ["group", "fct_us", "state"])
    frame = frame[frame["state"] != "ran_to_end"]

    def curve(group: str) -> Curve:
        of_group = frame[frame["group"] == group]
        times = np.sort(of_group["fct_us"].dropna().to_numpy(dtype=float))
        return Curve(group, times, np.arange(1, len(times) + 1) / max(len(of_group), 1))

    curves = [curve(group) for group in _groups(frame, groups)]
    return Curves(curves, "FCT (µs)", "fraction of flows", x_log=True, y_most=1, steps=True)


def slowdown_by_size(result: Result, quantile: float, buckets: int, groups: list[str] | None) -> Curves:
    """Give a quantile of the slowdown in buckets of equally many flows, by the median size of each."""
    frame = _frame(result.flows, ["group", "size_bytes", "slowdown"]).dropna()

    def curve(group: str) -> Curve:
        of_group = frame[frame["group"] == group].sort_values("size_bytes", kind="stable")
        parts = [part for part in np.array_split(np.arange(len(of_group)), buckets) if len(part)]
        sizes = of_group["size_bytes"].to_numpy(dtype=float)
        slowdowns = of_group["slowdown"].to_numpy(dtype=float)
        x = np.array([np.median(sizes[part]) for part in parts])
        return Curve(group, x, np.array([np.quantile(slowdowns[part], quantile) for part in parts]))

    curves = [curve(group) for group in _groups(frame, groups)]
    return Curves(curves, "flow size (bytes)", f"slowdown, p{100 * quantile:g}", x_log=True, points=True)


def share_over_time(result: Result, groups: list[str] | None) -> Curves:
    """Give each group's part of the bytes that were delivered, over time."""
    frame = _frame(result.throughput_series, ["at_ps", "group", "delivered_bytes"])
    if frame.empty:
        raise PliantError(_NO_SERIES)
    frame = frame.assign(group=frame["group"].astype(str))
    by_time = frame.pivot_table(index="at_ps", columns="group", values="delivered_bytes", aggfunc="sum", fill_value=0)
    shares = by_time.div(by_time.sum(axis=1), axis=0).fillna(0)
    times = shares.index.to_numpy(dtype=float) / _PS_PER_MS
    curves = [Curve(group, times, shares[group].to_numpy(dtype=float)) for group in _groups(frame, groups)]
    return Curves(curves, "time (ms)", "share of delivered bytes", y_most=1)


def queue_heat_map(result: Result, ports: int) -> HeatMap:
    """Give the bytes in the queues of the fullest ports over time, the fullest first."""
    frame = _frame(result.queue_series, ["at_ps", "port", "bytes"])
    if frame.empty:
        raise PliantError(_NO_SERIES)
    by_port = frame.pivot_table(index="port", columns="at_ps", values="bytes", aggfunc="sum", fill_value=0)
    # A queue that is empty has no sample: times without any are filled in.
    times = by_port.columns.to_numpy(dtype=float)
    step = float(np.min(np.diff(times))) if len(times) > 1 else 1.0
    filled = np.zeros((len(by_port), round((times[-1] - times[0]) / step) + 1))
    filled[:, np.rint((times - times[0]) / step).astype(int)] = by_port.to_numpy(dtype=float)
    fullest = np.argsort(filled.max(axis=1))[::-1][:ports]
    names = _frame(result.ports, ["port", "port_name"]).drop_duplicates("port").set_index("port")["port_name"]
    rows = [str(names.loc[port]) for port in by_port.index[fullest]]
    begin, end = float(times[0]) / _PS_PER_MS, (float(times[-1]) + step) / _PS_PER_MS
    return HeatMap(rows, begin, end, filled[fullest] / 1e3, "time (ms)", "queue (kB)")
