"""The transpose all-reduce: each worker takes the mean of its part of the vector, and sends it to all others."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from .._errors import PliantError
from ._coding import Array, Coding, needed

DTYPES = (np.dtype("float32"), np.dtype("float64"))
REDUCE, GATHER = 0, 1
PHASES = ("reduce", "gather")


class Arrival(NamedTuple):
    """What came of a worker's messages in one phase of a step."""

    phase: str
    """``reduce``, in which a worker's contribution comes, or ``gather``, in which the mean does."""
    peer: int
    """The worker that sent them."""
    messages: int
    """How many there were."""
    arrived: int
    """How many arrived."""


class Tag(NamedTuple):
    """Which messages: of a step, a phase, and from whom."""

    sequence: int
    phase: int
    sender: int


class Transpose(abc.ABC):
    """The arithmetic of a worker; how messages go and come is a subclass's."""

    rank: int
    world: int
    bounds: tuple[float, float]
    """Of each phase."""
    message_bytes: int
    rotate: bool
    seed: int

    @abc.abstractmethod
    def post(self, tag: Tag, to: int, coding: Coding, messages: Array, bound: float) -> None:
        """Send messages, of which all but ``bound`` arrive; does not wait."""

    @abc.abstractmethod
    def take(self, tag: Tag, coding: Coding, dtype: np.dtype[Any]) -> tuple[list[int], Array]:
        """Wait until what arrives of a worker's messages has arrived; their numbers, and a row for each."""

    def coding(self, length: int, itemsize: int, bound: float) -> Coding:
        """How so many elements go in messages. Where nothing may be missing there is no error to spread."""
        return Coding(length, self.message_bytes // itemsize, self.rotate and bound > 0)

    def _seed(self, tag: Tag, to: int) -> list[int]:
        return [self.seed, *tag, to]

    def mean(self, sequence: int, vector: Array, exact: bool) -> tuple[Array, list[Arrival]]:
        """Return the estimate of the workers' mean, and what arrived for it."""
        flat = np.ascontiguousarray(vector).reshape(-1)
        if flat.dtype not in DTYPES:
            raise PliantError(f"all_reduce takes float32 and float64, not {flat.dtype}")
        bounds = (0.0, 0.0) if exact else self.bounds
        edges = [flat.size * part // self.world for part in range(self.world + 1)]
        parts = [slice(*edges[part : part + 2]) for part in range(self.world)]
        others = [peer for peer in range(self.world) if peer != self.rank]
        # Workers begin with different ones, so that not all send to the first at once.
        others = others[self.rank :] + others[: self.rank]
        arrivals: list[Arrival] = []

        def send(phase: int, peer: int, part: Array) -> None:
            tag, coding = Tag(sequence, phase, self.rank), self.coding(part.size, flat.itemsize, bounds[phase])
            if part.size:
                self.post(tag, peer, coding, coding.encode(part, self._seed(tag, peer)), bounds[phase])

        def receive(phase: int, peer: int, length: int) -> Array:
            tag, coding = Tag(sequence, phase, peer), self.coding(length, flat.itemsize, bounds[phase])
            if not length:
                return np.zeros(0, flat.dtype)
            numbers, messages = self.take(tag, coding, flat.dtype)
            least = needed(coding.rows, bounds[phase])
            if len(numbers) < least:
                raise PliantError(
                    f"of worker {peer}'s {coding.rows} messages {len(numbers)} arrived, and {least} were promised"
                )
            arrivals.append(Arrival(PHASES[phase], peer, coding.rows, len(numbers)))
            return coding.decode(numbers, messages, self._seed(tag, self.rank))

        for peer in others:
            send(REDUCE, peer, flat[parts[peer]])
        mean = np.empty_like(flat)
        own = flat[parts[self.rank]].copy()
        # In the order of ranks, so that the sum does not depend on who comes first.
        for peer in sorted(others):
            own += receive(REDUCE, peer, own.size)
        own /= self.world
        mean[parts[self.rank]] = own
        for peer in others:
            send(GATHER, peer, own)
        for peer in sorted(others):
            mean[parts[peer]] = receive(GATHER, peer, parts[peer].stop - parts[peer].start)
        return mean.reshape(vector.shape), arrivals
