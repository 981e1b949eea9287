#!/usr/bin/env python3
"""The daemon's forward door beside `ssh -L`, a QUIC forwarder and socat, between two network namespaces; needs root and Linux.

Usage: daemon.py PLIANT [--rounds N] [--seconds S] [--only NAME]... [--quinn FORWARDER] [--record FILE]
Each forwarder carries iperf3 with 1 and 16 connections, redis-benchmark's GET with one connection, and redis-benchmark with
a new connection for each of its requests. CPU is that of the forwarder's processes at either end, per 10^9 bytes carried.
The QUIC forwarder is quinn/src/bin/forward.rs. socat does not encrypt: it is what copying in user space costs, with a process
at both ends like the others. Rounds alternate between the forwarders, and medians are told; then connections that are open
and idle say what memory each takes. Compare ratios of one run only.
"""

import argparse
import csv
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hosts import PATIENCE, family, inside, run, until
from programs import DOORS, ECHO, FAR, FAR_ADDRESS, IPERF, NEAR, REDIS, SSH, World, idle_connections, listens, version

PLIANT, SSH_L, QUIC, SOCAT = "pliant", "ssh -L", "quinn", "socat"
# Offsets of the near ports by which a service is reached.
OFFSETS = {PLIANT: DOORS, SSH_L: DOORS + 10_000, QUIC: DOORS + 30_000, SOCAT: DOORS + 20_000}
SOCAT_FAR = 30_000
QUIC_PORT = 7412
SERVICES = (IPERF, REDIS, ECHO)
# What quinn finds a path of Ethernet to allow.
MTU = 1480
GETS = 5000
# Of redis-benchmark with a connection for each request.
CONNECTIONS, AT_ONCE = 4000, 32
IDLE = 500

HERE = Path(__file__).resolve().parent


class Forwarder:
    """The processes of a forwarder at either end: those that were started, and theirs."""

    def __init__(self, near, far):
        self.ends = {"near": near, "far": far}

    def processes(self, end):
        """Ids of an end's processes."""
        return [pid for process in self.ends[end] for pid in family(process.pid)]

    def cpu_seconds(self, end):
        """User and system time, that of children which have ended included."""
        ticks = 0
        for pid in self.processes(end):
            try:
                ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
            except OSError:
                pass
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self, end):
        """Bytes that an end has to itself, its part of shared pages included."""
        kilobytes = 0
        for pid in self.processes(end):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return kilobytes * 1024


def build_quinn():
    """The QUIC forwarder."""
    target = HERE.parent / "target/peers/quinn"
    run("cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", HERE / "quinn/Cargo.toml", "--target-dir", target)
    return target / "release/forward"


def start_forwarders(world, only, quinn):
    """Each forwarder of `only`; pliant's daemons run already."""
    started = {PLIANT: lambda: Forwarder([world.daemons["near"]], [world.daemons["far"]]),
               SSH_L: lambda: start_ssh(world), QUIC: lambda: start_quinn(world, quinn), SOCAT: lambda: start_socat(world)}
    return {name: started[name]() for name in only}


