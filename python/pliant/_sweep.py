"""A grid of runs, each in a folder of its own, and one table of all."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _dataset, _pliant
from ._pliant import Scenario
from ._points import Point
from ._progress import Progress

if TYPE_CHECKING:
    from distributed import Client


class Sweep:
    """The points of a sweep that have run, and where their files are."""

    folder: Path
    """The folder of the results: ``points`` has the folder of each, ``sweep.csv`` the table of all."""
    points: list[Point]
    """Every point: its keys and values, its seed and its folder."""

    def __init__(self, folder: Path, points: list[Point], table: Path, rows: int, temporary: bool) -> None:
        """Take where the results are; a ``temporary`` folder goes with the sweep."""
        self.folder, self.points, self._table, self._rows = folder, points, table, rows
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def table(self) -> Path:
        """``sweep.csv``: a row for each point, traffic group and flow size."""
        return self._table

    @property
    def dataset(self) -> Path:
        """The flows of all points as one Parquet dataset, partitioned by what varies and the seed (``key=value``)."""
        return self.folder / _dataset.FOLDER

    def __len__(self) -> int:
        """Count the points."""
        return len(self.points)

    def to_pandas(self) -> Any:
        """Return the table of all points as a ``pandas.DataFrame``."""
        import pandas

        return pandas.read_csv(self._table)

    def flows(self) -> Any:
        """Return the flows of all points as a ``pyarrow.dataset.Dataset``, which reads what is asked for."""
        import pyarrow.dataset

        fields = [(key, _type([point.values[key] for point in self.points])) for key in self.points[0].named]
        schema = pyarrow.schema([*fields, ("seed", pyarrow.uint64())])
        partitions = pyarrow.dataset.partitioning(schema, flavor="hive")
        return pyarrow.dataset.dataset(self.dataset, format="parquet", partitioning=partitions)

    def __repr__(self) -> str:
        """Say where it is."""
        return f"<Sweep of {len(self.points)} points, {self._rows} rows in {self._table}>"


def _type(values: list[str]) -> Any:
    """Return the Arrow type of a key's values: numbers if all are."""
    import pyarrow

    for kind, type_ in ((int, pyarrow.int64()), (float, pyarrow.float64())):
        try:
            [kind(value) for value in values]
        except ValueError:
            continue
        return type_
    return pyarrow.string()


def sweep(
    scenario: Scenario,
    vary: Mapping[str, Iterable[Any] | str] | None = None,
    *,
    seeds: int = 1,
    out: str | PathLike[str] | None = None,
    client: Client | None = None,
    jobs: int | None = None,
    identify: bool = False,
    force: bool = False,
    allow_large: bool = False,
    progress: bool | None = None,
) -> Sweep:
    """Run a scenario at every point of a grid, on this machine or on a Dask cluster.

    The same call again runs only the points that are not finished; so does ``pliant sweep``, whose folder it is.

    Args:
        scenario: The scenario.
        vary: For each key its values, or a text as behind ``--vary KEY=``; several keys span a grid.
        seeds: Runs of each choice: with the scenario's seed and those that follow it.
        out: Folder of the results. Default: a temporary one, which goes with what is returned.
        client: A client of a Dask cluster, which runs the points. Its workers need this package, built from the same
            sources; others are refused. Without it the points run here.
        jobs: Runs at once on this machine; as many as processors if it is left out.
        identify: Leads every row of the files with scenario, variant, seed and digest.
        force: Allow points of another grid in the folder.
        allow_large: Allow a sweep that takes longer than a week of one processor.
        progress: Whether progress is shown. ``None`` shows it on a terminal and in a notebook.

    >>> import pliant
    >>> s = pliant.Scenario.load("demo").set("duration", "1ms")
    >>> swept = pliant.sweep(s, vary={"search.load": [0.2, 0.4]}, seeds=2)
    >>> len(swept)
    4
    >>> [(point.values, point.seed) for point in swept.points][0]
    ({'search.load': '0.2'}, 1)
    """
    folder = Path(tempfile.mkdtemp(prefix="pliant-sweep-") if out is None else out)
    # Elsewhere what fits here does not matter.
    here = jobs if client is None else 1
    large = allow_large or client is not None
    plan = _pliant.SweepPlan(scenario, vary or {}, seeds, folder, here, force, large, identify)
    points = [Point.of_plan(plan, index) for index in range(len(plan))]
    try:
        with Progress(progress) as shown:
            if client is None:
                plan.run(shown)
            else:
                from . import dask_sweep

                due = [points[index] for index in plan.due()]
                dask_sweep.run_points(client, due, folder, identify=identify, progress=shown, say=shown.say)
    finally:
        # What finished is kept, also of a sweep that was interrupted.
        table, rows = plan.write_table()
        if client is None:
            for point in points:
                _dataset.add(folder, point)
    return Sweep(folder, points, Path(table), rows, out is None)
