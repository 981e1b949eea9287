#!/usr/bin/env python3
"""Write the flow list of a benchmark scenario: CSV `start_s,src,dst,bytes`, sorted by start.

Every simulator of a comparison reads the same list. `bytes` 0 is a flow without end.
"""

import argparse
import random
import sys
from bisect import bisect_right

LINE_RATE_BPS = 10e9
FAT_TREE_HOSTS = 128
WEB_SEARCH_LOAD = 0.5

# Web search of DCTCP (SIGCOMM 2010, figure 4), (bytes, cumulative probability) with linear interpolation between the
# points; the same table as pFabric (SIGCOMM 2013, figure 4a).
WEB_SEARCH = [
    (4_000, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
]


def mean_bytes(cdf):
    return sum((p1 - p0) * (b0 + b1) / 2 for (b0, p0), (b1, p1) in zip(cdf, cdf[1:]))


def draw_bytes(rng, cdf):
    u = rng.random()
    upper = min(bisect_right([p for _, p in cdf], u), len(cdf) - 1)
    (b0, p0), (b1, p1) = cdf[upper - 1], cdf[upper]
    return max(1, round(b0 + (u - p0) / (p1 - p0) * (b1 - b0)))


def dumbbell(pairs):
    """Host i on the left sends to host pairs + i on the right."""
    return [(0.0, i, pairs + i, 0) for i in range(pairs)]


def permutation(rng, hosts):
    """One endless flow per host; nobody sends to itself."""
    while True:
        dst = list(range(hosts))
        rng.shuffle(dst)
        if all(src != d for src, d in enumerate(dst)):
            return [(0.0, src, d, 0) for src, d in enumerate(dst)]


def web_search(rng, hosts, load, seconds):
    """Poisson arrivals between uniform pairs. Load is application bytes over line rate, averaged over the hosts."""
    flows_per_second = load * hosts * LINE_RATE_BPS / 8 / mean_bytes(WEB_SEARCH)
    flows = []
    start = rng.expovariate(flows_per_second)
    while start < seconds:
        src = rng.randrange(hosts)
        dst = (src + rng.randrange(1, hosts)) % hosts
        flows.append((start, src, dst, draw_bytes(rng, WEB_SEARCH)))
        start += rng.expovariate(flows_per_second)
    return flows


def scenario_flows(scenario, seed, seconds):
    rng = random.Random(f"{scenario} {seed}")
    if scenario == "S1":
        return dumbbell(8)
    if scenario == "S1c":
        return dumbbell(2)
    if scenario == "S2":
        return permutation(rng, FAT_TREE_HOSTS)
    return web_search(rng, FAT_TREE_HOSTS, WEB_SEARCH_LOAD, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=["S1", "S1c", "S2", "S3"])
    parser.add_argument("--simulated", type=float, default=0.1, metavar="SECONDS", help="last start (S3)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.stdout.write("start_s,src,dst,bytes\n")
    for start, src, dst, size in scenario_flows(args.scenario, args.seed, args.simulated):
        sys.stdout.write(f"{start:.12f},{src},{dst},{size}\n")


if __name__ == "__main__":
    main()
