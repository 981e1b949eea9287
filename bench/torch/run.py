#!/usr/bin/env python3
"""Training by gloo and by the bounded all-reduce, alone and beside load that makes steps' tails; needs root and Linux.

Usage: run.py PLIANT PYTHON [--rate MBIT] [--steps N] [--seed N] [--record FILE] [--write-docs]
PYTHON has torch, scikit-learn and the package pliant (`make torch` makes such an environment).

Four workers, each a network namespace, around `pliant switch` with one queue of its standard length at each port. A fifth
host sends bursts of UDP at the link's rate to a worker drawn at random, at random moments, GAP_MS apart in the mean. How
long bursts are is found first: of BURSTS_MS the one is taken with which the p99 of gloo's steps divided by their p50 is
nearest to the tail wanted. Then each row is trained from the same start, on the same digits, in the same order of batches, in
ROUNDS rounds of all rows in turn. The first WARM_UP steps of each run are left out of the times. Percentiles are those of all steps of all
workers.

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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hosts import inside, run, until

ROOT = Path(__file__).resolve().parents[2]
WORKERS, LOAD = 4, 4
BOUNDS = (0.0, 0.01, 0.05, 0.10)
TAILS = (1.5, 3.0)
BURSTS_MS, GAP_MS = (5, 10, 20, 40, 80, 160), 500
WARM_UP, CALIBRATION_STEPS, ROUNDS = 10, 80, 2
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
        run("ip", "netns", "add", self.namespace("switch"))
        plan = [f'rate = "{self.mbit}Mbit/s"', 'queues = { plan = "shared" }']
        for host in range(WORKERS + 1):
            name = self.namespace(host)
            run("ip", "netns", "add", name)
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
        until("the switch", lambda: subprocess.run(
            inside(self.namespace(0), "ping", "-c", 1, "-W", 1, self.address(1)), capture_output=True, check=False
        ).returncode == 0)
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


def quantile(numbers, share):
    """The smallest number that this share of all do not exceed."""
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, max(0, -int(-share * len(numbers) // 1) - 1))]


def times(answers):
    return [seconds for answer in answers for seconds in answer["steps"][WARM_UP:]]


def calibrate(world, seed):
    """For each tail the burst's length whose ratio for gloo is nearest, and all ratios that were measured."""
    ratios = {}
    for burst in BURSTS_MS:
        steps = times(world.train(burst, seed, by="gloo", bound=0, steps=CALIBRATION_STEPS))
        ratios[burst] = quantile(steps, 0.99) / quantile(steps, 0.5)
        print(f"bursts of {burst} ms: p99/p50 of gloo {ratios[burst]:.2f}", file=sys.stderr, flush=True)
    return {tail: min(ratios, key=lambda burst: abs(ratios[burst] - tail)) for tail in TAILS}, ratios


def row_of(tail, burst, by, bound, answers):
    """What the runs of a row come to."""
    steps = [seconds for run_of in answers for seconds in times(run_of)]
    row = {"tail": tail, "burst_ms": burst, "by": by, "bound": bound, "p50_ms": quantile(steps, 0.5) * 1e3,
           "p99_ms": quantile(steps, 0.99) * 1e3, "steps": len(steps),
           "last_accuracy": sum(run_of[0]["curve"][-1][1] for run_of in answers) / len(answers),
           "apart": max(run_of[0]["apart"] for run_of in answers),
           "curves": [run_of[0]["curve"] for run_of in answers]}
    if by == "pliant":
        for phase in ("reduce", "gather"):
            counts = [worker["arrived"][phase] for run_of in answers for worker in run_of]
            row[f"least_arrived_{phase}"] = min(arrived / messages for messages, arrived in counts)
    return row


def seconds_to(curve, accuracy):
    return next((seconds for seconds, reached in curve if reached >= accuracy), None)


REACHED = 0.95


