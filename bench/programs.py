#!/usr/bin/env python3
"""Unmodified programs through the daemon's doors, between two network namespaces; needs root and Linux.

Usage: programs.py PLIANT [--record FILE] [--idle N]
Every service listens on the far namespace's loopback only, so that nothing reaches it but by the daemons. Programs that are
not installed are left out, and said to be. The exit code is 1 if a program does other than the table of checks says.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

# Of this process, so that runs beside each other do not meet.
NEAR, FAR = f"pliant-near-{os.getpid()}", f"pliant-far-{os.getpid()}"
NEAR_ADDRESS, FAR_ADDRESS = "10.211.0.1", "10.211.0.2"
WEB, GIT, IPERF, REDIS, SSH, RSYNC, ECHO = 8000, 9418, 5201, 6379, 2222, 8873, 7000
# A forward door of a service is at its port plus this: at the port itself nobody listens in the near namespace, so that what
# is to go by the proxy and does not, fails.
DOORS = 10_000
PROXY = 1080
FILE_BYTES = 20_000_000
PATIENCE = 30  # seconds until something that does not come is an error

ECHO_SERVER = f"""
import asyncio
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.close()
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", {ECHO}, backlog=4096) as server:
        await server.serve_forever()
asyncio.run(main())
"""
# 200 connections at once; each ends its half and reads what the service says after that.
ECHO_CLIENT = f"""
import asyncio
async def one(number):
    reader, writer = await asyncio.open_connection("127.0.0.1", {DOORS + ECHO})
    data = bytes([number % 256]) * 100_000
    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()
    _, back = await asyncio.gather(send(), reader.read())
    assert back == data + b"end", len(back)
async def main():
    await asyncio.gather(*map(one, range(200)))
