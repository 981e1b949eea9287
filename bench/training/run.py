#!/usr/bin/env python3
"""Training by gloo and by the bounded all-reduce, alone and beside load that makes steps' tails; needs root and Linux.

Usage: run.py PLIANT PYTHON --record FILE [--rate MBIT] [--steps N] [--rounds N] [--seed N] [--write-docs]
PYTHON has torch, scikit-learn and the package pliant (`make torch` makes such an environment).

Four workers, each a network namespace, around `pliant switch` with one queue of its standard length at each port. A fifth
host sends bursts of UDP at the link's rate to a worker drawn at random, at random moments, GAP_MS apart in the mean. How
long bursts are is found first: of BURSTS_MS the one is taken with which the p99 of gloo's steps divided by their p50 is
nearest to the tail wanted. Then each row is trained from the same start, on the same digits, in the same order of batches, in
rounds of all rows in turn. The first WARM_UP steps of each run are left out of the times. Percentiles are those of all steps of
all workers. The record is written after each run; what it holds is not run again.

Claims, written before the first run:
  accuracy  with every bound and load the last accuracy is at most 1.5 percentage points below gloo's alone
  promise   of each worker's messages no fewer than promised arrived, over all steps (each step is checked by the package)
  tail 3    with a bound of 5 % or more p99 is below gloo's beside the same load, and p99/p50 at most two thirds of gloo's
  alone     no claim is made to be faster than gloo, whose transport is the kernel's
"""

import argparse
import json
import os
import platform
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from hosts import add_namespace, inside, quantile, run, until, write_section

ROOT = Path(__file__).resolve().parents[2]
WORKERS, LOAD = 4, 4
BOUNDS = (0.0, 0.01, 0.05, 0.10)
TAILS = (1.5, 3.0)
BURSTS_MS, GAP_MS = (20, 40, 80, 160, 320), 500
WARM_UP, CALIBRATION_STEPS = 10, 60
LOAD_PORT, DATAGRAM, UDP_SEGMENT, AT_ONCE = 9, 1200, 103, 10


def send_bursts(bits_per_second, burst_ms, seed, *addresses):
    """Bursts without end, at the link's rate."""
    draw = random.Random(seed)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, DATAGRAM)
    while True:
        time.sleep(draw.expovariate(1000 / GAP_MS))
        to, begun, sent = draw.choice(addresses), time.monotonic(), 0
        while (passed := time.monotonic() - begun) < burst_ms / 1000:
            if (owed := int(passed * bits_per_second / 8) - sent) >= DATAGRAM * AT_ONCE:
                udp.sendto(bytes(DATAGRAM * AT_ONCE), (to, LOAD_PORT))
                sent += DATAGRAM * AT_ONCE
            elif owed < DATAGRAM * AT_ONCE:
                time.sleep(0.0005)


