"""The points of a sweep on a Dask cluster. ``pliant sweep --dask ADDRESS`` runs this module.

Every worker proves that it is the same build and computes the same: version, hash of the simulator's sources, and the
digest of a short run. Those that do are given a resource, which every task asks for. So workers that come later are
checked, too, and none that differs ever gets a task.
"""

from __future__ import annotations

import asyncio
import collections
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Client, WorkerPlugin, as_completed
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
# For how long workers are waited for while there are none, in seconds.
_NO_WORKER = 600.0
# For how long a scheduler may take to answer, in seconds.
_ANSWER = 10

_Identity = tuple[str, str, str]


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


def check_workers(client: Client) -> tuple[_Identity, dict[str, str]]:
    """Return this build's identity, and why each of the cluster's workers that differ is refused.

    Raises:
        PliantError: There is no worker, or none that is the same.
    """
    wanted = _pliant.identity()
    if not client.scheduler_info(n_workers=-1)["workers"]:
        try:
            client.wait_for_workers(1, timeout=_NO_WORKER)
        except (TimeoutError, asyncio.TimeoutError):
            raise PliantError(f"no worker came to {client.scheduler.address} within {_NO_WORKER:.0f} s") from None
        except Exception:
            # What distributed raises for a client that another thread closes is its own mistake.
            if client.status == "running":
                raise
            raise PliantError(_state_of(client)) from None
    # A function of Python's own: a worker without the package has it, too.
    imported = client.run(exec, "import pliant.dask_sweep", on_error="return")
    refused = {
        worker: f"it cannot import the package pliant ({error}): `pip install` it there"
        for worker, error in imported.items()
        if isinstance(error, Exception)
    }
    others = [worker for worker in imported if worker not in refused]
    found = client.run(_identity, workers=others, on_error="return") if others else {}
    for worker, identity in found.items():
        if isinstance(identity, Exception):
            refused[worker] = f"its package pliant does not work: {identity}"
        elif tuple(identity) != wanted:
            refused[worker] = _difference(wanted, identity)
    if len(refused) == len(imported):
        told = "; ".join(f"{worker}: {why}" for worker, why in sorted(refused.items())[:3])
        raise PliantError(f"no worker of {client.scheduler.address} can run this sweep: {told}")
    return wanted, refused


def _state_of(client: Client) -> str:
    return f"the client of the cluster is {client.status}"


def _difference(wanted: _Identity, found: _Identity) -> str:
    if found[0] != wanted[0]:
        return f"it has version {found[0]}, this is {wanted[0]}"
    if found[1] != wanted[1]:
        return "it was built from other sources of the same version"
    return f"a short run has digest {found[2]} there and {wanted[2]} here: its arithmetic differs"


def run_points(
    client: Client,
    points: list[Point],
    out: Path,
    *,
    identify: bool = False,
    progress: Callable[[float, int, int, int], object] | None = None,
) -> None:
    """Run points on a cluster. Each is written as soon as it has run, and then linked into the dataset.

    A point whose worker is lost runs again on another one.

    Raises:
        PliantError: The client is closed, no worker can run the points, or one took several workers with it.
    """
    if not points:
        return
    if not isinstance(client, Client):
        raise PliantError(f"`client` is a distributed.Client, not {client!r}")
    if client.status != "running":
        raise PliantError(_state_of(client))
    wanted, refused = check_workers(client)
    for worker, why in sorted(refused.items()):
        print(f"warning: worker {worker} is refused: {why}", file=sys.stderr)
    try:
        client.register_plugin(IdentityPlugin(wanted))
    except Exception:
        # A worker without the package cannot read the plugin. It is refused already, and the others have it.
        if not refused:
            raise
    _Work(client, points, out, _resource(wanted), identify).run(progress)


class _Work:
    """Points on their way through a cluster."""

    def __init__(self, client: Client, points: list[Point], out: Path, resource: str, identify: bool) -> None:
        self.client, self.points, self.out, self.resource, self.identify = client, points, out, resource, identify
        self.lost = [0] * len(points)
        self.waiting = collections.deque(range(len(points)))
        self.run_name = f"pliant-{time.time_ns():x}"
        self.tasks = 0
        # Points that have run, and the seconds that they took.
        self.ran, self.seconds = 0, 0.0

    def submit(self, indices: list[int]) -> Any:
        points = [(self.points[index].text, self.points[index].label) for index in indices]
        # A name of its own for each try: the cluster would give the failure of the one before again.
        self.tasks += 1
        key = (self.run_name, self.tasks)
        return self.client.submit(_run_task, points, self.identify, key=key, resources={self.resource: 1}, pure=False)

    def next_task(self, threads: int) -> list[int]:
        """Return the points of the next task: one until it is known how long they take, and enough for all threads."""
        count = int(_TASK_SECONDS * self.ran / self.seconds) if self.ran else 1
        count = max(1, min(count, _MOST_POINTS, len(self.waiting) // threads))
        return [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]

    def run(self, progress: Callable[[float, int, int, int], object] | None) -> None:
        threads = sum(worker["nthreads"] for worker in self.client.scheduler_info(n_workers=-1)["workers"].values())
        under_way: dict[Any, list[int]] = {}
        finished = as_completed(loop=self.client.loop, raise_errors=False)

        def begin(indices: list[int]) -> None:
            future = self.submit(indices)
            under_way[future] = indices
            finished.add(future)

        # Disks take several files at a time.
        writers = ThreadPoolExecutor(_WRITERS)
        try:
            over = 0
            while self.waiting or under_way:
                while self.waiting and len(under_way) < _TASKS_PER_THREAD * max(threads, 1):
                    begin(self.next_task(max(threads, 1)))
                future = next(finished)
                indices = under_way.pop(future)
                match self.outcome(indices, future):
                    case "again":
                        # One by one: it shows which of them fails, or takes workers with it.
                        for index in indices:
                            begin([index])
                        continue
                    case "later":
                        under_way[future] = indices
                        finished.add(future)
                        continue
                files, seconds = future.result()
                self.ran, self.seconds = self.ran + len(indices), self.seconds + seconds
                placed = [writers.submit(self.place, *placing) for placing in zip(indices, files, strict=True)]
                for point in placed:
                    point.result()
                    over += 1
                    if progress is not None:
                        progress(over / len(self.points), over, len(self.points), 0)
        finally:
            writers.shutdown()
            # Of an interrupt or a failure: nobody waits for these any more.
            if under_way and self.client.status == "running":
                self.client.cancel(list(under_way), force=True)

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
            if self.client.status != "running":
                raise PliantError(f"{point}: {_state_of(self.client)}")
            raise PliantError(f"{point}: the cluster gave it up: its scheduler was lost or restarted")
        if len(indices) > 1:
            return "again"
        error = future.exception()
        if not isinstance(error, KilledWorker):
            if isinstance(error, ScenarioError):
                raise error
            raise PliantError(f"{point}: {error}")
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
        asyncio.run(call())
    except (OSError, TimeoutError, ValueError) as error:
        raise PliantError(f"no scheduler answers at {address}: {error}") from None


def main() -> int:
    """Run what ``pliant sweep --dask`` asks for on its standard input; return the exit code."""
    asked = json.load(sys.stdin)
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
            run_points(client, points, Path(asked["out"]), identify=asked["identify"], progress=shown)
    except PliantError as error:
        # The command says it as its own error.
        print(" ".join(str(error).split()))
        return 2
    except KeyboardInterrupt:
        print("interrupted; what finished is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
