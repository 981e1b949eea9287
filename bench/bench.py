#!/usr/bin/env python3
"""Packet-hops per CPU second of pliant beside ns-3 and ns-2, in one sitting.

Usage: bench.py PLIANT [--runs N] [--no-peers] [SCENARIO]...
SCENARIO: a name of the list SCENARIOS below (default: all)

Runs of pliant are whole processes, set-up included. N rounds (default 9) run every scenario once, one after the other, and each
scenario's median counts: a machine whose speed changes from second to second changes all of them alike. A peer runs once per
scenario, without its set-up, shortened where it is slow; the peers' runs are spread over the rounds. Writes target/bench.json and
prints a table. See README.md beside this file.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / "target" / "bench"
SCENARIOS = [
    "S1", "S1c", "S1lp", "S1ledbat", "S1ledbatpp", "S1q", "S1n", "S1push", "S1dccp", "S1ndp", "S1scdp", "S1homa",
    "S1atp", "S1eight", "S1pfabric", "S1short", "reflex",
    "expresspass", "layered", "flexpass", "clos",
    "S2", "S3", "S1-dwrr", "S2-dwrr", "S3-dwrr", "large",
]
PEERS = ["ns-3", "ns-2"]
# What the peers are set up for.
BESIDE_PEERS = ["S1", "S1c", "S2", "S3", "S1-dwrr", "S2-dwrr", "S3-dwrr"]
# Longer than any run: pliant's traces know no flow without an end.
ENDLESS_BYTES = 10**12


def run(command):
    """Standard output of a command with its CPU seconds (user, system) and peak memory in MB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"bench.py: {' '.join(map(str, command))} failed")
    return out, usage.ru_utime, usage.ru_stime, usage.ru_maxrss / 1024


def trace(scenario):
    """The scenario's list of flows as a pliant trace; every second flow is in class 1."""
    path = WORK / f"{scenario}.csv"
    out, *_ = run([sys.executable, HERE / "peers" / "flows.py", scenario])
    with path.open("w") as file:
        file.write("start,src,dst,bytes,class\n")
        for index, flow in enumerate(csv.DictReader(io.StringIO(out))):
            size = int(flow["bytes"]) or ENDLESS_BYTES
            file.write(f"{flow['start_s']},{flow['src']},{flow['dst']},{size},{index % 2}\n")
    return path


def pliant_command(pliant, name):
    scenario, _, dwrr = name.partition("-")
    command = [pliant, "run", "--json", "--quiet"]
    if scenario in ("S2", "S3"):
        command += [HERE / "scenarios" / "fat_tree.toml", "--set", f"traffic.list.path={trace(scenario)}"]
    else:
        command.append(HERE / "scenarios" / f"{scenario.lower()}.toml")
    if dwrr:
        command += ["--set", "queues.plan=dwrr-1-1"]
    return command


def measure_pliant(command):
    out, user, system, rss = run(command)
    summary = json.loads(out)
    delivered = sum(group["all"]["delivered_bytes"] for group in summary["groups"]) // 1460
    rate = summary["packet_hops"] / (user + system)
    return {"hops_per_cpu_s": rate, "user_s": user, "peak_rss_mb": rss, "delivered": delivered}


