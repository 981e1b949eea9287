"""The points of a sweep on a Dask cluster. ``pliant sweep --dask ADDRESS`` runs this module.

Every worker proves that it is the same build and computes the same: version, hash of the simulator's sources, and the
digest of a short run. Those that do are given a resource, which every task asks for. So workers that come later are
checked, too, and none that differs ever gets a task.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import json
import logging
import math
import os
import queue
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Client, Status, WorkerPlugin
from distributed.scheduler import KilledWorker

from . import _dataset, _pliant
from ._errors import PliantError, ScenarioError
from ._points import Point
from ._progress import Progress

if TYPE_CHECKING:
    from distributed import Worker

_PLUGIN = "pliant-identity"
# Workers that a point may take with it before it is given up. Dask itself tries some times for each of these.
_LOST_WORKERS = 3
# Tasks that the cluster holds at a time, for each of its threads: the others wait here.
_TASKS_PER_THREAD = 4
# A task costs the cluster some milliseconds. So it has as many points as run in this time, in seconds, at most so many.
_TASK_SECONDS, _MOST_POINTS = 0.2, 64
# Threads that write points to the disk.
_WRITERS = 8
# For how long the first worker is waited for, in seconds.
_NO_WORKER = 600.0
# While nothing comes back, the cluster is looked at every so many seconds. No worker at two looks in turn is told.
_LOOK = 3.0
# For how long a scheduler may take to answer, in seconds.
_ANSWER = 10
# Letters of what a worker says that are shown.
_MOST_SAID = 500

_Identity = tuple[str, str, str]
_Say = Callable[[str], object]


class ClusterLost(PliantError):
    """The client was closed, or its scheduler is gone, in the middle of a sweep."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _plain(found: object) -> str:
    """Return what a worker says in one line, short and without what would steer a terminal."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(found)[:_MOST_SAID])
    return " ".join(text.split())


def _state_of(client: Client) -> str:
    if client.status in ("running", "connecting"):
        return f"the scheduler {client.scheduler.address} is gone or was restarted"
    return f"the client of the cluster is {client.status}"


@contextmanager
def _cluster(client: Client, gone: Callable[[], ClusterLost] | None = None) -> Iterator[None]:
    """Tell in one line, or as ``gone`` says, that the cluster is gone: distributed has many errors for it."""
    try:
        yield
    except PliantError:
        raise
    except Exception as error:
        if client.status == "running" and not isinstance(error, OSError):
            raise
        raise (gone() if gone else ClusterLost(_state_of(client))) from None


def _resource(identity: _Identity) -> str:
    return "pliant-" + "-".join(identity)


class IdentityPlugin(WorkerPlugin):  # type: ignore[misc]
    """Gives the resource that tasks ask for to a worker whose runs are the client's."""

    name = _PLUGIN

    def __init__(self, wanted: _Identity) -> None:
        """Take the client's identity."""
        self.wanted = wanted

    async def setup(self, worker: Worker) -> None:
        """Compare, and give the resource."""
        own = await asyncio.to_thread(_pliant.identity)
        if own == self.wanted:
            await worker.set_resources(**{_resource(own): worker.state.nthreads})
            # The scheduler gives tasks that had no worker to one that begins to run, not to one with a new resource.
            if worker.status == Status.running:
                worker.status = Status.paused
                worker.status = Status.running


def _identity() -> _Identity:
    """Run on a worker."""
    return _pliant.identity()


_Files = list[tuple[str, bytes]]


def _run_point(text: str, label: str, identify: bool) -> _Files:
    """Run a point; return the files of its folder."""
    result = _pliant.run(_pliant.Scenario.from_toml(text))
    # In memory where that is a folder: the files are written to a disk elsewhere.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="pliant-", dir=memory) as folder:
        out = Path(folder) / "run"
        result.write_point(out, label, identify)
        return [(file.name, file.read_bytes()) for file in sorted(out.iterdir())]


