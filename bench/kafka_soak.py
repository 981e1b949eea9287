#!/usr/bin/env python3
"""Kafka, for daemon_soak.py: an Apache Kafka broker, and unmodified clients at two doors, behind one of which the daemon is killed
again and again.

`kafka_soak.py broker FOLDER FILE` writes the broker's address to the file, and serves until SIGTERM. FOLDER is that of kafka/run.py.
`kafka_soak.py clients`: at each door a topic without a rule, one of which the exit leaves a fifth of the records out, and one whose
records travel in messages. Librdkafka produces all the time and reads at the end of each topic. Other readers, groups of
librdkafka and kafka-python in turn, read what the broker still has from its beginning. The broker keeps the last megabytes.

A record says in each of its bytes which one it is. Nothing is missing of a topic without a rule. Of the others never more than a fifth is
missing, another reader misses nothing more, and the ledger names what is missing."""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("kafka")))

import confluent_kafka
import confluent_kafka.admin
import kafka
from run import PARTITIONS, Cluster

from soak_counts import Counts, run_all

KINDS, MIN_DELIVERY = ("whole", "stream", "messages"), 0.8
# Each round that often, so many to each partition.
ROUND_SECONDS, ROUND_RECORDS = 2, 60
PATIENCE_SECONDS = 300
CLIENTS_NICE = 10
BROKER = "log.retention.check.interval.ms=10000\nlog.segment.delete.delay.ms=1000\n"
TOPIC = {"retention.bytes": str(3 << 20), "segment.bytes": str(1 << 20)}


def value_of(topic, partition, offset):
    """The second half repeats the first: librdkafka compresses only what becomes smaller."""
    shake = hashlib.shake_128(f"{topic} {partition} {offset}".encode())
    return 2 * shake.digest(50 + 50 * (offset % 8))


