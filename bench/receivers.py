#!/usr/bin/env python3
"""One object from one source to many receivers that serve each other: how long the last takes, beside one receiver alone.

Every host is a network namespace; what a host sends passes a token bucket of its rate with 50 ms of buffer. The receivers
begin together. Told are the times of the last receiver, and how often the source sent the object, headers included. Needs
root."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from hosts import Star, run


def fetch_all(pliant, folder, receivers, mbit, key, alone):
    """Seconds until the last has all of it, and the bytes that the source sent."""
    with Star("receivers", "10.94.0", [mbit] * (1 + receivers)) as network:
        network.spawn(0, pliant, "offer", f"{folder}/object", "--key", key, "--listen", f"{network.address(0)}:7410")
        time.sleep(2)
        began, fetching = time.monotonic(), []
        for index in range(1, receivers + 1):
            into = tempfile.mkdtemp(dir=folder)
            peers = [f"--peer={network.address(other)}:7410" for other in range(1, receivers + 1) if other != index]
            serve = [] if alone else ["--serve", f"{network.address(index)}:7410", *peers]
            command = [pliant, "fetch", f"{network.address(0)}:7410", "--key", key, "--into", into, "--json", *serve]
            fetching.append((network.spawn(index, *command, stdout=subprocess.PIPE), into))
        for child, into in fetching:
            line = child.stdout.readline()
            if not line.startswith(b"{"):
                sys.exit("receivers.py: a receiver did not fetch the object")
            run("cmp", f"{folder}/object", f"{into}/object")
        return time.monotonic() - began, network.sent_bytes(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", help="path of the pliant binary")
    parser.add_argument("--bytes", type=int, default=100_000_000, help="size of the object (default: 100 MB)")
    parser.add_argument("--mbit", type=int, default=50, help="what each host can send (default: 50 Mbit/s)")
    parser.add_argument("--receivers", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, whose medians are told (default: 3)")
    parser.add_argument("--alone", action="store_true", help="receivers do not serve each other")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("receivers.py: network namespaces need root")
    pliant = os.path.abspath(arguments.pliant)
    print("| receivers | last of them | beside one | sent by the source |\n|---|---|---|---|")
    first = None
    with tempfile.TemporaryDirectory(prefix="pliant-receivers.") as folder:
        key = f"{folder}/key"
        run(pliant, "keygen", key)
        with open(f"{folder}/object", "wb") as file:
            file.write(os.urandom(arguments.bytes))
        for receivers in arguments.receivers:
            runs = [
                fetch_all(pliant, folder, receivers, arguments.mbit, key, arguments.alone) for _ in range(arguments.rounds)
            ]
            took, sent = (statistics.median(part) for part in zip(*runs))
            first = first or took
            print(f"| {receivers} | {took:.1f} s | {took / first:.2f} | {sent / arguments.bytes:.2f} times |", flush=True)


if __name__ == "__main__":
    main()
