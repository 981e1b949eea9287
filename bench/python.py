#!/usr/bin/env python3
"""What the Python package costs beside the command line.

Usage: python.py PLIANT [--record FILE]
Run it by the interpreter that has the package, of a release build as PLIANT is, with pandas and distributed: `make python`
makes such an environment, and `make performance PARTS=python` builds the package for it and runs this script.

Targets, written before the first run:
  a run           `pliant.run` takes at most 1.02 times the CPU of `pliant run` on the same scenario (medians of ROUNDS, in turn)
  a table         a million flows are a pandas frame in under 0.2 s, from the run's rows
  Dask            POINTS tiny runs on two workers, at no less than half the rate of the local sweep with two jobs
  import          `import pliant` adds less than 0.3 s to the interpreter's start (median of ROUNDS)
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import distributed
import pandas

import pliant

ROUNDS = 7
POINTS = 200
LINK = {"rate": "10Gbit/s", "delay": "1us"}
# Some seconds: the start of a process does not count.
LONG = {
    "name": "long", "duration": "4s", "topology": {"kind": "star", "hosts": 8, "link": LINK},
    "traffic": {"search": {"kind": "poisson", "workload": "web_search", "load": 0.5, "transport": "dctcp"}},
}
TINY = {
    "name": "tiny", "duration": "1ms", "topology": {"kind": "star", "hosts": 4, "link": LINK},
    "traffic": {"search": {"kind": "poisson", "size": "20kB", "load": 0.4, "transport": "dctcp"}},
}
# 1 kB at half the rate of 64 links of 10 Gbit/s: 40 flows in a microsecond.
MANY = {
    "name": "many", "duration": "26ms", "topology": {"kind": "star", "hosts": 64, "link": LINK},
    "traffic": {"small": {"kind": "poisson", "size": "1kB", "load": 0.5, "transport": "dctcp"}},
}


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def runs(command, folder):
    """CPU seconds of the command and of the package, in turn."""
    scenario = pliant.Scenario.from_dict(LONG)
    file = folder / "long.toml"
    file.write_text(scenario.to_toml())
    of_command, of_package = [], []
    for _ in range(ROUNDS):
        before = children_cpu_s()
        subprocess.run([command, "run", file, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        of_command.append(children_cpu_s() - before)
        before = time.process_time()
        pliant.run(scenario, progress=False)
        of_package.append(time.process_time() - before)
    return of_command, of_package


def table():
    """Flows, seconds until the columns stand, and until they are a frame."""
    result = pliant.run(pliant.Scenario.from_dict(MANY), progress=False)
    begun = time.perf_counter()
    flows = result.flows
    built = time.perf_counter()
    frame = flows.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    return len(frame), built - begun, time.perf_counter() - built


def sweeps(folder):
    """Runs per second of the local sweep and of Dask, in turn."""
    scenario = pliant.Scenario.from_dict(TINY)
    rates = {"local": [], "dask": []}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            for number in range(4):
                for name, more in (("local", {"jobs": 2}), ("dask", {"client": client})):
                    begun = time.perf_counter()
                    pliant.sweep(scenario, vary={}, seeds=POINTS, out=folder / f"{name}{number}", progress=False, **more)
                    # The first has the workers' start in it.
                    if number:
                        rates[name].append(POINTS / (time.perf_counter() - begun))
    return rates


def start(code):
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pliant-python.") as name:
        folder = Path(name)
        of_command, of_package = runs(arguments.pliant, folder)
        flows, built_s, frame_s = table()
        rates = sweeps(folder)
    imports = [(start("import pliant"), start("pass")) for _ in range(ROUNDS)]
    ratio = statistics.median(of_package) / statistics.median(of_command)
    of_dask = statistics.median(rates["dask"]) / statistics.median(rates["local"])
    import_s = statistics.median(with_package - without for with_package, without in imports)
    seconds = (built_s + frame_s) * 1e6 / flows
    targets = [
        {"target": "CPU of `pliant.run` over that of `pliant run`", "measured": ratio, "wanted": "at most 1.02", "reached": ratio <= 1.02},
        {"target": "seconds until a million flows are a pandas frame", "measured": seconds, "wanted": "less than 0.2",
         "reached": seconds < 0.2},
        {"target": "tiny runs through Dask over the local sweep's", "measured": of_dask, "wanted": "at least 0.5", "reached": of_dask >= 0.5},
        {"target": "seconds of `import pliant`", "measured": import_s, "wanted": "less than 0.3", "reached": import_s < 0.3},
    ]
    record = {"python": sys.version.split()[0], "pandas": pandas.__version__, "distributed": distributed.__version__,
              "cpu_s": {"command": of_command, "package": of_package}, "flows": flows, "columns_s": built_s, "frame_s": frame_s,
              "runs_per_s": rates, "imports_s": imports, "processors": os.cpu_count(), "targets": targets}
    for each in targets:
        print(f"{each['target']}: {each['measured']:.3f}, {each['wanted']}: {'reached' if each['reached'] else 'missed'}", flush=True)
    if arguments.record:
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