class Topic:
    """A topic at a door: who produces, and who reads at its end."""

    def __init__(self, clients, door, kind):
        self.name, self.kind, self.clients = f"{kind}-{door}", kind, clients
        self.control = clients.given.folder / f"{door}.sock"
        self.bootstrap = f"127.0.0.1:{clients.given.doors[door]}"
        self.sent = [0] * PARTITIONS
        # By partition: the next offset, and which did not come.
        self.next, self.missing = [0] * PARTITIONS, [set() for _ in range(PARTITIONS)]
        self.lock = threading.Lock()
        # A reader's fetches wait for records, and what is asked on its connection waits behind.
        self.asking = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"{self.name}-low"})

    def fail(self, what):
        self.clients.fail(f"{self.name}: {what}")

    def create(self):
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap})
        for each in admin.create_topics([confluent_kafka.admin.NewTopic(self.name, PARTITIONS, 1, config=TOPIC)]).values():
            each.result(PATIENCE_SECONDS)

    def produce(self):
        def acknowledged(error, message):
            if error:
                self.fail(f"not taken: {error}")
            elif message.value() != value_of(self.name, message.partition(), message.offset()):
                self.fail(f"a record is at another offset than that it was sent for: {message.partition()} {message.offset()}")

        codec = random.choice(("none", "gzip", "snappy", "lz4", "zstd"))
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 100, "enable.idempotence": True,
                                             "compression.type": codec, "delivery.timeout.ms": PATIENCE_SECONDS * 1000})
        while time.monotonic() < self.clients.end:
            for partition in range(PARTITIONS):
                for _ in range(ROUND_RECORDS):
                    producer.produce(self.name, value_of(self.name, partition, self.sent[partition]), partition=partition,
                                     on_delivery=acknowledged)
                    self.sent[partition] += 1
            self.clients.count(f"{self.kind} produced", PARTITIONS * ROUND_RECORDS)
            until = time.monotonic() + ROUND_SECONDS
            while time.monotonic() < until:
                producer.poll(0.1)
        if left := producer.flush(PATIENCE_SECONDS):
            self.fail(f"{left} records were not taken")

    def take(self, message):
        partition, offset = message.partition(), message.offset()
        if message.value() != value_of(self.name, partition, offset):
            self.fail(f"other bytes at {partition} {offset}")
        with self.lock:
            if offset < self.next[partition]:
                return self.fail(f"{partition} {offset} came after {self.next[partition]}")
            gap = range(self.next[partition], offset)
            self.missing[partition].update(gap)
            self.next[partition] = offset + 1
        if gap and self.kind == "whole":
            self.fail(f"{len(gap)} records before {partition} {offset} did not come")
        self.clients.count(f"{self.kind} consumed")

    def read(self):
        """Reads at the end, until all is there that was sent."""
        more = {} if self.kind == "whole" else {"fetch.min.bytes": 60_000, "fetch.wait.max.ms": 2 * ROUND_SECONDS * 1000}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name, "enable.auto.commit": False,
                                             "check.crcs": True, "auto.offset.reset": "error", **more})
        consumer.assign([confluent_kafka.TopicPartition(self.name, each, 0) for each in range(PARTITIONS)])
        deadline = self.clients.end + PATIENCE_SECONDS
        while time.monotonic() < self.clients.end or self.next != self.sent:
            if time.monotonic() > deadline:
                self.fail(f"read to {self.next} of {self.sent}")
                break
            for message in consumer.consume(1000, 0.2):
                if message.error():
                    if not message.error().retriable() and message.error().code() >= 0:
                        self.fail(str(message.error()))
                else:
                    self.take(message)
        consumer.close()

    def ledger(self):
        """What the exit says it has lost, by partition: its counts, which offsets, and from which on the broker still has them."""
        if self.kind == "whole":
            return [({"fetched": 0, "lost": 0, "unsettled": 0}, set(), self.low(each)) for each in range(PARTITIONS)]
        command = [self.clients.given.pliant, "kafka", "ledger", self.name, "--json", "--control", self.control]
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Its daemon may be the one that is killed.
        while (said := subprocess.run(command, capture_output=True, text=True)).returncode and time.monotonic() < deadline:
            time.sleep(1)
        if said.returncode:
            raise ValueError(f"the ledger is not to be had: {said.stderr.strip()}")
        rows = sorted(json.loads(said.stdout), key=lambda row: row["partition"])
        for row in rows:
            if row["lost"] + row["unsettled"] > bound(row["fetched"]):
                self.fail(f"more may be lost than the bound: {counts_of(row)}")
        lost = [{offset for first, last in row["lost_offsets"] for offset in range(first, last + 1)} for row in rows]
        # Asked last: what the ledger has forgotten is below.
        return [(row, of, self.low(row["partition"])) for row, of in zip(rows, lost)]

    def low(self, partition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.asking.get_watermark_offsets(confluent_kafka.TopicPartition(self.name, partition), 10)[0]
            except confluent_kafka.KafkaException:  # The door's daemon is being killed.
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def require(self, who, got, ends):
        """That a reader misses what the ledger names, and no more."""
        for partition, (row, lost, low) in enumerate(self.ledger()):
            there = range(low, ends[partition])
            missing, lost = {offset for offset in there if offset not in got[partition]}, {offset for offset in there if offset in lost}
            # Of records in messages, two who read at once may get what is lost for all later ones, and who asks for them
            # gets those of which the door could not say that they were lost.
            if missing != lost if self.kind != "messages" else len(missing - lost) > row["unsettled"]:
                self.fail(f"{who}, of {there}: {counts_of(row)}; {len(missing - lost)} did not come that the ledger does not name: "
                          f"{sorted(missing - lost)[:5]}; {len(lost - missing)} came that it names: {sorted(lost - missing)[:5]}")

    def replay(self, client):
        """What another reader gets of what the broker has."""
        with self.lock:
            ends = list(self.next)
        begun = time.monotonic()
        got, reached = READERS[client](self.bootstrap, self.name, ends)
        self.clients.note(f"{self.name}: {client} took {time.monotonic() - begun:.0f} s")
        if any(at < end for at, end in zip(reached, ends)):
            return self.fail(f"{client} came to {reached} of {ends} in {time.monotonic() - begun:.0f} s")
        for partition in range(PARTITIONS):
            for offset, value in got[partition].items():
                if value != value_of(self.name, partition, offset):
                    self.fail(f"{client}: other bytes at {partition} {offset}")
        self.require(client, got, ends)
        self.clients.count(f"replays by {client}")
        self.clients.count("replayed", sum(map(len, got)))

    def compare(self):
        """The reader at the end with the ledger, when all is there."""
        came = [Without(missing) for missing in self.missing]
        self.require("the reader at the end", came, self.sent)
        for partition, (row, _, _) in enumerate(self.ledger()):
            missing = len(self.missing[partition])
            if self.kind != "whole" and row["fetched"] != self.sent[partition] or missing > bound(self.sent[partition]):
                self.fail(f"of {partition} {self.sent[partition]} sent, {missing} missing; {counts_of(row)}")
            self.clients.count(f"{self.kind} missing", missing)
            self.clients.count("unsettled", row["unsettled"])


class Without:
    """All offsets but these."""

    def __init__(self, missing):
        self.missing = missing

    def __contains__(self, offset):
        return offset not in self.missing


def bound(records):
    return int(records * (1 - MIN_DELIVERY) + 1e-6)


def counts_of(row):
    return f"{row['fetched']} fetched, {row['lost']} lost, {row['unsettled']} unsettled"


def librdkafka(bootstrap, topic, ends):
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-{random.random()}", "check.crcs": True,
                                         "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got, deadline = [{} for _ in ends], time.monotonic() + PATIENCE_SECONDS
    parts = [confluent_kafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
    while any(part.offset < ends[part.partition] for part in consumer.position(parts)) and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            if not message.error() and message.offset() < ends[message.partition()]:
                got[message.partition()][message.offset()] = message.value()
    reached = [part.offset for part in consumer.position(parts)]
    try:
        consumer.commit(asynchronous=False)
    except confluent_kafka.KafkaException as error:
        # It commits by itself, too, and may just have.
        if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:
            raise
    consumer.close()
    return got, reached


def kafka_python(bootstrap, topic, ends):
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True, auto_offset_reset="earliest")
    parts = [kafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
    consumer.assign(parts)
    consumer.seek_to_beginning(*parts)
    got, deadline = [{} for _ in ends], time.monotonic() + PATIENCE_SECONDS
    while any(consumer.position(part) < ends[part.partition] for part in parts) and time.monotonic() < deadline:
        for messages in consumer.poll(200).values():
            for message in messages:
                if message.offset < ends[message.partition]:
                    got[message.partition][message.offset] = message.value
    reached = [consumer.position(part) for part in parts]
    consumer.close()
    return got, reached


READERS = {"librdkafka": librdkafka, "kafka-python": kafka_python}


class Clients(Counts):
    def __init__(self, given):
        super().__init__("kafka, ", given.seconds)
        self.given = given

    def replays(self, topics):
        draw = random.Random(self.given.seed)
        while time.monotonic() < self.end - ROUND_SECONDS * 5:
            topic, client = draw.choice(topics), draw.choice(list(READERS))
            if min(topic.next) > 0:
                self.guard(f"{topic.name}: replay", topic.replay, client)
            time.sleep(5)

    def run(self):
        # Threads of librdkafka were seen to poll without a pause. The daemons need the processors.
        os.nice(CLIENTS_NICE)
        topics = [Topic(self, door, kind) for door in self.given.doors for kind in KINDS]
        for topic in topics:
            topic.create()
        threads = [threading.Thread(target=self.guard, args=(f"{topic.name}: {work.__name__}", work))
                   for topic in topics for work in (topic.produce, topic.read)]
        threads.append(threading.Thread(target=self.guard, args=("replays", self.replays, topics)))
        run_all(threads)
        for topic in topics:
            self.guard(f"{topic.name}: compare", topic.compare)
        self.require(*(f"replays by {client}" for client in READERS))
        self.tell()


def serve(folder, file):
    """A broker until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    cluster = Cluster(folder, 1, BROKER)
    try:
        file.write_text(f"127.0.0.1:{cluster.ports[0]}")
        cluster.processes[0][0].wait()
    finally:
        cluster.end()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = arguments.add_subparsers(dest="what", required=True)
    broker = what.add_parser("broker")
    broker.add_argument("folder", type=Path)
    broker.add_argument("file", type=Path)
    clients = what.add_parser("clients")
    clients.add_argument("pliant")
    clients.add_argument("folder", type=Path, help="with the daemons' control sockets")
    clients.add_argument("doors", type=json.loads, help="port of the door to each daemon, as JSON")
    clients.add_argument("--seconds", type=float)
    clients.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    if given.what == "broker":
        serve(given.folder, given.file)
    else:
        Clients(given).run()


if __name__ == "__main__":
    main()
