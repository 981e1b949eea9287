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
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from hosts import PATIENCE, add_namespace, inside, memory_bytes, run, until

# Of this process, so that runs beside each other do not meet.
NEAR, FAR = f"pliant-near-{os.getpid()}", f"pliant-far-{os.getpid()}"
NEAR_ADDRESS, FAR_ADDRESS = "10.211.0.1", "10.211.0.2"
WEB, GIT, IPERF, REDIS, SSH, RSYNC, ECHO, NGINX, POSTGRES = 8000, 9418, 5201, 6379, 2222, 8873, 7000, 8090, 5432
SERVICES = (WEB, GIT, IPERF, REDIS, SSH, RSYNC, ECHO, NGINX, POSTGRES)
# An address of the far host that the near one has no way to: programs that take no proxy for 127.0.0.1 take one for it.
INNER_ADDRESS = "10.211.9.1"
POSTGRES_PROGRAMS = Path("/usr/lib/postgresql/15/bin")
# A forward door of a service is at its port plus this: at the port itself nobody listens in the near namespace, so that what
# is to go by the proxy and does not, fails.
DOORS = 10_000
# Of a daemon, for itself and in reserve.
SPARE_DESCRIPTORS = 100
PROXY = 1080
FILE_BYTES = 20_000_000

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
# So many connections at once; each ends its half and reads what the service says after that.
ECHO_CLIENT = """
import asyncio, sys
async def one(number):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    data = bytes([number % 256]) * 100_000
    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()
    _, back = await asyncio.gather(send(), reader.read())
    assert back == data + b"end", len(back)
async def main():
    await asyncio.gather(*map(one, range(int(sys.argv[2]))))
asyncio.run(main())
"""
NODE_CLIENT = f"""
const hash = require('crypto').createHash('sha256');
require('http').get(process.argv[2], from => from.pipe(hash).on('finish', () => console.log(hash.digest('hex'))));
"""

