"""The bounded all-reduce without a network: what is missing is chosen by the test."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pliant
from pliant.torch._coding import Coding, hadamard, needed
from pliant.torch._transpose import GATHER, REDUCE, Transpose

WORLD = 4


class Memory:
    """Where workers leave messages for each other."""

    def __init__(self, keep):
        self.keep, self.there, self.changed = keep, {}, threading.Condition()


class Worker(Transpose):
    """A worker whose network delivers the messages, by number, that a function of phase and count keeps."""

    def __init__(self, memory, rank, bounds, rotate, seed, message_bytes=16):
        self.memory, self.rank, self.world, self.bounds = memory, rank, WORLD, bounds
        self.rotate, self.seed, self.message_bytes = rotate, seed, message_bytes

    def post(self, tag, to, coding, messages, bound):
        kept = self.memory.keep(tag.phase, coding.rows, bound)
        with self.memory.changed:
            self.memory.there[tag, to] = (kept, messages[kept])
            self.memory.changed.notify_all()

    def take(self, tag, coding, dtype):
        with self.memory.changed:
            assert self.memory.changed.wait_for(lambda: (tag, self.rank) in self.memory.there, 60)
            return self.memory.there.pop((tag, self.rank))


def first(phase, rows, bound):
    """The worst that a network can do: it always loses the same ones, as many as it may."""
    return list(range(needed(rows, bound)))


def reduced(vectors, bounds, rotate, seeds, keep=first, exact=False):
    """For each seed the results of all workers."""
    memory, results = Memory(keep), [[] for _ in range(WORLD)]

    def work(rank):
        for number, seed in enumerate(seeds):
            worker = Worker(memory, rank, bounds, rotate, seed)
            results[rank].append(worker.mean(number, vectors[rank], exact)[0])

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(WORLD)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return np.array(results).swapaxes(0, 1)


def test_the_hadamard_transform_has_known_answers():
    """Rows of the matrix by its definition, (-1) to the number of common bits; and it is its own inverse."""
    for count in (1, 2, 8, 64):
        matrix = np.eye(count)
        hadamard(matrix)
        signs = [[(-1) ** (row & column).bit_count() for column in range(count)] for row in range(count)]
        np.testing.assert_allclose(matrix, np.array(signs) / count**0.5)
        hadamard(matrix)
        np.testing.assert_allclose(matrix, np.eye(count), atol=1e-15)


def test_as_many_are_needed_as_the_transport_counts():
    """The known numbers of the transport's own test, for which floats go wrong (transport/atp/bound.rs)."""
    tenth = 1.0 - (1.0 - 0.1)
    for rows, bound, least in [(10, tenth, 9), (1000, 0.5, 500), (1000, 0.25, 750), (3, 0.25, 3), (7, 0.0, 7)]:
        assert needed(rows, bound) == least


@pytest.mark.parametrize("rotate", [False, True])
def test_the_expectation_is_the_mean_and_the_error_as_predicted(rotate):
    """Of each worker's twelve messages a quarter is missing, always the same numbers. Over 1000 draws the result's
    average is the mean of four known vectors to within its statistical error; the squared error is the formula's."""
    bounds, draws, row = (0.25, 0.25), 1000, 4
    rows, length = 12, 12 * row * WORLD
    vectors = np.random.default_rng(3).normal(1.0, 2.0, (WORLD, length)).astype(np.float32)
    mean = vectors.astype(float).mean(axis=0)
    results = reduced(vectors, bounds, rotate, range(draws)).astype(float)
    extra = rows / needed(rows, 0.25) - 1
    parts = vectors.astype(float).reshape(WORLD, WORLD, -1)
    for rank in range(WORLD):
        lengths = np.sum(parts**2, axis=2)
        of_reduce = extra * (lengths.sum(axis=0) - np.diag(lengths)) / WORLD**2
        exact = [np.sum(mean.reshape(WORLD, -1)[j] ** 2) for j in range(WORLD)]
        of_gather = [extra * (exact[j] + of_reduce[j]) if j != rank else 0.0 for j in range(WORLD)]
        predicted = sum(of_reduce) + sum(of_gather)
        errors = results[:, rank] - mean
        assert np.mean(np.sum(errors**2, axis=1)) == pytest.approx(predicted, rel=0.05)
        # The average of so many draws has a so much smaller error; half as much again would be a bias.
        assert np.sum(errors.mean(axis=0) ** 2) < 1.5 * predicted / draws
        # What is left out without being made up for is seen by the same measure.
        assert np.sum((results[:, rank] * needed(rows, 0.25) / rows - mean).mean(axis=0) ** 2) > 50 * predicted / draws


