#!/usr/bin/env python3
"""One object from several sources behind links of different rates, beside aria2 over HTTP: `make bench-objects`.

Every host is a network namespace; a source's link is a token bucket of its rate with 50 ms of buffer. Both programs fetch
from the same sources in turn, with IP packets of at most 1500 bytes. What the sources' links carried is read from their
queues: "beyond" is what they sent over the content, headers included. Needs root; installs aria2 and nginx on Debian when
they are missing. A record has every run; rows that are measured again replace those that it has."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hosts import Star, run

ROWS = ["100", "20+100", "20+60+100", "60+60+60", "1+100", "20+60+100-"]
NGINX = """
daemon off; master_process off; error_log stderr crit; pid {folder}/nginx.pid;
events {{ }}
http {{ access_log off; sendfile on; server {{ listen {address}:8000; root {folder}; }} }}
"""


def ensure(command, package):
    if shutil.which(command) is None:
        print(f"objects.py: installing Debian package {package}", file=sys.stderr)
        run("apt-get", "install", "--yes", package)


class Network(Star):
    """A receiver, the first host, and sources."""

    def __init__(self, rates):
        super().__init__("objects", "10.93.0", [None, *rates])

    def sources(self):
        return range(1, len(self.rates))

    def carried(self):
        """Bytes that left the sources."""
        return sum(map(self.sent_bytes, self.sources()))


def measure(network, content, sources, fetch, dies):
    """Seconds and bytes beyond the content of one fetch. The last source is killed after 5 s if `dies`."""
    before, start = network.carried(), time.monotonic()
    fetching = network.spawn(0, *fetch)
    if dies:
        try:
            fetching.wait(timeout=5)
        except subprocess.TimeoutExpired:
            sources[-1].kill()
    status = fetching.wait()
    took, beyond = time.monotonic() - start, network.carried() - before - content
    return (took, beyond / content) if status == 0 else None


def with_pliant(pliant, folder, network, content, dies):
    offers = [
        network.spawn(index, pliant, "offer", f"{folder}/object", "--plain", "--testbed", "--listen", f"{network.address(index)}:7410")
        for index in network.sources()
    ]
    time.sleep(0.7)
    into = f"{folder}/pliant"
    os.makedirs(into, exist_ok=True)
    addresses = [f"{network.address(index)}:7410" for index in network.sources()]
    fetch = [pliant, "fetch", *addresses, "--plain", "--testbed", "--into", into, "--overwrite", "--quiet", "--mtu", "1500"]
    figures = measure(network, content, offers, fetch, dies)
    network.stop()
    return figures, f"{into}/object"


def with_aria2(folder, network, content, dies):
    servers = []
    for index in network.sources():
        settings = f"{folder}/nginx{index}"
        with open(settings, "w") as file:
            file.write(NGINX.format(folder=folder, address=network.address(index)))
        servers.append(network.spawn(index, "nginx", "-c", settings))
    time.sleep(0.7)
    count = str(len(servers))
    uris = [f"http://{network.address(index)}:8000/object" for index in network.sources()]
    into = f"{folder}/aria2"
    shutil.rmtree(into, ignore_errors=True)
    options = ["-q", "-k1M", f"-s{count}", "-x1", f"-j{count}", "--file-allocation=none", "--timeout=5", f"-d{into}"]
    figures = measure(network, content, servers, ["aria2c", *options, *uris], dies)
    network.stop()
    return figures, f"{into}/object"


def versions():
    aria2 = run("aria2c", "--version").split()[2]
    nginx = subprocess.run(["nginx", "-v"], check=True, capture_output=True, text=True).stderr.strip().rpartition("/")[2]
    return {"kernel": os.uname().release, "aria2": aria2, "nginx": nginx}


def line(row, record):
    """The table's line of a row of the record."""
    rates, of = row.rstrip("-").split("+"), record["rows"][row]
    name = f"{rates[-1]} killed at 5 s of {' + '.join(rates)}" if row.endswith("-") else " + ".join(rates)
    bound = "" if of["bound_s"] is None else f"{of['bound_s']:.1f} s"
    fetch, aria2 = of["fetch"]["median"], of["aria2"]["median"]
    cells = [name, bound, *(f"{each['seconds']:.1f} s" for each in (fetch, aria2)), *(f"{each['beyond']:.1%}" for each in (fetch, aria2))]
    return "| " + " | ".join(cells) + " |"


def same(left, right):
    return subprocess.run(["cmp", "--silent", left, right]).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", help="path of the pliant binary")
    parser.add_argument("rows", nargs="*", default=ROWS, help="Mbit/s of the sources, such as 20+100; `-`: the last is killed at 5 s")
    parser.add_argument("--bytes", type=int, default=200_000_000, help="size of the object (default: 200 MB)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of both in turn, whose medians are told (default: 3)")
    parser.add_argument("--record", type=Path, help="file for the figures of all runs")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("objects.py: network namespaces need root")
    ensure("aria2c", "aria2")
    ensure("nginx", "nginx-light")
    pliant, size = os.path.abspath(arguments.pliant), arguments.bytes
    record = {"bytes": size, "versions": versions(), "rows": {}}
    if arguments.record and arguments.record.exists():
        before = json.loads(arguments.record.read_text(encoding="utf-8"))
        if (before["bytes"], before["versions"]) != (size, record["versions"]):
            sys.exit(f"objects.py: {arguments.record} is of another size or of other versions: remove it first")
        record = before
    print("| sources (Mbit/s) | bound | `fetch` | aria2 | beyond: `fetch` | aria2 |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="pliant-objects.") as folder:
        os.chmod(folder, 0o755)
        with open(f"{folder}/object", "wb") as file:
            file.write(os.urandom(size))
        for row in arguments.rows:
            dies, rates = row.endswith("-"), [int(rate) for rate in row.rstrip("-").split("+")]
            runs = {"fetch": [], "aria2": []}
            for _ in range(arguments.rounds):
                with Network(rates) as network:
                    for name, fetched in [
                        ("fetch", with_pliant(pliant, folder, network, size, dies)),
                        ("aria2", with_aria2(folder, network, size, dies)),
                    ]:
                        figures, path = fetched
                        if figures is None or not same(path, f"{folder}/object"):
                            sys.exit(f"objects.py: {row}: {name} did not fetch the object")
                        runs[name].append(figures)
            of = {"bound_s": None if dies else size * 8e-6 / sum(rates)}
            for name, figures in runs.items():
                keys = ("seconds", "beyond")
                median = dict(zip(keys, map(statistics.median, zip(*figures))))
                of[name] = {"runs": [dict(zip(keys, each)) for each in figures], "median": median}
            record["rows"][row] = of
            print(line(row, record), flush=True)
            if arguments.record:
                arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
