"""Variants of a scenario side by side."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _pliant
from ._pliant import Scenario
from ._progress import Progress
from ._run import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Comparison:
    """Variants of one scenario with the same seeds: statistics, and changes against the first variant."""

    labels: list[str]
    """What each variant is called."""
    runs: list[Result]
    """The run of each variant with the first seed."""
    seeds: list[int]
    """The seeds."""
    answer: str | None
    """What the comparison says, in a sentence; ``None`` of one seed, and where there is nothing to say."""
    data: dict[str, Any]
    """``comparison.json``: ``rows`` are the first seed's statistics, ``changes`` those of all seeds."""

    def __init__(
        self,
        labels: list[str],
        runs: list[Result],
        data: dict[str, Any],
        text: str,
        answer: str | None,
        seeds: list[int],
    ) -> None:
        """Take what the runs gave."""
        self.labels, self.runs, self.data, self.answer, self.seeds = labels, runs, data, answer, seeds
        self._text = text

    @property
    def changes(self) -> list[dict[str, Any]]:
        """A dict for each measure of each group in each variant but the first.

        ``mean`` is over the seeds; ``change`` is the ratio to the first variant less 1, ``low`` and ``high`` its 95 %
        interval by Student's distribution; ``seen`` says whether that leaves out zero.
        """
        changes: list[dict[str, Any]] = self.data.get("changes", [])
        return changes

    def to_pandas(self) -> Any:
        """Return the changes as a ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(self.changes)

    def plot(self, measure: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the changes of a measure with their intervals: a bar for each group and variant.

        Args:
            measure: A measure of ``changes``; the first one if it is left out.
            ax: Axes of matplotlib; new ones if it is left out.
        """
        from . import plots

        return plots.changes(self, measure, ax=ax)

    def __str__(self) -> str:
        """Return the table that ``pliant compare`` prints."""
        return f"{self.answer}\n\n{self._text}" if self.answer else self._text

    def __repr__(self) -> str:
        """Say what is compared."""
        return f"<Comparison of {len(self.labels)} variants, {len(self.seeds)} seeds>"

    def _repr_html_(self) -> str:
        answer = f"<p>{html.escape(self.answer)}</p>" if self.answer else ""
        return f"{answer}<pre>{html.escape(self._text)}</pre>"


def compare(
    scenario: Scenario,
    vary: Mapping[str, Iterable[Any] | str] | None = None,
    *,
    seeds: int = 5,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run variants of a scenario with several seeds, as ``pliant compare`` does.

    Args:
        scenario: The scenario.
        vary: For each key its values, or a text as behind ``--vary KEY=``; several keys span a grid. Without it the
            variants are those that the scenario names.
        seeds: Runs of each variant: with the scenario's seed and those that follow it.
        jobs: Runs at once; as many as processors if it is left out.
        progress: Whether progress is shown. ``None`` shows it on a terminal and in a notebook.

    >>> import pliant
    >>> s = pliant.Scenario.load("demo").set("duration", "1ms")
    >>> c = pliant.compare(s, vary={"queues.plan": ["shared", "strict"]}, seeds=2)
    >>> c.labels
    ['queues.plan=shared', 'queues.plan=strict']
    >>> sorted(c.changes[0])
    ['change', 'group', 'high', 'low', 'mean', 'measure', 'seen', 'variant']
    """
    with Progress(progress) as shown:
        labels, runs, data, text, answer, used = _pliant.compare(scenario, vary or {}, seeds, jobs, shown)
    return Comparison(labels, [Result(run) for run in runs], json.loads(data), text, answer, used)
