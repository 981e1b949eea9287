#!/usr/bin/env python3
"""CPU per byte of `pliant send --rate-cap` beside the same without it, over loopback and encrypted: pairs in turn, each of a
fresh receiver. User and system time of each process by the kernel's count (getrusage), so that waits for the processor do not
count. Prints the median of each side, and the median, the least and the greatest of the pairs' ratios. Then the same ratio of a
loop that hashes 200 kB and makes no system call while it does: with sleeps of 4 ms between two rounds over without. That part is
the machine's. Fails if a median is beyond the goal."""

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL = 1.5


def usage_of(process):
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"rate_cap.py: {process.args[1]} ended with {status}")
    return usage.ru_utime + usage.ru_stime


def transfer(pliant, folder, source, rate):
    """CPU seconds of sender and receiver."""
    key = ["--key", folder / "key", "--quiet"]
    receiver = subprocess.Popen([pliant, "recv", "--discard", "--listen", "127.0.0.1:0", "--key", folder / "key"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    to = receiver.stderr.readline().split()[-1]
    cap = ["--rate-cap", rate] if rate else []
    sender = subprocess.Popen([pliant, "send", source, to, *key, *cap], stdout=subprocess.DEVNULL)
    return usage_of(sender), usage_of(receiver)


def hashing(sleep):
    """CPU seconds of 600 rounds of SHA-256 over 200 kB."""
    content, before = bytes(200_000), resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(600):
        hashlib.sha256(content).digest()
        if sleep:
            time.sleep(sleep)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio_of(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pliant")
    arguments.add_argument("--rate", default="300Mbit/s")
    arguments.add_argument("--megabytes", type=int, default=200)
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--record", type=Path, help="file for the figures of all runs")
    given = arguments.parse_args()
    pliant = Path(given.pliant).resolve()
    with tempfile.TemporaryDirectory(prefix="pliant-rate-cap.") as path:
        folder = Path(path)
        source = folder / "source"
        source.write_bytes(os.urandom(given.megabytes * 10**6))
        subprocess.run([pliant, "keygen", folder / "key"], check=True, capture_output=True)
        pairs = [[transfer(pliant, folder, source, rate) for rate in (None, given.rate)] for _ in range(given.pairs)]
    sides = {}
    for side, name in enumerate(("send", "recv")):
        free, capped = ([pair[at][side] / given.megabytes * 1000 for pair in pairs] for at in (0, 1))
        sides[name] = {"free": free, "capped": capped, "ratios": [b / a for a, b in zip(free, capped)]}
        print(f"{name}: {statistics.median(free):.2f} CPU s/GB without a cap, {statistics.median(capped):.2f} at {given.rate}; "
              f"ratio {ratio_of(sides[name]['ratios'])}")
    hashed = [hashing(0.004) / hashing(0) for _ in range(given.pairs)]
    print(f"hashing alone: ratio {ratio_of(hashed)} with sleeps of 4 ms")
    if given.record:
        record = {"rate": given.rate, "megabytes": given.megabytes, "goal": GOAL, "sides": sides, "hashing": hashed}
        given.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    beyond = any(statistics.median(of["ratios"]) > GOAL for of in sides.values())
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()
