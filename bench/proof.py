#!/usr/bin/env python3
"""Foreground beside background while the load of others moves: the daemon's contracts, and what people do without it.

Usage: proof.py PLIANT [--rate MBIT ...] [--step SECONDS] [--transport NAME[,KEY=VALUE...] ...] [--record FILE] [--write-docs]
Needs root, Linux, redis-server, rclone, curl and, for their rows, trickle; the figure needs matplotlib.

Two hosts and a router are network namespaces. The router sends towards the near host at the link's rate from one queue of
QUEUE_MS (tbf), or from two queues (htb, in strict order). The foreground is unmodified redis, asked directly, in random
moments, for FOREGROUND_SHARE of the link. The background fetches a file without end from the far host, by rclone or curl. Cross load of UDP takes 0, 80 and 20 % of the link, a step each. Each row is one run of
three steps; `alone` is the foreground with the cross load and nothing else.

Claims, written before the first run:
  one queue    a floor of FLOOR_SHARE of the link is kept in each step, and the foreground's p99 is nearer to alone than with
               any other way that keeps it
  two queues   the same floor, and the foreground's p99 is within 10 % of alone
  a cap        at each of its two rates it fails one of both: the floor, or the p99 within 10 %, or leaves half of what is
               left over unused
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hosts import PATIENCE, inside, quantile, run, until, write_section

ROOT = Path(__file__).resolve().parent.parent
NEAR, MIDDLE, FAR = "pliant-proof-near", "pliant-proof-middle", "pliant-proof-far"
NEAR_ADDRESS, FAR_ADDRESS = "10.212.1.1", "10.212.2.1"
FILE_PORT, LOW_PORT, REDIS_PORT, CROSS_PORT, DOOR_PORT = 8000, 8001, 6379, 9000, 8080
LOW_TOS = 0x20  # CS1: what RFC 3662 has for background
LOW_CLASS = 4  # Pliant's name of the same: the DSCP is twice that
CROSS_SHARES = (0.0, 0.8, 0.2)
FOREGROUND_SHARE = 0.1
FLOOR_SHARE = 0.05
QUEUE_MS = 50
CAPS = (0.2, 0.6)
TRANSPORTS = ["bounded,min_share=0,min_rate=FLOOR", "bounded,min_share=0", "ledbat++"]
REQUESTS_PER_SECOND = 150
ENDLESS = 1 << 40
DATAGRAM = 1200
UDP_SEGMENT = 103  # Linux: one send is several datagrams


# Parts that run as processes of their own in a namespace.


class EndlessFile(BaseHTTPRequestHandler):
    """A file without end; what the kernel is to do with it stands in the server."""

    protocol_version = "HTTP/1.1"

    def head(self, kind, length):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def do_HEAD(self):
        self.head("application/octet-stream", ENDLESS)

    def do_GET(self):
        if self.path == "/":
            # A listing, as rclone reads it.
            listing = b'<a href="file">file</a>'
            self.head("text/html", len(listing))
            self.wfile.write(listing)
            return
        self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self.server.tos)
        self.do_HEAD()
        piece = bytes(1 << 16)
        try:
            while True:
                self.connection.sendall(piece)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


def serve_files(address, port, tos):
    server = ThreadingHTTPServer((address, port), EndlessFile)
    server.tos = tos
    server.serve_forever()


def send_cross(address, bits_per_second, step):
    """Datagrams at even distances, a share of the rate for each step."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, DATAGRAM)
    start = time.monotonic()
    for number, share in enumerate(CROSS_SHARES):
        end, sent, begun = start + (number + 1) * step, 0, time.monotonic()
        while (now := time.monotonic()) < end:
            owed = int((now - begun) * share * bits_per_second / 8) - sent
            # Never more at once than a few milliseconds' worth, or the burst would be the load.
            if (count := min(owed // DATAGRAM, 40)) > 0:
                udp.sendto(bytes(count * DATAGRAM), (address, CROSS_PORT))
                sent += count * DATAGRAM
            else:
                time.sleep(0.001)


def ask_redis(address, seconds, seed):
    """Asks for the key `k` in random moments; prints a line for each answer: when it was due, and how long it took."""
    draw, start, lines, free = random.Random(seed), time.monotonic(), [], []
    lock = threading.Lock()

    def ask(due):
        with lock:
            connection = free.pop() if free else None
        if connection is None:
            connection = socket.create_connection((address, REDIS_PORT), timeout=PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        head = b""
        while b"\r\n" not in head:
            head += connection.recv(1)
        left = int(head[1:-2]) + 2
        while left:
            left -= len(connection.recv(left))
        took = time.monotonic() - start - due
        with lock:
            free.append(connection)
            lines.append(f"{due:.6f} {took:.6f}")

    threads, due = [], 0.0
    while (due := due + draw.expovariate(REQUESTS_PER_SECOND)) < seconds:
        time.sleep(max(0.0, start + due - time.monotonic()))
        threads.append(threading.Thread(target=ask, args=(due,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print("\n".join(lines))


class World:
    """Two hosts and a router, with what all rows need."""

    def __init__(self, pliant, folder, rate, seed):
        self.pliant, self.folder, self.rate, self.seed = pliant, folder, rate, seed
        self.processes = []

    def __enter__(self):
        self.remove()
        for namespace in (NEAR, MIDDLE, FAR):
            run("ip", "netns", "add", namespace)
        for namespace, net in ((NEAR, 1), (FAR, 2)):
            run("ip", "link", "add", "wire", "netns", namespace, "type", "veth", "peer", "name", f"wire{net}", "netns", MIDDLE)
            run("ip", "-n", namespace, "address", "add", f"10.212.{net}.1/24", "dev", "wire")
            run("ip", "-n", MIDDLE, "address", "add", f"10.212.{net}.2/24", "dev", f"wire{net}")
            for where, device in ((namespace, "lo"), (namespace, "wire"), (MIDDLE, f"wire{net}")):
                run("ip", "-n", where, "link", "set", device, "up")
            # The queue holds packets as the wire has them.
            run("ip", "-n", namespace, "link", "set", "wire", "gso_max_segs", 1)
            run("ip", "-n", MIDDLE, "link", "set", f"wire{net}", "gso_max_segs", 1)
            run("ip", "-n", namespace, "route", "add", "default", "via", f"10.212.{net}.2")
        run(*inside(MIDDLE, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))
        part = [sys.executable, __file__, "part"]
        self.start(FAR, *part, "serve_files", "0.0.0.0", FILE_PORT, 0)
        self.start(FAR, *part, "serve_files", "0.0.0.0", LOW_PORT, LOW_TOS)
        self.start(FAR, "redis-server", "--bind", FAR_ADDRESS, "--port", REDIS_PORT, "--save", "", "--dir", self.folder,
                   "--protected-mode", "no")
        self.start(NEAR, sys.executable, "-c", "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                   f"s.bind(('{NEAR_ADDRESS}', {CROSS_PORT}))\nwhile True: s.recv(65536)")
        for port in (FILE_PORT, LOW_PORT, REDIS_PORT):
            until(f"port {port}", lambda: f":{port} " in run(*inside(FAR, "ss", "-Hltn")))
        size = int(FOREGROUND_SHARE * self.rate / 8 / REQUESTS_PER_SECOND)
        run(*inside(FAR, "redis-cli", "-h", FAR_ADDRESS, "set", "k", "x" * size))
        return self

    def __exit__(self, *_):
        self.stop(self.processes)
        self.remove()

    @staticmethod
    def remove():
        """Also what a run that was killed has left."""
        for namespace in (NEAR, MIDDLE, FAR):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, stderr=subprocess.DEVNULL)

    def start(self, namespace, *words, **options):
        log = open(self.folder / "log", "a", encoding="utf-8")
        options = {"stdout": log, "stderr": log, "cwd": self.folder, **options}
        process = subprocess.Popen(inside(namespace, *words), **options)
        self.processes.append(process)
        return process

    def stop(self, processes):
        for process in reversed(list(processes)):
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            if process in self.processes:
                self.processes.remove(process)

    def set_queues(self, queues, cap):
        """The router's queues towards the near host, one or two; with a cap the far host shapes what its file server sends."""
        rate, limit = f"{self.rate}bit", max(int(self.rate / 8 * QUEUE_MS / 1000), 15_000)
        for namespace, device in ((MIDDLE, "wire1"), (FAR, "wire")):
            subprocess.run(["tc", "-n", namespace, "qdisc", "del", "dev", device, "root"], check=False, stderr=subprocess.DEVNULL)
        if cap is not None:
            capped = f"{int(cap * self.rate)}bit"
            self.set_classes(FAR, "wire", (("10gbit", "10gbit"), (capped, capped)), ["sport", FILE_PORT, "0xffff"], limit)
        if queues == 1:
            run("tc", "-n", MIDDLE, "qdisc", "add", "dev", "wire1", "root", "tbf", "rate", rate, "burst", 15_000, "limit", limit)
            return
        # What a class is sure of, all classes together are: never more than the link.
        own = ((f"{self.rate * 99 // 100}bit", rate), (f"{self.rate // 100}bit", rate))
        self.set_classes(MIDDLE, "wire1", own, ["tos", f"0x{LOW_TOS:x}", "0xfc"], limit, rate)

    def set_classes(self, namespace, device, own, match, limit, rate=None):
        """Two classes of htb in strict order, each with what it is sure of and its ceiling; the second has what matches."""
        tc, device = ["tc", "-n", namespace], ["dev", device]
        run(*tc, "qdisc", "add", *device, "root", "handle", "1:", "htb", "default", "10")
        parent = "1:"
        if rate:
            run(*tc, "class", "add", *device, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", 15_000)
            parent = "1:1"
        for prio, (least, most) in enumerate(own):
            number = 10 * (prio + 1)
            run(*tc, "class", "add", *device, "parent", parent, "classid", f"1:{number}", "htb", "rate", least, "ceil", most,
                "burst", 15_000, "cburst", 15_000, "prio", prio)
            run(*tc, "qdisc", "add", *device, "parent", f"1:{number}", "bfifo", "limit", limit)
        run(*tc, "filter", "add", *device, "parent", "1:", "protocol", "ip", "prio", 1, "u32", "match", "ip", *match, "flowid", "1:20")

    def start_daemons(self, transport, class_number):
        name, *settings = transport.split(",")
        keys = "".join(f"{key} = {value}\n" for key, value in (setting.split("=", 1) for setting in settings))
        of_class = f'[classes.background]\ntransport = "{name}"\nclass = {class_number}\n{keys}'
        key = self.folder / "lab.key"
        if not key.exists():
            run(self.pliant, "keygen", key)
        door = (f'[[forward]]\nlisten = "127.0.0.1:{DOOR_PORT}"\nto = "far"\ntarget = "127.0.0.1:{FILE_PORT}"\n'
                'class = "background"\n')
        started = []
        for side, namespace, address, rest in (
            ("far", FAR, FAR_ADDRESS, f'[exit]\nallow = ["127.0.0.1:{FILE_PORT}"]\n'),
            ("near", NEAR, NEAR_ADDRESS, f'[peers]\nfar = "{FAR_ADDRESS}:7411"\n{door}'),
        ):
            file, control = self.folder / f"{side}.toml", self.folder / f"{side}.sock"
            file.write_text(f'listen = "{address}:7411"\nkey = "lab.key"\ncontrol = "{side}.sock"\n{rest}{of_class}')
            started.append(self.start(namespace, self.pliant, "daemon", file))
            until(f"the {side} daemon", control.exists)
        return started

    def measure(self, row, step):
        """One run of three steps."""
        self.set_queues(row["queues"], row.get("htb"))
        started = self.start_daemons(row["transport"], LOW_CLASS if row["queues"] == 2 else 0) if "transport" in row else []
        part, seconds = [sys.executable, __file__, "part"], step * len(CROSS_SHARES)
        pieces, begun = [], time.monotonic()
        if row["command"]:
            background = self.start(NEAR, *row["command"], stdout=subprocess.PIPE)
            started.append(background)
            until("the background", lambda: read_some(background, pieces))
            os.set_blocking(background.stdout.fileno(), True)
            threading.Thread(target=read_all, args=(background, pieces), daemon=True).start()
            time.sleep(min(step, 2.0))  # it finds its rate before the first step
        begun = time.monotonic()
        cross = self.start(FAR, *part, "send_cross", NEAR_ADDRESS, self.rate, step)
        asked = self.start(NEAR, *part, "ask_redis", FAR_ADDRESS, seconds, self.seed, stdout=subprocess.PIPE, text=True)
        lines, _ = asked.communicate()
        self.stop([cross, asked, *started])
        if asked.returncode:
            raise SystemExit(f"the foreground failed, with {row['name']}: see {self.folder}/log")
        answers = [tuple(map(float, line.split())) for line in lines.splitlines()]
        steps = []
        for number, share in enumerate(CROSS_SHARES):
            low, high = number * step, (number + 1) * step
            took = [took for due, took in answers if low <= due < high]
            bits = 8 * sum(count for when, count in pieces if low <= when - begun < high)
            steps.append({"cross_share": share, "foreground_p50_ms": quantile(took, 0.5) * 1e3,
                          "foreground_p99_ms": quantile(took, 0.99) * 1e3, "answers": len(took),
                          "background_mbit_per_second": bits / step / 1e6})
        series = [0.0] * int(seconds)
        for when, count in pieces:
            if 0 <= when - begun < len(series):
                series[int(when - begun)] += 8 * count / 1e6
        took = [took for _, took in answers]
        return {**{key: row[key] for key in ("name", "queues")}, "background": row["command"] is not None, "steps": steps, "foreground_p99_ms": quantile(took, 0.99) * 1e3,
                "foreground_p50_ms": quantile(took, 0.5) * 1e3, "background_each_second_mbit": series}


def read_some(process, pieces):
    os.set_blocking(process.stdout.fileno(), False)
    piece = process.stdout.read(1 << 20)
    if piece:
        pieces.append((time.monotonic(), len(piece)))
    elif process.poll() is not None:
        raise SystemExit(f"the background ended with {process.returncode}")
    return bool(piece)


def read_all(process, pieces):
    while piece := os.read(process.stdout.fileno(), 1 << 20):
        pieces.append((time.monotonic(), len(piece)))


def rclone(address, port, *flags):
    # Without its buffer it hands on what comes in pieces of 32 KiB, not of 1 MiB: eight megabits are much beside a floor of one.
    return ["rclone", "cat", "--config", "/dev/null", "--buffer-size", "0", *flags, "--http-url", f"http://{address}:{port}", ":http:"]


def curl(address, port):
    return ["curl", "-sN", f"http://{address}:{port}/file"]


def rows_of(rate, transports):
    """Every way to run the background; the first and the last are none."""
    transports = [transport.replace("FLOOR", f'"{FLOOR_SHARE * rate / 1e6:g}Mbit/s"') for transport in transports]
    direct = (FAR_ADDRESS, FILE_PORT)
    yield {"name": "alone", "queues": 1, "command": None}
    yield {"name": "nothing, rclone", "queues": 1, "command": rclone(*direct)}
    for cap in CAPS:
        yield {"name": f"rclone --bwlimit {cap:.0%}", "queues": 1, "cap": cap,
               "command": rclone(*direct, "--bwlimit", f"{int(cap * rate / 8)}B")}
    for cap in CAPS[:1]:
        yield {"name": f"trickle {cap:.0%}, curl", "queues": 1, "cap": cap, "needs": "trickle",
               "command": ["trickle", "-s", "-d", int(cap * rate / 8 / 1024), *curl(*direct)]}
    for cap in CAPS:
        yield {"name": f"htb {cap:.0%}, rclone", "queues": 1, "cap": cap, "htb": cap, "command": rclone(*direct)}
    for transport in transports:
        yield {"name": f"door, {transport}, rclone", "queues": 1, "transport": transport,
               "command": rclone("127.0.0.1", DOOR_PORT)}
    yield {"name": f"door, {transports[0]}, curl", "queues": 1, "transport": transports[0],
           "command": curl("127.0.0.1", DOOR_PORT)}
    yield {"name": "two queues: low DSCP, kernel TCP, rclone", "queues": 2, "command": rclone(FAR_ADDRESS, LOW_PORT)}
    for transport in transports:
        yield {"name": f"two queues: door, {transport}, rclone", "queues": 2, "transport": transport,
               "command": rclone("127.0.0.1", DOOR_PORT)}
    # How much the machine changes by itself.
    yield {"name": "alone, again", "queues": 1, "command": None}


def judge_all(rows, rate):
    """What each row keeps of the claims, beside the quieter of the runs alone, and its cells of the table."""
    alone = min(row["foreground_p99_ms"] for row in rows if not row["background"])
    for row in rows:
        row["judged"] = judge(row, rate, alone)
        row["cells"] = cells(row)


def judge(measured, rate, alone_ms):
    mbit, of_alone = rate / 1e6, measured["foreground_p99_ms"] / alone_ms
    if not measured["background"]:
        return {"p99_of_alone": of_alone}
    least = min(step["background_mbit_per_second"] for step in measured["steps"])
    left = sum((1 - FOREGROUND_SHARE - step["cross_share"]) * mbit for step in measured["steps"])
    used = sum(step["background_mbit_per_second"] for step in measured["steps"]) / left
    return {"p99_of_alone": of_alone, "least_background_share": least / mbit,
            "left_over_used": used, "floor_kept": least >= FLOOR_SHARE * mbit,
            "foreground_kept": of_alone <= 1.1}


def cells(measured):
    """A row of the document's table."""
    speeds = " / ".join(f"{step['background_mbit_per_second']:.1f}" for step in measured["steps"])
    p99 = f"{measured['foreground_p99_ms']:.1f}"
    judged = measured["judged"]
    if "floor_kept" not in judged:
        return [measured["name"], p99, f"{judged['p99_of_alone']:.1f}", "-", "-", "-", "-"]
    word = {True: "yes", False: "no"}
    return [measured["name"], p99, f"{judged['p99_of_alone']:.1f}", speeds, f"{judged['left_over_used']:.0%}",
            word[judged["foreground_kept"]], word[judged["floor_kept"]]]


HEAD = ["background", "foreground p99, ms", "times alone", "background, Mbit/s, at 0 / 80 / 20 % cross load", "of what is left over",
        "p99 within 10 %", "floor kept"]
MARKS = ("<!-- proof: written by bench/proof.py -->", "<!-- end of proof -->")


def section(record):
    lines = [MARKS[0]]
    for link in record["links"]:
        lines += ["", f"A link of {link['mbit_per_second']:g} Mbit/s, steps of {record['step_seconds']:g} s:", "",
                  "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(row["cells"]) + " |" for row in link["rows"]]
    return "\n".join([*lines, "", "![Background rate and foreground latency](proof.svg)", "", MARKS[1]])


def draw(record, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pliant"
    from matplotlib import pyplot
    links = record["links"]
    figure, axes = pyplot.subplots(len(links), 1, figsize=(9, 4.2 * len(links)), squeeze=False)
    for (axis,), link in zip(axes, links):
        for row in link["rows"]:
            if "floor_kept" not in row["judged"]:
                continue
            marker = "D" if "door" in row["name"] else "o"
            point = (row["judged"]["left_over_used"] * 100, row["judged"]["p99_of_alone"])
            axis.plot(*point, marker, color="tab:blue" if "door" in row["name"] else "tab:gray")
            axis.annotate(row["name"], point, fontsize=7, xytext=(4, 3), textcoords="offset points")
        axis.axhline(1.1, linewidth=0.6, linestyle="--", color="black")
        axis.set(yscale="log", xlabel="background: share of what is left over, %", ylabel="foreground p99, times alone",
                 title=f"{link['mbit_per_second']:g} Mbit/s: lower and further right is better")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def version(*words):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return found.group() if found else "unknown"


def main():
    if sys.argv[1:2] == ["part"]:
        part, *words = sys.argv[2:]
        numbers = [float(word) if re.fullmatch(r"[\d.]+e?\d*", word) and word.count(".") < 2 else word for word in words]
        {"serve_files": lambda address, port, tos: serve_files(address, int(port), int(tos)), "send_cross": send_cross,
         "ask_redis": ask_redis}[part](*numbers)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--rate", type=float, action="append", metavar="MBIT", help="rates of the link in Mbit/s [100, 20]")
    parser.add_argument("--step", type=float, default=30.0, metavar="SECONDS", help="how long each cross load stays")
    parser.add_argument("--transport", action="append", metavar="NAME[,KEY=VALUE...]",
                        help="transports of the door's class, with keys of the class; FLOOR is the rate of the goals "
                        f"[{' '.join(TRANSPORTS)}]")
    parser.add_argument("--only", metavar="PATTERN", help="only rows of such names, and alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="adds these links to the record, or replaces them there")
    parser.add_argument("--write-docs", action="store_true", help="writes the record's table and figure into docs")
    arguments = parser.parse_args()
    transports = arguments.transport or TRANSPORTS
    links = []
    for mbit in arguments.rate or [100.0, 20.0]:
        rate, rows = int(mbit * 1e6), []
        folder = Path(tempfile.mkdtemp(prefix="pliant-proof-"))
        with World(arguments.pliant, folder, rate, arguments.seed) as world:
            for row in rows_of(rate, transports):
                if not row["name"].startswith("alone") and not re.search(arguments.only or "", row["name"]):
                    continue
                if (needs := row.get("needs")) and not shutil.which(needs):
                    print(f"left out, not installed: {needs}", file=sys.stderr)
                    continue
                print(f"{mbit:g} Mbit/s: {row['name']}", file=sys.stderr, flush=True)
                rows.append(world.measure(row, arguments.step))
        shutil.rmtree(folder)
        judge_all(rows, rate)
        print(f"\n{mbit:g} Mbit/s\n| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
        print("\n".join("| " + " | ".join(row["cells"]) + " |" for row in rows), flush=True)
        links.append({"mbit_per_second": mbit, "rows": rows})
    record = {"seed": arguments.seed, "step_seconds": arguments.step, "kernel": platform.release(), "queue_ms": QUEUE_MS,
              "foreground_share": FOREGROUND_SHARE, "floor_share": FLOOR_SHARE, "processors": os.cpu_count(),
              "versions": {"pliant": version(arguments.pliant, "--version"), "rclone": version("rclone", "version"),
                           "curl": version("curl", "--version"), "redis": version("redis-server", "--version")},
              "links": links}
    if arguments.record:
        if arguments.record.exists():
            old = json.loads(arguments.record.read_text(encoding="utf-8"))
            new = {link["mbit_per_second"] for link in links}
            if old["step_seconds"] == arguments.step:
                record["links"] += [link for link in old["links"] if link["mbit_per_second"] not in new]
        record["links"].sort(key=lambda link: -link["mbit_per_second"])
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if arguments.write_docs:
        write_section(ROOT / "docs/daemon.md", MARKS, section(record))
        draw(record, ROOT / "docs/proof.svg")


if __name__ == "__main__":
    main()
