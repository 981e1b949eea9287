#!/usr/bin/env python3
"""Event digests of every scenario in the repository, each with all of its variants.

Usage: digests.py PLIANT                     prints them
       digests.py PLIANT OTHER               compares two builds; exit code 1 if any digest differs
       digests.py PLIANT OTHER --check       also compares what `pliant check` prints
       digests.py PLIANT --record FILE       compares with a record; exit code 1 if any differs, or one is missing
       digests.py PLIANT --write FILE        writes the record: new scenarios get a length, known ones keep theirs
       digests.py ... [PART]...              only scenarios whose name contains one of these parts

A scenario is a scenario file, one in a code block of docs/ or in a raw string of a test, a built-in one, or a run of an
experiment file at its quick size, with the defaults of its axes. Long ones are shortened by what says when things
happen, from `duration` on; the record holds how, so that every build runs the same. Entries marked `quick` are those of
crates/cli/tests/digests.rs.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "bench" / "digests.txt"
HEADER = """\
# Event digests: digest, part of crates/cli/tests/digests.rs or not, scenario, variant, changes. Written and compared by
# bench/digests.py (`make digests`). A digest that changes means that results change.
"""

# Processor time in seconds that an entry of the record may take, that one of `make test` may, and that ends a run.
BUDGET_S = 0.3
QUICK_BUDGET_S = 0.05
LIMIT_S = 20
# Parts of a scenario's duration that are tried when its length is chosen.
PARTS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]
# Keys that say when something happens: a shortened scenario is the same in miniature. Its `drain` is none.
SHORTENING = {"duration", "drain", "warmup", "measure_until", "start", "stop", "from", "until"}

# Transports that no other scenario of bench/ has, beside DCTCP on the dumbbell of S1.
DUMBBELL = "bench/scenarios/s1.toml"
LOSSY = ("traffic.even.contract.min_delivery=0.9", 'traffic.even.messages={size="1460B",count=100000}')
DUMBBELL_CHANGES = [
    ("traffic.even.transport=reno",),
    ("traffic.even.transport=newreno",),
    ("traffic.even.transport=weighted-fair", "traffic.even.contract.weight=2"),
    ("traffic.even.transport=dctcp-sd", *LOSSY),
    ("traffic.even.transport=dctcp-bw", *LOSSY),
    ("traffic.even.transport=udp", 'traffic.even.udp={rate="1Gbit/s"}'),
    ("traffic.even.transport=kernel",),
    ("traffic.even.transport=bounded", "traffic.even.contract.min_share=0.5"),
]

# Every transport once, and a shared buffer: each a scenario file, so that a test without Python can run them.
QUICK = {
    *(f"bench/scenarios/{name}.toml" for name in (
        "s1", "s1c", "s1lp", "s1ledbat", "s1ledbatpp", "s1q", "s1n", "s1push", "s1dccp", "s1ndp", "s1scdp", "s1homa",
        "s1atp", "s1pfabric", "expresspass", "layered", "flexpass", "reflex",
    )),
    "experiments/bounded/scenarios/two_class.toml",
    "experiments/testbed/kernel-low-priority.toml",
}


UNITS_NS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}
DURATION = re.compile(r"([0-9.]+) *(ns|us|ms|s)")


@dataclass(frozen=True)
class Entry:
    """One run. `name` and `variant` and what of `changes` shortens nothing tell it from others."""

    name: str
    variant: str = ""
    changes: tuple = ()
    # The scenario's own table, where it is not a file: what the run reads.
    table: dict = field(default=None, compare=False, hash=False)
    # When what happens in it, by key.
    timing: tuple = field(default=(), compare=False, hash=False)

    def key(self):
        return self.name, self.variant, tuple(change for change in self.changes if not shortens(change))

    def with_changes(self, changes):
        return replace(self, changes=tuple(changes))

    def label(self):
        return " ".join(filter(None, (self.name, self.variant and f"[{self.variant}]", *self.changes)))


def shortens(change):
    return change.partition("=")[0].rpartition(".")[2] in SHORTENING


def flat(table, prefix=""):
    """Overrides by dotted key, as a variant's tables are laid over a scenario."""
    values = {}
    for key, value in table.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            values |= flat(value, path)
        else:
            values[path] = value
    return values


