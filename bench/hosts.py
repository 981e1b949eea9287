"""What the benchmarks share: commands, network namespaces and hosts made of them, waiting for something with an end to patience,
processes and their memory, quantiles, and the part of a page that a benchmark writes.

`hosts.py NAME...` makes such namespaces for scripts of the shell.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 30  # seconds until something that does not come is an error


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(word) for word in words]]


def add_namespace(name):
    """A network namespace whose TCP is CUBIC, as Linux ships it, whatever this machine's own is."""
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    if "cubic" not in allowed.read_text(encoding="ascii").split():
        # Namespaces have only what the machine allows to programs without privileges.
        allowed.write_text(f"{allowed.read_text(encoding='ascii').strip()} cubic", encoding="ascii")
    run("ip", "netns", "add", name)
    run(*inside(name, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=cubic"))


def until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come within {patience} s")
        time.sleep(0.02)


def memory_bytes(pid):
    """What a process holds in memory beside the pages of files. Those of its own program come when code first runs, in steps
    of a megabyte and more, and the kernel may drop them."""
    try:
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A process that has ended and was not waited for has none, which says nothing.
    kib = [int(lines[key].split()[0]) for key in ("RssAnon", "RssShmem") if key in lines]
    return sum(kib) * 1024 or None


def read(file):
    """What stands there, or nothing if its process has ended."""
    try:
        return Path(file).read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def family(pid):
    """A process and what it has started, older ones first."""
    return [pid, *(one for child in read(f"/proc/{pid}/task/{pid}/children").split() for one in family(int(child)))]


def quantile(numbers, share):
    """The smallest number that this share of all do not exceed."""
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, max(0, -int(-share * len(numbers) // 1) - 1))]


def write_section(page, marks, section):
    """Puts a section, which begins and ends with these marks, into the place of the page's."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(marks[0])
    page.write_text(before + section + rest.split(marks[1])[1], encoding="utf-8")


class Star:
    """Hosts around one bridge, each a network namespace; what a host sends passes a token bucket of its rate with 50 ms of buffer."""

    def __init__(self, prefix, subnet, rates):
        """`rates` has Mbit/s by host, None for one without a bound; `subnet` the first three numbers of the addresses."""
        self.prefix, self.subnet, self.rates, self.children = prefix, subnet, rates, []

    def __enter__(self):
        self.remove()
        bridge = f"{self.prefix}-bridge"
        add_namespace(bridge)
        run("ip", "-n", bridge, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", bridge, "link", "set", "bridge", "up")
        for index, rate in enumerate(self.rates):
            namespace, port = self.namespace(index), f"port{index}"
            add_namespace(namespace)
            run("ip", "link", "add", "eth", "netns", namespace, "type", "veth", "peer", "name", port, "netns", bridge)
            run("ip", "-n", bridge, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", namespace, "address", "add", f"{self.address(index)}/24", "dev", "eth")
            for device in ("lo", "eth"):
                run("ip", "-n", namespace, "link", "set", device, "up")
            if rate is not None:
                limit = ("rate", f"{rate}mbit", "burst", "32k", "latency", "50ms")
                run("tc", "-n", namespace, "qdisc", "add", "dev", "eth", "root", "tbf", *limit)
        return self

    def __exit__(self, *_):
        self.stop()
        self.remove()

    def namespace(self, index):
        return f"{self.prefix}-host{index}"

    def address(self, index):
        return f"{self.subnet}.{index + 1}"

    def remove(self):
        for namespace in [f"{self.prefix}-bridge", *map(self.namespace, range(len(self.rates)))]:
            subprocess.run(["ip", "netns", "delete", namespace], stderr=subprocess.DEVNULL)

    def spawn(self, index, *words, stdout=subprocess.DEVNULL):
        child = subprocess.Popen(inside(self.namespace(index), *words), stdout=stdout, stderr=subprocess.DEVNULL)
        self.children.append(child)
        return child

    def stop(self):
        for child in self.children:
            child.send_signal(signal.SIGCONT)
            child.terminate()
        for child in self.children:
            child.wait()
        self.children.clear()

    def sent_bytes(self, index):
        """Bytes of packets that left a host with a rate, as its queue counts them: the device's own counter has the headers of
        packets that leave it in one piece, to be cut later, only once."""
        queue, *_ = json.loads(run("tc", "-n", self.namespace(index), "-s", "-j", "qdisc", "show", "dev", "eth", "root"))
        return queue["bytes"]


if __name__ == "__main__":
    for each in sys.argv[1:]:
        add_namespace(each)