def _run_task(points: list[tuple[str, str]], identify: bool) -> tuple[list[_Files], float]:
    """Run points on a worker; return the files of each, and the seconds that all took."""
    begun = time.perf_counter()
    files = [_run_point(text, label, identify) for text, label in points]
    return files, time.perf_counter() - begun


def _is_file(sent: object) -> bool:
    match sent:
        case [str(), bytes()]:
            return True
    return False


def _is_point(sent: object) -> bool:
    return isinstance(sent, list) and all(map(_is_file, sent))


def _wait_for_a_worker(client: Client, say: _Say) -> None:
    address = client.scheduler.address
    for seconds, last in ((2 * _LOOK, False), (_NO_WORKER, True)):
        try:
            client.wait_for_workers(1, timeout=seconds)
            return
        except (TimeoutError, asyncio.TimeoutError):
            if client.status != "running":
                raise
            if last:
                raise PliantError(f"no worker came to {address} within {_NO_WORKER:.0f} s") from None
            say(f"{address} has no worker yet; waiting {_NO_WORKER:.0f} s for one (Ctrl-C stops)")


def check_workers(client: Client, say: _Say = _say) -> tuple[_Identity, dict[str, str]]:
    """Return this build's identity, and why each of the cluster's workers that differ is refused.

    Raises:
        PliantError: There is no worker, or none that is the same.
    """
    wanted = _pliant.identity()
    if not client.scheduler_info(n_workers=-1)["workers"]:
        _wait_for_a_worker(client, say)
    # A function of Python's own: a worker without the package has it, too.
    imported = client.run(exec, "import pliant.dask_sweep", on_error="return")
    refused = {
        worker: f"it cannot import the package pliant ({_plain(error)}): `pip install` it there"
        for worker, error in imported.items()
        if isinstance(error, Exception)
    }
    others = [worker for worker in imported if worker not in refused]
    found = client.run(_identity, workers=others, on_error="return") if others else {}
    for worker, identity in found.items():
        if isinstance(identity, Exception):
            refused[worker] = f"its package pliant does not work: {_plain(identity)}"
        elif not isinstance(identity, tuple) or len(identity) != len(wanted):
            refused[worker] = "its package pliant does not say which build it is"
        elif identity != wanted:
            refused[worker] = _difference(wanted, identity)
    if len(refused) == len(imported):
        told = "; ".join(f"{worker}: {why}" for worker, why in sorted(refused.items())[:3])
        raise PliantError(f"no worker of {client.scheduler.address} can run this sweep: {told}")
    return wanted, refused


def _difference(wanted: _Identity, found: _Identity) -> str:
    if found[0] != wanted[0]:
        return f"it has version {_plain(found[0])}, this is {wanted[0]}"
    if found[1] != wanted[1]:
        return "it was built from other sources of the same version"
    return f"a short run has digest {_plain(found[2])} there and {wanted[2]} here: its arithmetic differs"


def run_points(
    client: Client,
    points: list[Point],
    out: Path,
    *,
    identify: bool = False,
    progress: Callable[[float, int, int, int], object] | None = None,
    say: _Say = _say,
) -> None:
    """Run points on a cluster. Each is written as soon as it has run, and then linked into the dataset.

    A point whose worker is lost runs again on another one. Without any worker it waits, and tells ``say``.

    Raises:
        ClusterLost: The client was closed, or the scheduler is gone.
        PliantError: The client is closed, no worker can run the points, or one took several workers with it.
    """
    if not points:
        return
    if not isinstance(client, Client):
        raise PliantError(f"`client` is a distributed.Client, not {client!r}")
    if client.status != "running":
        raise PliantError(_state_of(client))
    with _cluster(client):
        wanted, refused = check_workers(client, say)
        for worker, why in sorted(refused.items()):
            say(f"warning: worker {worker} is refused: {why}")
        try:
            client.register_plugin(IdentityPlugin(wanted))
        except Exception as error:
            # A worker without the package cannot read the plugin. It is refused already, and the others have it.
            if not refused or isinstance(error, OSError):
                raise
    _Work(client, points, out, _resource(wanted), identify, say).run(progress)