class World:
    """Namespaces around a switch, and a worker in each but the last."""

    def __init__(self, pliant, python, folder, mbit):
        self.pliant, self.python, self.folder, self.mbit = pliant, python, folder, mbit
        self.prefix, self.started, self.workers = f"pliant-torch-{os.getpid()}", [], []

    def namespace(self, host):
        return f"{self.prefix}-{host}"

    @staticmethod
    def address(host):
        return f"10.214.7.{host + 1}"

    @staticmethod
    def unheard(host):
        """An address to which the switch sends as to the worker, whose kernel throws away what comes for it."""
        return f"10.214.7.{host + 101}"

    def __enter__(self):
        try:
            return self.begin()
        except BaseException:
            self.__exit__()
            raise

    def begin(self):
        add_namespace(self.namespace("switch"))
        plan = [f'rate = "{self.mbit}Mbit/s"', 'queues = { plan = "shared" }']
        for host in range(WORKERS + 1):
            name = self.namespace(host)
            add_namespace(name)
            run("ip", "link", "add", "eth", "netns", name, "type", "veth", "peer", "name", f"port{host}", "netns",
                self.namespace("switch"))
            run("ip", "-n", self.namespace("switch"), "link", "set", f"port{host}", "up")
            run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth")
            run("ip", "-n", name, "link", "set", "eth", "gso_max_segs", 1, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            plan.append(f'[[port]]\ninterface = "port{host}"\naddresses = ["{self.address(host)}", "{self.unheard(host)}"]')
        for host in range(WORKERS):
            mac = run(*inside(self.namespace(host), "cat", "/sys/class/net/eth/address")).strip()
            run("ip", "-n", self.namespace(LOAD), "neighbour", "add", self.unheard(host), "lladdr", mac, "dev", "eth")
        (self.folder / "plan.toml").write_text("\n".join(plan) + "\n")
        run(self.pliant, "keygen", self.folder / "lab.key")
        self.spawn("switch", self.pliant, "switch", self.folder / "plan.toml")
        until("the switch", lambda: "forwarding" in (self.folder / "switch.log").read_text())
        addresses = [self.address(host) for host in range(WORKERS)]
        worker = Path(__file__).with_name("worker.py")
        self.workers = [
            self.spawn(host, self.python, worker, host, self.folder / "lab.key", *addresses, stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE, text=True)
            for host in range(WORKERS)
        ]
        self.versions = self.answers()[0]
        return self

    def __exit__(self, *_):
        for child in self.started:
            child.kill()
            child.wait()
        for host in [*range(WORKERS + 1), "switch"]:
            subprocess.run(["ip", "netns", "delete", self.namespace(host)], check=False, stderr=subprocess.DEVNULL)

    def spawn(self, host, *words, **options):
        log = open(self.folder / f"{host}.log", "a", encoding="utf-8")
        child = subprocess.Popen(inside(self.namespace(host), *words), **{"stdout": log, "stderr": log, **options})
        self.started.append(child)
        return child

    def answers(self):
        lines = [worker.stdout.readline() for worker in self.workers]
        if not all(lines):
            logs = "".join((self.folder / f"{host}.log").read_text()[-2000:] for host in range(WORKERS))
            raise SystemExit(f"a worker ended:\n{logs}")
        return [json.loads(line) for line in lines]

    def train(self, burst_ms, seed, **told):
        """One run; times in seconds."""
        load = None
        if burst_ms:
            load = self.spawn(LOAD, sys.executable, __file__, "send_bursts", self.mbit * 1_000_000, burst_ms, seed,
                              *map(self.unheard, range(WORKERS)))
        for worker in self.workers:
            worker.stdin.write(json.dumps({"seed": seed, "rate": f"{self.mbit}Mbit/s", **told}) + "\n")
            worker.stdin.flush()
        answers = self.answers()
        if load is not None:
            load.kill()
            load.wait()
            self.started.remove(load)
        return answers


def times(answers):
    return [seconds for answer in answers for seconds in answer["steps"][WARM_UP:]]


def ratio_of(world, burst_ms, seed):
    """The p99 of gloo's steps by their p50, beside bursts of this length."""
    steps = times(world.train(burst_ms, seed, by="gloo", bound=0.0, steps=CALIBRATION_STEPS))
    return quantile(steps, 0.99) / quantile(steps, 0.5)


def bursts_of(calibration):
    """The burst's length by tail: that whose ratio is nearest."""
    return {tail: int(min(calibration, key=lambda burst: abs(calibration[burst] - tail))) for tail in TAILS}


def kept(answers):
    """What the record keeps of a run: times in ms, accuracy over seconds, parts that arrived by phase."""
    run_of = {"steps_ms": [[round(seconds * 1e3, 1) for seconds in answer["steps"][WARM_UP:]] for answer in answers],
              "curve": [[round(seconds, 3), round(reached, 4)] for seconds, reached in answers[0]["curve"]],
              "apart": answers[0]["apart"]}
    if "arrived" in answers[0]:
        run_of["arrived"] = [answer["arrived"] for answer in answers]
    return run_of


def rows_of(record):
    """The document's rows: what the runs of each come to."""
    rows = []
    for tail in (None, *TAILS):
        for by, bound in (("gloo", 0.0), *(("pliant", bound) for bound in BOUNDS)):
            runs = [one for one in record["runs"] if (one["tail"], one["by"], one["bound"]) == (tail, by, bound)]
            if not runs:
                continue
            steps = [ms for one in runs for worker in one["steps_ms"] for ms in worker]
            reached = [seconds_to(one["curve"], REACHED) for one in runs]
            parts = [arrived / messages for one in runs for worker in one.get("arrived", [])
                     for messages, arrived in worker.values()]
            rows.append({"tail": tail, "by": by, "bound": bound, "p50_ms": quantile(steps, 0.5),
                         "p99_ms": quantile(steps, 0.99), "seconds": None if None in reached else sum(reached) / len(reached),
                         "last_accuracy": sum(one["curve"][-1][1] for one in runs) / len(runs),
                         "apart": max(one["apart"] for one in runs), "least_arrived": min(parts, default=None)})
    return rows


def seconds_to(curve, accuracy):
    return next((seconds for seconds, reached in curve if reached >= accuracy), None)


REACHED = 0.9


def cells(row):
    """A row of the document's table."""
    arrived = "-" if row["least_arrived"] is None else f"{row['least_arrived']:.1%}"
    return ["alone" if row["tail"] is None else f"tail {row['tail']:g}",
            "gloo" if row["by"] == "gloo" else f"pliant, bound {row['bound']:.0%}", f"{row['p50_ms']:.0f}",
            f"{row['p99_ms']:.0f}", f"{row['p99_ms'] / row['p50_ms']:.2f}",
            "not reached" if row["seconds"] is None else f"{row['seconds']:.1f}", f"{row['last_accuracy']:.1%}", arrived,
            f"{row['apart']:.1%}" if row["apart"] >= 0.0005 else "0"]


HEAD = ["load", "method", "step p50, ms", "p99, ms", "p99/p50", f"s to {REACHED:.0%}", "last accuracy", "least arrived",
        "replicas apart"]
MARKS = ("<!-- torch: written by bench/training/run.py -->", "<!-- end of torch -->")


def judge(rows):
    """Each claim, and whether it holds."""
    found = {(row["tail"], row["by"], row["bound"]): row for row in rows}
    gloo_alone = found[None, "gloo", 0.0]["last_accuracy"]
    ours = [row for row in rows if row["by"] == "pliant"]
    claims = {"last accuracy at most 1.5 points below gloo's alone": all(row["last_accuracy"] >= gloo_alone - 0.015 for row in rows),
              "at least the promised messages arrived": all(row["least_arrived"] >= 1 - row["bound"] for row in ours)}
    gloo = found[TAILS[-1], "gloo", 0.0]
    loaded = [row for row in ours if row["tail"] == TAILS[-1] and row["bound"] >= 0.05]
    claims["p99 below gloo's, tail 3"] = all(row["p99_ms"] < gloo["p99_ms"] for row in loaded)
    ratio = gloo["p99_ms"] / gloo["p50_ms"]
    claims["p99/p50 at most two thirds of gloo's, tail 3"] = all(row["p99_ms"] / row["p50_ms"] <= ratio * 2 / 3 for row in loaded)
    return claims


def section(record):
    lines = [MARKS[0], "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows_of(record)]
    lines += ["", "| claim, written before the first run | holds |", "|---|---|"]
    lines += [f"| {claim} | {'yes' if holds else 'no'} |" for claim, holds in judge(rows_of(record)).items()]
    return "\n".join([*lines, "", MARKS[1]])


def main():
    if sys.argv[1:2] == ["send_bursts"]:
        rate, burst, seed = map(int, sys.argv[2:5])
        send_bursts(rate, burst, seed, *sys.argv[5:])
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("python", type=lambda text: Path(text).absolute())
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--rate", type=int, default=50, help="of each link, in Mbit/s")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write-docs", action="store_true")
    given = parser.parse_args()
    settings = {"kernel": platform.release(), "machine": platform.machine(), "cores": os.cpu_count(), "seed": given.seed,
                "steps": given.steps, "rate_mbit": given.rate, "gap_ms": GAP_MS}
    record = {**settings, "calibration": {}, "runs": []}
    if given.record.exists():
        record = json.loads(given.record.read_text(encoding="utf-8"))
        if any(record[key] != value for key, value in settings.items()):
            raise SystemExit(f"{given.record} is of other settings or another machine: remove it to begin anew")

    def write():
        lines = json.dumps(record).replace('{"tail"', '\n{"tail"')
        given.record.write_text(lines + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory(prefix="pliant-torch-") as folder, \
            World(given.pliant, given.python, Path(folder), given.rate) as world:
        record["versions"] = world.versions
        # Not measured: the first run makes what all later ones have.
        world.train(0, given.seed, by="gloo", bound=0.0, steps=WARM_UP)
        for burst in BURSTS_MS:
            if str(burst) not in record["calibration"]:
                record["calibration"][str(burst)] = round(ratio_of(world, burst, given.seed), 3)
                write()
        for number in range(given.rounds):
            for tail, burst in ((None, 0), *bursts_of(record["calibration"]).items()):
                for by, bound in (("gloo", 0.0), *(("pliant", bound) for bound in BOUNDS)):
                    key = {"tail": tail, "by": by, "bound": bound, "round": number}
                    if any(key.items() <= one.items() for one in record["runs"]):
                        continue
                    answers = world.train(burst, given.seed + number, by=by, bound=bound, steps=given.steps)
                    record["parameters"] = answers[0]["parameters"]
                    record["runs"].append({**key, "burst_ms": burst, **kept(answers)})
                    write()
                    print(key, file=sys.stderr, flush=True)
    print(section(record))
    if given.write_docs:
        write_section(ROOT / "docs/torch.md", MARKS, section(record))


if __name__ == "__main__":
    main()