# A selector with 50 connections, as Java's servers and clients have them.
JAVA_CLIENT = """
import java.net.*; import java.nio.*; import java.nio.channels.*;
public class Client {
    public static void main(String[] words) throws Exception {
        int left = 50, size = 100_000;
        Selector selector = Selector.open();
        for (int i = 0; i < left; i++) {
            SocketChannel channel = SocketChannel.open();
            channel.configureBlocking(false);
            channel.connect(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])));
            channel.register(selector, SelectionKey.OP_CONNECT, new ByteBuffer[] {ByteBuffer.allocate(size), ByteBuffer.allocate(size + 4)});
        }
        while (left > 0) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                SocketChannel channel = (SocketChannel) key.channel();
                ByteBuffer[] buffers = (ByteBuffer[]) key.attachment();
                if (key.isConnectable() && channel.finishConnect()) key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                if (key.isValid() && key.isWritable()) {
                    channel.write(buffers[0]);
                    if (!buffers[0].hasRemaining()) { channel.shutdownOutput(); key.interestOps(SelectionKey.OP_READ); }
                }
                if (key.isValid() && key.isReadable() && channel.read(buffers[1]) < 0) {
                    if (buffers[1].position() != size + 3) throw new Exception("short: " + buffers[1].position());
                    channel.close();
                    left--;
                }
            }
            selector.selectedKeys().clear();
        }
        System.out.println("good");
    }
}
"""


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
            add_namespace(namespace)
        run("ip", "link", "add", "pliant-veth", "netns", NEAR, "type", "veth", "peer", "name", "pliant-veth", "netns", FAR)
        for namespace, address in ((NEAR, NEAR_ADDRESS), (FAR, FAR_ADDRESS)):
            run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "pliant-veth")
            for device in ("lo", "pliant-veth"):
                run("ip", "-n", namespace, "link", "set", device, "up")
        run("ip", "-n", FAR, "address", "add", f"{INNER_ADDRESS}/32", "dev", "lo")
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
        if not (self.folder / "lab.key").exists():
            run(self.pliant, "keygen", self.folder / "lab.key")
        of_class = '[classes.backup]\ntransport = "cubic"\nmax_streams = 20000\n' + of_class
        of_all = 'key = "lab.key"\n' + of_class + "[limits]\npeer_connections = 20000\nuser_connections = 20000\n"
        forwards = "".join(
            f'[[forward]]\nlisten = "127.0.0.1:{DOORS + port}"\nto = "far"\ntarget = "127.0.0.1:{port}"\nclass = "backup"\n'
            for port in SERVICES
        )
        proxy = (
            f'[proxy]\nlisten = "127.0.0.1:{PROXY}"\n[[proxy.route]]\nhost = "*"\nto = "far"\nclass = "backup"\n'
        )
        preload = '[preload]\nsocket = "preload.sock"\n' + "".join(
            f'[[preload.rule]]\nservice = "127.0.0.1:{port}"\nto = "far"\nclass = "backup"\n' for port in SERVICES
        )
        for name, namespace, address, rest in (
            ("far", FAR, FAR_ADDRESS, f'[exit]\nallow = ["127.0.0.1:*", "{INNER_ADDRESS}:*"]\n'),
            ("near", NEAR, NEAR_ADDRESS, f'[peers]\nfar = "{FAR_ADDRESS}:7411"\n{forwards}{preload}{proxy}'),
        ):
            file = self.folder / f"{name}.toml"
            file.write_text(f'listen = "{address}:7411"\ncontrol = "{name}.sock"\n{of_all}{rest}')
            # One that was killed has left its own.
            control = self.folder / f"{name}.sock"
            control.unlink(missing_ok=True)
            self.daemons[name] = self.start(namespace, self.pliant, "daemon", file)
            until(f"the {name} daemon", control.exists)

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
                "PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\nSubsystem sftp internal-sftp\n"
            )
            self.serve(SSH, "/usr/sbin/sshd", "-D", "-f", folder / "sshd.conf")
        (folder / "rsyncd.conf").write_text(f"use chroot = no\nuid = 0\ngid = 0\n[web]\npath = {folder}/web\n")
        self.serve(RSYNC, "rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={RSYNC}",
                   f"--config={folder}/rsyncd.conf")
        self.serve(ECHO, sys.executable, "-c", ECHO_SERVER)
        self.serve_file_elsewhere()
        self.serve_nginx(FAR, NGINX, f"root {folder}/web;")
        self.serve_postgres()

    def serve_file_elsewhere(self):
        self.start(FAR, sys.executable, "-m", "http.server", "--bind", INNER_ADDRESS, "--directory", self.folder / "web", WEB)
        until("the second web server", lambda: f"{INNER_ADDRESS}:{WEB} " in run(*inside(FAR, "ss", "-Hltn")))

    def serve_nginx(self, namespace, port, location, *before):
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        if not Path(program).exists():
            return
        (self.folder / f"nginx-{port}.conf").write_text(
            f"daemon off; master_process off; user root; pid {self.folder}/nginx-{port}.pid; error_log stderr;\n"
            f"events {{}}\nhttp {{ access_log off; client_body_temp_path {self.folder}/body-{port};\n"
            f"proxy_temp_path {self.folder}/proxy-{port}; proxy_connect_timeout 5s; proxy_max_temp_file_size 0;\n"
            f"server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }} }}\n"
        )
        self.start(namespace, *before, program, "-c", self.folder / f"nginx-{port}.conf", "-e", "stderr")
        until("nginx", lambda: listens(namespace, port))

    def serve_postgres(self):
        if not POSTGRES_PROGRAMS.exists():
            return
        data = self.folder / "postgres"
        data.mkdir()
        self.folder.chmod(0o755)
        shutil.chown(data, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        run(*as_user, POSTGRES_PROGRAMS / "initdb", "-D", data, "-A", "trust", "--no-sync", cwd="/")
        self.start(FAR, *as_user, POSTGRES_PROGRAMS / "postgres", "-D", data, "-h", "127.0.0.1", "-p", POSTGRES, "-k", data,
                   "-c", "fsync=off")
        until("postgres", lambda: subprocess.run(
            inside(FAR, POSTGRES_PROGRAMS / "pg_isready", "-h", "127.0.0.1"), check=False, capture_output=True).returncode == 0)


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
    (folder / "Client.java").write_text(JAVA_CLIENT)
    java, of_nginx = version("java", "-version"), version("/usr/sbin/nginx", "-v")
    of_rclone, of_restic, of_postgres = version("rclone", "version"), version("restic", "version"), version("psql", "--version")
    rclone = f"rm -rf {folder}/copy/file && rclone copy --config /dev/null :http:file {folder}/copy"
    no_proxy = "WRAP env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY -u all_proxy -u ALL_PROXY"
    restic = (f"RESTIC_PASSWORD=x restic --no-cache -r sftp:127.0.0.1:{folder}/backup "
              f"-o sftp.command='{ssh} -p {DOORS + SSH} 127.0.0.1 -s sftp'")
    # The standby copies all of the primary through the door, then follows it: what is written there is read here.
    standby, as_user = folder / "standby", "setpriv --reuid=postgres --regid=postgres --clear-groups"
    replica = (
        f"install -d -o postgres -g postgres -m 700 {standby} && cd / && "
        f"{as_user} {POSTGRES_PROGRAMS}/pg_basebackup -c fast -h 127.0.0.1 -p {DOORS + POSTGRES} -U postgres -D {standby} -R && "
        f"{as_user} {POSTGRES_PROGRAMS}/pg_ctl -s -w -D {standby} -o '-h 127.0.0.1 -p 5433 -k {standby} -c fsync=off' "
        f"-l {standby}/log start && psql -q -h 127.0.0.1 -p {DOORS + POSTGRES} -U postgres "
        "-c 'create table numbers as select generate_series(1, 100000)' && "
        "for i in $(seq 100); do psql -h 127.0.0.1 -p 5433 -U postgres -Atc 'select pg_is_in_recovery(), count(*) from numbers' "
        f"2> /dev/null && break; sleep 0.1; done; {as_user} {POSTGRES_PROGRAMS}/pg_ctl -s -D {standby} -m fast stop"
    )
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
        ("Python asyncio", platform.python_version(), "forward", f"{python} {asyncio_client} {DOORS + ECHO} 200 && echo good", "good", None),
        ("Python asyncio", platform.python_version(), "forward, 1,000 connections at once",
         f"{python} {asyncio_client} {DOORS + ECHO} 1000 && echo good", "good", None),
        ("node", node, "forward", f"node {folder}/client.js {by_door}", file_hash, None),
        ("node", node, "preload", f"WRAP node {folder}/client.js {web}", file_hash, None),
        ("curl", of_curl, "preload", f"WRAP curl -sS --noproxy '*' {web} {hashed}", file_hash, None),
        ("git", of_git, "preload", f"{clone.replace('git clone', 'WRAP git clone')} git://127.0.0.1:{GIT}/project.git "
         f"{folder}/clone {revision}", head, None),
        ("iperf3", version("iperf3", "--version"), "preload", f"WRAP iperf3 -p {IPERF} -c 127.0.0.1 -P 4 -n 20M", "iperf Done", None),
        ("redis-benchmark", version("redis-server", "--version"), "preload",
         f"WRAP redis-benchmark -p {REDIS} -q -n 5000 -c 50 -t set,get && WRAP redis-cli -p {REDIS} ping", "PONG", None),
        ("rsync", of_rsync, "preload", f"WRAP rsync -a rsync://127.0.0.1:{RSYNC}/web/file {folder}/copy/ {copied}", file_hash,
         None),
        ("ssh", of_ssh, "preload", f"WRAP {ssh} -p {SSH} 127.0.0.1 cat {folder}/web/file {hashed}", file_hash, None),
        ("Python asyncio", platform.python_version(), "preload", f"WRAP {python} {asyncio_client} {ECHO} 200 && echo good", "good",
         None),
        ("Java NIO", java, "forward", f"java {folder}/Client.java {DOORS + ECHO}", "good", None),
        ("Java NIO", java, "preload", f"WRAP java {folder}/Client.java {ECHO}", "good", None),
        ("nginx", of_nginx, "forward", f"curl -sS http://127.0.0.1:{DOORS + NGINX}/file {hashed}", file_hash, None),
        ("nginx as a proxy", of_nginx, "preload", f"curl -sS http://127.0.0.1:{DOORS - 1}/file {hashed}", file_hash,
         "it adds its socket to epoll before it connects, and the one in its place is not there"),
        ("rclone", of_rclone, "forward", f"{rclone} --http-url http://127.0.0.1:{DOORS + WEB} {copied}", file_hash, None),
        ("rclone", of_rclone, "wrap", f"{rclone.replace('rclone', 'WRAP rclone', 1)} --http-url http://{INNER_ADDRESS}:{WEB} {copied}",
         file_hash, None),
        ("rclone", of_rclone, "preload", f"{rclone.replace('rclone', no_proxy + ' rclone', 1)} --http-url http://127.0.0.1:{WEB} {copied}", file_hash,
         "a Go program calls the kernel itself"),
        ("restic", of_restic, "forward, sftp", f"{restic} init -q && {restic} backup -q {folder}/web && "
         f"{restic} restore -q latest --target {folder}/restored && sha256sum {folder}/restored{folder}/web/file", file_hash, None),
        ("psql", of_postgres, "preload", f"WRAP psql -h 127.0.0.1 -U postgres -Atc 'select 6 * 7'", "42", None),
        ("pgbench", of_postgres, "forward", f"pgbench -i -q -h 127.0.0.1 -p {DOORS + POSTGRES} -U postgres postgres && "
         f"pgbench -c 4 -t 50 -h 127.0.0.1 -p {DOORS + POSTGRES} -U postgres postgres", "number of failed transactions: 0", None),
        ("PostgreSQL replica", of_postgres, "forward", replica, "t|100000", None),
    ):
        words = command.replace("WRAP", " ".join(map(str, wrap)))
        tools = re.findall(r"\b(curl|wget|git|iperf3|redis-benchmark|rsync|ssh|socat|node|java|rclone|restic|psql|pgbench)\b", command)
        yield program, of_program, door, words, expected, why_not, [tool for tool in tools if not shutil.which(tool)]


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
    # `ip netns exec` becomes the program.
    before = {name: memory_bytes(process.pid) for name, process in world.daemons.items()}
    with idle_connections(DOORS + ECHO, count):
        return {name: round((memory_bytes(process.pid) - before[name]) / count) for name, process in world.daemons.items()}


