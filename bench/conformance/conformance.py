#!/usr/bin/env python3
"""The same scenarios in Pliant and in independent implementations, side by side.

Usage: conformance.py PLIANT [--only CASE]... [--ours] [--list] [--pages]
Runs the cases of cases.toml beside this file, writes docs/conformance.json and from it docs/conformance.md. With --only the
other cases stay as they were recorded. With --ours only Pliant runs, also by changed settings of its own, and what the peers had
stays as it was recorded; --pages only writes the page anew. Installs the peers with apt-get where they are
missing. Scenarios, lists of flows and the peers' programs are left in target/conformance.
"""

import argparse
import csv
import itertools
import json
import os
import platform
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dumbbell import PATIENCE, Dumbbell

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "conformance"
RECORD = ROOT / "docs" / "conformance.json"
PAGE = ROOT / "docs" / "conformance.md"
# Longer than any run: lists of flows know no flow without an end.
ENDLESS_BYTES = 10**12
# Of a run during which the queue is not sampled, from its start on.
START_UP = 0.2
SAMPLES = 2000
PACKET_BYTES = 1500
# Reads the queue's length out of Pliant's Parquet file; below target, since Debian has no package.
PYARROW = "pyarrow==21.0.0"
# Arguments: the file, a port, and the time from which on what its queues held is added up.
QUEUE_READER = """
import pyarrow.parquet, sys
table = pyarrow.parquet.read_table(sys.argv[1], columns=["at_ps", "port", "packets"]).to_pydict()
rows = zip(*table.values())
print(sum(packets for at, port, packets in rows if port == int(sys.argv[2]) and at > int(sys.argv[3])))
"""
# What flows under REFLEX took for their fair share, by flow: at each boundary of their intervals the time and bytes per second.
FAIR_RATE_READER = """
import json, pyarrow.parquet, sys
columns = ["flow", "at_ps", "fair_rate_bytes_per_s"]
table = pyarrow.parquet.read_table(sys.argv[1], columns=columns).to_pydict()
rates = {}
for flow, at, rate in zip(*(table[column] for column in columns)):
    if rate is not None:
        rates.setdefault(flow, []).append([at / 1e12, rate])
print(json.dumps(rates))
"""
# A machine with other work may be too busy for a run of the kernel or of quinn.
ATTEMPTS = 12
QUINN = ROOT / "bench" / "quinn"
# Seconds in which the processes of a run are started.
LEAD = 2.0
# Share of frames that a wire may carry late.
LATE_SHARE = 0.01
# Tests with known answers: a comment that names one of these, on a test.
KNOWN_ANSWER = re.compile(
    r"RFC \d+(?:,? sections? [\d.]*\d(?: and [\d.]*\d)?)?|Floyd and Jacobson|SIGCOMM \d+|NSDI \d+|paper's figure \w+"
)
TEST = re.compile(r"((?:^[ \t]*///.*\n)+)[ \t]*#\[test\]\n[ \t]*fn (\w+)", re.MULTILINE)


def fail(text):
    sys.exit(f"conformance.py: {text}")


# Commands that run now, each in a thread that waits for it.
RUNNING = set()


def run(command, given=None):
    """Standard output of a command."""
    words = [str(word) for word in command]
    pipes = {"stdin": subprocess.PIPE if given else None, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **pipes) as process:
        RUNNING.add(process)
        out, error = process.communicate(given)
    RUNNING.discard(process)
    if process.returncode != 0:
        fail(f"{shlex.join(words)}: exit code {process.returncode}: {error.strip()}")
    return out


def merged(under, over):
    """A table laid over another, as deep as both are tables."""
    result = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def toml_value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)


# What both sides are given.


def flows_of(case, seed):
    """The case's flows by start: rows of (group, start in seconds, source, destination, bytes, class)."""
    rows = []
    for group in case["flows"]:
        draws = random.Random(f"{seed} {group['name']}")
        first, every = group.get("start_us", 0), group.get("every_us")
        starts = range(first, group["until_us"], every) if every else [first]
        for start in starts:
            for source, destination in zip(group["from"], group["to"], strict=True):
                at = start + draws.uniform(0, group.get("jitter_us", 0))
                size = group.get("bytes", ENDLESS_BYTES)
                rows.append((group["name"], round(at) * 1e-6, source, destination, size, group.get("class", 0)))
    return sorted(rows, key=lambda row: row[1])