class _Work:
    """Points on their way through a cluster."""

    def __init__(
        self, client: Client, points: list[Point], out: Path, resource: str, identify: bool, say: _Say
    ) -> None:
        self.client, self.points, self.out, self.resource, self.identify = client, points, out, resource, identify
        self.say = say
        self.lost = [0] * len(points)
        self.waiting = collections.deque(range(len(points)))
        self.run_name = f"pliant-{time.time_ns():x}"
        self.tasks = 0
        # Points that have run, and the seconds that they took.
        self.ran, self.seconds = 0, 0.0
        # Points that are written, and at how many looks in turn there was no worker.
        self.over, self.deserted = 0, 0

    def submit(self, indices: list[int]) -> Any:
        points = [(self.points[index].text, self.points[index].label) for index in indices]
        # A name of its own for each try: the cluster would give the failure of the one before again.
        self.tasks += 1
        key = (self.run_name, self.tasks)
        return self.client.submit(_run_task, points, self.identify, key=key, resources={self.resource: 1}, pure=False)

    def next_task(self, threads: int) -> list[int]:
        """Return the points of the next task: one until it is known how long they take, and enough for all threads."""
        count = int(_TASK_SECONDS * self.ran / self.seconds) if self.seconds else 1
        count = max(1, min(count, _MOST_POINTS, len(self.waiting) // threads))
        return [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]

    def run(self, progress: Callable[[float, int, int, int], object] | None) -> None:
        with _cluster(self.client, self.gone):
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        threads = max(sum(worker["nthreads"] for worker in workers.values()), 1)
        under_way: dict[Any, list[int]] = {}
        finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def begin(indices: list[int]) -> None:
            future = self.submit(indices)
            under_way[future] = indices
            future.add_done_callback(finished.put)

        # Disks take several files at a time. A result is fetched by a thread, as it may wait for a worker.
        writers, reader = ThreadPoolExecutor(_WRITERS), ThreadPoolExecutor(1)
        try:
            while self.waiting or under_way:
                while self.waiting and len(under_way) < _TASKS_PER_THREAD * threads:
                    begin(self.next_task(threads))
                try:
                    future = finished.get(timeout=_LOOK)
                except queue.Empty:
                    self.look()
                    continue
                if self.deserted:
                    self.look()
                indices = under_way[future]
                match self.outcome(indices, future):
                    case "again":
                        # One by one: it shows which of them fails, or takes workers with it.
                        del under_way[future]
                        for index in indices:
                            begin([index])
                        continue
                    case "later":
                        future.add_done_callback(finished.put)
                        continue
                fetched = reader.submit(future.result)
                while not concurrent.futures.wait([fetched], _LOOK).done:
                    self.look()
                if fetched.exception() is not None and future.status != "finished":
                    # Its worker was lost before the result was here.
                    finished.put(future)
                    continue
                with _cluster(self.client, self.gone):
                    files, seconds = self.checked(indices, fetched.result())
                del under_way[future]
                self.ran, self.seconds = self.ran + len(indices), self.seconds + seconds
                placed = [writers.submit(self.place, *placing) for placing in zip(indices, files, strict=True)]
                for point in placed:
                    point.result()
                    self.over += 1
                    if progress is not None:
                        progress(self.over / len(self.points), self.over, len(self.points), 0)
        finally:
            # Of an interrupt or a failure: nobody waits for these any more.
            if under_way and self.client.status == "running":
                self.client.cancel(list(under_way), force=True)
            reader.shutdown()
            writers.shutdown()

    def missing(self) -> str:
        """Return how many points are not written yet."""
        return f"{len(self.points) - self.over} of {len(self.points)} runs are missing"

    def gone(self) -> ClusterLost:
        """Return the error for a cluster that is no more."""
        return ClusterLost(f"{_state_of(self.client)}; {self.missing()}, and the results so far are kept")

    def look(self) -> None:
        """Say once that no worker is left, and once that there is one again; raise if the cluster is gone."""
        if self.client.status != "running":
            raise self.gone()
        with _cluster(self.client, self.gone):
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        able = sum(self.resource in worker["resources"] for worker in workers)
        if able:
            if self.deserted > 1:
                self.say(f"there are workers again: {able}")
            self.deserted = 0
            return
        self.deserted += 1
        if self.deserted == 2:
            others = f" but {len(workers)} that cannot run them" if workers else ""
            waits = "waiting for workers (Ctrl-C stops; the results so far are kept)"
            self.say(f"no worker is left{others}; {self.missing()}; {waits}")

    def checked(self, indices: list[int], result: object) -> tuple[list[_Files], float]:
        """Return what a task's worker sent; raise if that has not the shape of its points' files."""
        match result:
            case [list(points), float(seconds)] if len(points) == len(indices) and 0 <= seconds < math.inf:
                if all(map(_is_point, points)):
                    return points, seconds
        raise PliantError(f"{self.points[indices[0]].folder.name}: what a worker sent is no run")

    def place(self, index: int, files: _Files) -> None:
        """Write a point's folder, whole or not at all, and link it into the dataset."""
        point = self.points[index]
        _pliant.place_run(point.folder, files, point.text)
        _dataset.add(self.out, point)

    def outcome(self, indices: list[int], future: Any) -> str:
        """Return ``over``, ``again`` for a new try, or ``later``; raise what no repetition mends."""
        if future.status == "finished":
            return "over"
        if future.status in ("lost", "pending"):
            # The worker that held the result is gone, and the cluster runs the points again.
            return "later"
        point = self.points[indices[0]].folder.name
        if future.status == "cancelled":
            raise self.gone()
        if len(indices) > 1:
            return "again"
        error = future.exception()
        if not isinstance(error, KilledWorker):
            if isinstance(error, ScenarioError):
                raise error
            raise PliantError(f"{point}: {_plain(error)}")
        self.lost[indices[0]] += 1
        if self.lost[indices[0]] >= _LOST_WORKERS:
            raise PliantError(f"{point}: every worker that ran it was lost: has it too little memory?")
        return "again"


def _check_address(address: str) -> None:
    """Raise an error of one line if nobody answers: a client that cannot connect says more, and late."""
    from distributed.comm import connect

    async def call() -> None:
        comm = await connect(address, timeout=_ANSWER)
        await comm.close()

    try:
        # Its own limit does not end the wait for one who accepts and says nothing.
        asyncio.run(asyncio.wait_for(call(), 2 * _ANSWER))
    except (TimeoutError, asyncio.TimeoutError):
        raise PliantError(f"no scheduler answers at {address}") from None
    except (OSError, ValueError) as error:
        raise PliantError(f"no scheduler answers at {address}: {error}") from None
    except (MemoryError, OverflowError):
        # Lengths of what another protocol sends.
        raise PliantError(f"what answers at {address} is no scheduler") from None


def main() -> int:
    """Run what ``pliant sweep --dask`` asks for on its standard input; return the exit code."""
    asked = json.load(sys.stdin)
    # What distributed logs of a lost cluster, with where in its code, is said in one line.
    logging.disable()
    try:
        own = _pliant.identity()
        if [own[0], own[1]] != asked["identity"]:
            raise PliantError("the package pliant of this Python is another build than the command: install both anew")
        points = [
            Point(dict(point["values"]), point["seed"], Path(point["folder"]), point["label"], point["text"])
            for point in asked["points"]
        ]
        _check_address(asked["address"])
        client = Client(asked["address"], timeout=_ANSWER, set_as_default=False)
        with client, Progress(False if asked["quiet"] else None) as shown:
            out = Path(asked["out"])
            run_points(client, points, out, identify=asked["identify"], progress=shown, say=shown.say)
    except PliantError as error:
        # The command says it as its own error.
        print(" ".join(str(error).split()))
        return 1 if isinstance(error, ClusterLost) else 2
    except KeyboardInterrupt:
        print("interrupted; what finished is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
