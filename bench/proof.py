#!/usr/bin/env python3
"""Foreground beside background while the load of others moves: the daemon's contracts, and what people do without it.

Usage: proof.py PLIANT [--rate MBIT ...] [--step SECONDS] [--transport NAME[,KEY=VALUE...] ...] [--record FILE] [--write-docs]
Needs root, Linux, redis-server, rclone, curl and, for their rows, trickle, restic and rsync; the figure needs matplotlib.

Two hosts and a router are network namespaces. The router sends towards the near host at the link's rate from one queue of
QUEUE_MS (tbf), or from two queues (htb, in strict order). The foreground is unmodified redis, asked directly, in random
moments, for FOREGROUND_SHARE of the link. The background fetches from the far host: rclone and curl a file without end, rsync a sparse
file of that length, and restic a file of random bytes again and again (1 GB in the temporary folder at 1 Gbit/s). Cross load of UDP takes
0, 80 and 20 % of the link, a step each. Each row is one run of three steps; `alone` is the foreground with the cross load and nothing else.

Verdicts are `?` where this machine may be what was measured:
  both         a step had less than FULL of its cross load; or a thread ran, or waited for a processor, for more than FULL of the time
               while the link had less than FULL of its rate
  the floor    no step misses it by more than the share of the time for which a thread waited for a processor
  p99          a row misses the 10 % by no more than its requests left late (p99), or it keeps them while the requests of
               alone left late by more than a tenth of its p99
From FAST on, hosts hand on up to 64 KiB as one packet and buckets hold 2 ms: packets one by one cost a kernel flow more processor than
it has.

Claims, written before the first run:
  one queue    a floor of FLOOR_SHARE of the link is kept in each step, and the foreground's p99 is nearer to alone than with
               any other way that keeps it
  two queues   the same floor, and the foreground's p99 is within 10 % of alone
  a cap        at each of its two rates it fails one of both: the floor, or the p99 within 10 %, or leaves half of what is
               left over unused

Written before the first run of restic and rsync:
  directly     both fill what is left over, as rclone does. restic has a gap of a second whenever it starts again, and several connections.
               The foreground's p99 is that of a full queue, tens of milliseconds
  the door     both keep the floor, and the p99 is that of the door's rclone: the contract is of the class and not of the program
"""

import argparse
import importlib.util
import json
import os
import platform
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hosts import PATIENCE, add_namespace, family, inside, quantile, read, run, until, write_section

ROOT = Path(__file__).resolve().parent.parent
NEAR, MIDDLE, FAR = "pliant-proof-near", "pliant-proof-middle", "pliant-proof-far"
NEAR_ADDRESS, FAR_ADDRESS = "10.212.1.1", "10.212.2.1"
FILE_PORT, LOW_PORT, REDIS_PORT, CROSS_PORT = 8000, 8001, 6379, 9000
RESTIC_PORT, RSYNC_PORT = 8002, 8003
DOOR = 100  # the door to a service listens on the service's port and so much
LOW_TOS = 0x20  # CS1: what RFC 3662 has for background
LOW_CLASS = 4  # Pliant's name of the same: the DSCP is twice that
CROSS_SHARES = (0.0, 0.8, 0.2)
FOREGROUND_SHARE = 0.1
FLOOR_SHARE = 0.05
QUEUE_MS = 50
CROSS_OWED = 0.01  # seconds
FAST = 500e6  # bit/s
FULL = 0.95
CAPS = (0.2, 0.6)
TRANSPORTS = ["bounded,min_share=0,min_rate=FLOOR", "bounded,min_share=0", "ledbat++"]
REQUESTS_PER_SECOND = 150
ENDLESS = 1 << 40
RESTIC_BYTES, RESTIC_SECONDS = 200_000_000, 8  # of random data: no less than so many seconds of the link
STARTED = 1 << 18  # bytes after which a background that tells nothing by itself has begun
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
    """Datagrams at even distances, a share of the rate for each step; prints what each step sent, in bytes."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, DATAGRAM)
    start = time.monotonic()
    for number, share in enumerate(CROSS_SHARES):
        end, sent, waived, begun = start + (number + 1) * step, 0, 0, time.monotonic()
        while (now := time.monotonic()) < end:
            owed = int((now - begun) * share * bits_per_second / 8) - sent - waived
            # Never more at once than a few milliseconds' worth, or the burst would be the load: what a process without a processor
            # did not send is not made up for.
            waived += max(0, owed - int(CROSS_OWED * share * bits_per_second / 8))
            if (count := min(owed // DATAGRAM, 40)) > 0:
                udp.sendto(bytes(count * DATAGRAM), (address, CROSS_PORT))
                sent += count * DATAGRAM
            else:
                time.sleep(0.001)
        print(sent, flush=True)


def drop_cross(address):
    """A port for datagrams that nobody reads: the kernel drops them, which costs no process anything."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    udp.bind((address, CROSS_PORT))
    signal.pause()


