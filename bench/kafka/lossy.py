#!/usr/bin/env python3
"""Apache Kafka and unmodified clients through a door that may lose a fifth of some topics' records.

Usage: lossy.py PLIANT FOLDER [--records N] [--record FILE]
FOLDER is that of run.py. Every reader has to end at the end of each partition with exactly those records that the ledger
does not name. The exit code is 1 if something differs.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka

from run import (CODECS, PARTITIONS, PATIENCE, Cluster, Door, create, java_consume, librdkafka_produce, records,
                 transactions)

MIN_DELIVERY = 0.8


# Each reader gives {(partition, offset): value} of all partitions, and for each its position and its end. It reads to the
# ends that partitions have when it comes there, or to those that are given.

def librdkafka_to_the_end(bootstrap, topic, ends=None):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{random.random()}", "enable.partition.eof": True,
         "enable.auto.commit": False, "check.crcs": True})
    parts = [confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)]
    consumer.assign(parts)
    got, ended = {}, set()
    deadline = time.monotonic() + PATIENCE

    def is_at_end():
        if not ends:
            return len(ended) == PARTITIONS
        return all(part.offset >= ends[part.partition] for part in consumer.position(parts))

    while not is_at_end() and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.2):
            if message.error():
                is_end = message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                assert is_end or ends, message.error()
                if is_end:
                    ended.add(message.partition())
            else:
                got[message.partition(), message.offset()] = message.value()
    reached = {part.partition: (part.offset, consumer.get_watermark_offsets(part, PATIENCE)[1])
               for part in consumer.position(parts)}
    consumer.close()
    return got, reached


def kafka_python_to_the_end(bootstrap, topic, ends=None):
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True)
    parts = [kafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
    consumer.assign(parts)
    consumer.seek_to_beginning(*parts)
    last = {part: ends[part.partition] for part in parts} if ends else consumer.end_offsets(parts)
    got = {}
    deadline = time.monotonic() + PATIENCE
    while any(consumer.position(part) < last[part] for part in parts) and time.monotonic() < deadline:
        for messages in consumer.poll(200).values():
            for message in messages:
                got[message.partition, message.offset] = message.value
    reached = {part.partition: (consumer.position(part), last[part]) for part in parts}
    consumer.close()
    return got, reached


def aiokafka_to_the_end(bootstrap, topic, ends=None):
    async def consume():
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True)
        await consumer.start()
        parts = [aiokafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
        consumer.assign(parts)
        await consumer.seek_to_beginning(*parts)
        last = {part: ends[part.partition] for part in parts} if ends else await consumer.end_offsets(parts)
        got = {}
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            positions = {part: await consumer.position(part) for part in parts}
            if all(positions[part] >= last[part] for part in parts):
                break
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                for message in messages:
                    got[message.partition, message.offset] = message.value
        await consumer.stop()
        return got, {part.partition: (positions[part], last[part]) for part in parts}
    return asyncio.run(consume())


READERS = {"librdkafka": librdkafka_to_the_end, "kafka-python": kafka_python_to_the_end, "aiokafka": aiokafka_to_the_end}


def kept(sent, ledger):
    """What a reader has to get: what was sent without what the ledger names."""
    lost = {(partition, offset) for partition, row in ledger.items()
            for first, last in row["lost_offsets"] for offset in range(first, last + 1)}
    return {at: value for at, value in sent.items() if at not in lost}


def within_the_bound(ledger):
    return all(row["lost"] <= int(row["fetched"] * (1 - MIN_DELIVERY) + 1e-6) for row in ledger.values())


def check(cluster, door, direct, asked, note, carry):
    """All clients and codecs with records that are left out at the exit, or that travel in messages."""
    through = f"127.0.0.1:{door.port}"

    def note(name, good, note=note):
        note(f"{carry}, {name}", good)

    for number, codec in enumerate(CODECS["librdkafka"]):
        readers = [(name, read) for name, read in READERS.items() if codec in CODECS[name]]
        topic = f"{carry}-{codec}"
        create(direct, topic, 1)
        values = records(asked.records, 100, topic)
        if codec != "none":
            # Random bytes cannot be packed; text can.
            values = [value[:8] + value.hex().encode() for value in values]
        librdkafka_produce(direct, topic, values, codec)
        sent = {(n % PARTITIONS, n // PARTITIONS): value for n, value in enumerate(values)}
        # Each reader is the first of some topic.
        for name, read in readers[number % len(readers):] + readers[:number % len(readers)]:
            got, ends = read(through, topic)
            ledger = door.ledger(topic)
            note(f"{name} {codec}: all records but those that the ledger names", got == kept(sent, ledger))
            note(f"{name} {codec}: positions at the end", all(position == end for position, end in ends.values()))
        counted = {partition: row["fetched"] for partition, row in ledger.items()}
        each = {part: sum(at[0] == part for at in sent) for part in range(PARTITIONS)}
        note(f"{codec}: every record counts once for all readers", counted == each)
        lost = sum(row["lost"] for row in ledger.values())
        # Messages that are under way when enough has arrived come too: on a free path all may.
        least = len(values) // 10 if carry == "stream" else 0
        note(f"{codec}: not more is lost than a fifth, nor less than {least} ({lost} of {len(values)})",
             within_the_bound(ledger) and lost >= least)
        if codec != "none":
            # The console prints text, as these values but for their first bytes are.
            got = java_consume(cluster, through, topic, len(kept(sent, ledger)))
            note(f"java {codec}: all records but those that the ledger names", got == kept(sent, ledger))
        if codec == "lz4":
            door.kill("far")
            door.start("far")
            got, _ = librdkafka_to_the_end(through, topic)
            again = door.ledger(topic)
            note("the far daemon is killed and started: the ledger and what a reader gets are the same",
                 again == ledger and got == kept(sent, ledger))
    create(direct, f"{carry}-transactions", 1)
    committed = transactions(direct, f"{carry}-transactions")
    got, _ = librdkafka_to_the_end(through, f"{carry}-transactions")
    ledger = door.ledger(f"{carry}-transactions")
    note(f"transactions: at least four fifths of the committed records and no other ({len(got)} of {len(committed)})",
         set(got.values()) <= set(committed) and len(got) >= MIN_DELIVERY * len(committed) and within_the_bound(ledger)
         and sum(row["lost"] for row in ledger.values()) > 0)
    create(direct, f"{carry}-compacted", 1, {"cleanup.policy": "compact"})
    values = records(asked.records, 100, "compacted")
    keyed = confluent_kafka.Producer({"bootstrap.servers": direct, "linger.ms": 5})
    for number, value in enumerate(values):
        keyed.produce(f"{carry}-compacted", value, key=value, partition=number % PARTITIONS)
        keyed.poll(0)
    keyed.flush(PATIENCE)
    read = [librdkafka_to_the_end(through, f"{carry}-compacted")[0] for _ in range(2)]
    note("a topic that the broker compacts is whole", all(len(got) == len(values) for got in read))
    create(direct, f"whole-{carry}", 1)
    librdkafka_produce(direct, f"whole-{carry}", values, "none")
    note("a topic without a rule is whole", len(librdkafka_to_the_end(through, f"whole-{carry}")[0]) == len(values))
    in_messages = door.ask("status")["kafka_responses_in_messages"]
    note(f"responses whose records travelled in messages: {in_messages}", (in_messages > 0) == (carry == "messages"))


def measure(cluster, asked, note, make_door):
    """How long a consumer takes for the same records by the same congested path, by what may be lost: while it is congested, or
    always, which is DCTCP with sender drop."""
    direct = f"127.0.0.1:{cluster.ports[0]}"
    times = {}
    values = records(20_000, 1000, "congested")
    ways = [("stream", "congested"), ("stream", "always"), ("messages", "congested"), ("messages", "always")]
    for part, carry, when in [(1.0, *ways[0])] + [(part, *way) for way in ways for part in [0.8, 0.5, 0.25]]:
        topic = f"congested-{carry}-{when}-{part}"
        create(direct, topic, 1)
        librdkafka_produce(direct, topic, values, "none")
        door = make_door(f'[kafka.topics."congested-*"]\nmin_delivery = {part}\nwhen = "{when}"\ncarry = "{carry}"\n',
                         'max_rate = "40Mbit/s"\n')
        try:
            start = time.perf_counter()
            got, ends = librdkafka_to_the_end(f"127.0.0.1:{door.port}", topic)
            times[f"min_delivery {part}, {carry}, {when}"] = found = {
                "seconds": round(time.perf_counter() - start, 2), "records": len(got),
                "lost": sum(row["lost"] for row in door.ledger(topic).values())}
        finally:
            door.end()
        note(f"min_delivery {part}, {carry}, {when}, on a path of 40 Mbit/s: within the bound, at the end",
             len(got) >= part * len(values) and all(position == end for position, end in ends.values()))
        print(found, flush=True)
    for carry, when in ways:
        seconds = [times[f"min_delivery {part}, {carry}, {when}"]["seconds"] for part in [0.8, 0.5, 0.25]]
        seconds.insert(0, times["min_delivery 1.0, stream, congested"]["seconds"])
        note(f"on a path of 40 Mbit/s, {carry}, {when}: the more may be lost, the sooner it is done {seconds}",
             sorted(seconds, reverse=True) == seconds)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--record", type=Path, help="where the result goes, as JSON")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    pliant = os.path.abspath(asked.pliant)
    cluster = Cluster(folder, 1)
    direct = f"127.0.0.1:{cluster.ports[0]}"
    checks = {}

    def note(name, good):
        checks[name] = good
        print(f"{'right' if good else 'WRONG'}: {name}", flush=True)

    def make_door(of_door, of_class=""):
        (folder / "ledger").unlink(missing_ok=True)
        return Door(pliant, folder, direct, of_door, f'kafka_ledger = "{folder / "ledger"}"\n', of_class)

    door = None
    try:
        for carry in ["stream", "messages"]:
            door = make_door(
                f'[kafka.topics."{carry}-*"]\nmin_delivery = {MIN_DELIVERY}\nwhen = "always"\ncarry = "{carry}"\n')
            check(cluster, door, direct, asked, note, carry)
            door.end()
            door = None
        times = measure(cluster, asked, note, make_door)
    finally:
        if door:
            door.end()
        cluster.end()
    if asked.record:
        asked.record.write_text(json.dumps({"checks": checks, "times": times}, indent=2) + "\n")
    wrong = [name for name, good in checks.items() if not good]
    print(f"{len(checks) - len(wrong)} of {len(checks)} checks hold", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
