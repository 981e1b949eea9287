"""Runs: the command's digests, tables without copies, interrupts, other threads, forks, memory."""

import gc
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import pliant
from conftest import SMALL

LONG = {**SMALL, "duration": "100s", "name": "long"}


def test_the_command_has_the_same_digest_and_files(command, small, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(small.to_toml())
    command("run", file, "--out", tmp_path / "command", "--quiet")
    result = pliant.run(pliant.Scenario.load(file))
    result.write(tmp_path / "python")
    summary = json.loads((tmp_path / "command/summary.json").read_text())
    assert result.digest == summary["digest"] and result.digest != "0" * 16
    names = sorted(path.name for path in (tmp_path / "command").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "python").iterdir())
    for name in set(names) - {"summary.json", "report.html"}:
        assert (tmp_path / "command" / name).read_bytes() == (tmp_path / "python" / name).read_bytes(), name
    # The command prints what a result prints but for how long it took.
    for key in ("events", "packet_hops", "seed", "groups"):
        assert result.summary[key] == summary[key]


@pytest.mark.parametrize("transport", ["dctcp", "cubic", "reno", "ledbat++", "tcp-lp"])
def test_every_seed_is_one_run(transport, small):
    scenario = small.set("search.transport", transport)
    assert pliant.run(scenario).digest == pliant.run(scenario).digest
    assert pliant.run(scenario.set("seed", 2)).digest != pliant.run(scenario).digest


def test_tables_are_what_the_files_have(small, tmp_path):
    result = pliant.run(small.set("sample_interval", "100us").set("sample_windows", True))
    result.write(tmp_path / "run")
    for name in ("flows", "queue_series", "throughput_series", "window_series"):
        written = pyarrow.parquet.read_table(tmp_path / f"run/{name}.parquet")
        table = pyarrow.table(getattr(result, name))
        assert table.num_rows == len(getattr(result, name)) > 0
        assert table.column_names == written.column_names
        assert table.to_pylist() == written.to_pylist(), name
    assert len(result.objects) == 0 and len(result.ports) > 0


def test_every_reader_of_arrow_takes_a_table(small):
    flows = pliant.run(small).flows
    arrow = flows.to_arrow()
    assert flows.to_pandas()["flow"].tolist() == arrow["flow"].to_pylist()
    assert polars.DataFrame(flows).height == len(flows) == flows.to_polars().height
    counted = duckdb.sql('select "group", count(*) from arrow group by all order by all').fetchall()
    assert sum(count for _, count in counted) == len(flows)


def test_a_table_is_not_copied(small):
    """Two views have their values at the same place, as has a view after the result is gone."""
    result = pliant.run(small)
    flows = result.flows
    first, second = pyarrow.table(flows), pyarrow.table(flows)
    address = first["flow"].chunk(0).buffers()[1].address
    assert address == second["flow"].chunk(0).buffers()[1].address
    assert address == pyarrow.table(flows.select(["flow"]))["flow"].chunk(0).buffers()[1].address
    values = first["flow"].to_pylist()
    del result, flows, second
    gc.collect()
    assert first["flow"].to_pylist() == values


def address(array):
    """Return where the values of a column are."""
    return array.chunk(0).buffers()[1].address


# Some of the flows have no end.
ENDLESS = {**SMALL, "traffic": {**SMALL["traffic"], "long": {"kind": "permutation", "transport": "dctcp"}}}


def test_pandas_and_polars_read_the_columns_where_they_are():
    """Numbers that some rows lack, too; columns that are blank in all rows have one place for all of them."""
    flows = pliant.run(pliant.Scenario.from_dict(ENDLESS)).flows
    arrow = pyarrow.table(flows)
    assert 0 < arrow["fct_us"].null_count < len(flows), "some flows have no end"
    frame = flows.to_pandas()
    for name in ("flow", "size_bytes", "fct_us", "slowdown", "credits"):
        assert frame[name].to_numpy().__array_interface__["data"][0] == address(arrow[name]), name
    for name in ("flow", "fct_us", "credits"):
        assert polars.DataFrame(flows)[name].to_arrow().buffers()[1].address == address(arrow[name]), name
    assert address(arrow["credits"]) == address(arrow["pauses"])


def test_pandas_has_what_arrow_has(small):
    """Types and values of every column, by pyarrow's own conversion."""
    flows = pliant.run(pliant.Scenario.from_dict(ENDLESS)).flows
    pandas.testing.assert_frame_equal(flows.to_pandas(), pyarrow.table(flows).to_pandas())
    nothing = pliant.run(small).objects
    assert len(nothing) == 0
    pandas.testing.assert_frame_equal(nothing.to_pandas(), pyarrow.table(nothing).to_pandas())


