"""A dumbbell of network namespaces, for peers that are programs, from the kernel's own parts.

Hosts are joined by a bridge on each side, and the bridges by a wire that delays. What a host sends passes a token bucket of the
edge's rate; what a bridge sends to the wire, one of the core's rate in front of which a FIFO holds a number of packets and drops
by its tail. The wire (wire.py) has the delay of the whole path, since only the sum counts for a flow.

A token bucket leaves the packet whose time it waits for in the FIFO, where a link of the simulator has taken it out. So the FIFO
holds one packet more than the scenario's queue, and its length is told without that one. The bucket holds two packets: with one, a
timer that is late would cost a part of the rate. Devices do nothing for packets that the queue would not see: no segments or
datagrams in one piece.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from hosts import inside, run  # noqa: E402

PREFIX = "pliant-dumbbell"
IP_BYTES, FRAME_BYTES = 1500, 1514
BUCKET_BYTES = 2 * FRAME_BYTES + 72  # two, and what the kernel's clock rounds away
HOST_PACKETS = 1000
# Processor time before anything else on the machine, as the wire has.
REAL_TIME = ["chrt", "--rr", "10"]
PATIENCE = 10  # seconds


class Dumbbell:
    def __init__(self, network, queue_packets):
        self.network, self.queue_packets = network, queue_packets
        self.pairs = network["hosts"] // 2
        self.processes, self.wire = [], None

    def __enter__(self):
        self.remove()
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        self.remove()

    @staticmethod
    def name(part):
        return f"{PREFIX}-{part}"

    def host(self, number):
        return self.name(f"host{number}")

    @staticmethod
    def address(number):
        return f"10.213.{number // 250}.{number % 250 + 1}"

    def remove(self):
        for namespace in json.loads(run("ip", "-json", "netns", "list") or "[]"):
            if namespace["name"].startswith(f"{PREFIX}-"):
                run("ip", "netns", "delete", namespace["name"])

    def build(self):
        network, hosts = self.network, range(self.network["hosts"])
        for namespace in [self.name("wire"), self.name("left"), self.name("right"), *map(self.host, hosts)]:
            run("ip", "netns", "add", namespace)
            # Without the packets by which hosts look for IPv6.
            run(*inside(namespace, "sysctl", "-eqw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"))
        for side in ("left", "right"):
            bridge = self.name(side)
            run("ip", "-n", bridge, "link", "add", "name", "bridge", "type", "bridge")
            run("ip", "-n", bridge, "link", "set", "bridge", "up")
            self.join(bridge, "core", self.name("wire"), side)
            run("ip", "-n", bridge, "link", "set", "core", "master", "bridge")
            self.shape(bridge, "core", network["core_mbit"], self.queue_packets + 1)
        for number in hosts:
            host, bridge = self.host(number), self.name("left" if number < self.pairs else "right")
            self.join(host, "eth", bridge, f"host{number}", "address", self.hardware(number))
            run("ip", "-n", bridge, "link", "set", f"host{number}", "master", "bridge")
            run("ip", "-n", host, "address", "add", f"{self.address(number)}/16", "dev", "eth")
            self.shape(host, "eth", network["edge_mbit"], HOST_PACKETS)
            # Or the first packet of a flow would ask for the way.
            for other in hosts:
                if other != number:
                    run("ip", "-n", host, "neighbour", "add", self.address(other), "lladdr", self.hardware(other), "dev", "eth")
        delay = network["core_us"] + 2 * network["edge_us"]
        self.wire = self.start(self.name("wire"), sys.executable, HERE / "wire.py", delay, "left", "right")
        if not self.wire.stdout.readline():
            raise RuntimeError(f"wire.py: {self.wire.stderr.read().strip().splitlines()[-1]}")

    @staticmethod
    def hardware(number):
        return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"

    @staticmethod
    def join(one, device, other, other_device, *more):
        run("ip", "link", "add", "name", device, "netns", one, *more, "type", "veth", "peer", "name", other_device, "netns", other)
        for namespace, name in ((one, device), (other, other_device)):
            run(*inside(namespace, "ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off"))
            run("ip", "-n", namespace, "link", "set", name, "up")

    @staticmethod
    def shape(namespace, device, mbit, packets):
        # The kernel counts the header of Ethernet, and the scenario does not.
        rate = f"{round(mbit * 1e6 * FRAME_BYTES / IP_BYTES)}bit"
        bucket = ("tbf", "rate", rate, "burst", BUCKET_BYTES, "limit", (packets + 1) * FRAME_BYTES)
        run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "handle", "1:", *bucket)
        run("tc", "-n", namespace, "qdisc", "add", "dev", device, "parent", "1:1", "handle", "2:", "pfifo", "limit", packets)

    def start(self, namespace, *words):
        command = [*REAL_TIME, *inside(namespace, *words)]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.processes[-1]

    def watch(self, start, seconds, samples, file):
        """Packets waiting in the core's queue towards the right, at even distances, and what it let through and dropped."""
        command = ["tc", "-n", self.name("left"), "-s", "-j", "-batch", "-"]
        with file.open("w+") as answers:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answers, text=True) as asked:
                for number in range(samples):
                    time.sleep(max(0.0, start + (number + 1) * seconds / samples - time.time()))
                    asked.stdin.write("qdisc show dev core\n")
                    asked.stdin.flush()
            answers.seek(0)
            lines = [line for line in answers if '"2:"' in line]
        if len(lines) != samples:
            raise RuntimeError(f"tc told the queue {len(lines)} of {samples} times: is there another run?")
        found = [next(each for each in json.loads(line) if each["handle"] == "2:") for line in lines]
        waiting = [max(0, each["qlen"] - 1) for each in found]
        return waiting, found[-1]["packets"], found[-1]["drops"]

    def carried(self):
        """What the wire did, which ends it."""
        self.wire.terminate()
        return json.loads(self.wire.communicate(timeout=PATIENCE)[0])