def middle(rows):
    """The run of the median rate, with the least and the greatest."""
    rows = sorted(rows, key=lambda row: row["hops_per_cpu_s"])
    least, greatest = rows[0]["hops_per_cpu_s"], rows[-1]["hops_per_cpu_s"]
    return {**rows[len(rows) // 2], "least_hops_per_cpu_s": least, "greatest_hops_per_cpu_s": greatest}


def fat_tree_hosts(k):
    return k**3 // 4


def measure_large(pliant, runs):
    """What a fat-tree of 36 ports takes: CPU seconds to build it, bytes per host, bytes per flow under way."""

    def medians(k, senders):
        sets = [f"topology.k={k}", f"traffic.pairs.hosts=0..{senders}"]
        command = [pliant, "run", "--json", "--quiet", HERE / "scenarios" / "large.toml"]
        rows = [run(command + [word for item in sets for word in ("--set", item)]) for _ in range(runs)]
        cpu = sorted(user + system for _, user, system, _ in rows)
        peak = sorted(rss for *_, rss in rows)
        return cpu[runs // 2], peak[runs // 2] * 2**20

    hosts = fat_tree_hosts(36)
    start, _ = medians(4, 2)
    cpu, two_flows = medians(36, 2)
    # Not beside a small network: a process begins with the peak of the one that started it.
    _, smaller = medians(28, 2)
    _, all_send = medians(36, hosts)
    return {
        "hosts": hosts,
        "build_cpu_s": cpu - start,
        "bytes_per_host": (two_flows - smaller) / (hosts - fat_tree_hosts(28)),
        "bytes_per_flow": (all_send - two_flows) / (hosts - 2),
    }


def measure_peer(peer, name):
    out, *_ = run(["bash", HERE / "peers" / "run.sh", "--peer", peer, name])
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return rows[0] if rows else {"unavailable": "not installed"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=Path)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    parser.add_argument("--runs", metavar="N", type=int, default=9)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_intermixed_args()
    names = options.scenarios or SCENARIOS
    if unknown := [name for name in names if name not in SCENARIOS]:
        parser.error(f"unknown scenario {unknown[0]}; known: {' '.join(SCENARIOS)}")
    WORK.mkdir(parents=True, exist_ok=True)

    commands = {name: pliant_command(options.pliant, name) for name in names if name != "large"}
    beside = [] if options.no_peers else [(peer, name) for name in names if name in BESIDE_PEERS for peer in PEERS]
    ours, theirs = {name: [] for name in commands}, {}
    for number in range(options.runs):
        for name, command in commands.items():
            ours[name].append(measure_pliant(command))
        for peer, name in beside[number::options.runs]:
            theirs[peer, name] = measure_peer(peer, name)
        print(f"round {number + 1} of {options.runs}", file=sys.stderr, flush=True)

    results = []
    print(f"{'scenario':11} {'system':8} {'M hops/CPU s':>12} {'least':>8} {'greatest':>8} {'user s':>8} {'peak MB':>8} {'pliant is':>10}")
    for name, rows in ours.items():
        own = middle(rows)
        results.append({"scenario": name, "system": "pliant", **own})
        rates = [own[key] / 1e6 for key in ("hops_per_cpu_s", "least_hops_per_cpu_s", "greatest_hops_per_cpu_s")]
        print(f"{name:11} {'pliant':8} {rates[0]:12.1f} {rates[1]:8.1f} {rates[2]:8.1f} {own['user_s']:8.2f} {own['peak_rss_mb']:8.1f}")
        for peer in (peer for peer in PEERS if (peer, name) in theirs):
            row = theirs[peer, name]
            if "unavailable" in row:
                print(f"{name:11} {peer:8} not available: {row['unavailable']}")
                continue
            keys = ("hops_per_cpu_s", "user_s", "peak_rss_mb", "delivered")
            results.append({"scenario": name, "system": peer, **{key: row[key] for key in keys}})
            ratio = own["hops_per_cpu_s"] / row["hops_per_cpu_s"]
            print(f"{name:11} {peer:8} {row['hops_per_cpu_s'] / 1e6:12.2f} {'':8} {'':8} {row['user_s']:8.2f} "
                  f"{row['peak_rss_mb']:8.1f} {ratio:9.1f}x")
    if "large" in names:
        large = measure_large(options.pliant, options.runs)
        results.append({"scenario": "large", "system": "pliant", **large})
        print(f"{'large':11} {'pliant':8} {large['hosts']} hosts: built in {large['build_cpu_s']:.3f} CPU s; "
              f"{large['bytes_per_host'] / 1e3:.1f} kB per host; {large['bytes_per_flow'] / 1e3:.1f} kB per flow under way")

    target = HERE.parent / "target" / "bench.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
