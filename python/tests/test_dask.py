"""Sweeps on a cluster: a scheduler and workers as processes of their own."""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from distributed import Client

import pliant
from conftest import PROGRAM, SMALL
from pliant import _pliant, dask_sweep
from test_sweep import VARY, contents

pytestmark = pytest.mark.filterwarnings("ignore")

TIMEOUT = 300


def first_on_path(folder):
    """An environment whose Python looks for modules there first."""
    others = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *([others] if others else [])])}


def free_port():
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


class Cluster:
    """A scheduler and workers; whatever is started is ended."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.address = f"tcp://127.0.0.1:{free_port()}"
        port = self.address.rpartition(":")[2]
        self.start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-show")

    def start(self, *words, env=None):
        log = open(self.folder / f"log{len(self.processes)}.txt", "w")
        command = [sys.executable, "-m", "distributed.cli.dask_" + words[0].replace("-", "_"), *words[1:]]
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=self.folder, start_new_session=True, env={**os.environ, **(env or {})}
        )
        self.processes.append(process)
        return process

    def worker(self, env=None):
        return self.start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory",
            str(self.folder), "--death-timeout", "60", env=env,
        )  # fmt: skip

    def close(self):
        for process in reversed(self.processes):
            process.kill()
        for process in self.processes:
            process.wait(TIMEOUT)


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.close()


@pytest.fixture
def scenario(small):
    return small.set("duration", "10ms")


def planned(scenario, seeds, out):
    """A sweep, and the points that are due of it."""
    plan = _pliant.SweepPlan(scenario, VARY, seeds, out, 1)
    return plan, [dask_sweep.Point.of_plan(plan, index) for index in plan.due()]


def run_on(cluster, workers, points, out, **calls):
    """Runs points on a cluster once it has so many workers."""
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=TIMEOUT)
        dask_sweep.run_points(client, points, out, **calls)


def test_two_of_four_workers_killed_and_the_results_are_the_local_ones(cluster, scenario, tmp_path):
    workers = [cluster.worker() for _ in range(4)]
    local = pliant.sweep(scenario, vary=VARY, seeds=6, out=tmp_path / "local")
    seen, killed = [], []

    def kill(done, over, runs, packet_hops):
        seen.append(over)
        if over in (3, 6):
            victim = workers.pop()
            victim.kill()
            killed.append(victim)

    plan, points = planned(scenario, 6, tmp_path / "cluster-out")
    run_on(cluster, 4, points, tmp_path / "cluster-out", progress=kill)
    plan.write_table()
    assert len(killed) == 2 and seen == list(range(1, 25)), "written as they finish, each once"
    assert contents(tmp_path / "cluster-out") == contents(tmp_path / "local")
    assert len(local) == 24


def test_a_sweep_that_loses_every_worker_says_so_and_waits_for_others(cluster, scenario, tmp_path):
    workers, said, seen, missing = [cluster.worker()], [], [], []
    pliant.sweep(scenario, vary=VARY, seeds=2, out=tmp_path / "local")

    # How many more are over before the worker is gone is chance.
    def kill(done, over, runs, packet_hops):
        seen.append(over)
        if over == 3:
            workers.pop().kill()

    def say(text):
        said.append(text)
        if "no worker is left" in text:
            missing.append(8 - seen[-1])
            cluster.worker()

    plan, points = planned(scenario, 2, tmp_path / "out")
    run_on(cluster, 1, points, tmp_path / "out", progress=kill, say=say)
    plan.write_table()
    left, again = said
    assert missing[0] <= 5
    assert left.startswith(f"no worker is left; {missing[0]} of 8 runs are missing; waiting for workers")
    assert again == "there are workers again: 1"
    assert contents(tmp_path / "out") == contents(tmp_path / "local")


def test_workers_that_cannot_run_the_points_are_none(cluster, scenario, tmp_path):
    """The only worker that can is lost, and one of other sources stays."""
    workers, said = [cluster.worker()], []
    cluster.worker(env=differing(tmp_path, 1))

    def say(text):
        said.append(text)
        if "no worker is left" in text:
            cluster.worker()

    _, points = planned(scenario, 2, tmp_path / "out")
    run_on(cluster, 2, points, tmp_path / "out", progress=lambda *_: workers and workers.pop().kill(), say=say)
    refused, left, again = said
    assert "is refused" in refused and again == "there are workers again: 1"
    assert left.startswith("no worker is left but 1 that cannot run them; 7 of 8 runs are missing")


def test_the_first_worker_is_waited_for_with_a_word(cluster, scenario):
    said = []
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        dask_sweep.check_workers(client, lambda text: (said.append(text), cluster.worker()))
    assert said == [f"{cluster.address} has no worker yet; waiting 600 s for one (Ctrl-C stops)"]


def test_a_scheduler_that_goes_away_ends_the_sweep_and_what_finished_is_kept(cluster, scenario, tmp_path):
    cluster.worker()

    def kill(done, over, runs, packet_hops):
        if over == 3:
            cluster.processes[0].kill()

    plan, points = planned(scenario, 4, tmp_path / "out")
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        with pytest.raises(dask_sweep.ClusterLost) as raised:
            dask_sweep.run_points(client, points, tmp_path / "out", progress=kill)
    missing = len(plan.due())
    assert 0 < missing <= 13
    told = (
        f"{cluster.address} is gone or was restarted; {missing} of 16 runs are missing, and the results so far are kept"
    )
    assert str(raised.value) == f"the scheduler {told}"


@pytest.mark.parametrize("error", [OSError("reset"), RuntimeError("no scheduler")])
def test_whatever_fails_under_way_tells_what_is_missing(error):
    """A result that is lost on its way here with the scheduler, or a client that was closed."""
    status = "running" if isinstance(error, OSError) else "closed"
    client = types.SimpleNamespace(status=status, scheduler=types.SimpleNamespace(address="tcp://here"))
    work = dask_sweep._Work(client, [None] * 3, None, "pliant", False, print)
    with (
        pytest.raises(dask_sweep.ClusterLost, match="3 of 3 runs are missing, and the results so far are kept"),
        dask_sweep._cluster(client, work.gone),
    ):
        raise error


def test_the_command_tells_both_in_a_line_each(cluster, tmp_path):
    """No worker, then no scheduler, in the middle of a sweep whose second point takes minutes."""
    worker = cluster.worker()
    file = tmp_path / "small.toml"
    search = {**SMALL["traffic"]["search"], "load": 0.05}
    file.write_text(pliant.Scenario.from_dict({**SMALL, "traffic": {"search": search}}, "small").to_toml())
    words = ["sweep", file, "--vary", "duration=1ms,200s", "--dask", cluster.address, "--out", tmp_path / "out"]
    swept = subprocess.Popen(
        [str(PROGRAM), *map(str, words)],
        env={**os.environ, "PLIANT_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cluster.processes.append(swept)
    while not list((tmp_path / "out").glob("points/*/summary.json")):
        assert swept.poll() is None, swept.stderr.read()
        os.sched_yield()
    worker.kill()
    assert swept.stderr.readline().startswith("no worker is left; 1 of 2 runs are missing; waiting for workers (Ctrl-C")
    cluster.processes[0].kill()
    rest, _ = swept.communicate(timeout=TIMEOUT)[::-1]
    told = "is gone or was restarted; 1 of 2 runs are missing, and the results so far are kept"
    assert rest == f"error: --dask: the scheduler {cluster.address} {told}\n"
    assert swept.returncode == 1
    assert len(list((tmp_path / "out").glob("points/*/summary.json"))) == 1


def test_a_sweep_goes_on_where_it_was_here_or_there(cluster, scenario, tmp_path):
    """Points of a cluster are not run again on this machine, and the other way round."""
    cluster.worker()
    out = tmp_path / "out"
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        pliant.sweep(scenario, vary={"search.load": [0.2]}, seeds=2, out=out, client=client)
        before = {path: path.stat().st_mtime_ns for path in (out / "points").iterdir()}
        pliant.sweep(scenario, vary={"search.load": [0.2, 0.3]}, seeds=2, out=out)
        plan = _pliant.SweepPlan(scenario, {"search.load": [0.2, 0.3]}, 3, out, 1)
        assert len(plan.due()) == 2
        swept = pliant.sweep(scenario, vary={"search.load": [0.2, 0.3]}, seeds=3, out=out, client=client)
    assert len(swept) == 6 and all(path.stat().st_mtime_ns == at for path, at in before.items())


def test_the_command_sweeps_on_a_cluster(command, cluster, scenario, tmp_path):
    cluster.worker()
    file = tmp_path / "small.toml"
    file.write_text(scenario.to_toml())
    words = ["sweep", file, "--vary", "search.load=0.2,0.3", "--seeds", 2, "--quiet"]
    env = {"PLIANT_PYTHON": sys.executable}
    said = command(*words, "--dask", cluster.address, "--out", tmp_path / "far", env=env)
    assert said.stdout.startswith("4 of 4 points finished (4 now, 0 before)")
    command(*words, "--out", tmp_path / "near")
    far = contents(tmp_path / "far")
    assert {name: far[name] for name in far if not name.startswith("dataset/")} == contents(tmp_path / "near")
    again = command(*words, "--dask", cluster.address, "--out", tmp_path / "far", env=env)
    assert "(0 now, 4 before)" in again.stdout


def test_the_command_tells_what_is_missing_in_one_line(command, tmp_path):
    words = ["sweep", "demo", "--set", "duration=1ms", "--out", tmp_path / "out", "--quiet", "--dask"]
    nobody = f"tcp://127.0.0.1:{free_port()}"
    for env, address, why in [
        ({"PLIANT_PYTHON": "/no/python"}, nobody, "cannot start /no/python"),
        (
            {"PLIANT_PYTHON": sys.executable, **first_on_path(lacking(tmp_path, "distributed"))},
            nobody,
            "has no package",
        ),
        ({"PLIANT_PYTHON": sys.executable}, "nonsense://x", "no scheduler answers at"),
        ({"PLIANT_PYTHON": sys.executable}, nobody, "no scheduler answers at"),
    ]:
        said = command(*words, address, check=False, env=env)
        assert said.returncode == 2 and why in said.stderr, said.stderr
        assert said.stderr.startswith("error: --dask") and said.stderr.count("\n") == 1, said.stderr


def lacking(folder, package):
    """A folder that hides a package, as if it were not installed."""
    hidden = folder / f"without-{package}"
    (hidden / package).mkdir(parents=True, exist_ok=True)
    (hidden / package / "__init__.py").write_text(f"raise ModuleNotFoundError(\"No module named '{package}'\")\n")
    return hidden


def differing(folder, change):
    """An environment in which one part of the package's identity is another."""
    other = folder / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import pliant._pliant as module\n"
        "found = list(module.identity())\n"
        f"found[{change}] = 'other'\n"
        "module.identity = lambda: tuple(found)\n"
    )
    return first_on_path(other)


