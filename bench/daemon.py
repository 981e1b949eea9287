#!/usr/bin/env python3
"""The daemon's forward door beside `ssh -L` and socat, between two network namespaces in one run; needs root and Linux.

Usage: daemon.py PLIANT [--rounds N] [--seconds S] [--record FILE]
Each forwarder carries iperf3 with 1 and 16 connections, and redis-benchmark's GET with one. socat does not encrypt: it is
what copying in user space costs, with a process at both ends like the others. Rounds alternate between the forwarders, and
medians are told. Compare ratios of one run only.
"""

import argparse
import json
import platform
import re
import shutil
import statistics
import tempfile
from pathlib import Path

from programs import DOORS, FAR, FAR_ADDRESS, IPERF, NEAR, REDIS, SSH, World, inside, listens, run, until, version

# Offsets of the near ports by which a service is reached.
FORWARDERS = {"pliant": DOORS, "ssh -L": DOORS + 10_000, "socat": DOORS + 20_000}
SOCAT_FAR = 30_000


def start_peers(world):
    """`ssh -L` to a server in the far namespace, and socat at both ends."""
    ssh = ["ssh", "-N", "-p", SSH, "-i", world.folder / "ssh_key", "-o", "StrictHostKeyChecking=no",
           "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    for port in (IPERF, REDIS):
        ssh += ["-L", f"127.0.0.1:{FORWARDERS['ssh -L'] + port}:127.0.0.1:{port}"]
        near, far = FORWARDERS["socat"] + port, SOCAT_FAR + port
        options = "reuseaddr,fork,nodelay,backlog=1024"
        world.start(FAR, "socat", "-b", 65536, f"TCP-LISTEN:{far},bind={FAR_ADDRESS},{options}",
                    f"TCP:127.0.0.1:{port},nodelay")
        world.start(NEAR, "socat", "-b", 65536, f"TCP-LISTEN:{near},bind=127.0.0.1,{options}",
                    f"TCP:{FAR_ADDRESS}:{far},nodelay")
        until("socat", lambda near=near, far=far: listens(NEAR, near) and listens(FAR, far))
    world.start(NEAR, *ssh, FAR_ADDRESS)
    until("ssh -L", lambda: listens(NEAR, FORWARDERS["ssh -L"] + REDIS))


def bits_per_second(port, connections, seconds):
    words = inside(NEAR, "iperf3", "-J", "-c", "127.0.0.1", "-p", port, "-t", seconds, "-P", connections)
    return json.loads(run(*words))["end"]["sum_received"]["bits_per_second"]


def get_milliseconds(port):
    """Median round trip of GET on one connection."""
    words = inside(NEAR, "redis-benchmark", "-p", port, "-t", "get", "-n", 5000, "-c", 1, "--csv")
    # "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",…
    row = run(*words).splitlines()[-1]
    return float(re.findall(r'"([^"]*)"', row)[4])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    missing = [tool for tool in ("iperf3", "redis-server", "ssh", "socat", "/usr/sbin/sshd") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    folder = Path(tempfile.mkdtemp(prefix="pliant-daemon-"))
    (folder / "web").mkdir()
    found = {name: {"bulk": [], "bulk16": [], "get": []} for name in FORWARDERS}
    try:
        with World(arguments.pliant, folder, ssh_address=FAR_ADDRESS) as world:
            world.start_services()
            world.start_daemons()
            start_peers(world)
            for _ in range(arguments.rounds):
                for name, offset in FORWARDERS.items():
                    found[name]["bulk"].append(bits_per_second(offset + IPERF, 1, arguments.seconds))
                    found[name]["bulk16"].append(bits_per_second(offset + IPERF, 16, arguments.seconds))
                    found[name]["get"].append(get_milliseconds(offset + REDIS))
    finally:
        shutil.rmtree(folder)
    medians = {name: {key: statistics.median(values) for key, values in of.items()} for name, of in found.items()}
    print("| forwarder | 1 connection, Gbit/s | 16 connections, Gbit/s | redis GET p50, ms |\n|---|---|---|---|")
    for name, of in medians.items():
        print(f"| {name} | {of['bulk'] / 1e9:.2f} | {of['bulk16'] / 1e9:.2f} | {of['get']:.3f} |")
    print(f"\nbulk beside ssh -L: {medians['pliant']['bulk'] / medians['ssh -L']['bulk']:.2f} times")
    if arguments.record:
        versions = {"kernel": platform.release(), "ssh": version("ssh", "-V"), "socat": version("socat", "-V"),
                    "iperf3": version("iperf3", "--version"), "redis": version("redis-server", "--version")}
        arguments.record.write_text(json.dumps({"versions": versions, "rounds": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