def start_ssh(world):
    words = ["ssh", "-N", "-p", SSH, "-i", world.folder / "ssh_key", "-o", "StrictHostKeyChecking=no",
             "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    for port in SERVICES:
        words += ["-L", f"127.0.0.1:{OFFSETS[SSH_L] + port}:127.0.0.1:{port}"]
    client = world.start(NEAR, *words, FAR_ADDRESS)
    until(SSH_L, lambda: listens(NEAR, OFFSETS[SSH_L] + ECHO))
    return Forwarder([client], [world.services[SSH]])


def start_socat(world):
    ends = ([], [])
    for port in SERVICES:
        near, far = OFFSETS[SOCAT] + port, SOCAT_FAR + port
        options = "reuseaddr,fork,nodelay,backlog=1024"
        ends[1].append(world.start(FAR, "socat", "-b", 65536, f"TCP-LISTEN:{far},bind={FAR_ADDRESS},{options}",
                                   f"TCP:127.0.0.1:{port},nodelay"))
        ends[0].append(world.start(NEAR, "socat", "-b", 65536, f"TCP-LISTEN:{near},bind=127.0.0.1,{options}",
                                   f"TCP:{FAR_ADDRESS}:{far},nodelay"))
        until(SOCAT, lambda near=near, far=far: listens(NEAR, near) and listens(FAR, far))
    return Forwarder(*ends)


def start_quinn(world, program):
    certificate = world.folder / "certificate"
    far = world.start(FAR, program, "far", f"{FAR_ADDRESS}:{QUIC_PORT}", certificate)
    until(QUIC, certificate.exists)
    forwards = [f"127.0.0.1:{OFFSETS[QUIC] + port}=127.0.0.1:{port}" for port in SERVICES]
    near = world.start(NEAR, program, "near", f"{FAR_ADDRESS}:{QUIC_PORT}", certificate, *forwards)
    until(QUIC, lambda: listens(NEAR, OFFSETS[QUIC] + ECHO))
    return Forwarder([near], [far])


def bulk(forwarder, port, connections, seconds):
    """Gbit/s, and CPU seconds per GB at either end."""
    words = inside(NEAR, "iperf3", "-J", "-c", "127.0.0.1", "-p", port, "-t", seconds, "-P", connections)
    deadline = time.monotonic() + PATIENCE
    while True:
        before = {end: forwarder.cpu_seconds(end) for end in forwarder.ends}
        report = json.loads(subprocess.run(words, check=False, capture_output=True, text=True).stdout)
        if "error" not in report:
            break
        # The server may not have seen the end of the test before this one.
        if "busy" not in report["error"] or time.monotonic() > deadline:
            raise SystemExit(f"iperf3 through port {port}: {report['error']}")
        time.sleep(0.2)
    received = report["end"]["sum_received"]
    gigabytes = received["bytes"] / 1e9
    cpu = {end: (forwarder.cpu_seconds(end) - before[end]) / gigabytes for end in forwarder.ends}
    return {"gbit_per_s": received["bits_per_second"] / 1e9, **{f"{end}_cpu_s_per_gb": cpu[end] for end in cpu}}


def redis(port, *options):
    """The last line of redis-benchmark, by its columns."""
    words = inside(NEAR, "redis-benchmark", "-p", port, "-t", "get", "--csv", *options)
    return list(csv.DictReader(run(*words).splitlines()))[-1]


def gets(port):
    """Round trips of GET on one connection in milliseconds."""
    row = redis(port, "-n", GETS, "-c", 1)
    return {"p50_ms": float(row["p50_latency_ms"]), "p99_ms": float(row["p99_latency_ms"])}


def new_connections(port):
    """Connections per second, each of one request."""
    return {"per_s": float(redis(port, "-n", CONNECTIONS, "-c", AT_ONCE, "-k", 0)["rps"])}


def idle(forwarder, port, count):
    """Bytes of memory per connection that is open and idle, at either end."""
    before = {end: forwarder.memory(end) for end in forwarder.ends}
    with idle_connections(port, count):
        return {f"{end}_bytes": (forwarder.memory(end) - before[end]) / count for end in forwarder.ends}


def medians(rounds):
    return {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}


COLUMNS = ("| forwarder | 1 connection: Gbit/s | CPU s/GB near, far | 16 connections: Gbit/s | CPU s/GB near, far | "
           "GET p50, p99 in ms | connections per s | kB per idle connection near, far |")


def row(name, of):
    """What docs/performance.md has of a forwarder, too."""
    one, many, get = of["one"], of["sixteen"], of["get"]
    cells = [name, f"{one['gbit_per_s']:.2f}", f"{one['near_cpu_s_per_gb']:.2f}, {one['far_cpu_s_per_gb']:.2f}",
             f"{many['gbit_per_s']:.2f}", f"{many['near_cpu_s_per_gb']:.2f}, {many['far_cpu_s_per_gb']:.2f}",
             f"{get['p50_ms']:.3f}, {get['p99_ms']:.3f}", f"{of['new']['per_s']:.0f}",
             f"{of['idle']['near_bytes'] / 1000:.1f}, {of['idle']['far_bytes'] / 1000:.1f}"]
    return f"| {' | '.join(cells)} |"


def targets(table):
    """What is aimed at: words, what was measured, what is wanted, and whether it is reached."""
    if missing := [name for name in OFFSETS if name not in table]:
        print(f"\nno targets without {', '.join(missing)}", file=sys.stderr)
        return []
    own, ssh, quic, socat = (table[name] for name in (PLIANT, SSH_L, QUIC, SOCAT))

    def cpu(of):
        return of["one"]["near_cpu_s_per_gb"] + of["one"]["far_cpu_s_per_gb"]

    def rate(of, what="one"):
        return of[what]["gbit_per_s"]

    memory = max(own["idle"].values()) / 1000
    at_least = (("bulk over that of ssh -L", rate(own) / rate(ssh), 2), ("bulk over quinn's", rate(own) / rate(quic), 1),
                ("16 connections over one", rate(own, "sixteen") / rate(own), 1),
                ("new connections per second", own["new"]["per_s"], 2000))
    at_most = (("CPU per byte of both ends over quinn's", cpu(own) / cpu(quic), 1),
               ("GET p50 beyond socat's in us", (own["get"]["p50_ms"] - socat["get"]["p50_ms"]) * 1000, 60),
               ("kB per idle connection, the greater end", memory, 20))
    return [*((words, value, f"at least {goal}", value >= goal) for words, value, goal in at_least),
            *((words, value, f"at most {goal}", value <= goal) for words, value, goal in at_most)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(OFFSETS), help="these forwarders only")
    parser.add_argument("--quinn", type=lambda text: Path(text).resolve(), help="the QUIC forwarder; built if not given")
    parser.add_argument("--idle", type=int, default=IDLE)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    only = arguments.only or list(OFFSETS)
    missing = [tool for tool in ("iperf3", "redis-server", "ssh", "socat", "/usr/sbin/sshd") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    quinn = arguments.quinn or (build_quinn() if QUIC in only else None)
    folder = Path(tempfile.mkdtemp(prefix="pliant-daemon-"))
    (folder / "web").mkdir()
    measured = {name: {"one": [], "sixteen": [], "get": [], "new": []} for name in only}
    table = {}
    try:
        with World(arguments.pliant, folder, ssh_address=FAR_ADDRESS) as world:
            world.start_services()
            world.start_daemons(f"mtu = {MTU}\n")
            forwarders = start_forwarders(world, only, quinn)
            for _ in range(arguments.rounds):
                for name, forwarder in forwarders.items():
                    port, of = OFFSETS[name], measured[name]
                    of["one"].append(bulk(forwarder, port + IPERF, 1, arguments.seconds))
                    of["sixteen"].append(bulk(forwarder, port + IPERF, 16, arguments.seconds))
                    of["get"].append(gets(port + REDIS))
                    of["new"].append(new_connections(port + REDIS))
            for name, forwarder in forwarders.items():
                of_idle = idle(forwarder, OFFSETS[name] + ECHO, arguments.idle)
                table[name] = {**{what: medians(rounds) for what, rounds in measured[name].items()}, "idle": of_idle}
    finally:
        shutil.rmtree(folder)
    print(f"{COLUMNS}\n{'|---' * 8}|")
    for name, of in table.items():
        print(row(name, of))
    reached = targets(table)
    if reached:
        print("\n| target | measured | wanted | reached |\n|---|---|---|---|")
        for words, value, wanted, is_reached in reached:
            print(f"| {words} | {value:.2f} | {wanted} | {'yes' if is_reached else 'no'} |")
    if arguments.record:
        versions = {"kernel": platform.release(), "ssh": version("ssh", "-V"), "socat": version("socat", "-V"),
                    "iperf3": version("iperf3", "--version"), "redis": version("redis-server", "--version")}
        record = {"versions": versions, "rounds": measured, "table": table,
                  "targets": [{"target": words, "measured": value, "wanted": wanted, "reached": is_reached}
                              for words, value, wanted, is_reached in reached]}
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
