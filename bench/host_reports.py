#!/usr/bin/env python3
"""What `pliant send --transport bounded-two-class` keeps of its fair rate beside the kernel's CUBIC, with --host-reports and without.

Three hosts, each a network namespace (needs root, iperf3 and tc). One sends by Pliant and one by iperf3 to the third. On the way to that, two
queues hold 20 ms of the line each, that of DSCP 2 for what gives way. They are

- `drops`: the kernel's (tc: htb, pfifo), which mark nothing. The second has a hundredth of the line, and what the first leaves.
- `marks`: those of `pliant switch`, in strict priority, which mark packets from 40 on. CUBIC uses ECN.

Prints a line for each number of CUBIC's flows and each promise: goodputs in Mbit/s from the third second on, and which part of its fair
rate the flow of Pliant had. That rate is an even share of what both have together, by flows.

On a fast line the rates also depend on whose processes run first: `--first` gives these real-time priority (chrt).
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from hosts import Star, inside, run

SETTLE_S = 3
BUFFER_S = 0.02
MARKED_FROM = 40
# Who is named by `--first`.
FIRST = {"none": (), "all": ("pliant", "iperf3"), "pliant": ("pliant",), "iperf3": ("iperf3",)}


def queues_that_drop(star, rate):
    """Two queues of the kernel on the way to the last host."""
    bridge = f"{star.prefix}-bridge"
    packets = int(rate * 1e6 / 8 * BUFFER_S / 1500)
    whole = ("ceil", f"{rate}mbit", "burst", "15k", "cburst", "15k")
    tc = lambda kind, *words: run("tc", "-n", bridge, kind, "add", "dev", "port2", *words)
    tc("qdisc", "root", "handle", "1:", "htb", "default", "10")
    tc("class", "parent", "1:", "classid", "1:1", "htb", "rate", f"{rate}mbit", *whole)
    for band, own in ((1, rate * 0.99), (2, rate * 0.01)):
        tc("class", "parent", "1:1", "classid", f"1:{band}0", "htb", "rate", f"{own}mbit", *whole, "prio", band)
        tc("qdisc", "parent", f"1:{band}0", "handle", f"{band}0:", "pfifo", "limit", packets)
    # Traffic class 1 is DSCP 2, which is 8 in the octet.
    tc("filter", "protocol", "ip", "parent", "1:", "prio", 1, "u32", "match", "ip", "tos", 8, "0xfc", "flowid", "1:20")


def queues_that_mark(star, rate, pliant, folder):
    """`pliant switch` in place of the bridge."""
    bridge = f"{star.prefix}-bridge"
    plan = [f'rate = "{rate}Mbit/s"',
            f'queues = {{ plan = "strict", limit = "{int(rate * 1e6 / 8 * BUFFER_S)}B", ecn = {{ threshold = "{MARKED_FROM} packets" }} }}']
    for index in range(3):
        plan.append(f'[[port]]\ninterface = "port{index}"\naddresses = ["{star.address(index)}"]')
        run("ip", "-n", bridge, "link", "set", f"port{index}", "nomaster")
        run(*inside(star.namespace(index), "sysctl", "-qw", "net.ipv4.tcp_ecn=1"))
    file = folder / "plan.toml"
    file.write_text("\n".join(plan) + "\n")
    switch = subprocess.Popen(inside(bridge, pliant, "switch", file), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    return switch


def delivered(log, until):
    """Mbit/s from the third second on, as `pliant send` says of its progress."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    at = [(line["elapsed_s"], line["done_bytes"]) for line in lines if SETTLE_S <= line.get("elapsed_s", 0) <= until]
    (begin, before), (end, after) = at[0], at[-1]
    return (after - before) * 8 / (end - begin) / 1e6


def one(star, given, flows, share, reports, folder):
    """Goodputs of CUBIC's flows together and of Pliant's."""
    told = ["--line-rate", f"{given.rate}Mbit/s", *(["--host-reports", "10ms"] if reports else [])]
    plain = ["--plain", "--testbed"]
    to = star.address(2)
    ahead = lambda program: ["chrt", "--rr", "10"] if program in FIRST[given.first] else []
    star.spawn(2, *ahead("iperf3"), "iperf3", "--server", "--one-off")
    star.spawn(2, *ahead("pliant"), given.pliant, "recv", "--discard", "--quiet", "--listen", f"{to}:7410", *plain, *told)
    time.sleep(1)
    kernel = subprocess.Popen(
        inside(star.namespace(1), *ahead("iperf3"), "iperf3", "--client", to, "--parallel", flows, "--time", given.seconds, "--omit", SETTLE_S,
               "--json"),
        stdout=subprocess.PIPE, text=True)
    log = folder / "progress"
    with log.open("w") as file:
        words = ["send", "--for", f"{given.seconds + SETTLE_S}s", f"{to}:7410", "--transport", "bounded-two-class", "--min-share", share]
        sender = subprocess.Popen(inside(star.namespace(0), *ahead("pliant"), given.pliant, *words, *plain, *told, "--progress", "json"),
                                  stderr=file, stdout=subprocess.DEVNULL)
        output, _ = kernel.communicate()
        sender.wait()
    star.stop()
    return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 1e6, delivered(log, given.seconds + SETTLE_S - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=Path)
    parser.add_argument("--rate", type=int, default=100, metavar="MBIT", help="Mbit/s of the line [default: 100]")
    parser.add_argument("--queues", nargs="+", default=["drops", "marks"], choices=["drops", "marks"])
    parser.add_argument("--seconds", type=int, default=15, help="of a measurement [default: 15]")
    parser.add_argument("--flows", type=int, nargs="+", default=[1, 3], help="of CUBIC [default: 1 3]")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.5, 0.8], help="that are promised [default: 0.5 0.8]")
    parser.add_argument("--first", default="none", choices=FIRST, help="whose processes run before all others [default: none]")
    given = parser.parse_args()
    given.pliant = given.pliant.resolve()
    print(f"{'queues':>6} {'CUBIC':>5} {'promised':>8} {'reports':>7} {'CUBIC':>7} {'Pliant':>7} {'of its fair rate':>16}")
    for kind in given.queues:
        with Star(f"reports{time.time_ns() % 10**6}", "10.79.0", [None] * 3) as star, tempfile.TemporaryDirectory() as folder:
            for index in range(3):
                # One packet at a time, as on a wire.
                run("ip", "-n", star.namespace(index), "link", "set", "eth", "gso_max_segs", 1)
            if kind == "drops":
                switch = queues_that_drop(star, given.rate)
            else:
                switch = queues_that_mark(star, given.rate, given.pliant, Path(folder))
            for flows in given.flows:
                for share in given.shares:
                    for reports in (False, True):
                        cubic, own = one(star, given, flows, share, reports, Path(folder))
                        kept = own / ((cubic + own) / (flows + 1))
                        word = "yes" if reports else "no"
                        print(f"{kind:>6} {flows:>5} {share:>8} {word:>7} {cubic:>7.1f} {own:>7.1f} {kept:>16.2f}", flush=True)
            if switch:
                switch.terminate()
                switch.wait()


if __name__ == "__main__":
    main()