# What a program, or a service, sees of its connection: how it ended.
WATCH = """
import socket, sys, time
tcp = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
tcp.sendall(b"x")
assert tcp.recv(1) == b"x"
print("here", flush=True)
begun = time.monotonic()
try:
    what = "an end" if tcp.recv(1) == b"" else "bytes"
except ConnectionResetError:
    what = "a reset"
print(f"{what} {time.monotonic() - begun:.1f}", flush=True)
"""
# Longer than the idle timeout of daemons, 30 s, with the pings that lead up to it.
KILL_PATIENCE = 60


def killed(world):
    """Kills a daemon, the far one and then the near one: what a program at a door sees, and after how many seconds. A far
    daemon that lives on has no connection left in the end."""
    results = []
    for victim in ("far", "near"):
        for daemon in world.daemons.values():
            daemon.kill()
            daemon.wait()
            world.processes.remove(daemon)
        world.start_daemons()
        watch = subprocess.Popen(inside(NEAR, "timeout", KILL_PATIENCE, sys.executable, "-c", WATCH, DOORS + ECHO),
                                 stdout=subprocess.PIPE, text=True)
        if watch.stdout.readline() != "here\n":
            raise SystemExit("a connection does not come")
        world.daemons[victim].kill()
        said, _ = watch.communicate()
        what, seconds = said.strip().rsplit(" ", 1) if said else ("nothing", str(KILL_PATIENCE))
        survivor = "near" if victim == "far" else "far"

        def connections():
            status = run(world.pliant, "status", "--json", "--control", world.folder / f"{survivor}.sock")
            return json.loads(status)["connections"]

        deadline = time.monotonic() + KILL_PATIENCE
        while connections() and time.monotonic() < deadline:
            time.sleep(0.1)
        results.append({"killed": victim, "the program sees": what, "after_seconds": float(seconds),
                        f"connections_left_at_{survivor}": connections()})
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pliant", type=lambda text: Path(text).resolve())
    parser.add_argument("--record", type=Path)
    parser.add_argument("--idle", type=int, default=10_000)
    arguments = parser.parse_args()
    # Nobody has more connections than descriptors are left to a daemon, which opens some for itself.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2 - SPARE_DESCRIPTORS
    if arguments.idle > most:
        wanted = 2 * (arguments.idle + SPARE_DESCRIPTORS)
        print(f"{most} idle connections, not {arguments.idle}: more need `ulimit -Hn {wanted}`", file=sys.stderr)
        arguments.idle = most
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
            # First: what earlier connections have left would be used again.
            grown = idle(world, arguments.idle)
            world.serve_nginx(NEAR, DOORS - 1, f"proxy_pass http://127.0.0.1:{WEB};", arguments.pliant, "wrap", "--control",
                              folder / "near.sock", "--class", "backup", "--")
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
            ends = killed(world)
            for end in ends:
                print("\n" + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in end.items()), end="")
                wrong += any(key.startswith("connections") and value for key, value in end.items())
            print(f"\n{arguments.idle} idle connections: " + ", ".join(f"{name} {grown[name]} bytes each" for name in grown))
    finally:
        shutil.rmtree(folder)
    if arguments.record:
        record = {"kernel": platform.release(), "programs": rows,
                  "idle": {"connections": arguments.idle, "bytes_per_connection": grown}, "killed": ends}
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
