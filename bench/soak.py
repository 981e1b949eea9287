#!/usr/bin/env python3
"""The real runtime for a long time over a bad network: two hosts and `pliant switch` between them, each in a network
namespace of its own (needs root), the switch losing, doubling, corrupting and reordering frames. One connection lasts
from the beginning to the end; beside it files are sent one after the other, by each transport in turn, to one receiver
that stays.

Fails if a transfer fails or arrives changed, if the faults did not happen, or if the memory of a process that stays has
grown: the mean of its resident bytes over the last tenth of the time against that over a tenth after the warm-up.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# What memory may grow by: far less than a byte per packet of half an hour.
GROWTH_SHARE, GROWTH_BYTES = 0.02, 512 * 1024
WARM_UP_SHARE = 0.1
FAULTS = {"loss": 0.05, "duplicate": 0.02, "corrupt": 0.01, "reorder": 0.1}
LONG_PORT, SERIES_PORT = 7411, 7412
RECEIVER = "10.9.0.2"


class Network:
    """Namespaces without names: they vanish with the processes in them."""

    def __init__(self):
        self.holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(3)]
        for holder in self.holders:
            while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                time.sleep(0.01)
        first, second, switch = (holder.pid for holder in self.holders)
        for number, host in ((1, first), (2, second)):
            run = lambda pid, *words: subprocess.run(self.inside(pid, *words), check=True)
            run(switch, *f"ip link add name p{number} type veth peer name eth0 netns {host}".split())
            run(switch, *f"ip link set dev p{number} up".split())
            run(host, *f"ip address add 10.9.0.{number}/24 dev eth0".split())
            run(host, *"ip link set dev eth0 gso_max_segs 1 up".split())
        self.first, self.second, self.switch = first, second, switch

    @staticmethod
    def inside(pid, *words):
        return ["nsenter", "--target", str(pid), "--net", *map(str, words)]

    def close(self):
        for holder in self.holders:
            holder.kill()


def transports(pliant):
    """The names that the command knows."""
    text = subprocess.run([pliant, "send", "--help"], capture_output=True, text=True, check=True).stdout
    values = re.search(r"--transport .*?\[possible values: (.*?)\]", text, re.DOTALL)
    return re.split(r",\s+", values[1])


def resident_bytes(pid):
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return None


def feed(pipe, seconds):
    """Random bytes, as many as are taken: what the sender holds ahead is at its bound from the beginning."""
    start = time.monotonic()
    try:
        while time.monotonic() - start < seconds:
            pipe.write(os.urandom(1 << 16))
        pipe.close()
    except BrokenPipeError:
        pass  # The sender's exit code says why.


def transfer(pliant, network, folder, transport, size, rate):
    """One file by one transport; what is wrong with it, or None."""
    source, arrived = folder / "outgoing" / "file", folder / "incoming" / "file"
    source.write_bytes(os.urandom(size))
    command = [pliant, "send", source, f"{RECEIVER}:{SERIES_PORT}", "--key", folder / "key", "--transport", transport]
    command += ["--rate-cap", rate, "--line-rate", rate, "--quiet", "--json"]
    sender = subprocess.run(network.inside(network.first, *command), capture_output=True, text=True)
    if sender.returncode:
        return f"exit code {sender.returncode}: {sender.stderr.strip()}"
    # The receiver names the file once it is whole; its last acknowledgement may come before.
    for _ in range(500):
        if arrived.exists() and arrived.stat().st_size == size:
            break
        time.sleep(0.01)
    same = arrived.exists() and arrived.read_bytes() == source.read_bytes()
    arrived.unlink(missing_ok=True)
    return None if same else "arrived changed, or not at all"


def memory_grown(samples):
    """(bytes after the warm-up, bytes at the end, whether that is too much)."""
    tenth = max(1, len(samples) // 10)
    warm = int(len(samples) * WARM_UP_SHARE)
    mean = lambda values: sum(values) / len(values)
    early, late = mean(samples[warm : warm + tenth]), mean(samples[-tenth:])
    return early, late, late > early * (1 + GROWTH_SHARE) + GROWTH_BYTES


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pliant", help="path of the pliant binary")
    arguments.add_argument("--seconds", type=float, default=1800)
    arguments.add_argument("--every", type=float, default=10, help="seconds between samples of memory")
    arguments.add_argument("--rate", type=int, default=50, help="Mbit/s of the link")
    arguments.add_argument("--seed", type=int, default=1, help="of the files' sizes and of the switch's faults")
    arguments.add_argument("--out", type=Path, help="writes the samples and the result here, as JSON")
    given = arguments.parse_args()
    if os.geteuid() != 0:
        sys.exit("soak.py: network namespaces need root")
    if given.seconds < 10 * given.every:
        sys.exit("soak.py: --seconds must be at least ten times --every")

    pliant, rate = Path(given.pliant).resolve(), f"{given.rate / 2}Mbit/s"
    network, failures, stay = Network(), [], {}
    with tempfile.TemporaryDirectory(prefix="pliant-soak.") as path:
        folder = Path(path)
        for name in ("outgoing", "incoming"):
            (folder / name).mkdir()
        plan = [f'rate = "{given.rate}Mbit/s"', f"seed = {given.seed}", 'queues = { plan = "shared" }']
        plan += ["faults = { " + ", ".join(f"{key} = {value}" for key, value in FAULTS.items()) + " }"]
        plan += [f'[[port]]\ninterface = "p{n}"\naddresses = ["10.9.0.{n}"]\ndelay = "1ms"' for n in (1, 2)]
        (folder / "plan.toml").write_text("\n".join(plan) + "\n")
        subprocess.run([pliant, "keygen", folder / "key"], check=True, capture_output=True)

        def start(name, host, *words, **more):
            log = (folder / f"{name}.log").open("w")
            command = network.inside(host, pliant, *words)
            stay[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, **more)
            return stay[name]

        key = ("--key", folder / "key", "--quiet", "--line-rate", rate)
        series_words = ("--listen", f"{RECEIVER}:{SERIES_PORT}", "--count", 0, *key)
        long_words = ("--listen", f"{RECEIVER}:{LONG_PORT}", "--discard", "--json", *key)
        try:
            start("switch", network.switch, "switch", folder / "plan.toml")
            start("series receiver", network.second, "recv", folder / "incoming", *series_words)
            start("long receiver", network.second, "recv", *long_words)
            to = (f"{RECEIVER}:{LONG_PORT}", "--transport", "cubic", "--rate-cap", rate, *key)
            sender = start("long sender", network.first, "send", "-", *to, "--json", stdin=subprocess.PIPE)
            feeding = threading.Thread(target=feed, args=(sender.stdin, given.seconds))
            feeding.start()

            samples = {name: [] for name in stay}
            begun, ended = time.monotonic(), threading.Event()

            def sample():
                while not ended.wait(given.every):
                    for name, process in stay.items():
                        bytes_now = resident_bytes(process.pid)
                        if bytes_now is not None:
                            samples[name].append(bytes_now)

            sampling = threading.Thread(target=sample)
            sampling.start()
            names = transports(pliant)
            sizes, transfers, moved = random.Random(given.seed), {name: 0 for name in names}, 0
            while time.monotonic() - begun < given.seconds:
                transport = names[sum(transfers.values()) % len(names)]
                # From a byte to 8 MB, all orders of magnitude alike.
                size = int(10 ** sizes.uniform(0, 6.9))
                wrong = transfer(pliant, network, folder, transport, size, rate)
                if wrong:
                    failures.append(f"{transport}, {size} bytes: {wrong}")
                transfers[transport] += 1
                moved += size
            ended.set()
            sampling.join()
            feeding.join()
            for name in ("long sender", "long receiver"):
                code = stay[name].wait(timeout=120)
                log = (folder / f"{name}.log").read_text().strip()
                if code:
                    failures.append(f"{name}: exit code {code}: {log}")
                else:
                    long_result = json.loads(log.splitlines()[-1])
            for name in ("switch", "series receiver"):
                if stay[name].poll() is not None:
                    failures.append(f"{name} ended: {(folder / f'{name}.log').read_text().strip()}")
            stay["switch"].send_signal(signal.SIGINT)
            stay["switch"].wait(timeout=60)
            said = re.search("^faults: .*$", (folder / "switch.log").read_text(), re.MULTILINE)
            faults = {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", said[0] if said else "")}
            missing = {"lost", "duplicated", "corrupted", "held"} - {name for name, count in faults.items() if count}
            if missing:
                failures.append(f"faults that did not happen: {', '.join(sorted(missing))}")
        finally:
            for process in stay.values():
                process.kill()
                process.wait()
            network.close()

    memory = {}
    for name, values in samples.items():
        early, late, grown = memory_grown(values)
        memory[name] = {"after_warm_up": round(early), "end": round(late), "peak": max(values), "samples": len(values)}
        if grown:
            failures.append(f"{name}: memory grew from {early:.0f} to {late:.0f} bytes")
        print(f"{name:16} {early / 2**20:7.2f} MiB after the warm-up, {late / 2**20:7.2f} at the end, "
              f"{max(values) / 2**20:7.2f} at most")
    print(f"{sum(transfers.values())} files, {moved / 1e6:.1f} MB; the long connection: {json.dumps(long_result)}")
    print(f"faults: {faults}")
    result = {"seconds": given.seconds, "files": transfers, "bytes": moved, "memory": memory, "faults": faults}
    if given.out:
        given.out.write_text(json.dumps({**result, "failures": failures, "samples": samples}, indent=1) + "\n")
    for failure in failures:
        print(f"soak.py: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