def contracts_of(case):
    """By group, of those that have one: such flows are under REFLEX."""
    return {group["name"]: group["contract"] for group in case["flows"] if "contract" in group}


def write_flows(rows, path):
    with path.open("w") as file:
        file.write("start,src,dst,bytes,class\n")
        for _, start, *fields in rows:
            file.write(",".join([f"{start:.6f}", *map(str, fields)]) + "\n")


# Pliant.


def length(limit):
    """A limit of the cases, `100p` or `64000B`, as a scenario has it."""
    return f"{limit[:-1]} packets" if limit.endswith("p") else limit


def queues_of(queue):
    limits = [length(limit) for limit in queue["limits"]]
    if queue["kind"] == "fifo":
        return {"plan": "drop-tail", "limit": limits[0]}
    if queue["kind"] == "red":
        marking = {"red": queue["red"]} if "red" in queue else {"ecn": {"threshold": f"{queue['threshold']} packets"}}
        return {"queue": [{"name": "all", "classes": [0], "limit": limits[0], **marking}]}
    if queue["kind"] == "weighted-classes":
        marking = {"ecn": {"threshold": f"{queue['threshold']} packets"}}
        rows = [
            {"name": f"class {n}", "classes": [n], "weight": weight, "limit": limit, **marking}
            for n, (weight, limit) in enumerate(zip(queue["weights"], limits, strict=True))
        ]
        return {"scheduler": "dwrr", "quantum": f"{PACKET_BYTES}B", "queue": rows}
    scheduler = {"strict": "strict", "round-robin": "dwrr"}[queue["kind"]]
    rows = [{"name": f"class {n}", "classes": [n], "limit": limit} for n, limit in enumerate(limits)]
    return {"scheduler": scheduler, "queue": rows}


