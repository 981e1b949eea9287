#!/usr/bin/env python3
"""ATP's figures 9 and 10 with real parts: an Apache Kafka broker, a switch that drops, and four consumers behind a door, by loss
bound and transport: librdkafka's, and Apache Flink's.

Usage: figures.py PLIANT FOLDER --data FOLDER [--table NAME] [--what clients|flink|sizes] [--runs N] --record FILE
       figures.py --write RECORD EXPERIMENTS PAGE
FOLDER is that of run.py; `make kafka` prepares it. --data is the folder of taxis.csv and internet_udp.csv. Needs root: network
namespaces. FILE keeps what was measured before; what is measured again takes its place. --write makes the files of
EXPERIMENTS/atp/measured of it, over which `pliant reproduce atp fig09` and `fig10` say what came of the paper's claims, which
were written before the first run; and the tables of PAGE.

    broker, exit -- 50 Mbit/s --> switch == two links of 22.5 Mbit/s, ATP's queues ==> four doors, a consumer behind each

The paper's rates by twenty: a line of 1 Gbit/s comes to two switches of 0.45 Gbit/s. With Flink they are by forty. At a twentieth Flink,
the broker and five daemons leave 5 to 12 % of two processors idle. Packets of ATP are spread over both switches in turn, as
in the paper. A hash of addresses and ports puts each door's packets of DCTCP and DCTCP-SD on one of them. Of four flows it puts two on
each in 6 of 16 draws, and three or all on one in the rest. Here ports are chosen so that it is three and one; and two and two, for
comparison.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import confluent_kafka
import confluent_kafka.admin

from flink import Job, estimates, value
from record import fill, lines
from run import PATIENCE, Cluster, Door

DELAY = "100us"
CONSUMERS = 4
# Bytes of values that each consumer reads: whole copies of its table.
BYTES = 5_000_000
# The paper's axis is 1 - min_delivery.
PARTS = [0.9, 0.75, 0.5, 0.25]
FIGURES = {"internet_udp.csv": "fig09", "taxis.csv": "fig10"}
# Of each table the columns whose means the paper takes, or those nearest to them.
COLUMNS = {"internet_udp.csv": {"length": "6"}, "taxis.csv": {"distance": "3", "total": "7"}}
# Ports of the exit's daemon and of the doors'. By its hash the switch puts three of the four doors on its first link, or two. Each run
# checks that.
THREE_AND_ONE, TWO_AND_TWO = (7411, 7421, 7422, 7423, 7424), (7411, 7421, 7422, 7423, 7425)


class Rates(NamedTuple):
    """Of the line to the switch and of each link behind it."""

    line: str
    link: str


RATES = {"clients": Rates("50Mbit/s", "22.5Mbit/s"), "flink": Rates("25Mbit/s", "11.25Mbit/s")}


class Way(NamedTuple):
    """How records travel."""

    carry: str | None
    # What else is of their class, with the line's rate for `{line}`. Class 1 is the first of ATP's queues, class 0 the one for all else.
    of_class: str = ""
    # How the switch chooses a link.
    routing: str = "ecmp"
    ports: tuple = THREE_AND_ONE
    # The part of the packets to the consumers that takes the first link.
    first: float = 0.75


SPREAD = {"routing": "spray-round-robin", "first": 0.5}
EVEN = {"ports": TWO_AND_TWO, "first": 0.5}
AT_LINE_RATE = 'message_class = 1\nmessage_line_rate = "{line}"\n'
# ATP is the paper's; the one for shared paths is what a class has without `message_line_rate`; the hashed one is not spread.
TRANSPORTS = {
    "DCTCP": Way(None),
    "DCTCP-SD": Way("stream"),
    "ATP": Way("messages", AT_LINE_RATE, **SPREAD),
    "ATP, shared": Way("messages", "message_class = 1\n", **SPREAD),
    "DCTCP, two and two": Way(None, **EVEN),
    "DCTCP-SD, two and two": Way("stream", **EVEN),
    "ATP, hashed": Way("messages", AT_LINE_RATE),
}
UDP_WAY = Way(None, **SPREAD)
# Bytes of a producer's batch and of a consumer's fetch: librdkafka's defaults; batches as Kafka's Java client makes them; and
# fetches as small as those.
WHOLE = 1_000_000
SIZES = [(WHOLE, 1 << 20), (16 << 10, 1 << 20), (16 << 10, 128 << 10), (16 << 10, 32 << 10)]
OF_SIZES = ["DCTCP-SD, two and two", "ATP"]
BROKER, NEAR = "10.9.0.1", "10.9.0.2"
UDP_PORT, UDP_DSCP, UDP_HEADERS, UDP_PAYLOAD = 7700, 2, 42, 1400


class Network:
    """Two hosts and a switch in namespaces: the broker's is this process's own."""

    def __init__(self, pliant, folder):
        self.pliant, self.folder = pliant, folder
        self.holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
        deadline = time.monotonic() + PATIENCE
        own = os.readlink("/proc/self/ns/net")
        while any(os.readlink(f"/proc/{holder.pid}/ns/net") == own for holder in self.holders):
            assert time.monotonic() < deadline, "no network namespaces"
            time.sleep(0.01)
        near, switch = (["nsenter", "--target", str(holder.pid), "--net"] for holder in self.holders)
        self.near = near
        self.switch = switch
        for number, host, address in [(1, [], BROKER), (2, near, NEAR)]:
            self.run([*switch, "ip", "link", "add", f"p{number}", "type", "veth", "peer", "name", "wire", "netns",
                      str(self.holders[0].pid if host else os.getpid())])
            self.run([*switch, "ip", "link", "set", f"p{number}", "up"])
            self.run([*host, "ip", "link", "set", "lo", "up"])
            self.run([*host, "ip", "address", "add", f"{address}/24", "dev", "wire"])
            self.run([*host, "ip", "link", "set", "wire", "gso_max_segs", "1", "up"])

    @staticmethod
    def run(command):
        subprocess.run(command, check=True)

    def start(self, routing, rates):
        """The switch, until `stop`."""
        (self.folder / "switch.toml").write_text(
            f'rate = "{rates.line}"\ndelay = "{DELAY}"\nqueues = {{ plan = "atp" }}\nrouting = "{routing}"\n'
            f'[[port]]\ninterface = "p1"\naddresses = ["{BROKER}"]\n'
            f'[[port]]\ninterface = "p2"\naddresses = ["{NEAR}"]\nlinks = 2\nrate = "{rates.link}"\n')
        self.process = subprocess.Popen(
            [*self.switch, self.pliant, "switch", str(self.folder / "switch.toml")], stdout=subprocess.PIPE, text=True)

    def stop(self):
        """What the switch has counted at the port to the consumers."""
        self.process.send_signal(signal.SIGINT)
        text, _ = self.process.communicate(timeout=PATIENCE)
        return text

    def end(self):
        for process in [getattr(self, "process", None), *self.holders]:
            if process:
                process.kill()
                process.wait()


def sent_bytes():
    """Bytes that this host has sent to the switch."""
    [counters] = [line.split(":")[1].split() for line in Path("/proc/net/dev").read_text().splitlines() if "wire:" in line]
    return int(counters[8])


def idle_seconds():
    """Processor time that nobody has used."""
    fields = Path("/proc/stat").read_text().split("\n")[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def rows_of(table):
    """The rows of a file without its head, each as bytes."""
    return Path(table).read_bytes().split(b"\n")[1:-1]


def produce(direct, name, rows, batch):
    """A topic for each consumer, with as many copies of the table."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": direct})
    topics = [f"{name}-{batch}-{number}" for number in range(CONSUMERS)]
    for each in admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1) for topic in topics]).values():
        each.result(PATIENCE)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": direct, "linger.ms": 50, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000,
         "batch.size": batch})
    copies = max(BYTES // sum(map(len, rows)), 1)
    for topic in topics:
        for row in rows * copies:
            producer.produce(topic, row)
            producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    return topics, copies


def consume(bootstraps, topics, ends, table, fetch):
    """Reads each topic by a consumer and a door of its own, all at once. The last record of a batch is never left out: each has
    its last. How long each took, and what it got: offsets, which have to come in order with the table's rows."""
    rows = rows_of(table)
    ready, seconds, got, wrong = threading.Barrier(len(topics)), {}, {topic: [] for topic in topics}, []

    def read(topic, bootstrap):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, "check.crcs": True,
             "fetch.message.max.bytes": fetch})
        part = confluent_kafka.TopicPartition(topic, 0, 0)
        # The connection stands and the topic is known before time is taken.
        consumer.get_watermark_offsets(part, PATIENCE)
        ready.wait()
        start, deadline = time.perf_counter(), time.monotonic() + 2 * PATIENCE
        consumer.assign([part])
        offsets, last = got[topic], -1
        while last < ends[topic] - 1 and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.1):
                if message.error() or message.offset() <= last or message.value() != rows[message.offset() % len(rows)]:
                    wrong.append(f"{topic} {message.offset()} {message.error()}")
                    continue
                last = message.offset()
                offsets.append(last)
        seconds[topic] = time.perf_counter() - start
        if last != ends[topic] - 1:
            wrong.append(f"{topic} ends at {last}")
        consumer.close()

    threads = [threading.Thread(target=read, args=each) for each in zip(topics, bootstraps, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": [seconds[topic] for topic in topics], "got": got, "wrong": wrong[:5]}))


def udp_receive(table):
    """Datagrams until none has come for a second: a topic, the first row's offset, rows."""
    rows = rows_of(table)
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    receiver.bind((NEAR, UDP_PORT))
    receiver.settimeout(PATIENCE)
    print("ready", flush=True)
    got, wrong = {}, []
    try:
        while True:
            head, *values = receiver.recv(2048).split(b"\n")
            receiver.settimeout(1)
            topic, first = head.decode().rsplit("/", 1)
            offsets = range(int(first), int(first) + len(values))
            if any(row != rows[offset % len(rows)] for offset, row in zip(offsets, values)):
                wrong.append(head.decode())
            got.setdefault(topic, []).extend(offsets)
    except TimeoutError:
        pass
    print(json.dumps({"got": got, "wrong": wrong[:5]}))


def datagrams(topic, values):
    """A topic's values in order, as many to a datagram as a packet holds."""
    first, part, size, found = 0, [], 0, []
    for offset, row in enumerate(values):
        if part and size + len(row) + 1 > UDP_PAYLOAD - 40:
            found.append(b"\n".join([f"{topic}/{first}".encode(), *part]))
            first, part, size = offset, [], 0
        part.append(row)
        size += len(row) + 1
    return [*found, b"\n".join([f"{topic}/{first}".encode(), *part])]


def udp_send(packets):
    """Each datagram once, at the line's rate. How long that took."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, UDP_DSCP << 2)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    sender.connect((NEAR, UDP_PORT))
    bytes_per_second = float(RATES["clients"].line.removesuffix("Mbit/s")) * 1e6 / 8
    start, due = time.perf_counter(), 0.0
    for packet in packets:
        if (early := due - (time.perf_counter() - start)) > 0:
            time.sleep(early)
        sender.send(packet)
        # What the switch counts: an Ethernet frame with preamble and gap.
        due += (len(packet) + UDP_HEADERS + 24) / bytes_per_second
    return time.perf_counter() - start


class Bench:
    """One table's topics on a broker, and the ways to read them."""

    def __init__(self, asked, network, cluster, name, batch=WHOLE):
        self.asked, self.network, self.name = asked, network, name
        self.folder = asked.folder.resolve()
        self.pliant = os.path.abspath(asked.pliant)
        self.direct = f"127.0.0.1:{cluster.ports[0]}"
        self.table = (asked.data / name).resolve()
        self.rows = rows_of(self.table)
        self.topics, self.copies = produce(self.direct, name, self.rows, batch)
        self.ends = {topic: len(self.rows) * self.copies for topic in self.topics}
        self.columns = COLUMNS[name]
        self.values = {column: [value(row.decode(), at) for row in self.rows] for column, at in self.columns.items()}

    def door(self, transport, part, rates):
        way = TRANSPORTS[transport]
        rule = f'[kafka.topics."*"]\nmin_delivery = {part}\nwhen = "always"\ncarry = "{way.carry}"\n' if way.carry else ""
        (self.folder / "ledger").unlink(missing_ok=True)
        # The interfaces know no rate: the class has that of the line.
        of_class = f'mtu = 1500\nmax_rate = "{rates.line}"\n{way.of_class.format(line=rates.line)}'
        return Door(self.pliant, self.folder, self.direct, rule, f'kafka_ledger = "{self.folder / "ledger"}"\n', of_class,
                    (NEAR, BROKER, self.network.near), way.ports)

    def errors(self, got):
        """Of each column the error of the mean, for each copy of the table that a consumer has read; an accuracy is of one."""
        found = {}
        for column, values in self.values.items():
            true, of_column = sum(values) / len(values), []
            for offsets in got.values():
                copies = {}
                for offset in offsets:
                    copies.setdefault(offset // len(values), []).append(values[offset % len(values)])
                of_column += [abs(sum(copy) / len(copy) / true - 1) for copy in copies.values()]
            found[column] = of_column
        return found

    def summary(self, got, seconds, idle, counters):
        errors = self.errors(got)
        fetched = sum(self.ends.values())
        came = sum(map(len, got.values()))
        return {
            "seconds": round(max(seconds), 3), "mean_seconds": round(sum(seconds) / len(seconds), 3),
            "records": came, "lost": round(1 - came / fetched, 4),
            "errors": {column: {"mean": round(sum(each) / len(each), 5), "largest": round(max(each), 5)}
                       for column, each in errors.items()},
            "idle": round(idle, 2), "switch": counters}

    def watched(self, way, rates, run, name, note):
        """What a run gives, with how much of both processors was idle, and what the switch has counted."""
        self.network.start(way.routing, rates)
        time.sleep(0.3)
        begun, idle = time.monotonic(), idle_seconds()
        try:
            found = run()
        finally:
            idle = (idle_seconds() - idle) / (time.monotonic() - begun) / os.cpu_count()
            counters = self.network.stop()
        counters = counted(counters)
        first = counters["links"][0] / sum(counters["links"])
        note(f"{name}: {way.first:.0%} of the packets on the first link".replace("%", " %"), abs(first - way.first) < 0.05)
        return found, idle, counters

    def clients(self, transport, part, note, fetch=SIZES[0][1]):
        """librdkafka's consumers."""
        rates = RATES["clients"]

        def run():
            door = self.door(transport, part, rates)
            try:
                told = subprocess.run(
                    [*self.network.near, sys.executable, __file__, "--consume", json.dumps(door.bootstraps), str(self.table),
                     json.dumps(self.ends), str(fetch)], check=True, capture_output=True, text=True, timeout=4 * PATIENCE)
                found = json.loads(told.stdout)
                ledgers = {topic: door.ledger(topic) for topic in self.topics if part < 1}
                carried = door.ask("status")["kafka_responses_in_messages"]
            finally:
                door.end()
            return found, ledgers, carried

        name = f"{self.topics[0]}, clients, {transport}, {part}"
        (found, ledgers, carried), idle, counters = self.watched(TRANSPORTS[transport], rates, run, name, note)
        got = found["got"]
        note(f"{name}: rows as they were produced, in order, to the end", not found["wrong"])
        for topic, ledger in ledgers.items():
            lost = {offset for first, last in ledger[0]["lost_offsets"] for offset in range(first, last + 1)}
            note(f"{name}, {topic}: all but those that the ledger names, within the bound",
                 set(got[topic]) == set(range(self.ends[topic])) - lost
                 and ledger[0]["lost"] <= int(self.ends[topic] * (1 - part) + 1e-6))
        in_messages = TRANSPORTS[transport].carry == "messages"
        note(f"{name}: records travel as they should", (carried > 0) == in_messages or fetch < WHOLE)
        return self.summary(got, found["seconds"], idle, counters) | {"responses_in_messages": carried}

    def udp(self, note):
        """What stands in for UDP, which no class of the daemon is: a program reads from the broker and sends each record once."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.direct, "group.id": "udp", "enable.auto.commit": False})
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0) for topic in self.topics])
        records = {topic: [] for topic in self.topics}
        while any(len(records[topic]) < self.ends[topic] for topic in self.topics):
            for message in consumer.consume(10_000, 0.2):
                records[message.topic()].append(message.value())
        consumer.close()
        # The four take turns.
        packets = [packet for turn in zip(*(datagrams(*each) for each in records.items())) for packet in turn]

        def run():
            receiver = subprocess.Popen(
                [*self.network.near, sys.executable, __file__, "--udp", str(self.table)], stdout=subprocess.PIPE, text=True)
            try:
                assert receiver.stdout.readline() == "ready\n"
                seconds = udp_send(packets)
                told, _ = receiver.communicate(timeout=PATIENCE)
            finally:
                receiver.kill()
            return json.loads(told), seconds

        (found, seconds), idle, counters = self.watched(UDP_WAY, RATES["clients"], run, f"{self.name}, UDP", note)
        note(f"{self.name}, UDP: rows as they were produced", not found["wrong"])
        return self.summary(found["got"], [seconds], idle, counters)

    def flink(self, transport, part, note):
        """A bounded job of four sources: from the first response on the wire to its last line."""
        rates, checkpoints = RATES["flink"], self.folder / "checkpoints"

        def run():
            door = self.door(transport, part, rates)
            # What daemons say to each other before: tens of kilobytes more are records.
            before, begun = sent_bytes(), None
            job = Job(self.folder, ";".join(door.bootstraps), ",".join(self.topics), "bounded", checkpoints, "-", 0,
                      self.columns.values(), self.network.near, CONSUMERS)
            try:
                deadline = time.monotonic() + 4 * PATIENCE
                while job.process.poll() is None and time.monotonic() < deadline:
                    if begun is None and sent_bytes() > before + 100_000:
                        begun = time.time()
                    time.sleep(0.005)
                ended = job.process.poll() == 0
                seconds = job.output.stat().st_mtime - (begun or 0)
                ledgers = {topic: door.ledger(topic) for topic in self.topics if part < 1}
                return job.last(), seconds, ended, ledgers
            finally:
                job.end()
                door.end()

        name = f"{self.name}, Flink, {transport}, {part}"
        (sums, seconds, ended, ledgers), idle, counters = self.watched(TRANSPORTS[transport], rates, run, name, note)
        lost = sum(ledger[0]["lost"] for ledger in ledgers.values())
        fetched = sum(self.ends.values())
        note(f"{name}: ends, with every record that the ledger does not name", ended and sums[0] == fetched - lost)
        note(f"{name}: within the bound", all(
            ledger[0]["lost"] <= int(self.ends[topic] * (1 - part) + 1e-6) for topic, ledger in ledgers.items()))
        found = estimates(sums, part, list(self.columns), fetched)
        errors = {}
        for column, values in self.values.items():
            errors[column] = {"mean": round(abs(found[column][0] / (sum(values) / len(values)) - 1), 5)}
        return {"seconds": round(seconds, 3), "records": int(sums[0]), "lost": round(lost / fetched, 4), "errors": errors,
                "idle": round(idle, 2), "switch": counters}


def counted(text):
    """The switch's counters of the links to the consumers, by queue, packets of each link, and how late it was."""
    queues, links = {}, [0, 0]
    for link, name, packets, marked, rest in re.findall(
            r"^link ([12]) to p2, queue ([^:]+): (\d+) packets, \d+ bytes, (\d+) marked, (.*)$", text, re.MULTILINE):
        dropped = sum(map(int, re.findall(r"(\d+) dropped", rest)))
        links[int(link) - 1] += int(packets)
        queue = queues.setdefault(name, {"packets": 0, "marked": 0, "dropped": 0})
        for key, count in [("packets", packets), ("marked", marked), ("dropped", dropped)]:
            queue[key] += int(count)
    late = re.findall(r"^lateness: .*", text, re.MULTILINE)
    outside = re.findall(r"(?:overrun|no_frame|send_failed)_frames \d+", text)
    return {"queues": queues, "links": links, "late": late[0] if late else "", "lost_outside": outside}


def write(record, experiments, page):
    """The files of what was measured, over which the claims are, and the page's tables."""
    found = json.loads(record.read_text())
    folder = experiments / "atp" / "measured"
    tables, files = {}, {}
    for table, figure in FIGURES.items():
        files[figure] = measured(found, table)
        (folder / f"{figure}.toml").write_text(files[figure])
        tables |= {f"{figure} {name}": lines(rows) for name, rows in page_tables(found["tables"][table]).items()}
    if "sizes" in found:
        tables["sizes"] = lines(sizes_table(found["sizes"]))
    record.write_text(json.dumps(found | {"page": tables, "measured": files}, indent=1) + "\n")
    fill(page, tables)


def page_tables(of_table):
    """Seconds, and the errors of averages, by what has to arrive."""
    columns = [(what, transport) for what in ["clients", "flink"] for transport in [*TRANSPORTS, "UDP"]
               if any(name.rpartition(", ")[0] == transport for name in of_table[what])]
    head = ["`min_delivery`", *(("Flink, " if what == "flink" else "") + transport for what, transport in columns)]
    seconds, errors = [], []
    for part in [1, *PARTS]:
        runs = [of_table[what].get(f"{transport}, {part}", []) for what, transport in columns]
        seconds.append([str(part), *(f"{median([run['seconds'] for run in each]):.2f}" if each else "" for each in runs)])
        errors.append([str(part), *(f"{median([error_of(run) for run in each]):.2%}".replace("%", " %") if each else ""
                                    for each in runs)])
    return {"seconds": (head, seconds), "errors": (head, errors)}


def sizes_table(rows):
    head = ["bytes of a batch", "of a fetch", *(f"{transport}, s" for transport in OF_SIZES), "lost by ATP", "responses in messages"]
    table = []
    for batch, fetch in SIZES:
        dropped, atp = (rows[f"{transport}, {batch}, {fetch}"] for transport in OF_SIZES)
        middle = lambda runs, key: median([run[key] for run in runs])
        table.append([f"{batch:,}", f"{fetch:,}", f"{middle(dropped, 'seconds'):.2f}", f"{middle(atp, 'seconds'):.2f}",
                      f"{middle(atp, 'lost'):.1%}".replace("%", " %"), f"{middle(atp, 'responses_in_messages'):.0f}"])
    return head, table


def error_of(run):
    """The larger of a table's columns."""
    return max(each["mean"] for each in run["errors"].values())


def measured(found, table):
    keys = [f"# Written by bench/kafka/figures.py from docs/kafka_figures.json: {table}. Lists go by `mlr`.",
            f"mlr = {[round(1 - part, 2) for part in PARTS]}"]
    of_table = found["tables"][table]
    for what in ["clients", "flink"]:
        rows = of_table.get(what, {})
        cell = lambda transport, part, key: median([run[key] for run in rows[f"{transport}, {part}"]])
        for transport in TRANSPORTS:
            name = f"{what}_{re.sub('[-, ]+', '_', transport.lower())}"
            parts = [1] if TRANSPORTS[transport].carry is None else PARTS
            if f"{transport}, {parts[0]}" not in rows:
                continue
            values = {key: [cell(transport, part, key) for part in parts] for key in ["seconds", "lost"]}
            error = [median([error_of(run) for run in rows[f"{transport}, {part}"]]) for part in parts]
            for key, value in {**values, "error": error}.items():
                keys.append(f"{name}_{key} = {value[0] if parts == [1] else value}")
    udp = of_table["clients"]["UDP, 1"]
    keys.append(f"udp_seconds = {median([run['seconds'] for run in udp])}")
    keys.append(f"udp_lost = {median([run['lost'] for run in udp])}")
    keys.append(f"udp_error = {median([error_of(run) for run in udp])}")
    return "\n".join(keys) + "\n"


def main():
    if sys.argv[1:2] == ["--consume"]:
        bootstraps, table, ends, fetch = sys.argv[2:]
        return consume(json.loads(bootstraps), list(json.loads(ends)), json.loads(ends), table, int(fetch))
    if sys.argv[1:2] == ["--udp"]:
        return udp_receive(sys.argv[2])
    if sys.argv[1:2] == ["--write"]:
        return write(*map(Path, sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", choices=FIGURES, action="append")
    parser.add_argument("--what", choices=["clients", "flink", "sizes"], action="append")
    parser.add_argument("--transport", choices=[*TRANSPORTS, "UDP"], action="append")
    parser.add_argument("--part", type=float, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--record", type=Path, required=True)
    asked = parser.parse_args()
    # The broker's host is a namespace of its own.
    if "IN_NAMESPACE" not in os.environ:
        os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], os.environ | {"IN_NAMESPACE": "1"})
    found = json.loads(asked.record.read_text()) if asked.record.exists() else {"checks": {}, "tables": {}}
    failed = []

    def note(name, good):
        found["checks"][name] = good
        if not good:
            failed.append(name)
            print(f"WRONG: {name}", flush=True)

    network = Network(os.path.abspath(asked.pliant), asked.folder.resolve())
    cluster = None
    try:
        cluster = Cluster(asked.folder.resolve(), 1)
        for table in asked.table or FIGURES:
            whats = asked.what or ["clients", "flink", "sizes"]
            bench = Bench(asked, network, cluster, table)
            if "sizes" in whats and table == "taxis.csv":
                batches = {batch for batch, _ in SIZES}
                benches = {batch: Bench(asked, network, cluster, table, batch) for batch in batches - {WHOLE}} | {WHOLE: bench}
                rows = found["sizes"] = {}
                for batch, fetch in SIZES * asked.runs:
                    for transport in OF_SIZES:
                        run = benches[batch].clients(transport, 0.5, note, fetch)
                        rows.setdefault(f"{transport}, {batch}, {fetch}", []).append(run)
                        print(table, "sizes", batch, fetch, transport, json.dumps(run), flush=True)
                asked.record.write_text(json.dumps(found, indent=1) + "\n")
            for what in [what for what in whats if what != "sizes"]:
                cells = [(transport, part) for transport in asked.transport or TRANSPORTS
                         if transport in TRANSPORTS and (what == "clients" or ", " not in transport)
                         for part in ([1] if TRANSPORTS[transport].carry is None else asked.part or PARTS)]
                if what == "clients" and "UDP" in (asked.transport or ["UDP"]):
                    cells.append(("UDP", 1))
                rows = found["tables"].setdefault(table, {}).setdefault(what, {})
                for cell in cells:
                    rows["{}, {}".format(*cell)] = []
                # In turns: what the machine has left changes.
                for _ in range(asked.runs):
                    for transport, part in cells:
                        run = bench.udp(note) if transport == "UDP" else getattr(bench, what)(transport, part, note)
                        rows[f"{transport}, {part}"].append(run)
                        print(table, what, transport, part, json.dumps(run), flush=True)
                asked.record.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        if cluster:
            cluster.end()
        network.end()
    print(f"{sum(found['checks'].values())} of {len(found['checks'])} checks hold", *failed, sep="\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