asyncio.run(main())
"""
NODE_CLIENT = f"""
const hash = require('crypto').createHash('sha256');
require('http').get(process.argv[2], from => from.pipe(hash).on('finish', () => console.log(hash.digest('hex'))));
"""


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(word) for word in words]]


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come within {PATIENCE} s")
        time.sleep(0.02)


def listens(namespace, port):
    return f":{port} " in run(*inside(namespace, "ss", "-Hltn"))


class World:
    """Two namespaces with a veth pair, and what runs in them."""

    def __init__(self, pliant, folder, ssh_address="127.0.0.1"):
        self.pliant, self.folder, self.ssh_address, self.processes = pliant, folder, ssh_address, []
        # By name, and by port.
        self.daemons, self.services = {}, {}

    def __enter__(self):
        for namespace in (NEAR, FAR):
            run("ip", "netns", "add", namespace)
        run("ip", "link", "add", "pliant-veth", "netns", NEAR, "type", "veth", "peer", "name", "pliant-veth", "netns", FAR)
        for namespace, address in ((NEAR, NEAR_ADDRESS), (FAR, FAR_ADDRESS)):
            run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "pliant-veth")
            for device in ("lo", "pliant-veth"):
                run("ip", "-n", namespace, "link", "set", device, "up")
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
        for namespace in (NEAR, FAR):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, stderr=subprocess.DEVNULL)

    def start(self, namespace, *words):
        log = open(self.folder / "log", "a", encoding="utf-8")
        process = subprocess.Popen(inside(namespace, *words), stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def serve(self, port, *words):
        if shutil.which(str(words[0])):
            self.services[port] = self.start(FAR, *words)
            until(f"{words[0]} on port {port}", lambda: listens(FAR, port))

    def start_daemons(self, of_class=""):
        """The daemons, whose only class has these keys beside its transport."""
        run(self.pliant, "keygen", self.folder / "lab.key")
        of_class = '[classes.backup]\ntransport = "cubic"\nmax_streams = 20000\n' + of_class
        of_all = 'key = "lab.key"\n' + of_class + "[limits]\npeer_connections = 20000\nuser_connections = 20000\n"
        forwards = "".join(
            f'[[forward]]\nlisten = "127.0.0.1:{DOORS + port}"\nto = "far"\ntarget = "127.0.0.1:{port}"\nclass = "backup"\n'
            for port in (WEB, GIT, IPERF, REDIS, SSH, RSYNC, ECHO)
        )
        proxy = (
            f'[proxy]\nlisten = "127.0.0.1:{PROXY}"\n[[proxy.route]]\nhost = "*"\nto = "far"\nclass = "backup"\n'
        )
        for name, namespace, address, rest in (
            ("far", FAR, FAR_ADDRESS, '[exit]\nallow = ["127.0.0.1:*"]\n'),
            ("near", NEAR, NEAR_ADDRESS, f'[peers]\nfar = "{FAR_ADDRESS}:7411"\n{forwards}{proxy}'),
        ):
            file = self.folder / f"{name}.toml"
            file.write_text(f'listen = "{address}:7411"\ncontrol = "{name}.sock"\n{of_all}{rest}')
            self.daemons[name] = self.start(namespace, self.pliant, "daemon", file)
            until(f"the {name} daemon", (self.folder / f"{name}.sock").exists)

    def start_services(self):
        folder = self.folder
        self.serve(WEB, sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", folder / "web", WEB)
        self.serve(GIT, "git", "daemon", "--listen=127.0.0.1", "--export-all", f"--base-path={folder}/web", "--reuseaddr")
        self.serve(IPERF, "iperf3", "-s", "-B", "127.0.0.1")
        self.serve(REDIS, "redis-server", "--bind", "127.0.0.1", "--port", REDIS, "--save", "", "--dir", folder)
        if shutil.which("/usr/sbin/sshd"):
            Path("/run/sshd").mkdir(exist_ok=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "ssh_key")
            shutil.copy(folder / "ssh_key.pub", folder / "authorized")
            (folder / "sshd.conf").write_text(
                f"ListenAddress {self.ssh_address}:{SSH}\nHostKey {folder}/ssh_key\nAuthorizedKeysFile {folder}/authorized\n"
                "PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n"
            )
            self.serve(SSH, "/usr/sbin/sshd", "-D", "-f", folder / "sshd.conf")
        (folder / "rsyncd.conf").write_text(f"use chroot = no\nuid = 0\ngid = 0\n[web]\npath = {folder}/web\n")
        self.serve(RSYNC, "rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={RSYNC}",
                   f"--config={folder}/rsyncd.conf")
        self.serve(ECHO, sys.executable, "-c", ECHO_SERVER)


def version(*words):
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return found.group() if found else "unknown"


def checks(world, file_hash):
    """Program, its version, door, command, what its output holds, and whether it works."""
    folder, web, by_door = world.folder, f"http://127.0.0.1:{WEB}/file", f"http://127.0.0.1:{DOORS + WEB}/file"
    wrap = [world.pliant, "wrap", "--control", folder / "near.sock", "--class", "backup", "--"]
    hashed = "| sha256sum"
    ssh = f"ssh -i {folder}/ssh_key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    connect = f"-o ProxyCommand='socat - PROXY:127.0.0.1:%h:%p,proxyport={PROXY}'"
    python, node, asyncio_client = sys.executable, version("node", "--version"), folder / "client.py"
    asyncio_client.write_text(ECHO_CLIENT)
    (folder / "client.js").write_text(NODE_CLIENT)
    clone = f"rm -rf {folder}/clone && git clone -q"
    revision = f"&& git -C {folder}/clone rev-parse HEAD"
    head = run("git", "-C", folder / "web/project.git", "rev-parse", "HEAD").strip()
    copied = f"&& sha256sum {folder}/copy/file"
    of_curl, of_ssh = version("curl", "--version"), version("ssh", "-V")
    of_rsync, of_git = version("rsync", "--version"), version("git", "--version")
    for program, of_program, door, command, expected, why_not in (
        ("curl", of_curl, "forward", f"curl -sS {by_door} {hashed}", file_hash, None),
        ("curl", of_curl, "SOCKS5", f"curl -sS --proxy socks5h://127.0.0.1:{PROXY} {web} {hashed}", file_hash, None),
        ("curl", of_curl, "CONNECT", f"curl -sS -p --proxy http://127.0.0.1:{PROXY} {web} {hashed}", file_hash, None),
        ("curl", of_curl, "wrap", f"WRAP curl -sS {web} {hashed}", file_hash, None),
        ("wget", version("wget", "--version"), "wrap", f"WRAP wget -qO- {web} {hashed}", file_hash, None),
        ("git", of_git, "forward", f"{clone} git://127.0.0.1:{DOORS + GIT}/project.git {folder}/clone {revision}", head, None),
        ("git", of_git, "wrap, http", f"{clone.replace('git clone', 'WRAP git clone')} http://127.0.0.1:{WEB}/project.git "
         f"{folder}/clone {revision}", head, None),
        ("iperf3", version("iperf3", "--version"), "forward", f"iperf3 -p {DOORS + IPERF} -c 127.0.0.1 -n 20M", "iperf Done", None),
        ("iperf3", version("iperf3", "--version"), "forward, 16 connections", f"iperf3 -p {DOORS + IPERF} -c 127.0.0.1 -P 16 -n 20M",
         "iperf Done", None),
        ("redis-benchmark", version("redis-server", "--version"), "forward",
         f"redis-benchmark -p {DOORS + REDIS} -q -n 5000 -c 50 -t set,get && redis-cli -p {DOORS + REDIS} ping", "PONG", None),
        ("rsync", of_rsync, "forward", f"rsync -a rsync://127.0.0.1:{DOORS + RSYNC}/web/file {folder}/copy/ {copied}",
         file_hash, None),
        ("rsync", of_rsync, "CONNECT (RSYNC_PROXY)", f"RSYNC_PROXY=127.0.0.1:{PROXY} rsync -a "
         f"rsync://127.0.0.1:{RSYNC}/web/file {folder}/copy/ {copied}", file_hash, None),
        ("ssh", of_ssh, "forward", f"{ssh} -p {DOORS + SSH} 127.0.0.1 cat {folder}/web/file {hashed}", file_hash, None),
        ("ssh", of_ssh, "CONNECT (ProxyCommand)", f"{ssh} -p {SSH} {connect} 127.0.0.1 cat {folder}/web/file {hashed}",
         file_hash, None),
        ("Python asyncio", platform.python_version(), "forward", f"{python} {asyncio_client} && echo good", "good", None),
        ("node", node, "forward", f"node {folder}/client.js {by_door}", file_hash, None),
        ("node", node, "wrap", f"WRAP node {folder}/client.js {web}", file_hash, "reads no proxy variables"),
    ):
        words = command.replace("WRAP", " ".join(map(str, wrap)))
        tools = re.findall(r"\b(curl|wget|git|iperf3|redis-benchmark|rsync|ssh|socat|node)\b", command)
        yield program, of_program, door, words, expected, why_not, [tool for tool in tools if not shutil.which(tool)]


def resident_bytes(process):
    """Memory of a daemon: `ip netns exec` becomes the program."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


