#!/usr/bin/env python3
"""The tables of docs/performance.md, each measured beside its peers and recorded below docs/performance/.

Usage: performance.py PLIANT [PART...]

PART: simulator, instructions, transfer, rate-cap, blocks, daemon, objects, python (default: all of them). PLIANT is a release build. Each part
runs the script of this folder that has its name or does its work, writes docs/performance/PART.json (the build, the machine,
every figure of the script, the table's cells) and the table in docs/performance.md. Needs Linux and root; the scripts install
their peers on Debian. All parts take an hour, in which the machine should do nothing else.
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from hosts import run, write_section

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "performance.md"
RECORDS = ROOT / "docs" / "performance"

# Rows of the simulator's table: what stands in the page, and the names of bench.py.
BESIDE_PEERS = {
    "S1, eight DCTCP flows": "S1", "S1c, two CUBIC flows": "S1c", "S2, fat-tree, permutation": "S2",
    "S3, fat-tree, web search": "S3", "S1, two classes by DWRR": "S1-dwrr", "S2, two classes by DWRR": "S2-dwrr",
    "S3, two classes by DWRR": "S3-dwrr",
}
ALONE = {
    "TCP-LP, LEDBAT, LEDBAT++": ("S1lp", "S1ledbat", "S1ledbatpp"),
    "cross-queue notification": ("S1q",),
    "Near-Opt": ("S1n",),
    "REFLEX": ("reflex",),
    "ExpressPass, DCTCP on credits, FlexPass": ("expresspass", "layered", "flexpass"),
    "FlexPass on a Clos of 192 hosts": ("clos",),
    "PPUSH": ("S1push",),
    "DCCP, NDP, SCDP, Homa": ("S1dccp", "S1ndp", "S1scdp", "S1homa"),
    "ATP; DCTCP in ATP's queues": ("S1atp", "S1eight"),
    "pFabric; its flows under DCTCP": ("S1pfabric", "S1short"),
}


def script(*words):
    """Standard output of a script of this folder, whose errors and progress the user sees."""
    done = subprocess.run([str(word) for word in words], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"performance.py: {' '.join(map(str, words))} ended with {done.returncode}")
    return done.stdout


def recorded(*words, may_fail=False):
    """What a script writes with `--record`."""
    with tempfile.TemporaryDirectory(prefix="pliant-performance.") as folder:
        file = Path(folder) / "record.json"
        done = subprocess.run([str(word) for word in (*words, "--record", file)], check=False, stdout=sys.stderr)
        if done.returncode and not may_fail or not file.exists():
            sys.exit(f"performance.py: {' '.join(map(str, words))} ended with {done.returncode}")
        return json.loads(file.read_text(encoding="utf-8"))


def simulator(pliant):
    script(sys.executable, HERE / "bench.py", pliant)
    rows = json.loads((ROOT / "target" / "bench.json").read_text(encoding="utf-8"))
    of = {(row["scenario"], row["system"]): row for row in rows}

    def rate(name, system):
        row = of.get((name, system))
        return row and row["hops_per_cpu_s"] / 1e6

    table = []
    first = rate("S1", "pliant")
    for words, name in BESIDE_PEERS.items():
        own, peers = rate(name, "pliant"), [rate(name, peer) for peer in ("ns-2", "ns-3")]
        table.append([words, f"{own:.1f}", f"{own / first:.2f}", *("" if peer is None else f"{peer:.2f}" for peer in peers),
                      *("" if peer is None else f"{own / peer:.{1 if own < 100 * peer else 0}f}" for peer in peers)])
    for words, names in ALONE.items():
        own = [rate(name, "pliant") for name in names]
        table.append([words, ", ".join(f"{each:.1f}" for each in own), ", ".join(f"{each / first:.2f}" for each in own), "", "", "", ""])
    spread = [of["S1", "pliant"][key] / 1e6 for key in ("least_hops_per_cpu_s", "greatest_hops_per_cpu_s")]
    table.append(["S1, the least and the greatest of its runs", ", ".join(f"{each:.1f}" for each in spread),
                  ", ".join(f"{each / first:.2f}" for each in spread), "", "", "", ""])
    large = of["large", "pliant"]
    table.append(["a fat-tree of 11,664 hosts is built", f"in {large['build_cpu_s']:.2f} CPU s, {large['bytes_per_host'] / 1e3:.1f} kB per host",
                  "", "", "", "", ""])
    columns = ["M packet-hops per CPU second", "Pliant", "of S1", "ns-2 2.35", "ns-3 3.37", "over ns-2", "over ns-3"]
    return columns, table, rows


def instructions(pliant):
    counts = recorded(sys.executable, HERE / "instructions.py", pliant)
    return ["instructions per packet-hop", "Pliant"], [[name, f"{row[0]:.0f}"] for name, row in counts.items()], counts


def transfer(pliant):
    runs = [json.loads(line) for line in script(HERE / "real" / "run.sh", pliant).splitlines() if line.startswith("{")]
    table, systems = [], list(dict.fromkeys(run["system"] for run in runs))
    keys = ("gbit_per_s", "sender_cpu_s_per_gb", "receiver_cpu_s_per_gb")
    for system in systems:
        of = [run for run in runs if run["system"] == system]
        name = system if system.startswith("pliant") else f"{system} ({of[0]['version']})"
        table.append([name, *(f"{statistics.median(run[key] for run in of):.2f}" for key in keys)])
    return ["", "Gbit/s", "sender CPU s/GB", "receiver CPU s/GB"], table, runs


def rate_cap(pliant):
    record = recorded(sys.executable, HERE / "rate_cap.py", pliant, may_fail=True)
    table = []
    for name, of in record["sides"].items():
        ratios = of["ratios"]
        table.append([f"`{name}`", *(f"{statistics.median(of[key]):.2f}" for key in ("free", "capped")),
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"])
    hashing = record["hashing"]
    table.append(["a loop that only hashes, without and with sleeps of 4 ms", "", "",
                  f"{statistics.median(hashing):.2f} ({min(hashing):.2f} to {max(hashing):.2f})"])
    return ["CPU s/GB", "without a cap", f"at {record['rate']}", "ratio, least to greatest"], table, record


def blocks(pliant):
    record = recorded(sys.executable, HERE / "blocks.py", pliant)
    names = {"hashing": "BLAKE3 of the content, as before blocks were verified", "tree": "the rest of BLAKE3 and the hash tree"}
    table = [[words, *(f"{run[key]:.1%}" for run in record["runs"])] for key, words in names.items()]
    return ["part of `fetch`'s samples", *(f"run {number + 1}" for number in range(len(record["runs"])))], table, record


def daemon(pliant):
    import daemon as script_of_daemon
    record = recorded(sys.executable, HERE / "daemon.py", pliant)
    cells = [script_of_daemon.row(name, of).strip("| ").split(" | ") for name, of in record["table"].items()]
    return script_of_daemon.COLUMNS.strip("| ").split(" | "), cells, record


def objects(pliant):
    import objects as script_of_objects
    record = recorded(sys.executable, HERE / "objects.py", pliant)
    cells = [[cell.strip() for cell in script_of_objects.line(row, record).strip("|").split("|")] for row in record["rows"]]
    return ["sources (Mbit/s)", "bound", "`fetch`", "aria2", "beyond: `fetch`", "aria2"], cells, record


def python(pliant):
    """By an interpreter of its own, which has the package of a release build."""
    folder = ROOT / "target" / "python"
    script("make", "-C", ROOT, "--no-print-directory", "target/python/env/ready")
    wheels = folder / "release-wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    script(folder / "env/bin/maturin", "build", "--quiet", "--locked", "--release", "--target-dir", folder / "build", "--interpreter", folder / "env/bin/python", "--out", wheels)
    script(folder / "env/bin/pip", "install", "-q", "--no-deps", "--force-reinstall", *wheels.glob("pliant-*.whl"))
    record = recorded(folder / "env/bin/python", HERE / "python.py", pliant)
    rows = [["CPU s of a run", *(f"{statistics.median(record['cpu_s'][who]):.2f}" for who in ("command", "package"))],
            [f"{record['flows']:,} flows: seconds for the columns, and then for the frame", "", f"{record['columns_s']:.2f}, {record['frame_s']:.2f}"],
            ["tiny runs per second by two processes: local sweep, Dask",
             *(f"{statistics.median(record['runs_per_s'][who]):.0f}" for who in ("local", "dask"))]]
    return ["", "command line, or local", "Python, or Dask"], rows, record


PARTS = {"simulator": simulator, "instructions": instructions, "transfer": transfer, "rate-cap": rate_cap, "blocks": blocks,
         "daemon": daemon, "objects": objects, "python": python}


def marks(part):
    return f"<!-- {part}: written by bench/performance.py -->", f"<!-- end of {part} -->"


def section(part, record):
    """The table between its marks, and below it the targets where the script has some."""
    def lines(columns, rows):
        return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *("| " + " | ".join(row) + " |" for row in rows)]

    start, end = marks(part)
    text = [start, "", *lines(record["columns"], record["rows"])]
    if targets := isinstance(record["figures"], dict) and record["figures"].get("targets"):
        text += ["", *lines(["target", "measured", "wanted", "reached"],
                            [[each["target"], f"{each['measured']:.2f}", each["wanted"], "yes" if each["reached"] else "no"]
                             for each in targets])]
    return "\n".join([*text, "", end])


def processor():
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("parts", nargs="*", metavar="PART", default=list(PARTS))
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]}; known: {' '.join(PARTS)}")
    if not arguments.pliant.is_file():
        parser.error(f"{arguments.pliant}: no such program")
    RECORDS.mkdir(exist_ok=True)
    commit = run("git", "-C", ROOT, "describe", "--always", "--dirty").strip()
    for part in arguments.parts:
        columns, rows, figures = PARTS[part](arguments.pliant)
        record = {"commit": commit, "kernel": platform.release(), "processors": f"{os.cpu_count()} x {processor()}",
                  "columns": columns, "rows": rows, "figures": figures}
        (RECORDS / f"{part}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        write_section(PAGE, marks(part), section(part, record))
        print("\n".join(section(part, record).splitlines()[2:-2]), flush=True)


if __name__ == "__main__":
    main()
