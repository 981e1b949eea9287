#!/usr/bin/env python3
"""Two daemons for a long time over a bad network: a host on either side of `pliant switch`, each in a network namespace of its own
(needs root), the switch losing, doubling, corrupting and reordering frames, and the link going down for two seconds every
minute. Programs connect through two forward doors of different transports and through the proxy, to a service that says
back what it hears: requests of a byte to a megabyte, some of which the program aborts in the middle; a connection per
door that is busy from the beginning to the end; and idle ones. Files are fetched through the door of objects while they come,
change and go (object_soak.py), and Kafka's clients produce and consume (kafka_soak.py). Meanwhile a stranger without the key attacks both
daemons, their files are read again, a class is changed, and their states are asked for. A third daemon, beside the far one, is a
second source of files and a second exit to Kafka. It is killed every minute, and starts again.

Kafka needs `--kafka`, and Python with what kafka/requirements.txt names. Without, the rest runs.

Fails if a connection fails or brings back other bytes, if the faults or the attacks did not happen, if a daemon ends, or if its
memory or its descriptors have grown: by a line through the means of twelve parts of the time after the warm-up, beyond twice its standard
error. A run below half an hour is too short for that: growth is printed, and does not fail.
"""

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hosts import memory_bytes, until
from programs import ECHO, ECHO_SERVER
from soak import ATTACKER, RECEIVER, SENDER, Network, growth, stop_switch, write_plan
from soak_counts import FAILED, Counts, run_all

# Of the daemons, by their sockets for connections and for files; the third is on the far host.
PORT, FILES_PORT, THIRD_PORT, THIRD_FILES_PORT, MIRROR_PORT = 7411, 7413, 7421, 7423, 7480
OBJECTS, KAFKA = {"near": 7481, "third": 7482}, {"far": 9003, "third": 9004}
CACHE_LIMIT, DISK = "24MB", "64m"
KILL_EVERY, KILLED_SECONDS = 60, 4
# A forward door for each, and the proxy.
DOORS, PROXY = {"cubic": 9001, "bounded": 9002}, 1080
IDLE, IDLE_SECONDS, AT_ONCE = 200, 20, 4
# How long a connection may wait for its share of a class that one packet in twenty is lost of.
PATIENCE_SECONDS = 300
PIECE = 16_384
DOWN_EVERY, DOWN_SECONDS = 60, 2
# Seconds between lines on how far it is.
TOLD_EVERY = 300
# Of connections' descriptors, of which some are always opening or closing.
MORE_DESCRIPTORS = 16
# Caches fill for some minutes.
JUDGED_SECONDS = 1800