def topology_of(network):
    def link(rate, delay):
        return {"rate": f"{network[rate]}Mbit/s", "delay": f"{network[delay]}us"}

    edge = link("edge_mbit", "edge_us")
    if network["kind"] == "star":
        return {"kind": "star", "hosts": network["hosts"], "link": edge}
    core = link("core_mbit", "core_us")
    return {"kind": "dumbbell", "pairs": network["hosts"] // 2, "edge_link": edge, "bottleneck_link": core}


def picoseconds(seconds):
    return round(seconds * 1e12)


def traffic_of(case, settings, seed, place):
    """Flows with a contract are in groups of their own, whose lists lie beside the list of all flows, which peers read."""
    rows, contracts, common = flows_of(case, seed), contracts_of(case), settings.get("group", {})
    write_flows(rows, place / "flows.csv")
    if not contracts:
        return {"flows": {"kind": "trace", "path": str(place / "flows.csv"), **common}}
    groups = {}
    for name in dict.fromkeys(row[0] for row in rows):
        path = place / f"flows-{name}.csv"
        write_flows([row for row in rows if row[0] == name], path)
        groups[name] = {"kind": "trace", "path": str(path), **common}
        if name in contracts:
            groups[name] |= {"contract": contracts[name], "reflex": {"interval": f"{case['interval_us']}us"}}
    return groups


def scenario_of(case, settings, traffic, seed):
    own = {key: value for key, value in settings.items() if key != "group"}
    base = {
        "seed": seed,
        "duration": f"{picoseconds(case['seconds'])}ps",
        "drain": "0s",
        "sample_interval": f"{picoseconds(case['seconds'] / SAMPLES)}ps",
        "host_jitter": "0s",
        "topology": topology_of(case["network"]),
        "queues": queues_of(case["queue"]),
        "host_queues": {"plan": "drop-tail", "limit": "100000 packets"},
    }
    return merged(base, {**own, "traffic": traffic})


def write_scenario(case, settings, seed, place):
    """The scenario and the list of flows, which is the peer's, too."""
    made = scenario_of(case, settings, traffic_of(case, settings, seed, place), seed)
    (place / "scenario.toml").write_text("".join(f"{key} = {toml_value(value)}\n" for key, value in made.items()))


def run_pliant(case, pliant, place):
    out = place / "out"
    run([pliant, "run", place / "scenario.toml", "--quiet", "--force", "--out", out])
    return read_output(case, out)


def read_output(case, out):
    """What the measures need of the folder that a run of Pliant wrote."""
    with (out / "flows.csv").open() as file:
        found = list(csv.DictReader(file))
    port_name = "switch 0 -> host 0" if case["network"]["kind"] == "star" else "switch 0 -> switch 1"
    with (out / "ports.csv").open() as file:
        ports = [row for row in csv.DictReader(file) if row["port_name"] == port_name]
    drops = [key for key in ports[0] if re.fullmatch(r"dropped_\w+_packets", key)]
    from_ps = picoseconds(START_UP * case["seconds"])
    sampled = run([WORK / "venv/bin/python", "-c", QUEUE_READER, out / "queue_series.parquet", ports[0]["port"], from_ps])
    rates = {}
    if contracts_of(case):
        rates = json.loads(run([WORK / "venv/bin/python", "-c", FAIR_RATE_READER, out / "reflex_series.parquet"]))
    return {
        "queue_packets": int(sampled) / (SAMPLES * (1 - START_UP)),
        "forwarded": sum(int(row["dequeued_packets"]) for row in ports),
        "marked": sum(int(row["marked_packets"]) for row in ports),
        "dropped": sum(int(row[key]) for row in ports for key in drops),
        "flows": [
            {
                "delivered": int(row["delivered_bytes"]),
                "fct_us": float(row["fct_us"]) if row["fct_us"] else None,
                "retransmitted": int(row["retransmitted_packets"]),
                "given_up": int(row.get("given_up_bytes") or 0),
                "low_us": int(row.get("low_ps") or 0) / 1e6,
                "fair_rates": rates.get(row["flow"], []),
            }
            for row in sorted(found, key=lambda row: int(row["flow"]))
        ],
    }


# The peers.


def ensure(package, is_there):
    if is_there():
        return
    if not shutil.which("apt-get"):
        fail(f"{package} is missing, and without apt-get it is not installed from here: this needs Debian")
    print(f"installing {package}", file=sys.stderr)
    log = WORK / f"apt-{package}.log"
    with log.open("w") as file:
        subprocess.run(["apt-get", "update"], stdout=file, stderr=file)
        subprocess.run(["apt-get", "install", "-y", package], stdout=file, stderr=file)
    if not is_there():
        fail(f"{package} could not be installed: {log}")


def prepare_pliant():
    if not (WORK / "venv/bin/python").exists():
        ensure("python3-venv", lambda: subprocess.run([sys.executable, "-c", "import ensurepip"]).returncode == 0)
        run([sys.executable, "-m", "venv", WORK / "venv"])
    run([WORK / "venv/bin/pip", "install", "-q", PYARROW])


def prepare_ns3():
    ensure("g++", lambda: shutil.which("g++"))
    ensure("pkg-config", lambda: shutil.which("pkg-config"))
    ensure("libns3-dev", lambda: subprocess.run(["pkg-config", "--exists", "ns3-core"]).returncode == 0)
    program, source, header = WORK / "ns3", HERE / "ns3.cc", HERE / "reflex.h"
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime, header.stat().st_mtime):
        # The libraries are spelled out: the flags of Debian's .pc files contain a stray -I and stale paths.
        libraries = [f"-lns3-{part}" for part in ("internet", "point-to-point", "traffic-control", "network", "core")]
        run(["g++", "-O2", "-std=c++17", source, "-o", program, *libraries])
    return "ns-3 " + run(["pkg-config", "--modversion", "ns3-core"]).strip()


