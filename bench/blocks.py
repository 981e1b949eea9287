#!/usr/bin/env python3
"""What the verification of blocks costs `pliant fetch`: which part of its processor time BLAKE3 and the hash tree take, by samples
(perf). Two sources on loopback, encrypted; each run fetches the object anew and keeps nothing. The content was hashed once before
blocks were verified, too: that is `hashing`, the compression of many chunks at a time. `tree` is what came on top. Fails if
that is beyond the goal. Needs perf (Debian: linux-perf)."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

GOAL = 0.05
HASHING = re.compile(r"hash_many|hash\d_|blake3_compress|hash_one")
TREE = re.compile(r"blake3|hash_tree|HashTree", re.IGNORECASE)


def samples(data):
    """Parts of the program's samples by symbol."""
    out = subprocess.run(["perf", "report", "--input", data, "--no-children", "--sort", "symbol", "--percentage", "relative",
                          "--stdio", "--comms", "pliant"], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^\s*(\d+\.\d+)%\s+\[[.k]\]\s+(.*?)\s*$", out, re.MULTILINE)
    if not found:
        sys.exit("blocks.py: perf found no sample of pliant")
    return [(float(part) / 100, symbol) for part, symbol in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--record", type=Path, help="file for the figures of all runs")
    given = parser.parse_args()
    runs, sources = [], []
    with tempfile.TemporaryDirectory(prefix="pliant-blocks.") as path:
        folder = Path(path)
        (folder / "object").write_bytes(os.urandom(given.megabytes * 10**6))
        subprocess.run([given.pliant, "keygen", folder / "key"], check=True, capture_output=True)
        try:
            for _ in range(2):
                source = subprocess.Popen([given.pliant, "offer", folder / "object", "--listen", "127.0.0.1:0", "--key", folder / "key"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                sources.append((source, next(line.split()[-1] for line in source.stderr if "listening on" in line)))
            for number in range(given.runs):
                data = folder / f"perf{number}"
                fetch = [given.pliant, "fetch", *(address for _, address in sources), "--key", folder / "key", "--discard", "--quiet"]
                subprocess.run(["perf", "record", "--quiet", "-e", "cpu-clock", "-F", "4000", "--output", data, "--", *fetch], check=True,
                               stdout=subprocess.DEVNULL)
                of = samples(data)
                hashing = sum(part for part, symbol in of if HASHING.search(symbol))
                tree = sum(part for part, symbol in of if TREE.search(symbol) and not HASHING.search(symbol))
                runs.append({"hashing": hashing, "tree": tree})
                print(f"hashing of the content {hashing:.1%}, the tree above it {tree:.1%}", flush=True)
        finally:
            for source, _ in sources:
                source.kill()
    if given.record:
        given.record.write_text(json.dumps({"megabytes": given.megabytes, "goal": GOAL, "runs": runs}, indent=1) + "\n", encoding="utf-8")
    # A run that saw no hashing at all looked for names that the program does not have.
    if any(run["hashing"] == 0 for run in runs):
        sys.exit("blocks.py: no sample of BLAKE3: was the program built without symbols?")
    sys.exit(1 if max(run["tree"] for run in runs) > GOAL else 0)


if __name__ == "__main__":
    main()
