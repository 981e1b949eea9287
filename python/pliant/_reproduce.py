"""The figures of papers."""

from __future__ import annotations

import html
import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _pliant
from ._progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Reproduction:
    """What became of a paper's figures: claims with verdicts, and plots."""

    claims: list[dict[str, Any]]
    """A dict for each claim: what the paper says, its value, ours, and whether they agree."""
    plots: list[dict[str, Any]]
    """A dict for each plot: title, axes, and series of points, the paper's own among them."""

    def __init__(self, claims: list[dict[str, Any]], text: str, page: str, plots: list[dict[str, Any]]) -> None:
        """Take what the runs gave."""
        self.claims, self.plots = claims, plots
        self._text, self._page = text, page

    def plot(self, index: int = 0, *, ax: Axes | None = None) -> Axes:
        """Draw one of the plots; what the paper has is dashed."""
        from . import plots

        return plots.figure(self.plots[index], ax=ax)

    def write_page(self, path: str | PathLike[str]) -> None:
        """Write the page that ``pliant reproduce --out`` makes, with every figure and claim."""
        Path(path).write_text(self._page, encoding="utf-8")

    def __str__(self) -> str:
        """Return the table that ``pliant reproduce`` prints."""
        return self._text

    def __repr__(self) -> str:
        """Count the verdicts."""
        verdicts = [claim["verdict"] for claim in self.claims]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts)))
        return f"<Reproduction: {counts}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"


def reproduce(
    paper: str,
    figure: str | None = None,
    *,
    full: bool = False,
    cache: str | PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Reproduction:
    """Run the figures of a paper, and compare what comes out with what it says.

    Args:
        paper: Its name, as ``figures()`` lists them.
        figure: Its name; all of the paper if it is left out.
        full: Whether the paper's sizes run in place of quick ones.
        cache: Folder in which finished runs are kept. Default: ``~/.cache/pliant``.
        jobs: Runs at once; as many as processors if it is left out.
        progress: Whether progress is shown. ``None`` shows it on a terminal and in a notebook.
    """
    folder = Path.home() / ".cache" / "pliant" if cache is None else Path(cache)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Progress(progress) as shown:
        claims, text, page, plots = _pliant.reproduce(paper, figure, full, folder, jobs, shown)
    return Reproduction(json.loads(claims), text, page, plots)


def figures(paper: str | None = None) -> list[tuple[str, str]]:
    """Return name and title of every figure that can be reproduced, or of those of one paper.

    >>> import pliant
    >>> "reflex fig03" in dict(pliant.figures("reflex"))
    True
    """
    return _pliant.figures(paper)
