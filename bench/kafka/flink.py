#!/usr/bin/env python3
"""Apache Flink on an unmodified KafkaSource behind a door that bears loss: killed and restored, and its averages held against
the error that the bound predicts.

Usage: flink.py PLIANT FOLDER [--data FOLDER] [--record FILE]
FOLDER is that of run.py, with the Flink job beside the broker; `make kafka` prepares it. With --data, the folder of
taxis.csv and internet_udp.csv, records are theirs; without it, numbers drawn from a log-normal law.
The exit code is 1 if something differs.
"""

import argparse
import ast
import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from lossy import kept, librdkafka_to_the_end
from run import PARTITIONS, PATIENCE, Cluster, Door, create, librdkafka_produce

PARTS = [0.9, 0.75, 0.5, 0.25]
# Topics of each table and bound, each of which loses others: Flink reads the first, librdkafka the rest.
DRAWS = 20
# What the root mean square of so many errors, over the prediction, lies between but for one in two thousand (chi-squared).
LIKELY = (0.5, 1.6)
# Of each table the columns of flink/Means.java: what they are, and where they are.
TABLES = {
    "taxis.csv": {"distance, mean": "3", "total, mean": "7", "paid in cash, count": "9=cash"},
    "internet_udp.csv": {"length, mean": "6", "longer than 1000 bytes, count": "6>1000"},
}
DRAWN = {"value, mean": "0", "above 2, count": "0>2"}


class Job:
    """A Flink job in a process of its own; what it prints goes to a file."""

    def __init__(self, folder, bootstrap, topic, mode, checkpoints, checkpoint, delay, columns, where=(), parallelism=2):
        self.output = folder / "flink.out"
        with open(self.output, "w") as output, open(folder / "flink.log", "a") as log:
            self.process = subprocess.Popen(
                [*where, "java", f"-Dparallelism={parallelism}", "-Xmx600m", "--add-opens",
                 "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp",
                 f"{folder}/flink-jars/*:{folder}/flink-classes", "Means", bootstrap, topic, mode, f"file://{checkpoints}", checkpoint, str(delay), *columns], stdout=output, stderr=log)

    def last(self):
        """The last whole line: how many records, and of each column the sum and the sum of squares."""
        lines = [line for line in self.output.read_text().split("\n")[:-1] if line.startswith("[")]
        return ast.literal_eval(lines[-1]) if lines else None

    def end(self):
        self.process.kill()
        self.process.wait()


def last_checkpoint(checkpoints):
    """The latest that is whole."""
    whole = [path.parent for path in checkpoints.glob("*/chk-*/_metadata")]
    return max(whole, key=lambda path: path.stat().st_mtime, default=None)


def sums(rows, columns):
    """What a job that gets these rows comes to."""
    found = [float(len(rows))]
    for column in columns:
        values = [value(row, column) for row in rows]
        found += [sum(values), sum(each * each for each in values)]
    return found


def value(row, column):
    fields = row.split(",")
    if "=" in column:
        field, other = column.split("=")
        return float(fields[int(field)] == other)
    if ">" in column:
        field, other = column.split(">")
        return float(float(fields[int(field)]) > float(other))
    return float(fields[int(column)])


def same(found, wanted):
    """The order in which numbers are added differs."""
    return found is not None and all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(found, wanted, strict=True))


def run_job(folder, bootstrap, topic, mode, columns, kills, count):
    """What a job comes to that is killed a few times and goes on from its last checkpoint.

    A streaming job does not end, and neither does a bounded one that was restored, with connector 4.0.0-2.0, behind a door or
    beside it: it is over when it has counted as many records as it should, and no more a second later."""
    checkpoints = folder / "checkpoints"
    shutil.rmtree(checkpoints, ignore_errors=True)
    checkpoints.mkdir()
    counted, checkpoint = 0, None
    for run in range(kills + 1):
        # While it is to be killed it is slow.
        delay = 1000 if run < kills else 0
        job = Job(folder, bootstrap, topic, mode, checkpoints, f"file://{checkpoint}" if checkpoint else "-", delay, columns)
        deadline = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < deadline:
                ended, last = job.process.poll() is not None, job.last()
                if run < kills and last and last[0] > counted and last_checkpoint(checkpoints) not in (None, checkpoint):
                    counted, checkpoint = last[0], last_checkpoint(checkpoints)
                    break
                if run == kills and (ended or count and last and last[0] >= count):
                    time.sleep(1)
                    return job.last()
                if ended:
                    raise SystemExit(f"the job ended by itself: {(folder / 'flink.log').read_text()[-2000:]}")
                time.sleep(0.1)
            else:
                return None
        finally:
            job.end()


