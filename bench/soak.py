#!/usr/bin/env python3
"""The real runtime for a long time over a bad network: two hosts and `pliant switch` between them, each in a network
namespace of its own (needs root), the switch losing, doubling, corrupting and reordering frames. One connection lasts
from the beginning to the end; beside it files are sent one after the other, by each transport in turn, to one receiver
that stays. Beside all that there are hostile peers: one without the key (attacker.py), and one with it, whose connections say
nothing, whose transfers are left in the middle, and who sends what may not be taken.

Fails if a transfer fails or arrives changed, if a hostile one succeeds or leaves more on the disk than it may, if the faults
or the attacks did not happen, or if the memory of a process that stays has grown: by a line through the means of twelve parts of the
time after the warm-up, beyond twice its standard error.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hosts import memory_bytes

# What memory may grow by: far less than a byte per packet of half an hour.
GROWTH_SHARE, GROWTH_BYTES = 0.02, 512 * 1024
# Connections that were left are given up after 30 s: until then there are more and more of them.
WARM_UP_SHARE, WARM_UP_SECONDS = 0.1, 60
# Parts of the time after the warm-up whose means a line is put through.
PARTS = 12
FAULTS = {"loss": 0.05, "duplicate": 0.02, "corrupt": 0.01, "reorder": 0.1}
LONG_PORT, SERIES_PORT = 7411, 7412
RECEIVER, SENDER, ATTACKER = "10.9.0.2", "10.9.0.1", "10.9.0.3"
# Of the peer with the key: connections that say nothing, what it leaves at most (docs/network.md), and what is refused.
IDLE, MAX_PARTS, MAX_FILES = 16, 64, 50


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
        run(first, *f"ip address add {ATTACKER}/24 dev eth0".split())
        self.first, self.second, self.switch = first, second, switch

    @staticmethod
    def inside(pid, *words):
        return ["nsenter", "--target", str(pid), "--net", *map(str, words)]

    def start(self, host, log, *words, **more):
        """A process of a host. Its output goes to the file `log`, unless `more` says another place."""
        with log.open("w") as file:
            return subprocess.Popen(self.inside(host, *words), **{"stdout": file, "stderr": file, **more})

    def close(self):
        for holder in self.holders:
            holder.kill()


def write_plan(file, rate, seed):
    """The plan of the switch between the two hosts, whose links have so many Mbit/s."""
    plan = [f'rate = "{rate}Mbit/s"', f"seed = {seed}", 'queues = { plan = "shared" }']
    plan += ["faults = { " + ", ".join(f"{key} = {value}" for key, value in FAULTS.items()) + " }"]
    for number, addresses in ((1, f'"{SENDER}", "{ATTACKER}"'), (2, f'"{RECEIVER}"')):
        plan += [f'[[port]]\ninterface = "p{number}"\naddresses = [{addresses}]\ndelay = "1ms"']
    file.write_text("\n".join(plan) + "\n")


def transports(pliant):
    """The names that the command knows."""
    text = subprocess.run([pliant, "send", "--help"], capture_output=True, text=True, check=True).stdout
    values = re.search(r"--transport .*?\[possible values: (.*?)\]", text, re.DOTALL)
    return re.split(r",\s+", values[1])


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


class HostilePeer(threading.Thread):
    """Somebody with the key."""

    def __init__(self, pliant, network, folder, rate):
        super().__init__()
        self.pliant, self.network, self.folder, self.over = pliant, network, folder, threading.Event()
        self.options = ["--key", folder / "key", "--bind", f"{ATTACKER}:0", "--rate-cap", rate, "--quiet"]
        self.counts, self.failures = dict.fromkeys(("idle", "left", "refused"), 0), []
        (folder / "hostile").mkdir()
        (folder / "incoming" / "occupied").write_bytes(b"of somebody else")
        (folder / "hostile" / "occupied").write_bytes(b"hostile")
        (folder / "hostile" / "many").mkdir()
        for number in range(2 * MAX_FILES):
            (folder / "hostile" / "many" / str(number)).write_bytes(b"x")

    def send(self, source, **more):
        command = [self.pliant, "send", source, f"{RECEIVER}:{SERIES_PORT}", *self.options]
        return subprocess.Popen(self.network.inside(self.network.first, *command), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, **more)

    def run(self):
        idle = [self.send("-", stdin=subprocess.PIPE) for _ in range(IDLE)]
        while not self.over.wait(1):
            number = sum(self.counts.values())
            if number % 3 < 2:
                source = self.folder / "hostile" / f"left-{number}"
                with source.open("wb") as file:
                    file.truncate(64 << 20)
                left = self.send(source)
                # Long enough for more than one block, of which each is kept.
                self.over.wait(3)
                left.kill()
                left.communicate()
                source.unlink()
                self.counts["left"] += 1
            else:
                name = random.choice(("occupied", "many"))
                refused = self.send(self.folder / "hostile" / name)
                _, said = refused.communicate()
                if refused.returncode == 0:
                    self.failures.append(f"the hostile peer's {name} was taken")
                elif refused.returncode not in (3, 4):
                    self.failures.append(f"the hostile peer's {name}: exit code {refused.returncode}: {said.strip()}")
                self.counts["refused"] += 1
        self.counts["idle"] = sum(process.poll() is None for process in idle)
        if self.counts["idle"] == 0:
            self.failures.append("no connection that says nothing was there at the end")
        for process in idle:
            process.kill()
            process.communicate()
        # One may be under way, and one be cleared away when the next begins.
        parts = len(list((self.folder / "incoming").glob(".pliant-*.part")))
        if parts > MAX_PARTS + 2:
            self.failures.append(f"{parts} parts of transfers that were left are there")
        if (self.folder / "incoming" / "occupied").read_bytes() != b"of somebody else":
            self.failures.append("the hostile peer has replaced a file")


def growth(samples, every, share=GROWTH_SHARE, more=GROWTH_BYTES):
    """(value after the warm-up, value at the end, standard error of their difference, whether that is too much).

    A share of the first value and `more` beyond it are allowed; the defaults are for bytes of memory.

    A line through the means of parts of the time after the warm-up: of two of them alone, one may have what comes and goes. What twice
    the standard error leaves of the growth is judged.
    """
    tenth = max(1, len(samples) // 10)
    warm = min(int(max(len(samples) * WARM_UP_SHARE, WARM_UP_SECONDS / every)), len(samples) - 2 * tenth)
    judged = samples[warm:]
    parts = min(PARTS, len(judged))
    edges = [len(judged) * part // parts for part in range(parts + 1)]
    means = [statistics.fmean(judged[begin:end]) for begin, end in zip(edges, edges[1:])]
    if parts < 3:
        return means[0], means[-1], 0.0, means[-1] > means[0] * (1 + share) + more
    line = statistics.linear_regression(range(parts), means)
    off = sum((mean - line.intercept - line.slope * part) ** 2 for part, mean in enumerate(means))
    spread = sum((part - (parts - 1) / 2) ** 2 for part in range(parts))
    error = parts * (off / (parts - 2) / spread) ** 0.5
    early, grown = line.intercept - line.slope / 2, line.slope * parts
    return early, early + grown, error, grown - 2 * error > early * share + more


def stop_switch(process, log):
    """Ends the switch: its faults by name, and the names of those that did not happen."""
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    said = re.search("^faults: .*$", log.read_text(), re.MULTILINE)
    faults = {name: int(count) for count, name in re.findall(r"(\d+) (?:in )?(\w+)", said[0] if said else "")}
    return faults, sorted({"lost", "duplicated", "corrupted", "held"} - {name for name, count in faults.items() if count})


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
    if given.seconds < max(10 * given.every, 3 * WARM_UP_SECONDS):
        sys.exit(f"soak.py: --seconds must be at least ten times --every, and {3 * WARM_UP_SECONDS}")

    pliant, rate = Path(given.pliant).resolve(), f"{given.rate / 2}Mbit/s"
    network, failures, stay, stranger, hostile, attacks = Network(), [], {}, None, None, {}
    with tempfile.TemporaryDirectory(prefix="pliant-soak.") as path:
        folder = Path(path)
        for name in ("outgoing", "incoming"):
            (folder / name).mkdir()
        write_plan(folder / "plan.toml", given.rate, given.seed)
        subprocess.run([pliant, "keygen", folder / "key"], check=True, capture_output=True)

        def start(name, host, *words, **more):
            stay[name] = network.start(host, folder / f"{name}.log", pliant, *words, **more)
            return stay[name]

        key = ("--key", folder / "key", "--quiet", "--line-rate", rate)
        series_words = ("--listen", f"{RECEIVER}:{SERIES_PORT}", "--count", 0, "--max-files", MAX_FILES, *key)
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
            words = [sys.executable, Path(__file__).with_name("attacker.py"), ATTACKER, SENDER, RECEIVER]
            stranger = subprocess.Popen(network.inside(network.first, *words, SERIES_PORT, LONG_PORT),
                                        stdout=subprocess.PIPE, text=True)
            hostile = HostilePeer(pliant, network, folder, f"{given.rate / 5}Mbit/s")
            hostile.start()
            begun, ended = time.monotonic(), threading.Event()

            def sample():
                while not ended.wait(given.every):
                    for name, process in stay.items():
                        bytes_now = memory_bytes(process.pid)
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
            hostile.over.set()
            hostile.join()
            stranger.send_signal(signal.SIGTERM)
            said, _ = stranger.communicate(timeout=60)
            attacks = {**json.loads(said or "{}"), **hostile.counts}
            failures += hostile.failures
            if not attacks or not all(attacks.values()):
                failures.append(f"attacks that did not happen: {attacks}")
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
            faults, missing = stop_switch(stay["switch"], folder / "switch.log")
            if missing:
                failures.append(f"faults that did not happen: {', '.join(missing)}")
        finally:
            if hostile is not None:
                hostile.over.set()
                hostile.join()
            if stranger is not None:
                stranger.kill()
            for process in stay.values():
                process.kill()
                process.wait()
            network.close()

    memory = {}
    for name, values in samples.items():
        early, late, error, grown = growth(values, given.every)
        memory[name] = {"after_warm_up": round(early), "end": round(late), "error": round(error), "peak": max(values), "samples": len(values)}
        if grown:
            failures.append(f"{name}: memory grew from {early:.0f} to {late:.0f} bytes")
        print(f"{name:16} {early / 2**20:7.2f} MiB after the warm-up, {late / 2**20:7.2f} at the end, {error / 2**20:.2f} standard error, "
              f"{max(values) / 2**20:7.2f} at most")
    print(f"{sum(transfers.values())} files, {moved / 1e6:.1f} MB; the long connection: {json.dumps(long_result)}")
    print(f"faults: {faults}")
    print(f"attacks: {attacks}")
    result = {"seconds": given.seconds, "files": transfers, "bytes": moved, "memory": memory, "faults": faults, "attacks": attacks}
    if given.out:
        given.out.write_text(json.dumps({**result, "failures": failures, "samples": samples}, indent=1) + "\n")
    for failure in failures:
        print(f"soak.py: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
