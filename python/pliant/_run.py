"""One run."""

from __future__ import annotations

import html
import json
from functools import cached_property
from os import PathLike
from typing import Any

from . import _pliant
from ._pliant import Scenario, Table
from ._progress import Progress


class Result:
    """What a run yielded: tables, statistics, a digest.

    Tables are Arrow tables that nothing is copied of: ``pyarrow.table(r.flows)``, ``polars.DataFrame(r.flows)``,
    ``duckdb.from_arrow``; or ``r.flows.to_pandas()``. `docs/output.md` describes their columns, and so does
    ``r.flows.columns``.
    """

    def __init__(self, run: _pliant.RunResult) -> None:
        """Wrap what the simulator gave."""
        self._run = run

    @property
    def digest(self) -> str:
        """Hash over all events, in 16 hexadecimal digits. Equal runs have equal digests."""
        return self._run.digest

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What identifies the run, what it cost, and statistics of each traffic group: ``summary.json``."""
        summary: dict[str, Any] = json.loads(self._run.summary_json())
        return summary

    @property
    def scenario_toml(self) -> str:
        """The scenario with every default, as text."""
        return self._run.scenario_toml

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its end."""
        return bool(self.summary["interrupted"])

    @cached_property
    def flows(self) -> Table:
        """A row for each flow that started."""
        return self._run.table("flows")

    @cached_property
    def objects(self) -> Table:
        """A row for each object that several sources brought."""
        return self._run.table("objects")

    @cached_property
    def ports(self) -> Table:
        """A row for each queue of each port."""
        return self._run.table("ports")

    @cached_property
    def queue_series(self) -> Table:
        """Queue lengths over time; empty without ``sample_interval``."""
        return self._run.table("queue_series")

    @cached_property
    def throughput_series(self) -> Table:
        """Throughput over time; empty without ``sample_interval``."""
        return self._run.table("throughput_series")

    @cached_property
    def reflex_series(self) -> Table:
        """Standings of flows under REFLEX over time; empty without ``sample_interval``."""
        return self._run.table("reflex_series")

    @cached_property
    def window_series(self) -> Table:
        """Windows of senders over time; empty without ``sample_windows``."""
        return self._run.table("window_series")

    def write(self, folder: str | PathLike[str], *, force: bool = False, identify: bool = False) -> None:
        """Write the folder that ``pliant run --out`` writes, whole or not at all."""
        self._run.write(folder, "", force, identify)

    def __str__(self) -> str:
        """Return the table that ``pliant run`` prints."""
        return self._run.text()

    def __repr__(self) -> str:
        """Say what it is of."""
        return f"<Result of {self.summary['scenario']!r}, seed {self.summary['seed']}, digest {self.digest}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def run(scenario: Scenario, *, progress: bool | None = None) -> Result:
    """Run a scenario.

    Other threads of Python go on meanwhile. On an interrupt the run stops, and KeyboardInterrupt is raised.

    Args:
        scenario: What to run.
        progress: Whether progress is shown. ``None`` shows it on a terminal and in a notebook.

    Raises:
        ScenarioError: The scenario is refused, as the command line refuses it.

    >>> import pliant
    >>> s = pliant.Scenario.load("demo").set("duration", "1ms")
    >>> r = pliant.run(s)
    >>> len(r.flows) == sum(group["all"]["flows"] for group in r.summary["groups"])
    True
    """
    with Progress(progress) as shown:
        return Result(_pliant.run(scenario, shown))
