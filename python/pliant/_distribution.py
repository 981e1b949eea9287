"""Distributions of sizes from numbers that a program has."""

from __future__ import annotations

from collections.abc import Iterable

from ._errors import PliantError

# More points than this make a scenario hard to read and no run different.
_MOST_POINTS = 1000


def distribution(sizes: Iterable[float], cdf: Iterable[float] | None = None) -> str:
    """Return a distribution of sizes as the key ``workload`` takes it.

    Args:
        sizes: Sizes in bytes: those of a sample, or those at which ``cdf`` is given. Anything that yields
            numbers, such as a numpy array or a column.
        cdf: For each size the fraction of sizes at most as large, with 1 at the end. Without it ``sizes`` is a
            sample of which every size is equally likely; of more than 1000 it is a thousand quantiles.

    >>> import pliant
    >>> print(pliant.distribution([1000, 2000, 2000, 8000]))
    size_bytes,cdf
    1000,0.25
    2000,0.25
    2000,0.75
    8000,0.75
    8000,1
    <BLANKLINE>

    Between rows sizes are interpolated; rows of equal probability are a gap, so that no size is drawn that the sample
    does not have.
    """
    points = _of_sample(sizes) if cdf is None else _of_cdf(list(sizes), list(cdf))
    return "size_bytes,cdf\n" + "".join(f"{size},{fraction:.12g}\n" for size, fraction in points)


def _whole(size: float) -> int:
    number = float(size)
    if not 1 <= number <= 2**50:
        raise PliantError(f"distribution: a size is 1 to 2^50 bytes, not {size}")
    return round(number)


def _of_sample(sizes: Iterable[float]) -> list[tuple[int, float]]:
    ordered = sorted(_whole(size) for size in sizes)
    if not ordered:
        raise PliantError("distribution: there are no sizes")
    if len(ordered) > _MOST_POINTS:
        last = len(ordered) - 1
        ordered = [ordered[round(last * part / (_MOST_POINTS - 1))] for part in range(_MOST_POINTS)]
    points: list[tuple[int, float]] = []
    for index, size in enumerate(ordered):
        before, after = index / len(ordered), (index + 1) / len(ordered)
        if points and points[-1][0] == size:
            points[-1] = (size, after)
        else:
            if index > 0:
                points.append((size, before))
            points.append((size, after))
    return points


def _of_cdf(sizes: list[float], cdf: list[float]) -> list[tuple[int, float]]:
    if len(sizes) != len(cdf):
        raise PliantError(f"distribution: {len(sizes)} sizes and {len(cdf)} probabilities")
    return [(_whole(size), float(fraction)) for size, fraction in zip(sizes, cdf, strict=True)]