def test_a_change_of_a_frame_changes_nothing_else(small):
    """Blank columns have their values at one place, which no frame can write to."""
    flows = pliant.run(small).flows
    frame = flows.to_pandas()
    with pytest.raises(ValueError, match="read-only"):
        frame.loc[0, "credits"] = 5
    frame["credits"] += 3
    assert (frame["credits"] == 3).all() and (frame["pauses"] == 0).all()
    own = flows.to_pandas().copy()
    own.loc[0, "credits"] = 5
    assert own["credits"].sum() == 5 and own["pauses"].sum() == 0
    assert (flows.to_pandas()["credits"] == 0).all()


def test_columns_say_what_they_mean(small):
    flows = pliant.run(small).flows
    unit, meaning = flows.columns["fct_us"]
    assert unit == "µs" and meaning.startswith("Flow completion time")
    assert pyarrow.schema(flows).field("fct_us").metadata[b"unit"] == "µs".encode()
    with pytest.raises(ValueError, match="did you mean `slowdown`"):
        flows.select(["slowdwon"])


def test_an_interrupt_stops_a_run():
    """The main thread, which would run for minutes, hears its signal."""
    scenario = pliant.Scenario.from_dict(LONG)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            pliant.run(scenario)
    finally:
        timer.join()


def test_an_error_of_progress_stops_a_run():
    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pliant._pliant.run(pliant.Scenario.from_dict(LONG), fail)


def test_other_threads_go_on_and_runs_go_side_by_side(small):
    """While a run is under way on another thread, this one counts; and runs of many threads are the same run."""
    scenario = pliant.Scenario.from_dict(SMALL).set("duration", "100ms")
    digests, threads = [], []
    for _ in range(3):
        threads.append(threading.Thread(target=lambda: digests.append(pliant.run(scenario, progress=False).digest)))
        threads[-1].start()
    counted = 0
    while any(thread.is_alive() for thread in threads):
        counted += 1
        time.sleep(0)
    for thread in threads:
        thread.join()
    assert counted > 100 and len(digests) == 3 and len(set(digests)) == 1


def in_child(queue):
    queue.put(pliant.run(pliant.Scenario.from_dict(SMALL, "small")).digest)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_does_not_hang(small):
    """A child of a process that has run, and compared on several threads, runs the same."""
    digest = pliant.run(small).digest
    pliant.compare(small, vary={"queues.plan": ["shared", "strict"]}, seeds=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == digest
    child.join(60)
    assert child.exitcode == 0


def test_runs_leak_nothing():
    """Runs with their tables, a thousand at a time: memory stops growing. `PLIANT_RUNS` asks for more."""
    keys = {**SMALL, "duration": "100us"}
    scenario = pliant.Scenario.from_dict(keys)

    def memory():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def runs(count):
        for _ in range(count):
            result = pliant.run(scenario, progress=False)
            pyarrow.table(result.flows)
            _ = result.summary
            try:
                scenario.set("search.transport", "none").check()
            except pliant.ScenarioError:
                pass

    more = int(os.environ.get("PLIANT_RUNS", "1000"))
    runs(max(more // 4, 200))
    before = memory()
    runs(more)
    grown = memory() - before
    # A leak of one result, some kilobytes, would be megabytes.
    assert grown < 2_000_000 + 200 * more / 10, f"{grown / 1e6:.1f} MB in {more} runs"


def test_the_import_is_small():
    """None of what is optional is imported with the package."""
    script = "import sys, pliant; print(sorted(set(sys.modules) & set(sys.argv[1:])))"
    plots = ["matplotlib", "plotly"]
    options = ["numpy", "pandas", "pyarrow", *plots, "distributed", "dask", "IPython", "tqdm", "asyncio"]
    said = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_what_exists_is_not_overwritten(small, tmp_path):
    result = pliant.run(small)
    result.write(tmp_path / "run")
    with pytest.raises(pliant.PliantError, match="exists"):
        result.write(tmp_path / "run")
    result.write(tmp_path / "run", force=True)
    with pytest.raises(pliant.PliantError, match="will not be replaced"):
        (tmp_path / "other").mkdir()
        (tmp_path / "other/mine").write_text("")
        result.write(tmp_path / "other", force=True)