@pytest.mark.parametrize("change", [0, 1, 2])
def test_a_worker_that_differs_gets_no_task(cluster, scenario, tmp_path, change):
    """Another version, other sources, other arithmetic: refused with the reason, while its neighbour does all."""
    cluster.worker()
    cluster.worker(env=differing(tmp_path, change))
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=TIMEOUT)
        identity, refused = dask_sweep.check_workers(client)
        assert identity == _pliant.identity() and len(refused) == 1
        why = ["it has version other", "other sources", "its arithmetic differs"][change]
        assert why in next(iter(refused.values()))
        swept = pliant.sweep(scenario, vary={"search.load": [0.1, 0.2, 0.3]}, seeds=2, client=client)
        ran = client.run(lambda dask_worker: dask_worker.state.executed_count, on_error="return")
        assert len(swept) == 6 and ran[next(iter(refused))] == 0 and sum(ran.values()) == 6


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 7", "does not say which build it is"),
        ("return ('\\x1b[31mred\\x07', 'b', 'c')", r"it has version \[31mred, this is"),
        ("raise RuntimeError('\\x1b[2Jone\\ntwo' + 'x' * 2000)", r"does not work: \[2Jone twox{400,500}$"),
    ],
)
def test_what_a_refused_worker_says_is_one_plain_line(cluster, tmp_path, body, why):
    """A worker that answers nonsense is refused alone, and steers no terminal."""
    other = tmp_path / "other"
    other.mkdir()
    text = f"import pliant._pliant as module\ndef identity():\n    {body}\nmodule.identity = identity\n"
    (other / "sitecustomize.py").write_text(text)
    cluster.worker()
    cluster.worker(env=first_on_path(other))
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=TIMEOUT)
        (said,) = dask_sweep.check_workers(client)[1].values()
    assert re.search(why, said) and said.isprintable()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100, b"\xff" * 4096])
