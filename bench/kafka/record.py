#!/usr/bin/env python3
"""What the parts of `make kafka` have recorded, as one file, and as the tables of docs/kafka.md.

Usage: record.py FOLDER RECORD [PAGE]
FOLDER has brokers1.json, brokers3.json, batches.json, lossy.json, clients.json and flink.json. RECORD gets them with the tables; those of PAGE,
between comments that name them, are written anew. A test holds PAGE to RECORD.
"""

import json
import re
import sys
from pathlib import Path

PARTS = {
    "brokers1": "whole, one broker (`run.py`)", "brokers3": "whole, three brokers (`run.py --brokers 3`)",
    "batches": "rewritten batches, against Kafka's own reader (`batches.py`)", "lossy": "loss within a bound (`lossy.py`)",
    "clients": "eight clients (`clients.py`)", "flink": "Flink (`flink.py`)"}
SPEED_WAYS = {
    "through the door": "door", "through the door by topic": "door, by topic", "through the door by large packets": "door, large packets", "by relays": "relays"}
WAYS = ["stream, congested", "stream, always", "messages, congested", "messages, always"]


def checks(found):
    rows = []
    for part, name in PARTS.items():
        held = found[part]["checks"].values()
        rows.append([name, f"{sum(held)} of {len(held)}"])
    return ["part", "checks that hold"], rows


def speeds(found):
    rows = []
    for part, brokers in [("brokers1", "one"), ("brokers3", "three")]:
        of_part = found[part]["speeds"]
        for what in sorted({name.split(", ")[0] for name in of_part}):
            unit = next(name.rsplit(", ", 1)[1] for name in of_part if name.startswith(what))
            direct, *others = (of_part[f"{what}, {way}, {unit}"] for way in ("direct", *SPEED_WAYS))
            cells = [f"{speed:,}" for speed in (direct, *others)] + [f"{speed / direct:.2f}" for speed in others]
            rows.append([brokers, f"{what}, {unit}", *cells])
    names = SPEED_WAYS.values()
    return ["brokers", "what", "direct", *names, *(f"{name} / direct" for name in names)], rows


def times(found):
    of_part = found["lossy"]["times"]
    whole = of_part["min_delivery 1.0, stream, congested"]
    rows = [["1", f"{whole['seconds']:.1f}, {whole['lost']:,}", "", "", ""]]
    for part in ["0.8", "0.5", "0.25"]:
        cells = (of_part[f"min_delivery {part}, {way}"] for way in WAYS)
        rows.append([part, *(f"{cell['seconds']:.1f}, {cell['lost']:,}" for cell in cells)])
    return ["`min_delivery`", *WAYS], rows


def errors(found):
    of_part = found["flink"]["errors"]
    parts = sorted({row["min_delivery"] for row in of_part}, reverse=True)
    rows = []
    for table, of in dict.fromkeys((row["table"], row["of"]) for row in of_part):
        cells = [next(row for row in of_part if (row["table"], row["of"], row["min_delivery"]) == (table, of, part))
                 for part in parts]
        rows.append([of, *(f"{cell['predicted_standard_error']:.2%}, {cell['error']:.2%}".replace("%", " %")
                           for cell in cells)])
    return ["predicted, measured at `min_delivery`", *map(str, parts)], rows


TABLES = {"checks": checks, "speeds": speeds, "times": times, "errors": errors}


def lines(table):
    """A table as lines of a page, but for the one below its head."""
    head, rows = table
    return [f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |") for cells in [head, *rows]]


def fill(page, tables):
    """Puts tables into a page, each between comments that name it."""
    text = page.read_text()
    for name, (head, *rows) in tables.items():
        whole = "\n".join([head, "|" + "---|" * head.count(" | ") + "---|", *rows])
        text, count = re.subn(
            f"(<!-- {name} of [^\n]*-->\n).*?(<!-- end -->)", lambda found: found[1] + whole + "\n" + found[2], text,
            flags=re.DOTALL)
        assert count == 1, f"{page} has {count} tables named {name}"
    page.write_text(text)


def main():
    folder, record, *page = map(Path, sys.argv[1:])
    found = {part: json.loads((folder / f"{part}.json").read_text()) for part in PARTS}
    tables = {name: lines(make(found)) for name, make in TABLES.items()}
    record.write_text(json.dumps(found | {"tables": tables}, indent=1) + "\n")
    for path in page:
        fill(path, tables)


if __name__ == "__main__":
    main()