def test_a_rotation_spreads_the_error():
    """Of a vector with one large element a missing message takes all or nothing of it; turned, a little of several."""
    vector = np.zeros(256)
    vector[5] = 1.0
    worst = {}
    for rotate in (False, True):
        coding = Coding(256, 4, rotate)
        errors = []
        for seed in range(300):
            kept = first(REDUCE, coding.rows, 0.1)
            errors.append(np.abs(coding.decode(kept, coding.encode(vector, [seed])[kept], [seed]) - vector).max())
        worst[rotate] = max(errors)
    assert worst[False] == 1.0 and worst[True] < 0.4


def test_without_a_bound_all_workers_have_the_exact_mean():
    """Whole numbers, of which sums are exact: the mean to the bit, also of vectors shorter than the group."""
    for length in (0, 1, 3, 4, 5, 1000):
        vectors = np.random.default_rng(length).integers(-1000, 1000, (WORLD, length)).astype(np.float64)
        for exact, bounds in ((False, (0.0, 0.0)), (True, (0.5, 0.5))):
            (results,) = reduced(vectors, bounds, True, [1], exact=exact)
            for result in results:
                np.testing.assert_array_equal(result, vectors.sum(axis=0) / WORLD)


def test_with_an_exact_gather_all_workers_have_the_same():
    vectors = np.random.default_rng(0).normal(size=(WORLD, 500))
    (results,) = reduced(vectors, (0.3, 0.0), True, [1])
    assert all(np.array_equal(results[0], result) for result in results)
    assert not np.array_equal(results[0], vectors.mean(axis=0))


def test_fewer_than_promised_are_refused():
    def too_few(phase, rows, bound):
        return list(range(needed(rows, bound) - (phase == GATHER)))

    worker = Worker(Memory(too_few), 0, (0.25, 0.25), False, 1)
    coding = worker.coding(64, 8, 0.25)
    with worker.memory.changed:
        for phase in (REDUCE, GATHER):
            for peer in range(1, WORLD):
                kept = too_few(phase, coding.rows, 0.25)
                worker.memory.there[(1, phase, peer), 0] = (kept, np.zeros((len(kept), 2)))
    with pytest.raises(pliant.PliantError, match="of worker 1's 32 messages 23 arrived, and 24 were promised"):
        worker.mean(1, np.zeros(64 * WORLD), False)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), length=st.integers(1, 700), row=st.integers(1, 9), rotate=st.booleans())
def test_any_part_of_the_messages_gives_a_vector_of_the_same_size(data, length, row, rotate):
    """All messages in any order give the vector back; some, a finite one of the same length and type."""
    seed = data.draw(st.integers(0, 2**32))
    for dtype in (np.float32, np.float64):
        coding = Coding(length, row, rotate)
        vector = np.random.default_rng(seed).normal(size=length).astype(dtype)
        messages = coding.encode(vector, [seed])
        numbers = data.draw(st.permutations(range(coding.rows)))
        back = coding.decode(numbers, messages[numbers], [seed])
        np.testing.assert_allclose(back, vector, atol=1e-5)
        some = numbers[: data.draw(st.integers(1, coding.rows))]
        estimate = coding.decode(some, messages[some], [seed])
        assert estimate.shape == (length,) and estimate.dtype == dtype and np.isfinite(estimate).all()
