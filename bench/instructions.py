#!/usr/bin/env python3
"""Instructions per packet-hop of the engine, of one build or of several side by side.

Usage: instructions.py PLIANT... [SCENARIO]... [--record FILE]

valgrind counts them, so other work on the machine changes nothing; processor time says what they cost (bench.py). Each
scenario runs for two lengths of simulated time, and the difference is what counts: set-up is in neither. With several
builds the last column is the last build's over the first's. Scenarios are those of bench.py.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import bench

# A scenario's first length has at least so many packet-hops; its second is twice as long.
LEAST_HOPS = 100_000
SCENARIOS = [*bench.BESIDE_PEERS, "reflex", "expresspass", "flexpass", "layered", "clos", "S1atp", "S1push", "S1q", "S1n"]


def count(command, length_us):
    """Instructions and packet-hops of a run."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *command]
    command += ["--set", f"duration={length_us}us"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or not counted:
        sys.exit(f"instructions.py: {' '.join(map(str, command))}: {done.stderr.strip().splitlines()[-1]}")
    return int(counted.group(1).replace(",", "")), json.loads(done.stdout)["packet_hops"]


def length_of(build, name):
    """Simulated time in us after which a scenario has had enough packet-hops."""
    length_us = 2000
    while length_us < 100_000_000:
        command = [*bench.pliant_command(build, name), "--set", f"duration={length_us}us"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        # Some scenarios refuse to be shorter than their warm-up.
        if done.returncode == 0 and json.loads(done.stdout)["packet_hops"] >= LEAST_HOPS:
            return length_us
        length_us *= 2
    sys.exit(f"instructions.py: {name} does not run: {done.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+", metavar="PLIANT or SCENARIO")
    parser.add_argument("--record", type=Path, help="writes the counts there, as JSON")
    options = parser.parse_intermixed_args()
    builds = [word for word in options.words if word not in bench.SCENARIOS]
    names = [word for word in options.words if word in bench.SCENARIOS] or SCENARIOS
    if missing := [build for build in builds if not Path(build).is_file()]:
        parser.error(f"{missing[0]}: neither a program nor a scenario of bench.py")
    bench.WORK.mkdir(parents=True, exist_ok=True)
    record = {}
    for name in names:
        row = []
        length_us = length_of(builds[0], name)
        for build in builds:
            command = bench.pliant_command(build, name)
            (few, few_hops), (many, many_hops) = (count(command, length) for length in (length_us, 2 * length_us))
            # Where all flows are done in the first length, set-up counts.
            more = many_hops > few_hops
            row.append(round((many - few) / (many_hops - few_hops) if more else many / many_hops, 1))
        record[name] = row
        ratio = f"{row[-1] / row[0]:8.3f}" if len(row) > 1 else ""
        print(f"{name:12}" + "".join(f"{value:9.1f}" for value in row) + ratio, flush=True)
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
