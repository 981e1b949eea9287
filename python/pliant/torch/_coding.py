"""A vector as messages of which some may be missing: what stands for it where not all arrive.

A vector is cut into rows of as many elements as a message holds. Messages carry the rows in a random order, which
sender and receiver draw from the same seed and the network does not know. So whichever messages are missing, each row
was equally likely to be in one of them, and the rows that came, times ``rows / arrived``, have the vector as their
expectation. The mean squared error is ``(rows / arrived - 1)`` times the vector's squared length, if the rows are full.

A rotation (``rotate``) keeps both and spreads the error: columns of up to 64 rows are turned by a randomised Hadamard
transform, so that a missing row takes a little of many elements instead of all of a few.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Rows that are turned together at most.
_MOST_TURNED = 64


def hadamard(rows: Array) -> None:
    """Turn the columns of so many rows, a power of two, in place; done twice, all is as before.

    >>> import numpy as np
    >>> rows = np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> hadamard(rows)
    >>> rows.T
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    count = len(rows)
    half = 1
    while half < count:
        pairs = rows.reshape(count // (2 * half), 2, half, -1)
        first, second = pairs[:, 0], pairs[:, 1]
        first += second
        # first - 2 * second is the difference of what both were.
        second *= -2
        second += first
        half *= 2
    rows *= rows.dtype.type(count) ** -0.5


def needed(rows: int, bound: float) -> int:
    """How many of so many messages arrive at least, as the transport counts: the bound is taken in millionths.

    >>> needed(100, 0.05), needed(10, 0.1), needed(3, 0.25)
    (95, 9, 3)
    """
    return rows - rows * round(bound * 1_000_000) // 1_000_000


class Coding(NamedTuple):
    """How a vector goes in messages."""

    length: int
    """Elements of the vector."""
    row: int
    """Elements of a message."""
    rotate: bool
    """Whether rows are turned."""

    @property
    def rows(self) -> int:
        """How many messages there are."""
        return -(-self.length // self.row)

    def _turn(self, rows: Array) -> None:
        """Turn as many rows together as a power of two allows, until none is left."""
        begin = 0
        while begin < len(rows):
            count = min(_MOST_TURNED, 1 << ((len(rows) - begin).bit_length() - 1))
            hadamard(rows[begin : begin + count])
            begin += count

    def _drawn(self, seed: list[int], dtype: np.dtype[Any]) -> tuple[NDArray[np.int64], Array | None]:
        """Return the row that each message carries, and signs."""
        draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        order = draw.permutation(self.rows)
        if not self.rotate:
            return order, None
        bits = np.unpackbits(np.frombuffer(draw.bytes(-(-self.rows * self.row // 8)), np.uint8))
        signs = bits[: self.rows * self.row].astype(dtype)
        return order, (1 - 2 * signs).reshape(self.rows, self.row)

    def encode(self, vector: Array, seed: list[int]) -> Array:
        """Return the messages, one a row."""
        rows = np.zeros((self.rows, self.row), vector.dtype)
        rows.reshape(-1)[: self.length] = vector
        order, signs = self._drawn(seed, vector.dtype)
        if signs is not None:
            rows *= signs
            self._turn(rows)
        return rows[order]

    def decode(self, numbers: list[int], messages: Array, seed: list[int]) -> Array:
        """Return the estimate of the vector from the messages that arrived, at least one, with their numbers.

        >>> import numpy as np
        >>> coding = Coding(4, 1, rotate=False)
        >>> vector = np.array([1.0, 2.0, 3.0, 4.0])
        >>> messages = coding.encode(vector, [7])
        >>> coding.decode([0, 1, 2, 3], messages[[0, 1, 2, 3]], [7])
        array([1., 2., 3., 4.])
        >>> half = [coding.decode([0, 2], coding.encode(vector, [seed])[[0, 2]], [seed]) for seed in range(5000)]
        >>> (sum(half) / 5000).round(1)
        array([1., 2., 3., 4.])
        """
        order, signs = self._drawn(seed, messages.dtype)
        rows = np.zeros((self.rows, self.row), messages.dtype)
        if len(numbers) == self.rows:
            rows[order[numbers]] = messages
        else:
            rows[order[numbers]] = messages * messages.dtype.type(self.rows / len(numbers))
        if signs is not None:
            self._turn(rows)
            rows *= signs
        return rows.reshape(-1)[: self.length]
