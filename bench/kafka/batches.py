#!/usr/bin/env python3
"""Rewritten batches against Kafka's own library, which makes random ones and reads what became of them.

Usage: batches.py FOLDER [--count N] [--seed N] [--record FILE]
FOLDER is that of run.py. The batches have every codec, keys and values that are missing, headers, gaps, transactions, markers, older formats, and
ends that are cut off. Half of the cases leave records out, and half send them in messages of which three of ten are lost.
The exit code is 1 if a batch is not valid, or has not exactly those records that the ledger does not name.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="where the result goes, as JSON")
    asked = parser.parse_args()
    java = ["java", "-cp", f"{asked.folder.resolve()}/jars/*", str(HERE / "Batches.java")]
    with tempfile.TemporaryDirectory() as made:
        cases, rewrites = Path(made, "cases"), Path(made, "rewrites")
        subprocess.run([*java, "make", str(asked.seed), str(asked.count), str(cases)], check=True)
        subprocess.run(
            ["cargo", "test", "--quiet", "--locked", "--package", "pliant-kafka", "--lib", "--", "--ignored", "--exact",
             "apart::tests::rewrites_for_kafkas_own_reader"],
            check=True, cwd=HERE.parent.parent, env=os.environ | {"PLIANT_KAFKA_BATCHES": made}, stdout=subprocess.DEVNULL)
        done = subprocess.run([*java, "check", str(cases), str(rewrites)], stdout=subprocess.PIPE)
    counts = json.loads(done.stdout or "{}")
    checks = {
        f"{asked.count} responses: every batch is valid for Kafka's reader, and has the records that the ledger does not name":
            done.returncode == 0,
        "a tenth of the records was lost at the least, and a hundred packed batches were packed again":
            counts.get("lost", 0) * 10 > counts.get("records", 0) and counts.get("packed again", 0) > 100}
    for name, good in checks.items():
        print(f"{'right' if good else 'WRONG'}: {name}", flush=True)
    print(", ".join(f"{name}: {count:,}" for name, count in counts.items()))
    if asked.record:
        asked.record.write_text(json.dumps({"checks": checks, "counts": counts}, indent=2) + "\n")
    sys.exit(not all(checks.values()))


if __name__ == "__main__":
    main()
