#!/usr/bin/env python3
"""One object from several sources behind links of different rates, beside aria2 over HTTP: `make bench-objects`.

Every host is a network namespace; a source's link is a token bucket of its rate with 50 ms of buffer. Both programs fetch
from the same sources in turn, with IP packets of at most 1500 bytes. What the sources' links carried is read from their
queues: "beyond" is what they sent over the content, headers included. Two more rows have links without a bound. `cpu`: CPU
time of all processes per GB from two sources, with keys and with TLS. `files`: 10,000 small files, by `fetch` from one
source and by `send`. Needs root; installs aria2 and nginx on Debian when they are missing. A record has every run; rows that
are measured again replace those that it has."""

import argparse
import json
import os
import resource
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
http {{ access_log off; sendfile on; server {{ listen {address}:8000; root {folder}; }} {tls} }}
"""
TLS = "server {{ listen {address}:8443 ssl; ssl_certificate {folder}/certificate; ssl_certificate_key {folder}/tls_key; root {folder}; }}"
FILES, MOST_FILE_BYTES = 10_000, 16_000


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


def cpu_seconds(child):
    """CPU time so far of a process that runs."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of(network, sources, fetch):
    """CPU seconds of a fetch and its sources, and how long it took; None if it failed."""
    before, of_sources, start = resource.getrusage(resource.RUSAGE_CHILDREN), sum(map(cpu_seconds, sources)), time.monotonic()
    status = network.spawn(0, *fetch).wait()
    took, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (own + sum(map(cpu_seconds, sources)) - of_sources, took) if status == 0 else None


def with_pliant(pliant, folder, network, measured, keys=("--plain", "--testbed")):
    offers = [
        network.spawn(index, pliant, "offer", f"{folder}/object", *keys, "--listen", f"{network.address(index)}:7410")
        for index in network.sources()
    ]
    time.sleep(0.7)
    into = f"{folder}/pliant"
    os.makedirs(into, exist_ok=True)
    addresses = [f"{network.address(index)}:7410" for index in network.sources()]
    fetch = [pliant, "fetch", *addresses, *keys, "--into", into, "--overwrite", "--quiet", "--mtu", "1500"]
    figures = measured(offers, fetch)
    network.stop()
    return figures, f"{into}/object"


def with_aria2(folder, network, measured, tls=False):
    servers = []
    for index in network.sources():
        settings = f"{folder}/nginx{index}"
        with open(settings, "w") as file:
            more = TLS.format(folder=folder, address=network.address(index)) if tls else ""
            file.write(NGINX.format(folder=folder, address=network.address(index), tls=more))
        servers.append(network.spawn(index, "nginx", "-c", settings))
    time.sleep(0.7)
    count = str(len(servers))
    scheme, port = ("https", 8443) if tls else ("http", 8000)
    uris = [f"{scheme}://{network.address(index)}:{port}/object" for index in network.sources()]
    into = f"{folder}/aria2"
    shutil.rmtree(into, ignore_errors=True)
    options = ["-q", "-k1M", f"-s{count}", "-x1", f"-j{count}", "--file-allocation=none", "--timeout=5", f"-d{into}"]
    options += ["--check-certificate=false"] if tls else []
    figures = measured(servers, ["aria2c", *options, *uris])
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


def make_certificate(folder):
    name = ["-subj", "/CN=objects", "-days", "2"]
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *name, "-keyout", f"{folder}/tls_key", "-out", f"{folder}/certificate")


def cpu_row(pliant, folder, size, rounds):
    """CPU seconds per GB from two sources, both sides encrypted and authenticated."""
    make_certificate(folder)
    run(pliant, "keygen", f"{folder}/key")
    runs = {"fetch": [], "aria2": []}
    for _ in range(rounds):
        with Network([None, None]) as network:
            def measured(sources, fetch):
                return cpu_of(network, sources, fetch)

            keys = ("--key", f"{folder}/key")
            for name, fetched in [
                ("fetch", with_pliant(pliant, folder, network, measured, keys)),
                ("aria2", with_aria2(folder, network, measured, tls=True)),
            ]:
                figures, path = fetched
                if figures is None or not same(path, f"{folder}/object"):
                    sys.exit(f"objects.py: cpu: {name} did not fetch the object")
                runs[name].append({"cpu_s_per_gb": figures[0] * 1e9 / size, "seconds": figures[1]})
    return runs


def files_row(pliant, folder, rounds):
    """Seconds for a folder of small files, by `fetch` from one source and by `send`."""
    many = Path(folder) / "many"
    for number in range(FILES):
        path = many / f"{number % 100}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 7919 % MOST_FILE_BYTES))
    keys = ["--plain", "--testbed"]
    runs = {"fetch": [], "send": []}
    for _ in range(rounds):
        with Network([None]) as network:
            for name in runs:
                into = f"{folder}/into"
                shutil.rmtree(into, ignore_errors=True)
                os.makedirs(into)
                if name == "fetch":
                    address = f"{network.address(1)}:7410"
                    network.spawn(1, pliant, "offer", many, *keys, "--listen", address)
                    time.sleep(2)
                    start = time.monotonic()
                    fetch = network.spawn(0, pliant, "fetch", address, *keys, "--name", "many/", "--into", into, "--quiet")
                    status = fetch.wait()
                else:
                    address = f"{network.address(0)}:7410"
                    receiver = network.spawn(0, pliant, "recv", into, *keys, "--listen", address, "--quiet")
                    time.sleep(0.7)
                    start = time.monotonic()
                    status = network.spawn(1, pliant, "send", many, address, *keys, "--quiet").wait() or receiver.wait()
                took = time.monotonic() - start
                network.stop()
                differs = subprocess.run(["diff", "-r", many, f"{into}/many"], stdout=subprocess.DEVNULL).returncode
                if status != 0 or differs:
                    sys.exit(f"objects.py: files: {name} did not bring the folder")
                runs[name].append({"seconds": took})
    return runs


def same(left, right):
    return subprocess.run(["cmp", "--silent", left, right]).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant", help="path of the pliant binary")
    rows = "Mbit/s of the sources, such as 20+100; `-`: the last is killed at 5 s; `cpu`; `files`"
    parser.add_argument("rows", nargs="*", default=ROWS, help=rows)
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
            if row in ("cpu", "files"):
                runs = cpu_row(pliant, folder, size, arguments.rounds) if row == "cpu" else files_row(pliant, folder, arguments.rounds)
                print(row, {name: {key: round(statistics.median(run[key] for run in of), 3) for key in of[0]} for name, of in runs.items()}, flush=True)
                record.setdefault("more", {})[row] = runs
                if arguments.record:
                    arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
                continue
            dies, rates = row.endswith("-"), [int(rate) for rate in row.rstrip("-").split("+")]
            runs = {"fetch": [], "aria2": []}
            for _ in range(arguments.rounds):
                with Network(rates) as network:
                    def measured(sources, fetch, network=network, dies=dies):
                        return measure(network, size, sources, fetch, dies)

                    for name, fetched in [
                        ("fetch", with_pliant(pliant, folder, network, measured)),
                        ("aria2", with_aria2(folder, network, measured)),
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
