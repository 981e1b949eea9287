"""The points of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._pliant import SweepPlan


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    values: dict[str, str]
    """The keys that vary, and their values."""
    seed: int
    """The seed."""
    folder: Path
    """Where its files are."""
    label: str
    """What its rows call it."""
    text: str
    """The resolved scenario."""

    @property
    def named(self) -> dict[str, str]:
        """The keys that vary and their values, without the seed: that is named for every point."""
        return {key: value for key, value in self.values.items() if key != "seed"}

    @staticmethod
    def of_plan(plan: SweepPlan, index: int) -> Point:
        """Take a point of a plan."""
        choice, seed, text, folder = plan.describe(index)
        return Point(dict(choice), seed, Path(folder), plan.label(index), text)