IDLE_CLIENT = """
import asyncio, sys
async def main():
    here, port = [], int(sys.argv[2])
    for begin in range(0, int(sys.argv[1]), 100):
        opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(100)))
        for reader, writer in opened:
            writer.write(b"x")
        for reader, writer in opened:
            assert await reader.readexactly(1) == b"x"
        here.extend(opened)
    print("open", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
"""


@contextmanager
def idle_connections(port, count):
    """As many connections to the echo service, open and idle, through a forwarder's near port."""
    client = subprocess.Popen(inside(NEAR, sys.executable, "-c", IDLE_CLIENT, count, port), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        if client.stdout.readline() != "open\n":
            raise SystemExit("the idle connections did not come")
        yield
    finally:
        client.communicate("")


def idle(world, count):
    """Bytes that each daemon's memory grows by for a connection that is open and idle."""
    before = {name: resident_bytes(process) for name, process in world.daemons.items()}
    with idle_connections(DOORS + ECHO, count):
        return {name: round((resident_bytes(process) - before[name]) / count) for name, process in world.daemons.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--record", type=Path)
    parser.add_argument("--idle", type=int, default=10_000)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pliant-programs-"))
    (folder / "web").mkdir()
    data = os.urandom(FILE_BYTES)
    (folder / "web/file").write_bytes(data)
    project = folder / "project"
    run("git", "init", "-q", project)
    (project / "file").write_bytes(data[:1_000_000])
    run("git", "-C", project, "add", "file")
    run("git", "-C", project, "-c", "user.name=x", "-c", "user.email=x@example.invalid", "commit", "-qm", "x")
    run("git", "clone", "-q", "--bare", project, folder / "web/project.git")
    run("git", "-C", folder / "web/project.git", "update-server-info")
    wrong, rows = 0, []
    try:
        with World(arguments.pliant, folder) as world:
            world.start_services()
            world.start_daemons()
            print("| program | version | door | works |\n|---|---|---|---|")
            for program, of_program, door, words, expected, why_not, missing in checks(world, hashlib.sha256(data).hexdigest()):
                if missing:
                    print(f"left out, not installed: {program}, {door}: {', '.join(missing)}", file=sys.stderr)
                    continue
                done = subprocess.run(inside(NEAR, "timeout", 60, "sh", "-c", words), check=False, capture_output=True,
                                      text=True)
                works = done.returncode == 0 and expected in done.stdout
                rows.append({"program": program, "version": of_program, "door": door, "works": works})
                print(f"| {program} | {of_program} | {door} | {'yes' if works else f'no: {why_not}'} |", flush=True)
                if works != (why_not is None):
                    wrong += 1
                    print(f"otherwise than expected: {words}\n{done.stdout[-500:]}{done.stderr[-500:]}", file=sys.stderr)
            grown = idle(world, arguments.idle)
            print(f"\n{arguments.idle} idle connections: " + ", ".join(f"{name} {grown[name]} bytes each" for name in grown))
    finally:
        shutil.rmtree(folder)
    if arguments.record:
        record = {"kernel": platform.release(), "programs": rows,
                  "idle": {"connections": arguments.idle, "bytes_per_connection": grown}}
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