def cells(row):
    """A row of the document's table."""
    reached = [seconds_to(curve, REACHED) for curve in row["curves"]]
    mean = "not reached" if None in reached else f"{sum(reached) / len(reached):.1f}"
    arrived = f"{min(row['least_arrived_reduce'], row['least_arrived_gather']):.1%}" if row["by"] == "pliant" else "-"
    return ["alone" if row["tail"] is None else f"tail {row['tail']:g}",
            "gloo" if row["by"] == "gloo" else f"pliant, bound {row['bound']:.0%}", f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}", f"{row['p99_ms'] / row['p50_ms']:.2f}", mean, f"{row['last_accuracy']:.1%}", arrived,
            f"{row['apart']:.1%}" if row["apart"] >= 0.0005 else "0"]


HEAD = ["load", "by", "step p50, ms", "p99, ms", "p99/p50", f"s to {REACHED:.0%}", "last accuracy", "least arrived",
        "replicas apart"]
MARKS = ("<!-- torch: written by bench/torch/run.py -->", "<!-- end of torch -->")


def judge(rows):
    """Each claim, and whether it holds."""
    found = {(row["tail"], row["by"], row["bound"]): row for row in rows}
    gloo_alone = found[None, "gloo", 0.0]["last_accuracy"]
    ours = [row for row in rows if row["by"] == "pliant"]
    claims = {"accuracy": all(row["last_accuracy"] >= gloo_alone - 0.015 for row in rows),
              "promise": all(min(row["least_arrived_reduce"], row["least_arrived_gather"]) >= 1 - row["bound"] for row in ours)}
    gloo = found[TAILS[-1], "gloo", 0.0]
    loaded = [row for row in ours if row["tail"] == TAILS[-1] and row["bound"] >= 0.05]
    claims["p99 below gloo's, tail 3"] = all(row["p99_ms"] < gloo["p99_ms"] for row in loaded)
    ratio = gloo["p99_ms"] / gloo["p50_ms"]
    claims["p99/p50 at most two thirds of gloo's, tail 3"] = all(row["p99_ms"] / row["p50_ms"] <= ratio * 2 / 3 for row in loaded)
    return claims


def section(record):
    lines = [MARKS[0], "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in record["rows"]]
    lines += ["", "| claim, written before the first run | holds |", "|---|---|"]
    lines += [f"| {claim} | {'yes' if holds else 'no'} |" for claim, holds in judge(record["rows"]).items()]
    return "\n".join([*lines, "", MARKS[1]])


def write_docs(record):
    page = ROOT / "docs/torch.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    page.write_text(before + section(record) + rest.split(MARKS[1])[1], encoding="utf-8")


def main():
    if sys.argv[1:2] == ["send_bursts"]:
        rate, burst, seed = map(int, sys.argv[2:5])
        send_bursts(rate, burst, seed, *sys.argv[5:])
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("python", type=lambda text: Path(text).absolute())
    parser.add_argument("--rate", type=int, default=100, help="of each link, in Mbit/s")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--write-docs", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pliant-torch-") as folder, \
            World(given.pliant, given.python, Path(folder), given.rate) as world:
        bursts, ratios = calibrate(world, given.seed)
        rows = [(tail, burst, by, bound)
                for tail, burst in [(None, 0), *bursts.items()]
                for by, bound in [("gloo", 0.0), *(("pliant", bound) for bound in BOUNDS)]]
        answers = {row: [] for row in rows}
        for number in range(ROUNDS):
            for row in rows:
                _, burst, by, bound = row
                answers[row].append(world.train(burst, given.seed + number, by=by, bound=bound, steps=given.steps))
                print(cells(row_of(*row, answers[row])), file=sys.stderr, flush=True)
        record = {"kernel": platform.release(), "machine": platform.machine(), "cores": os.cpu_count(),
                  "versions": world.versions, "seed": given.seed, "rounds": ROUNDS, "steps": given.steps,
                  "rate_mbit": given.rate, "gap_ms": GAP_MS, "calibration": {str(key): value for key, value in ratios.items()},
                  "parameters": answers[rows[0]][0][0]["parameters"],
                  "rows": [row_of(*row, answers[row]) for row in rows]}
    print(section(record))
    if given.record:
        given.record.write_text(json.dumps(record) + "\n", encoding="utf-8")
    if given.write_docs:
        write_docs(record)


if __name__ == "__main__":
    main()