def test_who_is_no_scheduler_is_told_in_one_line(monkeypatch, answer):
    """Who accepts and says nothing, or speaks something else."""
    monkeypatch.setattr(dask_sweep, "_ANSWER", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = []

        def serve():
            while True:
                try:
                    call, _ = server.accept()
                except OSError:
                    return
                calls.append(call)
                call.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(pliant.PliantError, match=r"no scheduler"):
            dask_sweep._check_address(f"tcp://127.0.0.1:{server.getsockname()[1]}")


def test_workers_without_the_package_are_refused(cluster, scenario, tmp_path):
    cluster.worker(env=first_on_path(lacking(tmp_path, "pliant")))
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=TIMEOUT)
        with pytest.raises(pliant.PliantError, match=r"no worker of .* can run this sweep"):
            pliant.sweep(scenario, vary={"search.load": [0.1]}, client=client)


def test_a_client_that_is_closed_is_told(cluster, scenario):
    cluster.worker()
    client = Client(cluster.address, timeout=TIMEOUT, set_as_default=False)
    client.close()
    with pytest.raises(pliant.PliantError, match="the client of the cluster is closed"):
        pliant.sweep(scenario, vary={"search.load": [0.1]}, client=client)


def test_a_client_that_is_closed_while_workers_are_awaited_is_told(cluster, scenario):
    client = Client(cluster.address, timeout=TIMEOUT, set_as_default=False)
    threading.Timer(1, client.close).start()
    with pytest.raises(pliant.PliantError, match="the client of the cluster is clos"):
        pliant.sweep(scenario, vary={"search.load": [0.1]}, client=client)