def estimates(found, part, columns, fetched):
    """Of each column the estimate and its relative standard error, by the bound and what arrived alone."""
    count = found[0]
    rows = {}
    for at, name in enumerate(columns):
        mean, squares = found[1 + 2 * at] / count, found[2 + 2 * at] / count
        spread = math.sqrt(max(squares - mean * mean, 0))
        # Draws without replacement: what has arrived of `fetched` is at least `part` of them.
        predicted = spread / mean * math.sqrt((1 - part) / (part * fetched))
        rows[name] = (mean * fetched if name.endswith("count") else mean, predicted)
    return rows


def rms(values):
    return math.sqrt(sum(value * value for value in values) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="the folder of taxis.csv and internet_udp.csv")
    parser.add_argument("--record", type=Path, help="where the result goes, as JSON")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    pliant = os.path.abspath(asked.pliant)
    tables = {}
    if asked.data:
        for name, columns in TABLES.items():
            tables[name] = ((asked.data / name).read_text().splitlines()[1:], columns)
    else:
        draw = random.Random(1)
        tables["drawn"] = ([f"{draw.lognormvariate(0, 1):.3f}" for _ in range(20_000)], DRAWN)
    checks, errors = {}, []

    def note(name, good):
        checks[name] = good
        print(f"{'right' if good else 'WRONG'}: {name}", flush=True)

    (folder / "ledger").unlink(missing_ok=True)
    cluster = Cluster(folder, 1)
    door = None
    try:
        direct = f"127.0.0.1:{cluster.ports[0]}"
        rules = "".join(f'[kafka.topics."{part}-*"]\nmin_delivery = {part}\nwhen = "always"\n' for part in PARTS)
        door = Door(pliant, folder, direct, rules, f'kafka_ledger = "{folder / "ledger"}"\n')
        through = f"127.0.0.1:{door.port}"
        for table, (rows, columns) in tables.items():
            for part in PARTS:
                topic = f"{part}-{table}"
                create(direct, topic, 1)
                librdkafka_produce(direct, topic, [row.encode() for row in rows], "lz4")
                sent = {(number % PARTITIONS, number // PARTITIONS): row for number, row in enumerate(rows)}
                wanted = [0]
                for mode, kills in [("bounded", 0), ("bounded", 2), ("streaming", 1)][:3 if part == 0.75 else 1]:
                    found = run_job(folder, through, topic, mode, columns.values(), kills, wanted[0])
                    ledger = door.ledger(topic)
                    wanted = sums(list(kept(sent, ledger).values()), columns.values())
                    note(f"{table}, {part}, {mode}, killed and restored {kills} times: every record that the ledger does not "
                         f"name, once ({found and found[0]:.0f})", same(found, wanted))
                lost, fetched = (sum(row[what] for row in ledger.values()) for what in ("lost", "fetched"))
                note(f"{table}, {part}: all were fetched, not more was lost than the bound ({lost} of {fetched})",
                     fetched == len(rows) and 0 < lost <= (1 - part) * fetched + 1e-6)
                draws = [found]
                for draw in range(1, DRAWS):
                    create(direct, f"{topic}-{draw}", 1)
                    librdkafka_produce(direct, f"{topic}-{draw}", [row.encode() for row in rows], "lz4")
                    got, _ = librdkafka_to_the_end(through, f"{topic}-{draw}")
                    draws.append(sums([row.decode() for row in got.values()], columns.values()))
                draws = [estimates(draw, part, columns, fetched) for draw in draws]
                true = sums(rows, columns.values())
                for at, name in enumerate(columns):
                    truth = true[1 + 2 * at] / (1 if name.endswith("count") else len(rows))
                    found_errors = [draw[name][0] / truth - 1 for draw in draws]
                    predicted = [draw[name][1] for draw in draws]
                    errors.append({"table": table, "min_delivery": part, "of": name, "true": truth,
                                   "estimates": [draw[name][0] for draw in draws],
                                   "predicted_standard_error": rms(predicted), "error": rms(found_errors)})
                    ratio = rms([error / of for error, of in zip(found_errors, predicted, strict=True)])
                    note(f"{table}, {part}, {name}: errors of {DRAWS} topics are {ratio:.2f} of the prediction",
                         LIKELY[0] < ratio < LIKELY[1])
    finally:
        if door:
            door.end()
        cluster.end()
    if asked.record:
        asked.record.write_text(json.dumps({"checks": checks, "errors": errors}, indent=2) + "\n")
    wrong = [name for name, good in checks.items() if not good]
    print(f"{len(checks) - len(wrong)} of {len(checks)} checks hold", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