def laid_over(values, table):
    """Later overrides go last: a plan forgets the queues that were given before it."""
    for key, value in flat(table).items():
        values.pop(key, None)
        values[key] = value
    return values


def to_toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {to_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return repr(value)


def document(table):
    """A TOML file of one table: one line for each key."""
    return "".join(f"{json.dumps(key)} = {to_toml(value)}\n" for key, value in table.items())


def is_scenario(table):
    return "topology" in table and "traffic" in table


def is_experiment(table):
    return "claims" in table and "title" in table and ("scenario" in table or "runs" in table)


def timing(table, overrides):
    """The keys that say when something happens, with their values."""
    values = laid_over(flat(table), overrides)
    for key, value in list(values.items()):
        if isinstance(value, list):
            elements = {f"{key}.{number}": element for number, element in enumerate(value) if isinstance(element, dict)}
            values |= flat(elements)
    times = {key: value for key, value in values.items() if key.rpartition(".")[2] in SHORTENING}
    return tuple((key, value) for key, value in times.items() if isinstance(value, str) and DURATION.fullmatch(value))


def read(path):
    with (ROOT / path).open("rb") as file:
        return tomllib.load(file)


def of_scenario(name, table, own=False):
    """A scenario as it stands, and its variants."""
    shown = table if own else None
    variants = table.get("variants", {})
    plain = {key: value for key, value in table.items() if key != "variants"}
    for variant in ("", *variants):
        yield Entry(name, variant, table=shown, timing=timing(plain, variants.get(variant, {})))


def scenario_of(path, table):
    """The scenario of an experiment: its own, that of a file, or that of another experiment."""
    scenario = table.get("scenario")
    while isinstance(scenario, str):
        path = os.path.normpath(Path(path).parent / scenario)
        table = read(path)
        scenario = table if is_scenario(table) else table.get("scenario")
    return scenario


def of_experiment(name, table):
    """The runs at the quick size, axes at their defaults. Without the data that it needs an experiment has none."""
    scenario = scenario_of(name, table)
    if scenario is None or "data" in table:
        return
    quick = table.get("quick", {})
    variants = {}
    for run, spec in table.get("runs", {}).items():
        values = laid_over({}, quick.get("set", {}))
        laid_over(values, spec.get("set", {}))
        for axis in spec.get("over", []):
            laid_over(values, at_default(axis, table["axes"][axis], quick.get("axes", {})))
        variants[run] = values
    scenario = {key: value for key, value in scenario.items() if key != "variants"}
    with_runs = scenario | {"variants": variants}
    for run, values in variants.items():
        yield Entry(name, run, table=with_runs, timing=timing(scenario, values))


def at_default(name, axis, of_size):
    """The overrides of an axis's default, or of its first value."""
    if "points" in axis:
        names = of_size.get(name) or list(axis["points"])
        return axis["points"][str(axis.get("default", names[0]))]
    values = of_size.get(name, axis["values"])
    if "default" in axis:
        value = axis["default"]
    elif isinstance(values, str):
        value = json.loads(values.split(":")[0])
    else:
        value = values[0]
    keys = axis["key"] if isinstance(axis["key"], list) else [axis["key"]]
    return {key: value for key in keys}


def code_blocks():
    """TOML in documents and raw strings of tests, under the names of their files."""
    for path in sorted(ROOT.glob("docs/*.md")):
        name = path.relative_to(ROOT).as_posix()
        for number, block in enumerate(re.findall(r"^```toml\n(.*?)^```", path.read_text(), re.M | re.S), 1):
            yield f"{name}#{number}", block
    for path in sorted(ROOT.glob("crates/*/tests/**/*.rs")):
        name = path.relative_to(ROOT).as_posix()
        for constant, block in re.findall(r'const (\w+): &str = r#"(.*?)"#', path.read_text(), re.S):
            yield f"{name}#{constant}", block


def entries(pliant):
    """Every run there is, in the order of the files' names."""
    seen = set()
    found = []

    def add(entry):
        # Figures share scenarios: what comes to the same is run once.
        same = entry.key()
        if entry.table:
            body = {key: value for key, value in entry.table.items() if key != "variants"}
            same = json.dumps([body, entry.table.get("variants", {}).get(entry.variant)])
        if same not in seen:
            seen.add(same)
            found.append(entry)

    listed = subprocess.run([pliant, "list", "scenarios"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in listed.splitlines():
        name = line.split()[0]
        shown = subprocess.run([pliant, "show", name], stdout=subprocess.PIPE, text=True, check=True).stdout
        for entry in of_scenario(name, tomllib.loads(shown)):
            add(entry)
    files = [*ROOT.glob("docs/guide/*.toml"), *ROOT.glob("experiments/**/*.toml"), *ROOT.glob("bench/scenarios/*.toml")]
    for path in sorted(path.relative_to(ROOT).as_posix() for path in files):
        table = read(path)
        if path == "bench/scenarios/fat_tree.toml":
            # `make bench` gives it its lists of flows.
            for flows in ("S2", "S3"):
                add(Entry(path, changes=(f"traffic.list.path={flows}",), timing=timing(table, {})))
        elif is_scenario(table):
            for entry in of_scenario(path, table):
                add(entry)
        elif is_experiment(table):
            for entry in of_experiment(path, table):
                add(entry)
    for changes in DUMBBELL_CHANGES:
        add(Entry(DUMBBELL, changes=changes, timing=timing(read(DUMBBELL), {})))
    for name, block in code_blocks():
        try:
            table = tomllib.loads(block)
        except tomllib.TOMLDecodeError:
            continue
        if is_scenario(table):
            for entry in of_scenario(name, table, own=True):
                add(entry)
        elif is_experiment(table):
            for entry in of_experiment(name, table):
                add(entry)
    return found


class Runner:
    """Runs entries; scenarios that are no files are written into a folder of its own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.flows = {}

    def prepare(self, found):
        """Writes what runs read, before any runs."""
        for entry in found:
            if entry.table is not None:
                self.file_of(entry).write_text(document(entry.table))
            for change in entry.changes:
                key, _, scenario = change.partition("=")
                if key == "traffic.list.path" and scenario not in self.flows:
                    self.flows[scenario] = self.trace(scenario)

    def file_of(self, entry):
        return self.folder / f"{re.sub('[/#.]', '-', entry.name)}.toml"

    def trace(self, scenario):
        import bench  # Beside this file.

        bench.WORK = self.folder
        return bench.trace(scenario)

    def arguments(self, entry):
        path = entry.name if entry.table is None else self.file_of(entry)
        words = [path, *(("--variant", entry.variant) if entry.variant else ())]
        for change in entry.changes:
            key, _, value = change.partition("=")
            words += ["--set", f"{key}={self.flows.get(value, value)}"]
        return words

    def start(self, pliant, subcommand, entry, options=()):
        """What a command prints, its processor time in seconds, and why it failed if it did."""

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))

        process = subprocess.Popen(
            [pliant, subcommand, *options, *self.arguments(entry)], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=limit,
        )
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        why = None
        if process.returncode:
            errors = [line for line in err.splitlines() if line.startswith("error")]
            why = errors[0] if errors else f"ended with code {process.returncode}"
        return out, usage.ru_utime + usage.ru_stime, why

    def digest(self, pliant, entry):
        """The digest, or why there is none, and the processor time."""
        out, cpu, why = self.start(pliant, "run", entry, ("--json", "--quiet"))
        return (None, why, cpu) if why else (json.loads(out)["digest"], None, cpu)

    def check(self, pliant, entry):
        out, _, why = self.start(pliant, "check", entry)
        return why or out


def scaled(text, part):
    number, unit = DURATION.fullmatch(text).groups()
    length = round(float(number) * UNITS_NS[unit] * part)
    unit = next(unit for unit in reversed(UNITS_NS) if length % UNITS_NS[unit] == 0)
    return f"{length // UNITS_NS[unit]}{unit}"


def chosen(runner, pliant, entry):
    """An entry as short as the budget asks, its digest, and why there is none."""
    times = dict(entry.timing)
    budget = QUICK_BUDGET_S if entry.name in QUICK else BUDGET_S
    best, why = None, f"takes more than {budget} s"
    for part in PARTS if "duration" in times else PARTS[-1:]:
        changes = [f"{key}={scaled(text, part)}" for key, text in times.items() if key != "drain"] + ["drain=0s"]
        changes = [change for change in changes if not change.endswith("=0s") or change == "drain=0s"]
        shorter = changes if part < 1 else []
        candidate = entry.with_changes((*entry.changes, *shorter))
        digest, failure, cpu = runner.digest(pliant, candidate)
        if digest and (best is None or cpu <= budget):
            best = candidate, digest, None
        why = failure or why
        if cpu * 2 > budget:
            break
    return best or (entry, None, why)


def read_record(path):
    """Digest and shortened changes by key."""
    record = {}
    for line in Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            digest, _, name, variant, changes = line.split("\t")
            entry = Entry(name, variant, tuple(changes.split()))
            record[entry.key()] = digest, entry.changes
    return record


def write_record(path, rows):
    lines = []
    quick = set(QUICK)
    for entry, digest in rows:
        plain = entry.name in QUICK
        mark = "quick" if plain else "-"
        lines.append("\t".join((digest, mark, entry.name, entry.variant, " ".join(entry.changes))))
        quick.discard(entry.name)
    if quick:
        sys.exit(f"digests.py: no digest of {', '.join(sorted(quick))}")
    Path(path).write_text(HEADER + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", type=Path)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_intermixed_args()
    binaries = [options.pliant.resolve()]
    if options.other and options.other.is_file():
        binaries.append(options.other.resolve())
    elif options.other:
        options.parts.insert(0, str(options.other))
    if options.check and len(binaries) == 1:
        parser.error("--check compares two builds")

    record = options.write or options.record or RECORD
    recorded = read_record(record) if record.exists() else {}
    found = [entry for entry in entries(binaries[0])
             if not options.parts or any(part in entry.label() for part in options.parts)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        runner = Runner(folder)
        runner.prepare(found)
        if options.write:
            write(runner, pool, binaries[0], found, recorded, options.write)
        else:
            sys.exit(compare(runner, pool, binaries, found, recorded, options))


def write(runner, pool, pliant, found, recorded, path):
    def one(entry):
        if entry.key() in recorded:
            known = entry.with_changes(recorded[entry.key()][1])
            digest, why, _ = runner.digest(pliant, known)
            if why is None:
                return known, digest, None
        return chosen(runner, pliant, entry)

    rows = []
    for entry, digest, why in pool.map(one, found):
        if digest:
            rows.append((entry, digest))
        else:
            print(f"left out: {entry.label()}: {why}", file=sys.stderr)
    write_record(path, rows)
    print(f"{len(rows)} digests written: {path}")


def compare(runner, pool, binaries, found, recorded, options):
    """Prints what differs, or each digest if there is nothing to compare with; the exit code."""
    runs = [entry.with_changes(recorded[entry.key()][1]) for entry in found if entry.key() in recorded]
    wrong = []
    if not options.parts:
        gone = recorded.keys() - {entry.key() for entry in found}
        wrong += sorted(f"{name} [{variant}]: in the record, not in the tree" for name, variant, _ in gone)
    # What does not load is a test's text with a gap in it, and no scenario: --write leaves it out, too.
    loads = lambda entry: runner.start(binaries[0], "check", entry)[2] is None
    new = [entry for entry in found if entry.key() not in recorded and loads(entry)]
    wrong += [f"{entry.label()}: not in the record; --write adds it" for entry in new]

    def one(entry):
        digests = [runner.digest(binary, entry)[:2] for binary in binaries]
        checks = {runner.check(binary, entry) for binary in binaries} if options.check else set()
        return entry, digests, checks

    for entry, digests, checks in pool.map(one, runs):
        shown = [digest or why for digest, why in digests]
        if options.record and digests[0][0] != recorded[entry.key()][0]:
            wrong.append(f"{entry.label()}: {shown[0]}, recorded {recorded[entry.key()][0]}")
        if len(set(shown)) > 1:
            wrong.append(f"{entry.label()}: {', '.join(shown)}")
        if len(checks) > 1:
            wrong.append(f"{entry.label()}: `pliant check` prints something else")
        if not options.record and len(binaries) == 1:
            print(f"{shown[0]}  {entry.label()}", flush=True)
    for line in wrong:
        print(line, file=sys.stderr)
    if options.record or len(binaries) > 1:
        print(f"{len(runs)} runs, {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