def run_ns3(case, options, seed, place, _):
    network, queue = case["network"], case["queue"]
    kind = options.get("queue", queue["kind"])
    # One limit for all queues of a discipline that has a queue per flow.
    limits = queue["limits"]
    if kind == "round-robin":
        limits = [f"{sum(int(limit[:-1]) for limit in limits)}p"]
    words = {
        "topology": network["kind"], "hosts": network["hosts"], "edgeMbit": network["edge_mbit"],
        "edgeUs": network["edge_us"], "coreMbit": network.get("core_mbit", 0), "coreUs": network.get("core_us", 0),
        "queue": kind, "limits": ",".join(limits), "flows": place / "flows.csv", "seconds": case["seconds"],
        "sampleFrom": START_UP * case["seconds"], "sampleUs": case["seconds"] / SAMPLES * 1e6, "RngRun": seed,
        # Attributes of ns-3 have the name of their class; the rest is our program's.
        **{f"ns3::{name}" if "::" in name else name: value for name, value in options.items()},
    }
    if "weights" in queue:
        words["weights"] = ",".join(map(str, queue["weights"]))
    if contracts := contracts_of(case):
        words["intervalUs"] = case["interval_us"]
        words["flexible"] = ",".join(
            f"{number}:{contracts[name].get('min_share', 1)}:{contracts[name].get('min_delivery', 1)}"
            for number, (name, *_) in enumerate(flows_of(case, seed)) if name in contracts
        )
    out = run([WORK / "ns3", *(f"--{key}={value}" for key, value in words.items())])
    return json.loads(out)


def prepare_ns2():
    ensure("ns2", lambda: shutil.which("ns"))
    return "ns-2 " + run(["ns", "/dev/stdin"], given="puts [ns-version]").strip()


def run_ns2(case, options, seed, place, _):
    network = case["network"]
    limit = sum(int(limit[:-1]) for limit in case["queue"]["limits"])
    words = {
        "flows": place / "flows.csv", "seconds": case["seconds"], "seed": seed, "hosts": network["hosts"],
        "edgeMbit": network["edge_mbit"], "edgeUs": network["edge_us"], "coreMbit": network["core_mbit"],
        "coreUs": network["core_us"], "limit": limit, "sampleFrom": START_UP * case["seconds"],
        "sampleUs": case["seconds"] / SAMPLES * 1e6,
        **{key: value for key, value in options.items() if " " not in key},
    }
    command = ["ns", HERE / "ns2.tcl"]
    for key, value in words.items():
        command += [f"-{key}", value]
    for key, value in options.items():
        command += [*key.split(), value] if " " in key else []
    out = run(command)
    return json.loads(out.splitlines()[-1])


def prepare_linux():
    if os.geteuid() != 0:
        fail("the kernel's cases need root, for network namespaces")
    ensure("iproute2", lambda: shutil.which("ip"))
    return f"Linux {platform.release().split('-')[0]}"