def ask_redis(address, seconds, seed):
    """Asks for the key `k` in random moments; prints a line for each answer: when the request was due, how long it took
    from then on, and how late it left."""
    draw, start, lines, free = random.Random(seed), time.monotonic(), [], []
    lock = threading.Lock()

    def ask(due):
        late = time.monotonic() - start - due
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
            lines.append(f"{due:.6f} {took:.6f} {late:.6f}")

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
        self.segments, self.burst = (65535, int(rate / 8 * 0.002)) if rate >= FAST else (1, 15_000)
        self.processes, self.served = [], set()

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        self.remove()
        for namespace in (NEAR, MIDDLE, FAR):
            add_namespace(namespace)
        for namespace, net in ((NEAR, 1), (FAR, 2)):
            run("ip", "link", "add", "wire", "netns", namespace, "type", "veth", "peer", "name", f"wire{net}", "netns", MIDDLE)
            run("ip", "-n", namespace, "address", "add", f"10.212.{net}.1/24", "dev", "wire")
            run("ip", "-n", MIDDLE, "address", "add", f"10.212.{net}.2/24", "dev", f"wire{net}")
            for where, device in ((namespace, "lo"), (namespace, "wire"), (MIDDLE, f"wire{net}")):
                run("ip", "-n", where, "link", "set", device, "up")
            # The queue of a slow link holds packets as the wire has them.
            run("ip", "-n", namespace, "link", "set", "wire", "gso_max_segs", self.segments)
            run("ip", "-n", MIDDLE, "link", "set", f"wire{net}", "gso_max_segs", self.segments)
            run("ip", "-n", namespace, "route", "add", "default", "via", f"10.212.{net}.2")
        run(*inside(MIDDLE, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))
        part = [sys.executable, __file__, "part"]
        self.start(FAR, *part, "serve_files", "0.0.0.0", FILE_PORT, 0)
        self.start(FAR, *part, "serve_files", "0.0.0.0", LOW_PORT, LOW_TOS)
        self.start(FAR, "redis-server", "--bind", FAR_ADDRESS, "--port", REDIS_PORT, "--save", "", "--dir", self.folder,
                   "--protected-mode", "no")
        self.start(NEAR, *part, "drop_cross", NEAR_ADDRESS)
        for port in (FILE_PORT, LOW_PORT, REDIS_PORT):
            self.await_port(port)
        size = int(FOREGROUND_SHARE * self.rate / 8 / REQUESTS_PER_SECOND)
        run(*inside(FAR, "redis-cli", "-h", FAR_ADDRESS, "set", "k", "x" * size))

    @staticmethod
    def await_port(port):
        until(f"port {port}", lambda: f":{port} " in run(*inside(FAR, "ss", "-Hltn")))

    def serve(self, what):
        """What only rows of restic or rsync need, made before the first of them."""
        if what in self.served:
            return
        self.served.add(what)
        if what == "restic":
            repository, size = self.folder / "repository", max(RESTIC_BYTES, int(self.rate / 8 * RESTIC_SECONDS))
            restic = f"RESTIC_PASSWORD=x TMPDIR={self.folder} restic -q --no-cache -r {repository}"
            random_file = f"head -c {size} /dev/urandom | {restic} backup --stdin --stdin-filename file"
            made = self.start(FAR, "sh", "-c", f"{restic} init && {random_file}")
            if made.wait():
                raise SystemExit(f"restic made no repository: {self.log_end()}")
            self.stop([made])
            self.start(FAR, "rclone", "serve", "restic", "--config", "/dev/null", "--addr", f"0.0.0.0:{RESTIC_PORT}", repository)
            self.await_port(RESTIC_PORT)
        elif what == "rsync":
            module, file = self.folder / "module", self.folder / "rsyncd.conf"
            module.mkdir()
            with open(module / "file", "wb") as sparse:
                sparse.truncate(ENDLESS)
            file.write_text(f"use chroot = no\nuid = 0\ngid = 0\n[module]\npath = {module}\n", encoding="utf-8")
            self.start(FAR, "rsync", "--daemon", "--no-detach", "--address=0.0.0.0", f"--port={RSYNC_PORT}", f"--config={file}")
            self.await_port(RSYNC_PORT)

    def log_end(self):
        return "".join(open(self.folder / "log", encoding="utf-8", errors="replace").readlines()[-5:])

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
        # A session of its own: it ends with the processes that it has started.
        options = {"stdout": log, "stderr": log, "cwd": self.folder, "start_new_session": True, **options}
        process = subprocess.Popen(inside(namespace, *words), **options)
        self.processes.append(process)
        return process

    def stop(self, processes):
        for process in reversed(list(processes)):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                deadline, ended = time.monotonic() + PATIENCE, os.WEXITED | os.WNOHANG | os.WNOWAIT
                while os.waitid(os.P_PID, process.pid, ended) is None and time.monotonic() < deadline:
                    time.sleep(0.01)
                # The receiver of rsync outlives rsync, and reads on for half a minute.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
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
            run("tc", "-n", MIDDLE, "qdisc", "add", "dev", "wire1", "root", "tbf", "rate", rate, "burst", self.burst, "limit", limit)
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
            run(*tc, "class", "add", *device, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", self.burst)
            parent = "1:1"
        for prio, (least, most) in enumerate(own):
            number = 10 * (prio + 1)
            run(*tc, "class", "add", *device, "parent", parent, "classid", f"1:{number}", "htb", "rate", least, "ceil", most,
                "burst", self.burst, "cburst", self.burst, "prio", prio)
            run(*tc, "qdisc", "add", *device, "parent", f"1:{number}", "bfifo", "limit", limit)
        run(*tc, "filter", "add", *device, "parent", "1:", "protocol", "ip", "prio", 1, "u32", "match", "ip", *match, "flowid", "1:20")

    def start_daemons(self, transport, class_number):
        name, *settings = transport.split(",")
        keys = "".join(f"{key} = {value}\n" for key, value in (setting.split("=", 1) for setting in settings))
        of_class = f'[classes.background]\ntransport = "{name}"\nclass = {class_number}\n{keys}'
        key = self.folder / "lab.key"
        if not key.exists():
            run(self.pliant, "keygen", key)
        ports = (FILE_PORT, RESTIC_PORT, RSYNC_PORT)
        doors = "".join(f'[[forward]]\nlisten = "127.0.0.1:{port + DOOR}"\nto = "far"\ntarget = "127.0.0.1:{port}"\n'
                        'class = "background"\n' for port in ports)
        allowed = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        started = []
        for side, namespace, address, rest in (
            ("far", FAR, FAR_ADDRESS, f"[exit]\nallow = [{allowed}]\n"),
            ("near", NEAR, NEAR_ADDRESS, f'[peers]\nfar = "{FAR_ADDRESS}:7411"\n{doors}'),
        ):
            file, control = self.folder / f"{side}.toml", self.folder / f"{side}.sock"
            file.write_text(f'listen = "{address}:7411"\nkey = "lab.key"\ncontrol = "{side}.sock"\n{rest}{of_class}')
            started.append(self.start(namespace, self.pliant, "daemon", file))
            until(f"the {side} daemon", control.exists)
        return started

    def measure(self, row, step):
        """One run of three steps."""
        if "served" in row:
            self.serve(row["served"])
        self.set_queues(row["queues"], row.get("htb"))
        started = self.start_daemons(row["transport"], LOW_CLASS if row["queues"] == 2 else 0) if "transport" in row else []
        part, seconds = [sys.executable, __file__, "part"], step * len(CROSS_SHARES)
        pieces, begun = [], time.monotonic()
        if row["command"]:
            told = "served" not in row  # by standard output
            background = self.start(NEAR, *row["command"], **({"stdout": subprocess.PIPE} if told else {}))
            started.append(background)
            if told:
                until("the background", lambda: read_some(background, pieces))
                os.set_blocking(background.stdout.fileno(), True)
            else:
                until("the background", lambda: has_begun(background))
            threading.Thread(target=read_all if told else watch_reads, args=(background, pieces), daemon=True).start()
            time.sleep(min(step, 2.0))  # it finds its rate before the first step
        begun = time.monotonic()
        cross = self.start(FAR, *part, "send_cross", NEAR_ADDRESS, self.rate, step, stdout=subprocess.PIPE, text=True)
        asked = self.start(NEAR, *part, "ask_redis", FAR_ADDRESS, seconds, self.seed, stdout=subprocess.PIPE, text=True)
        loads = [self.load()]
        for number in range(len(CROSS_SHARES)):
            time.sleep(max(0.0, begun + (number + 1) * step - time.monotonic()))
            loads.append(self.load())
        lines, _ = asked.communicate()
        sent, _ = cross.communicate(timeout=PATIENCE)
        if row["command"] and background.poll() is not None:
            raise SystemExit(f"the background ended with {background.returncode}, with {row['name']}: {self.log_end()}")
        self.stop([cross, asked, *started])
        (self.folder / "copied").unlink(missing_ok=True)
        if asked.returncode or cross.returncode:
            raise SystemExit(f"the foreground or the cross load failed, with {row['name']}: {self.log_end()}")
        sent = [int(line) for line in sent.split()]
        answers = [tuple(map(float, line.split())) for line in lines.splitlines()]
        steps = []
        for number, share in enumerate(CROSS_SHARES):
            low, high = number * step, (number + 1) * step
            took = [took for due, took, _ in answers if low <= due < high]
            bits = 8 * sum(count for when, count in pieces if low <= when - begun < high)
            steps.append({"cross_share": share, "foreground_p50_ms": quantile(took, 0.5) * 1e3,
                          "foreground_p99_ms": quantile(took, 0.99) * 1e3, "answers": len(took),
                          "background_mbit_per_second": bits / step / 1e6,
                          "cross_mbit_per_second": 8 * sent[number] / step / 1e6, **between(*loads[number:number + 2])})
        series = [0.0] * int(seconds)
        for when, count in pieces:
            if 0 <= when - begun < len(series):
                series[int(when - begun)] += 8 * count / 1e6
        took, late = [[answer[column] for answer in answers] for column in (1, 2)]
        return {**{key: row[key] for key in ("name", "queues")}, "background": row["command"] is not None, "steps": steps,
                "foreground_p99_ms": quantile(took, 0.99) * 1e3, "foreground_p50_ms": quantile(took, 0.5) * 1e3,
                "foreground_late_p99_ms": quantile(late, 0.99) * 1e3, "background_each_second_mbit": series}

    def load(self):
        """When; bytes that left the router's queue until now; and how long each thread of this run ran, and waited for a processor."""
        queue, *_ = json.loads(run("tc", "-n", MIDDLE, "-s", "-j", "qdisc", "show", "dev", "wire1", "root"))
        threads = {}
        for process in self.processes:
            for pid in family(process.pid):
                for thread in files_of(f"/proc/{pid}/task"):
                    ran, waited, *_ = (read(thread / "schedstat") or "0 0").split()
                    threads[thread.name] = int(ran), int(waited)
        return time.monotonic(), queue["bytes"], threads


def between(before, after):
    """The link's rate, and the shares of the time for which one thread at most waited for a processor, and ran or waited for one."""
    (begun, bytes_before, old), (ended, bytes_after, new) = before, after
    seconds = ended - begun
    spent = [[(now - then) / 1e9 / seconds for then, now in zip(old[thread], new[thread])] for thread in new if thread in old]
    return {"link_mbit_per_second": 8 * (bytes_after - bytes_before) / seconds / 1e6,
            "most_waited": max(waited for _, waited in spent), "busiest_thread": max(map(sum, spent))}


def files_of(folder):
    try:
        return list(Path(folder).iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


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


def bytes_read(process):
    """What a process, its children, and those that have ended have read by `read`, from sockets for the most part."""

    def read_by(pid):
        return int((read(f"/proc/{pid}/io") or "rchar: 0").split()[1])

    # A parent before its children: the reads of a child that ends meanwhile are missing once, and not counted twice.
    own = read_by(process.pid)
    return own + sum(map(read_by, family(process.pid)[1:]))


def has_begun(process):
    if process.poll() is not None:
        raise SystemExit(f"the background ended with {process.returncode}")
    return bytes_read(process) > STARTED


def watch_reads(process, pieces):
    most = bytes_read(process)
    while read(f"/proc/{process.pid}/io"):
        if (now := bytes_read(process)) > most:
            pieces.append((time.monotonic(), now - most))
            most = now
        time.sleep(0.05)


def rclone(address, port, *flags):
    # Without its buffer it hands on what comes in pieces of 32 KiB, not of 1 MiB: eight megabits are much beside a floor of one.
    return ["rclone", "cat", "--config", "/dev/null", "--buffer-size", "0", *flags, "--http-url", f"http://{address}:{port}", ":http:"]


def curl(address, port):
    return ["curl", "-sN", f"http://{address}:{port}/file"]


def restic(address, port):
    again = f"restic -q --no-cache --no-lock -r rest:http://{address}:{port}/ dump latest /file > /dev/null"
    return ["sh", "-c", f"export RESTIC_PASSWORD=x; while {again}; do :; done; exit 1"]


def rsync(address, port):
    return ["rsync", "--inplace", "--sparse", "--whole-file", f"rsync://{address}:{port}/module/file", "copied"]


def rows_of(rate, transports):
    """Every way to run the background; the first and the last are none."""
    transports = [transport.replace("FLOOR", f'"{FLOOR_SHARE * rate / 1e6:g}Mbit/s"') for transport in transports]
    direct = (FAR_ADDRESS, FILE_PORT)
    yield {"name": "alone", "queues": 1, "command": None}
    yield {"name": "nothing, rclone", "queues": 1, "command": rclone(*direct)}
    others = (("restic", restic, RESTIC_PORT), ("rsync", rsync, RSYNC_PORT))
    for program, command, port in others:
        yield {"name": f"nothing, {program}", "queues": 1, "needs": program, "served": program, "command": command(FAR_ADDRESS, port)}
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
               "command": rclone("127.0.0.1", FILE_PORT + DOOR)}
    yield {"name": f"door, {transports[0]}, curl", "queues": 1, "transport": transports[0],
           "command": curl("127.0.0.1", FILE_PORT + DOOR)}
    for program, command, port in others:
        yield {"name": f"door, {transports[0]}, {program}", "queues": 1, "transport": transports[0], "needs": program,
               "served": program, "command": command("127.0.0.1", port + DOOR)}
    yield {"name": "two queues: low DSCP, kernel TCP, rclone", "queues": 2, "command": rclone(FAR_ADDRESS, LOW_PORT)}
    for transport in transports:
        yield {"name": f"two queues: door, {transport}, rclone", "queues": 2, "transport": transport,
               "command": rclone("127.0.0.1", FILE_PORT + DOOR)}
    # How much the machine changes by itself.
    yield {"name": "alone, again", "queues": 1, "command": None}


def judge_all(rows, rate):
    """What each row keeps of the claims, beside the quieter of the runs alone, and its cells of the table."""
    alone = min((row for row in rows if not row["background"]), key=lambda row: row["foreground_p99_ms"])
    for row in rows:
        row["doubts"] = not_carried(row, rate)
    for row in rows:
        row["judged"] = judge(row, rate, alone)
        row["cells"] = cells(row)


def not_carried(measured, rate):
    """Where the machine, and not the row, is what was measured: in words, for each such step."""
    reasons = []
    for step in measured["steps"]:
        found, link, wanted = [], step["link_mbit_per_second"], step["cross_share"] * rate / 1e6
        if (cross := step["cross_mbit_per_second"]) < FULL * wanted:
            found.append(f"the cross load had {cross:.0f} of {wanted:.0f} Mbit/s")
        if step["busiest_thread"] > FULL and link < FULL * rate / 1e6:
            found.append(f"a thread wanted a processor all the time, and the link had {link:.0f} Mbit/s")
        if found:
            reasons.append(f"at {step['cross_share']:.0%} {' and '.join(found)}")
    return reasons


def judge(measured, rate, alone):
    """Verdicts are None where the machine may be the reason; in words, that is a doubt more."""
    mbit, of_alone = rate / 1e6, measured["foreground_p99_ms"] / alone["foreground_p99_ms"]
    if not measured["background"]:
        return {"p99_of_alone": of_alone}
    steps, doubts = measured["steps"], measured["doubts"]
    least = min(step["background_mbit_per_second"] for step in steps)
    left = sum((1 - FOREGROUND_SHARE - step["cross_share"]) * mbit for step in steps)
    used = sum(step["background_mbit_per_second"] for step in steps) / left
    floor, foreground = least >= FLOOR_SHARE * mbit, of_alone <= 1.1
    if doubts:
        floor = foreground = None
    if floor is False and all(step["background_mbit_per_second"] >= FLOOR_SHARE * mbit * (1 - step["most_waited"]) for step in steps):
        floor = None
        doubts.append(f"a thread waited for a processor for up to {max(step['most_waited'] for step in steps):.0%} of a step")
    if foreground is not None and alone["doubts"]:
        foreground = None
        doubts.append(f"{alone['name']} has doubts")
    elif foreground is not None and late_for(foreground, measured, alone):
        foreground = None
        doubts.append(f"requests left {measured['foreground_late_p99_ms']:.1f} ms late (p99), those of {alone['name']} "
                      f"{alone['foreground_late_p99_ms']:.1f} ms")
    return {"p99_of_alone": of_alone, "least_background_share": least / mbit, "left_over_used": used, "floor_kept": floor,
            "foreground_kept": foreground}


def late_for(kept, measured, alone):
    """Whether requests that left late may be why a row seems to keep the foreground, or not to."""
    if kept:
        return alone["foreground_late_p99_ms"] > 0.1 * alone["foreground_p99_ms"]
    return measured["foreground_p99_ms"] - measured["foreground_late_p99_ms"] <= 1.1 * alone["foreground_p99_ms"]


def cells(measured):
    """A row of the document's table."""
    speeds = " / ".join(f"{step['background_mbit_per_second']:.1f}" for step in measured["steps"])
    p99 = f"{measured['foreground_p99_ms']:.1f}"
    judged = measured["judged"]
    if "floor_kept" not in judged:
        return [measured["name"], p99, f"{judged['p99_of_alone']:.1f}", "-", "-", "-", "-"]
    word = {True: "yes", False: "no", None: "?"}
    return [measured["name"], p99, f"{judged['p99_of_alone']:.1f}", speeds, f"{judged['left_over_used']:.0%}",
            word[judged["foreground_kept"]], word[judged["floor_kept"]]]


def below(rows):
    """What stands below a table; the rows of older records have no doubts."""
    lines = [f"- {row['name']}: {'; '.join(row['doubts'])}" for row in rows if row.get("doubts")]
    return ["", "Verdicts are `?` where this machine may be the reason. Steps are named by their cross load:", "", *lines] if lines else []


HEAD = ["background", "foreground p99, ms", "times alone", "background, Mbit/s, at 0 / 80 / 20 % cross load", "of what is left over",
        "p99 within 10 %", "floor kept"]
MARKS = ("<!-- proof: written by bench/proof.py -->", "<!-- end of proof -->")


def section(record):
    lines = [MARKS[0]]
    for link in record["links"]:
        lines += ["", f"A link of {link['mbit_per_second']:g} Mbit/s, steps of {record['step_seconds']:g} s:", "",
                  "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(row["cells"]) + " |" for row in link["rows"]]
        lines += below(link["rows"])
    return "\n".join([*lines, "", "![Background rate and foreground latency](proof.svg)", "", MARKS[1]])


def place(points):
    """Where the number of each point stands beside it, in points of the page. Numbers and dots do not collide if there is room."""
    directions = [(1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    ways = [(11 * step * x, 9 * step * y) for step in (1, 2, 3) for x, y in directions]
    taken, offsets = list(points), []
    for x, y in points:
        others = [point for point in taken if point != (x, y)]
        free = [way for way in ways if all(abs(x + way[0] - a) > 10 or abs(y + way[1] - b) > 7 for a, b in others)]
        offset = (free or ways)[0]
        taken.append((x + offset[0], y + offset[1]))
        offsets.append(offset)
    return offsets


def draw(record, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pliant"
    from matplotlib import pyplot
    links = record["links"]
    all_points = []
    figure, axes = pyplot.subplots(len(links), 1, figsize=(10, 4.2 * len(links)), squeeze=False)
    for (axis,), link in zip(axes, links):
        drawn = [row for row in link["rows"] if "floor_kept" in row["judged"]]
        points = [(row["judged"]["left_over_used"] * 100, row["judged"]["p99_of_alone"]) for row in drawn]
        for row, point in zip(drawn, points):
            marker = "D" if "door" in row["name"] else "o"
            # Hollow: without one of the verdicts.
            filled = "none" if row.get("doubts") else "full"
            axis.plot(*point, marker, color="tab:blue" if "door" in row["name"] else "tab:gray", fillstyle=filled)
        axis.axhline(1.1, linewidth=0.6, linestyle="--", color="black")
        axis.set(yscale="log", xlabel="background: share of what is left over, %", ylabel="foreground p99, times alone",
                 title=f"{link['mbit_per_second']:g} Mbit/s: lower and further right is better")
        # Names would cover each other: dots have numbers, and the names stand beside the plot.
        names = [f"{number}  {row['name']}" for number, row in enumerate(drawn, 1)]
        axis.text(1.02, 1, "\n".join(names), transform=axis.transAxes, fontsize=8, va="top", linespacing=1.6)
        all_points.append(points)
    figure.tight_layout()
    for (axis,), points in zip(axes, all_points):
        pages = axis.transData.transform(points) * 72 / figure.dpi
        for number, (point, offset) in enumerate(zip(points, place([tuple(page) for page in pages])), 1):
            axis.annotate(str(number), point, fontsize=8, xytext=offset, textcoords="offset points", ha="center", va="center")
    figure.savefig(file, metadata={"Date": None})


def version(*words):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return found.group() if found else "unknown"


def keep(arguments, links):
    """Adds links to the record, or replaces them there, and writes what is asked for."""
    programs = {"pliant": (arguments.pliant, "--version"), "rclone": ("rclone", "version"), "curl": ("curl", "--version"),
                "redis": ("redis-server", "--version"), "restic": ("restic", "version"), "rsync": ("rsync", "--version")}
    record = {"seed": arguments.seed, "step_seconds": arguments.step, "kernel": platform.release(), "queue_ms": QUEUE_MS,
              "foreground_share": FOREGROUND_SHARE, "floor_share": FLOOR_SHARE, "processors": os.cpu_count(),
              "versions": {name: version(*words) for name, words in programs.items() if shutil.which(words[0])},
              "links": list(links)}
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


def main():
    if sys.argv[1:2] == ["part"]:
        part, *words = sys.argv[2:]
        numbers = [float(word) if re.fullmatch(r"[\d.]+e?\d*", word) and word.count(".") < 2 else word for word in words]
        {"serve_files": lambda address, port, tos: serve_files(address, int(port), int(tos)), "send_cross": send_cross,
         "drop_cross": drop_cross, "ask_redis": ask_redis}[part](*numbers)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--rate", type=float, action="append", metavar="MBIT", help="rates of the link in Mbit/s [1000, 100, 20]")
    parser.add_argument("--step", type=float, default=30.0, metavar="SECONDS", help="how long each cross load stays")
    parser.add_argument("--transport", action="append", metavar="NAME[,KEY=VALUE...]",
                        help="transports of the door's class, with keys of the class; FLOOR is the rate of the goals "
                        f"[{' '.join(TRANSPORTS)}]")
    parser.add_argument("--only", metavar="PATTERN", help="only rows of such names, and alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="adds these links to the record, or replaces them there")
    parser.add_argument("--write-docs", action="store_true", help="writes the record's table and figure into docs")
    arguments = parser.parse_args()
    if arguments.write_docs and not importlib.util.find_spec("matplotlib"):
        parser.error("the figure of --write-docs needs matplotlib")
    transports = arguments.transport or TRANSPORTS
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # and so cleans up
    links = []
    for mbit in arguments.rate or [1000.0, 100.0, 20.0]:
        rate, rows = int(mbit * 1e6), []
        with (tempfile.TemporaryDirectory(prefix="pliant-proof-") as folder,
              World(arguments.pliant, Path(folder), rate, arguments.seed) as world):
            for row in rows_of(rate, transports):
                if not row["name"].startswith("alone") and not re.search(arguments.only or "", row["name"]):
                    continue
                if (needs := row.get("needs")) and not shutil.which(needs):
                    print(f"left out, not installed: {needs}", file=sys.stderr)
                    continue
                print(f"{mbit:g} Mbit/s: {row['name']}", file=sys.stderr, flush=True)
                rows.append(world.measure(row, arguments.step))
        judge_all(rows, rate)
        print(f"\n{mbit:g} Mbit/s\n| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
        print("\n".join("| " + " | ".join(row["cells"]) + " |" for row in rows))
        print("\n".join(below(rows)), flush=True)
        links.append({"mbit_per_second": mbit, "rows": rows})
        # A link takes half an hour: who ends the script during the next one keeps it.
        keep(arguments, links)


if __name__ == "__main__":
    main()