def connect(door):
    """A connection to the service through a door: a forward's port, or the proxy's by SOCKS5 or by CONNECT."""
    if door in DOORS:
        return socket.create_connection(("127.0.0.1", DOORS[door]), timeout=PATIENCE_SECONDS)
    connection = socket.create_connection(("127.0.0.1", PROXY), timeout=PATIENCE_SECONDS)
    if door == "socks5":
        connection.sendall(b"\x05\x01\x00")
        require(receive(connection, 2) == b"\x05\x00", "the proxy does not speak SOCKS5")
        connection.sendall(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + struct.pack("!H", ECHO))
        require(receive(connection, 10)[:2] == b"\x05\x00", "the proxy refuses")
    else:
        connection.sendall(f"CONNECT 127.0.0.1:{ECHO} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += receive(connection, 1)
        require(answer.startswith(b"HTTP/1.1 200"), f"the proxy answers {answer}")
    return connection


def require(holds, what):
    if not holds:
        raise ValueError(what)


def receive(connection, count):
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        require(piece, f"ended after {len(content)} of {count} bytes")
        content += piece
    return content


def exchange(connection, content):
    """Sends all while it receives all, and then what the service says at the end."""
    sending = threading.Thread(target=lambda: (connection.sendall(content), connection.shutdown(socket.SHUT_WR)))
    sending.start()
    back = receive(connection, len(content))
    sending.join()
    require(back == content, "other bytes came back")
    require(receive(connection, 3) == b"end", "the service's last word did not come")
    require(connection.recv(1) == b"", "more came back than was sent")


def is_served():
    try:
        with connect("cubic") as connection:
            exchange(connection, b"?")
        return True
    except (OSError, ValueError):
        return False


class Client(Counts):
    """The programs; runs in the near host's namespace."""

    def __init__(self, seconds, seed):
        super().__init__("", seconds)
        self.seed = seed

    def request(self, door, draw):
        size = int(10 ** draw.uniform(0, 6))
        with connect(door) as connection:
            if draw.random() < 0.1:
                connection.sendall(draw.randbytes(size))
                # A reset, with whatever is on the way.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.count("aborted")
                return
            exchange(connection, draw.randbytes(size))
            self.count(f"requests by {door}")
            self.count("bytes", size)

    def requests(self, seed):
        draw = random.Random(seed)
        doors = [*DOORS, "socks5", "connect"]
        while time.monotonic() < self.end:
            door = draw.choice(doors)
            self.guard(f"a request by {door}", self.request, door, draw)

    def busy(self, door):
        with connect(door) as connection:
            while time.monotonic() < self.end:
                piece = os.urandom(PIECE)
                connection.sendall(piece)
                require(receive(connection, PIECE) == piece, "other bytes came back")
                self.count(f"pieces by {door}")
                time.sleep(0.05)

    def wake(self, idle):
        """A byte there and back on each idle connection, again and again, with long pauses between."""
        begun = time.monotonic()
        while time.monotonic() < self.end:
            for number, (door, connection) in list(idle.items()):
                try:
                    connection.sendall(b"?")
                    require(receive(connection, 1) == b"?", "another byte came back")
                except (OSError, ValueError) as error:
                    self.fail(f"idle connection {number} by {door}, after {time.monotonic() - begun:.0f} s: {error!r}")
                    idle.pop(number)[1].close()
            self.count("wake-ups", len(idle))
            time.sleep(IDLE_SECONDS)

    def run(self):
        # A door resets what comes before the service listens.
        until("the service", is_served)
        doors = [random.Random(number).choice([*DOORS, "socks5"]) for number in range(IDLE)]
        idle = {number: (door, connect(door)) for number, door in enumerate(doors)}
        threads = [threading.Thread(target=self.wake, args=(idle,))]
        threads += [threading.Thread(target=self.requests, args=(self.seed + number,)) for number in range(AT_ONCE)]
        threads += [threading.Thread(target=self.guard, args=(f"busy by {door}", self.busy, door)) for door in DOORS]
        run_all(threads)
        for number, (door, connection) in idle.items():
            with connection:
                self.guard(f"idle connection {number} by {door}, at the end", exchange, connection, b"still there")
        self.tell()


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return None


def write_files(folder, rate, seed, broker):
    write_plan(folder / "plan.toml", rate, seed)
    transports = {name: name for name in DOORS} | {"files": "weighted-fair"} | ({"kafka": "dctcp"} if broker else {})
    classes = "".join(f'[classes.{name}]\ntransport = "{transport}"\n' for name, transport in transports.items())
    forwards = "".join(f'[[forward]]\nlisten = "127.0.0.1:{port}"\nto = "far"\ntarget = "127.0.0.1:{ECHO}"\nclass = "{name}"\n'
                       for name, port in DOORS.items())
    proxy = f'[proxy]\nlisten = "127.0.0.1:{PROXY}"\n[[proxy.route]]\nhost = "*"\nto = "far"\nclass = "cubic"\n'
    kafka = "".join(f'[[kafka]]\nlisten = "127.0.0.1:{port}"\nto = "{name}"\nbootstrap = "{broker}"\nclass = "kafka"\n'
                    + "".join(f'[kafka.topics."{carry}-*"]\nmin_delivery = 0.8\nwhen = "always"\ncarry = "{carry}"\n'
                              for carry in ("stream", "messages")) for name, port in KAFKA.items()) if broker else ""
    ledger = 'kafka_ledger = "{}.ledger"\n' if broker else ""
    allowed = json.dumps([f"127.0.0.1:{ECHO}", *([broker] if broker else [])])
    exits = f"[exit]\nallow = {allowed}\n{ledger}"
    peers = f'[peers]\nfar = "{RECEIVER}:{PORT}"\nthird = "{RECEIVER}:{THIRD_PORT}"\n'
    mirrors = f'mirrors = ["http://{RECEIVER}:{MIRROR_PORT}/"]\n'
    files = {"near": f"{SENDER}:{FILES_PORT}", "far": f"{RECEIVER}:{FILES_PORT}", "third": f"{RECEIVER}:{THIRD_FILES_PORT}"}
    for name, listen, offered, cache, of_objects, rest in (
            ("near", f"{SENDER}:{PORT}", "of_near", "near.cache", mirrors, f"{peers}{forwards}{proxy}{kafka}"),
            ("far", f"{RECEIVER}:{PORT}", "of_far", "far.cache", "", exits.format("far")),
            ("third", f"{RECEIVER}:{THIRD_PORT}", "of_far", "disk/cache", "", exits.format("third"))):
        door = f'door = "127.0.0.1:{OBJECTS[name]}"\n' if name in OBJECTS else ""
        sources = "".join(f'{other} = "{at}"\n' for other, at in files.items() if other != name)
        (folder / f"{name}.toml").write_text(
            f'listen = "{listen}"\ncontrol = "{name}.sock"\nkey = "key"\n{classes}{rest}'
            f'[objects]\nlisten = "{files[name]}"\nclass = "files"\noffer = ["{offered}"]\ncache = "{cache}"\n'
            f'cache_limit = "{CACHE_LIMIT}"\n{door}{of_objects}[objects.folders.tree_{offered}]\npath = "tree_{offered}"\n'
            f"[objects.sources]\n{sources}")
    for name in ("of_near", "of_far", "tree_of_near", "tree_of_far", "disk", "scratch"):
        (folder / name).mkdir()


def disturb(pliant, folder, network, over, counts, failures):
    """The link goes down, files are read again, a class is changed and states are asked for."""
    def command(end, *words):
        said = subprocess.run([pliant, *words, "--control", folder / f"{end}.sock"], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        if said.returncode:
            failures.append(f"{' '.join(words)} of the {end} daemon: {said.stderr.strip()}")
        counts[words[0] if words[0] == "status" else words[1]] += 1

    turn = 0
    while not over.wait(DOWN_EVERY / 4):
        turn += 1
        for end in ("near", "far"):
            command(end, "status", "--json")
        match turn % 4:
            case 1:
                command("near", "daemon", "set", "cubic", f"max_rate={random.choice(('20Mbit/s', '30Mbit/s', 'none'))}")
            case 2:
                command("near", "daemon", "reload")
            case 3:
                command("far", "daemon", "reload")
            case 0:
                for state in ("down", "up"):
                    subprocess.run(network.inside(network.switch, *f"ip link set dev p1 {state}".split()), check=True)
                    if state == "down":
                        over.wait(DOWN_SECONDS)
                counts["outages"] += 1


def kill(start, processes, file, over, counts):
    """Kills the third daemon and starts it again; when it was away goes to the file."""
    away = []

    def note():
        part = file.with_suffix(".part")
        part.write_text(json.dumps(away))
        part.rename(file)

    while not over.wait(random.uniform(0.5, 1.5) * KILL_EVERY):
        away.append([time.monotonic(), None])
        note()
        processes["third"].kill()
        processes["third"].wait()
        over.wait(KILLED_SECONDS)
        start()
        counts["kills"] += 1
        away[-1][1] = time.monotonic()
        note()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pliant", help="path of the pliant binary")
    arguments.add_argument("--seconds", type=float, default=3600)
    arguments.add_argument("--every", type=float, default=10, help="seconds between samples of memory")
    arguments.add_argument("--rate", type=int, default=50, help="Mbit/s of the link")
    arguments.add_argument("--seed", type=int, default=1, help="of the requests and of the switch's faults")
    arguments.add_argument("--kafka", type=Path, help="folder of kafka/run.py, with jars/ of the broker")
    arguments.add_argument("--out", type=Path, help="writes the samples and the result here, as JSON")
    arguments.add_argument("--logs", type=Path, metavar="FOLDER", help="copies what the processes wrote here at the end")
    arguments.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.client:
        return Client(given.seconds, given.seed).run()
    if os.geteuid() != 0:
        sys.exit("daemon_soak.py: network namespaces need root")
    if given.seconds < 200:
        sys.exit("daemon_soak.py: --seconds must be at least 200")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("daemon_soak.py: ended by SIGTERM"))
    pliant, network, failures, processes = Path(given.pliant).resolve(), Network(), [], {}
    counts = dict.fromkeys(("outages", "reload", "set", "status", "kills"), 0)
    jars = given.kafka / "jars" if given.kafka else None
    if jars is None or not jars.exists() or not importlib.util.find_spec("confluent_kafka") or not importlib.util.find_spec("kafka"):
        print("daemon_soak.py: without Kafka, which needs --kafka and the Python packages of kafka/requirements.txt", file=sys.stderr)
        jars = None
    samples = {name: {"bytes": [], "descriptors": []} for name in ("near", "far")}
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="pliant-daemon-soak.") as path:
        folder = Path(path)
        subprocess.run([pliant, "keygen", folder / "key"], check=True, capture_output=True)

        def start(name, host, *words, **more):
            processes[name] = network.start(host, folder / f"{name}.log", *words, cwd=folder, **more)
            return processes[name]

        def start_part(script, name, host, *words):
            command = [sys.executable, Path(__file__).with_name(script), *words]
            return start(name, host, *command, stdout=subprocess.PIPE, text=True)

        def start_third():
            # The disk of its cache is small, and stays when it is killed.
            with (folder / "third.log").open("a") as log:
                inside = ["nsenter", "--target", str(processes["disk"].pid), "--mount", "--net", pliant, "daemon", folder / "third.toml"]
                processes["third"] = subprocess.Popen(inside, cwd=folder, stdout=log, stderr=log)

        def log(name):
            return (folder / f"{name}.log").read_text().strip()

        def sample():
            begun = told = time.monotonic()
            while not over.wait(given.every):
                for name, of in samples.items():
                    pid = processes[name].pid
                    for key, value in (("bytes", memory_bytes(pid)), ("descriptors", descriptors(pid))):
                        if value is not None:
                            of[key].append(value)
                if time.monotonic() - told >= TOLD_EVERY:
                    told = time.monotonic()
                    failed = sum(log(part).count(FAILED) for part in ("client", *parts))
                    memory = ", ".join(f"{name} {of['bytes'][-1] / 2**20:.1f} MiB" for name, of in samples.items() if of["bytes"])
                    print(f"{(told - begun) / 60:.0f} of {given.seconds / 60:.0f} minutes: {memory}, {failed} failures", file=sys.stderr, flush=True)

        threads = [threading.Thread(target=sample),
                   threading.Thread(target=disturb, args=(pliant, folder, network, over, counts, failures)),
                   threading.Thread(target=kill, args=(start_third, processes, folder / "away", over, counts))]
        try:
            subprocess.run(network.inside(network.second, *"ip link set dev lo up".split()), check=True)
            subprocess.run(network.inside(network.first, *"ip link set dev lo up".split()), check=True)
            if jars:
                (folder / "jars").symlink_to(jars.resolve())
                start_part("kafka_soak.py", "broker", network.second, "broker", folder, folder / "broker")
                until("the broker", (folder / "broker").exists, 2 * PATIENCE_SECONDS)
            write_files(folder, given.rate, given.seed, (folder / "broker").read_text() if jars else None)
            start("switch", network.switch, pliant, "switch", folder / "plan.toml")
            start("service", network.second, sys.executable, "-c", ECHO_SERVER)
            start("far", network.second, pliant, "daemon", folder / "far.toml")
            start("near", network.first, pliant, "daemon", folder / "near.toml")
            tmpfs = f"mount -t tmpfs -o size={DISK} disk '{folder}/disk' && exec sleep infinity"
            start("disk", network.second, "unshare", "--mount", "sh", "-c", tmpfs)
            until("the disk", lambda: os.path.ismount(f"/proc/{processes['disk'].pid}/root{folder}/disk"))
            start_third()
            until("the daemons", lambda: all((folder / f"{end}.sock").exists() for end in (*samples, "third")))
            start_part("object_soak.py", "mirror", network.second, "mirror", "--address", RECEIVER, "--door", MIRROR_PORT,
                       "--offered", folder / "of_far")
            both = ("--pliant", pliant, "--key", folder / "key", "--scratch", folder / "scratch", "--seconds", given.seconds, "--seed", given.seed)
            parts = {"objects near": start_part(
                "object_soak.py", "objects near", network.first, "near", *both, "--offered", folder / "of_far", "--tree", folder / "tree_of_far",
                "--door", OBJECTS["near"], "--sources", f"{RECEIVER}:{FILES_PORT}", f"{RECEIVER}:{THIRD_FILES_PORT}")}
            parts["objects far"] = start_part(
                "object_soak.py", "objects far", network.second, "far", *both, "--offered", folder / "of_near", "--tree", folder / "tree_of_near",
                "--door", OBJECTS["third"], "--sources", f"{SENDER}:{FILES_PORT}", "--away", folder / "away",
                "--disk", f"/proc/{processes['disk'].pid}/root{folder}/disk/filler")
            if jars:
                parts["kafka"] = start_part("kafka_soak.py", "kafka", network.first, "clients", pliant, folder, json.dumps(KAFKA),
                                            "--seconds", given.seconds, "--seed", given.seed)
            attack = [sys.executable, Path(__file__).with_name("attacker.py"), ATTACKER, SENDER, RECEIVER, PORT, FILES_PORT]
            stranger = start("attacker", network.first, *attack, stdout=subprocess.PIPE, text=True)
            words = [sys.executable, __file__, pliant, "--client", "--seconds", given.seconds, "--seed", given.seed]
            client = start("client", network.first, *words, stdout=subprocess.PIPE, text=True)
            for thread in threads:
                thread.start()
            said, _ = client.communicate()
            # Kafka's readers have to come to the end.
            of_parts = {name: part.communicate(timeout=2 * PATIENCE_SECONDS)[0] for name, part in parts.items()}
            over.set()
            for thread in threads:
                thread.join()
            done = json.loads(said) if client.returncode == 0 else {"counts": {}, "failures": [log("client")]}
            failures += done["failures"]
            for name, text in of_parts.items():
                told = json.loads(text) if parts[name].returncode == 0 else {"counts": {}, "failures": [f"{name}: {log(name)}"]}
                done["counts"][name] = told["counts"]
                failures += told["failures"]
            processes["mirror"].terminate()
            done["counts"]["mirror"] = json.loads(processes["mirror"].communicate(timeout=60)[0] or "{}")
            if not all(done["counts"]["mirror"].values()):
                failures.append(f"the mirror was not asked, or did not lie: {done['counts']['mirror']}")
            stranger.send_signal(signal.SIGTERM)
            attacks = json.loads(stranger.communicate(timeout=60)[0] or "{}")
            if not attacks or not all(attacks.values()):
                failures.append(f"attacks that did not happen: {attacks}")
            for name in samples:
                if processes[name].poll() is not None:
                    failures.append(f"the {name} daemon ended: {log(name)}")
            if not all(counts.values()):
                failures.append(f"disturbances that did not happen: {counts}")
            faults, missing = stop_switch(processes["switch"], folder / "switch.log")
            if missing:
                failures.append(f"faults that did not happen: {', '.join(missing)}")
        finally:
            over.set()
            for thread in threads:
                if thread.ident:
                    thread.join()
            if jars and "broker" in processes:
                # It ends the broker itself.
                processes["broker"].terminate()
                processes["broker"].wait()
            for process in processes.values():
                process.kill()
                process.wait()
            network.close()
            if given.logs:
                given.logs.mkdir(parents=True, exist_ok=True)
                for file in folder.glob("*.log"):
                    shutil.copy(file, given.logs)

    result = {"seconds": given.seconds, **done["counts"], "disturbances": counts, "attacks": attacks, "faults": faults}
    for name, of in samples.items():
        early, late, error, grown = growth(of["bytes"], given.every)
        few, many, off, opened = growth(of["descriptors"], given.every, share=0, more=MORE_DESCRIPTORS)
        print(f"{name:5} {early / 2**20:7.2f} MiB after the warm-up, {late / 2**20:7.2f} at the end, {error / 2**20:.2f} standard error, "
              f"{max(of['bytes']) / 2**20:7.2f} at most; descriptors {few:.0f}, {many:.0f}, {off:.0f} standard error")
        result[name] = {"after_warm_up": round(early), "end": round(late), "error": round(error), "peak": max(of["bytes"]), "descriptors": [few, many]}
        if given.seconds < JUDGED_SECONDS:
            continue
        if grown:
            failures.append(f"the {name} daemon's memory grew from {early:.0f} to {late:.0f} bytes")
        if opened:
            failures.append(f"the {name} daemon's descriptors grew from {few:.0f} to {many:.0f}")
    print(json.dumps({key: value for key, value in result.items() if key not in samples}))
    if given.out:
        given.out.write_text(json.dumps({**result, "samples": samples, "failures": failures}) + "\n")
    for failure in failures[:20]:
        print(f"daemon_soak.py: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