def run_linux(case, _, __, place, pliant):
    """The same scenario file on network namespaces, where its transport is the kernel's."""
    out = place / "testbed"
    words = [str(pliant), "testbed", "run", str(place / "scenario.toml"), "--real-time", "--force", "--out", str(out)]
    for _attempt in range(ATTEMPTS):
        process = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if process.returncode == 0:
            return read_output(case, out)
        print(f"once more: {process.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    fail(f"{shlex.join(words)}: {ATTEMPTS} times without a result")


def prepare_quinn():
    if os.geteuid() != 0:
        fail("quinn's cases need root, for network namespaces")
    if not shutil.which("cargo"):
        fail("quinn's cases need cargo, by which bench/quinn is built")
    ensure("iproute2", lambda: shutil.which("ip") and shutil.which("tc"))
    ensure("ethtool", lambda: shutil.which("ethtool"))
    ensure("procps", lambda: shutil.which("sysctl"))
    manifest, target = QUINN / "Cargo.toml", ROOT / "target/peers/quinn"
    run(["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest, "--target-dir", target, "--bin", "flow"])
    packages = tomllib.loads((QUINN / "Cargo.lock").read_text())["package"]
    version = next(package["version"] for package in packages if package["name"] == "quinn")
    return f"quinn {version}, Linux {platform.release().split('-')[0]}"


def run_quinn(case, options, seed, place, _):
    """A process at both ends of each flow, on a dumbbell of network namespaces."""
    flows = flows_of(case, seed)
    limits = case["queue"]["limits"]
    if case["network"]["kind"] != "dumbbell" or case["queue"]["kind"] != "fifo" or not limits[0].endswith("p"):
        fail(f"{case['name']}: quinn's network is a dumbbell with a FIFO of packets")
    if any(size != ENDLESS_BYTES for *_, size, _ in flows):
        fail(f"{case['name']}: quinn's flows have no end")
    for _attempt in range(ATTEMPTS):
        try:
            with Dumbbell(case["network"], int(limits[0][:-1])) as network:
                result = quinn_once(case, options, flows, place, network)
                carried = network.carried()
        except subprocess.CalledProcessError as error:
            fail(f"{shlex.join(error.cmd)}: exit code {error.returncode}: {error.stderr.strip()}")
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            fail(str(error))
        if not carried["lost"] and carried["late"] <= LATE_SHARE * carried["carried"]:
            return result
        print(f"once more: of {carried['carried']} frames {carried['late']} were late, {carried['lost']} lost", file=sys.stderr)
    fail(f"{case['name']}: the machine was too busy {ATTEMPTS} times")


def quinn_once(case, options, flows, place, network):
    program, start = ROOT / "target/peers/quinn/release/flow", time.time() + LEAD
    end = start + case["seconds"]
    words, receivers, senders = [f"{key}={value}" for key, value in options.items()], [], []
    ends = [(f"{network.address(row[3])}:{4433 + number}", place / f"certificate-{number}") for number, row in enumerate(flows)]
    for (address, certificate), row in zip(ends, flows, strict=True):
        certificate.unlink(missing_ok=True)
        receivers.append(network.start(network.host(row[3]), program, "receive", address, certificate, end))
    for (address, certificate), row in zip(ends, flows, strict=True):
        while not (certificate.exists() and certificate.stat().st_size) and time.time() < start and receivers[0].poll() is None:
            time.sleep(0.01)
        sender = [program, "send", address, certificate, start + row[1], end, *words]
        senders.append(network.start(network.host(row[2]), *sender))
    waiting, forwarded, dropped = network.watch(start, case["seconds"], SAMPLES, place / "queue.json")
    def told(process):
        out, error = process.communicate(timeout=PATIENCE)
        if process.returncode != 0:
            fail(f"{shlex.join(process.args)}: exit code {process.returncode}: {error.strip()}")
        return json.loads(out)

    counts = [(told(receiver), told(sender)) for receiver, sender in zip(receivers, senders, strict=True)]
    return {
        "queue_packets": statistics.mean(waiting[int(START_UP * SAMPLES):]),
        "forwarded": forwarded,
        "marked": 0,
        "dropped": dropped,
        # quinn sends what a lost packet held in another packet.
        "flows": [{"delivered": ours["delivered"], "fct_us": None, "retransmitted": theirs["lost"]} for ours, theirs in counts],
    }


PEERS = {
    "Linux": (prepare_linux, run_linux), "ns-3": (prepare_ns3, run_ns3), "ns-2": (prepare_ns2, run_ns2),
    "quinn": (prepare_quinn, run_quinn),
}
SIMULATORS = ("ns-3", "ns-2")


# Measures: name, unit, and how it is computed of a run of either side.


def jain(shares):
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def time_taken(case, flow, row):
    """In microseconds. What has not ended has taken until the end."""
    return row["fct_us"] if row["fct_us"] is not None else (case["seconds"] - flow[1]) * 1e6


def rates_beside_others(case, rows, group):
    """Fair rates that the group's flows measured while a flow of another group was under way."""
    others = [(flow[1], flow[1] + time_taken(case, flow, row) / 1e6) for flow, row in rows if flow[0] != group]
    for flow, row in rows:
        if flow[0] == group:
            # At other boundaries the rate stays what it was.
            for (_, before), (at, rate) in itertools.pairwise([(0, None), *row["fair_rates"]]):
                if rate != before and any(start <= at <= end for start, end in others):
                    yield rate


def measure(name, case, flows, result):
    rows = list(zip(flows, result["flows"], strict=True))
    what, _, group = name.partition(" of ") if " of " in name else name.partition(" by ")
    found = [(flow, row) for flow, row in rows if not group or flow[0] == group]
    delivered = sum(row["delivered"] for _, row in found)
    if what == "goodput":
        return delivered * 8 / case["seconds"] / 1e6
    if what == "Jain index":
        return jain([row["delivered"] for _, row in found])
    if what == "mean queue":
        return result["queue_packets"]
    if what == "marked":
        return result["marked"] / result["forwarded"] * 100
    if what == "dropped":
        return result["dropped"] / (result["forwarded"] + result["dropped"]) * 100
    if what == "sent again":
        again = sum(row["retransmitted"] for _, row in found)
        return again / (again + delivered / PACKET_BYTES) * 100
    times = [time_taken(case, flow, row) for flow, row in found]
    if what == "low time":
        return sum(row["low_us"] for _, row in found) / sum(times) * 100
    if what == "given up":
        return sum(row["given_up"] for _, row in found) / sum(flow[4] for flow, _ in found) * 100
    if what == "fair share":
        return statistics.mean(rates_beside_others(case, rows, group)) * 8 / 1e6
    if what == "mean completion":
        return statistics.mean(times) / 1e3
    if what == "largest completion":
        return max(times) / 1e3
    fail(f"unknown measure {name}")


UNITS = {
    "goodput": "Mbit/s", "Jain index": "", "mean queue": "packets", "marked": "%", "dropped": "%", "sent again": "%",
    "mean completion": "ms", "largest completion": "ms", "low time": "%", "given up": "%", "fair share": "Mbit/s",
}


def unit(name):
    return next(unit for what, unit in UNITS.items() if name.startswith(what))


# Running and recording.


def lasting(case, seconds):
    """The case for another time: groups that repeat do so until the same part of it is over, others have as many times the bytes."""
    factor = seconds / case["seconds"]

    def longer(group):
        key = "until_us" if "until_us" in group else "bytes"
        return {**group, key: round(group[key] * factor)} if key in group else group

    return {**case, "seconds": seconds, "flows": list(map(longer, case["flows"]))}


def switches_of(case):
    """Each with what it takes over from the one before it."""
    switches = []
    for switch in case.get("switch", []):
        if switch.get("further") and not switches:
            fail(f"{case['name']}: the first switch has none before it to go further than")
        before = switches[-1] if switch.get("further") else {}
        switches.append(merged({key: before[key] for key in ("pliant", "options", "seconds") if key in before}, switch))
    return switches


class Part:
    """A case as it is described, or with one of its switches."""

    def __init__(self, case, defaults, number, switch):
        self.case = lasting(case, switch.get("seconds", case["seconds"]))
        self.settings = merged(merged(defaults["pliant"], case.get("pliant", {})), switch.get("pliant", {}))
        self.options = merged(merged(defaults["options"], case.get("options", {})), switch.get("options", {}))
        self.measures = switch.get("measures", case["measures"])
        self.place = WORK / case["name"].replace(" ", "-") / (f"switch-{number}" if number else "as-described")

    def key(self, side, seed):
        """Parts with the same key have the same results: most switches change one side only."""
        return json.dumps([seed, self.settings if side == "pliant" else self.options, self.case["seconds"], side])

    def run(self, sides, seed, pliant):
        """Results of some sides."""
        place = self.place / str(seed)
        place.mkdir(parents=True, exist_ok=True)
        write_scenario(self.case, self.settings, seed, place)
        found = {}
        for side in sides:
            ours = side == "pliant"
            result = run_pliant(self.case, pliant, place) if ours else PEERS[self.case["peer"]][1](self.case, self.options, seed, place, pliant)
            found[self.key(side, seed)] = result
        return found


def side_by_side(case, defaults, seeds, pliant, kept=None):
    """Values of each measure by seed, on both sides: of the case, then of each switch. What the peer had in `kept`, which has the
    same measures, stays. Peers that simulate run on all processors at once."""
    parts = [Part(case, defaults, number, switch) for number, switch in enumerate([{}, *switches_of(case)])]
    sides, every, taken, results = ["pliant"] if kept else ["pliant", "peer"], range(1, seeds + 1), set(), {}
    pool = ThreadPoolExecutor(os.cpu_count() if case["peer"] in SIMULATORS else 1)
    try:
        under_way = []
        for part in parts:
            own = {seed: [side for side in sides if part.key(side, seed) not in taken] for seed in every}
            taken |= {part.key(side, seed) for seed in every for side in sides}
            under_way.append([pool.submit(part.run, own[seed], seed, pliant) for seed in every if own[seed]])
        for number, (part, runs) in enumerate(zip(parts, under_way, strict=True)):
            for done in runs:
                results |= done.result()
            values = {name: {side: [] for side in ("pliant", "peer")} for name in part.measures}
            for side, seed in itertools.product(sides, every):
                flows, found = flows_of(part.case, seed), results[part.key(side, seed)]
                for name in part.measures:
                    values[name][side].append(round(measure(name, part.case, flows, found), 6))
            for name, before in (kept[number] if kept else {}).items():
                values[name]["peer"] = before["peer"]
            yield values
    finally:
        for process in list(RUNNING):
            process.kill()
        pool.shutdown(cancel_futures=True)


def verdict(values, tolerance, switched):
    """Switched: values of the same measure with a mechanism switched, of each switch that has it."""
    def agrees(values):
        return abs(ratio(values) - 1) <= tolerance

    if agrees(values):
        return "agrees"
    return "explained" if any(map(agrees, switched)) else "not explained"


def ratio(values):
    """Of means over the seeds. Nothing on both sides is the same."""
    ours, theirs = statistics.mean(values["pliant"]), statistics.mean(values["peer"])
    if theirs == 0:
        return 1.0 if ours == 0 else float("inf")
    return ours / theirs


def number(value):
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def side(values):
    mean, low, high = statistics.mean(values), min(values), max(values)
    return number(mean) if low == high else f"{number(mean)} ({number(low)} to {number(high)})"


def cells(values):
    return f"{side(values['pliant'])} | {side(values['peer'])} | {ratio(values):.3f}"


def known_answers():
    """Rows of source, test and file."""
    rows = []
    for file in sorted(ROOT.glob("crates/*/**/*.rs")):
        for comment, name in TEST.findall(file.read_text()):
            words = " ".join(line.strip().removeprefix("///").strip() for line in comment.splitlines())
            if found := KNOWN_ANSWER.search(words):
                rows.append((found[0], name, file.relative_to(ROOT)))
    return sorted(rows)


def page(record):
    descriptions = {case["name"]: case for case in record["description"]["case"]}
    tolerance = record["description"]["tolerance"]
    counts, lines = {"agrees": 0, "explained": 0, "not explained": 0}, []
    for name, case in descriptions.items():
        found = record["cases"].get(name)
        if not found:
            continue
        seeds = len(next(iter(found["measures"].values()))["peer"])
        lines += [f"## {name}", "", f"{found['peer']}, {seeds} seeds: {case['about']}.", ""]
        lines += [f"| measure | Pliant | {case['peer']} | ratio | verdict |", "|---|---|---|---|---|"]
        switches = list(zip(case.get("switch", []), found["switches"], strict=True))
        for what, values in found["measures"].items():
            others = [(switch["mechanism"], rows[what]) for switch, rows in switches if what in rows]
            said = verdict(values, tolerance, [rows for _, rows in others])
            counts[said] += 1
            shown = f"{what}, {unit(what)}" if unit(what) else what
            lines.append(f"| {shown} | {cells(values)} | {said} |")
            if said != "agrees":
                lines += [f"| – {shown}: {mechanism} | {cells(rows)} | |" for mechanism, rows in others]
        lines.append("")
    total = ", ".join(f"{count} {name}" for name, count in counts.items())
    head = f"""# Held against other implementations

The same scenario in Pliant and in an independent implementation. Written by `make conformance` from
[conformance.json](conformance.json); network, queue, flows and each side's own settings of every case are in
`bench/conformance/cases.toml`. {total}.

Each value is the mean over seeds, in brackets the least and the greatest. A seed draws the starts of flows, alike for
both. **agrees**: the ratio of the means is within {tolerance * 100:.0f} % of 1, the tolerance that was written down before the first
run. **explained**: it is not, but is with a mechanism switched, which the row below names. **not explained**: neither.
Shares sent again are of segments, marked and dropped ones of what reached the bottleneck, queues are without the first fifth
of a run. Of a flexible flow (REFLEX), the low time is the share of its time in which it gives way, given up is the share of
its bytes that it need not send, and the fair share is the mean of those it measured beside another flow.

"""
    tests = "\n".join(f"| {source} | `{name}` | `{file}` |" for source, name, file in known_answers())
    tail = f"""## Held by tests

RFCs and papers whose numbers, formulas or traces are a test's known answer, as its comment says. `make test` runs them.

| source | test | file |
|---|---|---|
{tests}
"""
    return head + "\n".join(lines) + "\n" + tail


def of_peer(case):
    """What of a case's description the peer's results depend on, and which measures they are."""
    parts = [case, *switches_of(case)]
    return [{key: value for key, value in part.items() if key not in ("pliant", "mechanism", "about", "switch", "further")} for part in parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=Path)
    parser.add_argument("--only", action="append", metavar="CASE", default=[])
    parser.add_argument("--ours", action="store_true", help="runs Pliant alone, beside what was recorded of the peers")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    parser.add_argument("--pages", action="store_true", help="only write the page anew")
    arguments = parser.parse_args()
    # So that network namespaces are removed.
    signal.signal(signal.SIGTERM, lambda *_: fail("ended by a signal"))
    description = tomllib.loads((HERE / "cases.toml").read_text())
    cases = {case["name"]: case for case in description["case"]}
    if unknown := [name for name in arguments.only if name not in cases]:
        parser.error(f"unknown case {unknown[0]!r}; known: {', '.join(cases)}")
    if arguments.list:
        for name, case in cases.items():
            print(f"{name:20} {case['peer']:8} {case['about']}")
        return
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"cases": {}, "description": {"case": []}}
    # What was recorded of a case that is another one now is of no use.
    before = record["description"]
    def is_kept(case):
        now, peer = cases.get(case["name"]), case["peer"]
        if arguments.ours and now and (not arguments.only or case["name"] in arguments.only):
            return of_peer(case) == of_peer(now) and before["peers"][peer]["options"] == description["peers"][peer]["options"]
        return case == now and before["peers"][peer] == description["peers"].get(peer)

    same = [case["name"] for case in before["case"] if is_kept(case)]
    again = [] if arguments.pages else arguments.only or list(cases)
    if stale := [name for name in cases if name in record["cases"] and name not in same and name not in again]:
        fail(f"{', '.join(stale)}: recorded from another description; `--only CASE` for each runs them again")
    record["cases"] = {name: record["cases"][name] for name in cases if name in same and name in record["cases"]}
    record["description"] = description
    if not arguments.pages:
        WORK.mkdir(parents=True, exist_ok=True)
        prepare_pliant()
        wanted = [cases[name] for name in arguments.only] or description["case"]
        if arguments.ours and (new := [case["name"] for case in wanted if case["name"] not in record["cases"]]):
            fail(f"{', '.join(new)}: nothing is recorded of the peer, which --ours needs")
        peers = set() if arguments.ours else {case["peer"] for case in wanted}
        versions = {peer: PEERS[peer][0]() for peer in peers}
        for case in wanted:
            defaults = description["peers"][case["peer"]]
            kept = record["cases"][case["name"]] if arguments.ours else None
            before = [kept["measures"], *kept["switches"]] if kept else None
            titles = [case["name"], *(f"  {switch['mechanism']}" for switch in case.get("switch", []))]
            tables = []
            for title, values in zip(titles, side_by_side(case, defaults, description["seeds"], arguments.pliant, before), strict=True):
                print(title)
                for name, row in values.items():
                    print(f"  {name:32} {side(row['pliant']):30} {side(row['peer']):30} {ratio(row):.3f}", flush=True)
                tables.append(values)
            measures, *switches = tables
            record["cases"][case["name"]] = {"peer": versions.get(case["peer"]) or kept["peer"], "measures": measures, "switches": switches}
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("interrupted")