def test_an_address_is_no_client(scenario):
    with pytest.raises(pliant.PliantError, match=r"`client` is a distributed\.Client, not 'tcp://127"):
        pliant.sweep(scenario, vary={"search.load": [0.1]}, client="tcp://127.0.0.1:8786")


def test_a_mistake_on_a_worker_is_the_scenarios(cluster, scenario, tmp_path):
    """A trace that only this machine has: the error is that of a scenario and names its key."""
    trace = tmp_path / "flows.csv"
    trace.write_text("start,src,dst,bytes\n0.0,0,1,1000\n")
    keys = scenario.to_dict()
    keys["traffic"] = {"replayed": {"kind": "trace", "path": str(trace), "transport": "dctcp"}}
    traced = pliant.Scenario.from_dict(keys)
    cluster.worker()
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:
        plan = _pliant.SweepPlan(traced, {"seed": [1, 2]}, 1, tmp_path / "out", 1)
        points = [dask_sweep.Point.of_plan(plan, index) for index in plan.due()]
        trace.unlink()
        with pytest.raises(pliant.PliantError, match=r"flows\.csv"):
            dask_sweep.run_points(client, points, tmp_path / "out")
        assert not list((tmp_path / "out").rglob("summary.json"))


def test_what_a_worker_sends_is_checked(tmp_path):
    """Neither another scenario nor another name of a file gets into a folder."""
    for files, why in [
        ([("scenario.toml", b"x")], "not a run of this point"),
        ([("scenario.toml", b"text"), ("../evil", b"")], "no file of a run is called"),
        ([("scenario.toml", b"text")], "there is no summary.json"),
        ([("scenario.toml", b"text"), ("scenario.toml", b"x")], "two files are called"),
    ]:
        with pytest.raises(pliant.PliantError, match=why):
            _pliant.place_run(tmp_path / "point", files, "text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sent",
    [
        None,
        ([], 1.0),
        ([[("scenario.toml", b"x")]] * 2, 1.0),
        ([[("scenario.toml", "text")]], 1.0),
        ([[("scenario.toml", b"x", b"y")]], 1.0),
        (["files"], 1.0),
        ([[]], math.nan),
        ([[]], -1.0),
        ([[]], math.inf),
        ([[]], "1"),
    ],
)
def test_a_result_of_another_shape_is_told(scenario, tmp_path, sent):
    """A worker that proved to be the same may send anything afterwards."""
    _, points = planned(scenario, 1, tmp_path / "out")
    work = dask_sweep._Work(None, points, tmp_path / "out", "resource", False, print)
    with pytest.raises(pliant.PliantError, match="what a worker sent is no run"):
        work.checked([0], sent)
    assert work.checked([0], ([[("a", b"")]], 0.0)) == ([[("a", b"")]], 0.0)
    assert work.next_task(1) == [0], "no time for a run is no fault"


def test_an_interrupt_keeps_what_finished(cluster, scenario, tmp_path):
    cluster.worker()
    with Client(cluster.address, timeout=TIMEOUT, set_as_default=False) as client:

        def interrupt(done, over, runs, packet_hops):
            if over == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)

        plan = _pliant.SweepPlan(scenario, VARY, 4, tmp_path / "out", 1)
        points = [dask_sweep.Point.of_plan(plan, index) for index in plan.due()]
        with pytest.raises(KeyboardInterrupt):
            dask_sweep.run_points(client, points, tmp_path / "out", progress=interrupt)
    done = [json.loads(path.read_text()) for path in Path(tmp_path / "out").rglob("summary.json")]
    assert len(done) == 2 and len(plan.due()) == 14
