#!/usr/bin/env python3
"""Eight unmodified clients of Kafka through a door: whole, with loss in three patterns, with records in messages, and while a
leader moves under loss.

Usage: clients.py PLIANT FOLDER [--records N] [--record FILE]
FOLDER is that of run.py, with the programs of go/ and js/ beside the broker; `make kafka` prepares it.
The exit code is 1 if something differs.
"""

import argparse
import base64
import concurrent.futures
import functools
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka

from lossy import READERS, kept, within_the_bound
from run import CLIENTS, CODECS, PARTITIONS, PATIENCE, Cluster, Door, create, java_lines, librdkafka_produce, records

PATTERNS = ["uniform", "bursts", "tails"]
MIN_DELIVERY = 0.8
CODECS = CODECS | {"kafkajs": ["none", "gzip"]} | {
    each: ["none", "gzip", "snappy", "lz4", "zstd"] for each in ["franz-go", "sarama", "kafka-go"]}


def program(folder, name):
    """The command that is a client."""
    return ["node", str(folder / "js" / "clients.js"), name] if name == "kafkajs" else [str(folder / "go-clients"), name]


def program_produce(command, bootstrap, topic, values, codec):
    lines = "".join(base64.b64encode(value).decode() + "\n" for value in values)
    subprocess.run([*command, "produce", bootstrap, topic, codec], check=True, input=lines, text=True, timeout=PATIENCE)


def program_to_the_end(command, bootstrap, topic, ends):
    """{(partition, offset): value}, and each partition's position."""
    asked = [*command, "consume", bootstrap, topic, str(PATIENCE), *map(str, ends)]
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, timeout=2 * PATIENCE)
    got, positions = {}, {}
    for line in done.stdout.splitlines():
        first, second, third = line.split(" ")
        if first == "position":
            positions[int(second)] = int(third)
        else:
            got[int(first), int(second)] = base64.b64decode(third)
    return got, positions


def java_to_the_end(cluster, bootstrap, topic, ends):
    """The console consumer ends when nothing has come for a while; positions are what it has committed then."""
    group = f"java-{topic}"
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", cluster.jars, "org.apache.kafka.tools.consumer.ConsoleConsumer",
         "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--group", group, "--timeout-ms", "15000",
         "--property", "print.partition=true", "--property", "print.offset=true"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=4 * PATIENCE)
    asked = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    committed = asked.committed([confluent_kafka.TopicPartition(topic, each) for each in range(len(ends))], PATIENCE)
    asked.close()
    return java_lines(done.stdout), {part.partition: part.offset for part in committed}


def python_to_the_end(read, bootstrap, topic, ends):
    got, positions = read(bootstrap, topic, ends)
    return got, {partition: position for partition, (position, _) in positions.items()}


def clients(cluster, folder):
    """Of each client how it produces and how it reads to the end."""
    found = {name: (CLIENTS[name][0], functools.partial(python_to_the_end, read)) for name, read in READERS.items()}
    for name in ["kafkajs", "franz-go", "sarama", "kafka-go"]:
        command = program(folder, name)
        found[name] = functools.partial(program_produce, command), functools.partial(program_to_the_end, command)
    found["java"] = None, functools.partial(java_to_the_end, cluster)
    return found


def text_values(count, seed):
    """Values that the console prints as they are."""
    return [value[:8] + value[8:].hex().encode() for value in records(count, 50, seed)]


def by_offset(values):
    return {(number % PARTITIONS, number // PARTITIONS): value for number, value in enumerate(values)}


def ends_of(values):
    return [len(values[partition::PARTITIONS]) for partition in range(PARTITIONS)]


def whole(direct, through, found, asked, note):
    """What a client produces through the door is what it consumes through it, and what another consumes beside it."""
    for name, (produce, read) in found.items():
        if not produce:
            continue
        for codec in CODECS[name]:
            topic = f"whole-{name}-{codec}"
            create(through, topic, 1)
            values = text_values(asked.records, topic)
            produce(through, topic, values, codec)
            got, positions = read(through, topic, ends_of(values))
            beside = found["librdkafka"][1](direct, topic, ends_of(values))[0]
            note(f"{name} {codec}: consumed as produced, through the door and beside it",
                 got == by_offset(values) and beside == got)
            note(f"{name} {codec}: positions at the end", list(map(positions.get, range(PARTITIONS))) == ends_of(values))


def patterns(direct, through, door, found, asked, note):
    for pattern in PATTERNS:
        for codec in ["none", "gzip"]:
            topic = f"{pattern}-{codec}"
            create(direct, topic, 1)
            values = text_values(asked.records, topic)
            librdkafka_produce(direct, topic, values, codec)
            for name, (_, read) in found.items():
                got, positions = read(through, topic, ends_of(values))
                ledger = door.ledger(topic)
                right = got == kept(by_offset(values), ledger)
                at_end = list(map(positions.get, range(PARTITIONS))) == ends_of(values)
                note(f"{pattern}, {codec}, {name}: all records but those that the ledger names, positions at the end",
                     right and at_end)
                if not right or not at_end:
                    print(f"{len(got)} of {len(kept(by_offset(values), ledger))}, {positions} of {ends_of(values)}")
            lost = sum(row["lost"] for row in ledger.values())
            ranges = [last - first + 1 for row in ledger.values() for first, last in row["lost_offsets"]]
            note(f"{pattern}, {codec}: not more than a fifth is lost, and more than a tenth ({lost} of {len(values)})",
                 within_the_bound(ledger) and lost > len(values) / 10)
            note(f"{pattern}, {codec}: {sum(ranges) / len(ranges):.1f} records in a row are lost",
                 (sum(ranges) / len(ranges) < 2) == (pattern == "uniform"))


def in_messages(direct, through, door, found, asked, note):
    """Each client is the first to read some topic whose records travel in messages."""
    before = 0
    for name, (_, read) in found.items():
        for codec in ["none", "gzip"]:
            topic = f"messages-{name}-{codec}"
            create(direct, topic, 1)
            values = text_values(asked.records, topic)
            librdkafka_produce(direct, topic, values, codec)
            got, positions = read(through, topic, ends_of(values))
            ledger = door.ledger(topic)
            right = got == kept(by_offset(values), ledger)
            at_end = list(map(positions.get, range(PARTITIONS))) == ends_of(values)
            carried = door.ask("status")["kafka_responses_in_messages"]
            lost = sum(row["lost"] for row in ledger.values())
            note(f"in messages, {codec}, {name}: all records but those that the ledger names ({lost} of {len(values)}), "
                 "positions at the end, within the bound", right and at_end and within_the_bound(ledger))
            print(f"{carried - before} responses in messages", flush=True)
            if not right or not at_end:
                print(f"{len(got)} of {len(kept(by_offset(values), ledger))}, {positions} of {ends_of(values)}")
            before = carried
    note(f"in messages: responses travelled so ({before})", before >= len(found))


def leader_moves(pliant, folder, asked, note):
    """All clients read while records come, and a broker is killed that leads a partition."""
    cluster = Cluster(folder, 3)
    door = None
    try:
        direct = ",".join(f"127.0.0.1:{port}" for port in cluster.ports)
        door = lossy_door(pliant, folder, f"127.0.0.1:{cluster.ports[0]}")
        through = f"127.0.0.1:{door.port}"
        topic = "uniform-moved"
        create(direct, topic, 3)
        values = text_values(asked.records, topic)
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": direct})
        leaders = lambda: [part.leader for part in admin.list_topics(topic, PATIENCE).topics[topic].partitions.values()]
        before = leaders()
        # The door's bootstrap address is broker 1's.
        victim = next(leader for leader in before if leader != 1)
        found = clients(cluster, folder)
        with concurrent.futures.ThreadPoolExecutor(len(found)) as pool:
            reading = {name: pool.submit(read, through, topic, ends_of(values)) for name, (_, read) in found.items()}
            producer = confluent_kafka.Producer({"bootstrap.servers": direct, "linger.ms": 100, "enable.idempotence": True})
            for number, value in enumerate(values):
                producer.produce(topic, value, partition=number % PARTITIONS)
                if number % 100 == 99:
                    producer.poll(10 / (asked.records / 100))  # all of them in ten seconds or more
                if number == asked.records // 3:
                    cluster.processes[victim - 1][0].kill()
            assert producer.flush(PATIENCE) == 0
            after = leaders()
            note(f"leaders have moved from broker {victim} ({before}, then {after})",
                 victim in before and victim not in after)
            results = {name: future.result() for name, future in reading.items()}
        ledger = door.ledger(topic)
        for name, (got, positions) in results.items():
            right = got == kept(by_offset(values), ledger)
            at_end = list(map(positions.get, range(PARTITIONS))) == ends_of(values)
            note(f"a leader moves, {name}: all records but those that the ledger names, positions at the end", right and at_end)
            if not right or not at_end:
                print(f"{len(got)} of {len(kept(by_offset(values), ledger))}, {positions} of {ends_of(values)}")
        lost = sum(row["lost"] for row in ledger.values())
        note(f"a leader moves: not more than a fifth is lost, and more than a tenth ({lost} of {len(values)})",
             within_the_bound(ledger) and lost > len(values) / 10)
        counted = [ledger[partition]["fetched"] for partition in range(PARTITIONS)]
        note("a leader moves: every record counts once for all readers", counted == ends_of(values))
    finally:
        if door:
            door.end()
        cluster.end()


def lossy_door(pliant, folder, bootstrap):
    (folder / "ledger").unlink(missing_ok=True)
    rules = "".join(f'[kafka.topics."{pattern}-*"]\nmin_delivery = {MIN_DELIVERY}\nwhen = "always"\npattern = "{pattern}"\n'
                    for pattern in PATTERNS)
    rules += f'[kafka.topics."messages-*"]\nmin_delivery = {MIN_DELIVERY}\nwhen = "always"\ncarry = "messages"\n'
    return Door(pliant, folder, bootstrap, rules, f'kafka_ledger = "{folder / "ledger"}"\n')


def versions(folder):
    """Of every client, as its own packages say."""
    modules = subprocess.run(["go", "version", "-m", str(folder / "go-clients")], check=True, capture_output=True, text=True)
    of_go = dict(line.split()[1:3] for line in modules.stdout.splitlines() if line.split()[0] == "dep")
    of_js = json.loads((folder / "js" / "node_modules" / "kafkajs" / "package.json").read_text())
    return {
        "librdkafka": confluent_kafka.libversion()[0], "kafka-python": importlib.metadata.version("kafka-python"),
        "aiokafka": importlib.metadata.version("aiokafka"), "kafkajs": of_js["version"],
        "franz-go": of_go["github.com/twmb/franz-go"], "sarama": of_go["github.com/IBM/sarama"],
        "kafka-go": of_go["github.com/segmentio/kafka-go"],
        "kafka": sorted((folder / "jars").glob("kafka_*.jar"))[0].stem}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=12_000)
    parser.add_argument("--record", type=Path, help="where the result goes, as JSON")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    pliant = os.path.abspath(asked.pliant)
    checks = {}

    def note(name, good):
        checks[name] = good
        print(f"{'right' if good else 'WRONG'}: {name}", flush=True)

    begun = time.monotonic()
    cluster = Cluster(folder, 1)
    door = None
    try:
        direct = f"127.0.0.1:{cluster.ports[0]}"
        door = lossy_door(pliant, folder, direct)
        found = clients(cluster, folder)
        whole(direct, f"127.0.0.1:{door.port}", found, asked, note)
        patterns(direct, f"127.0.0.1:{door.port}", door, found, asked, note)
        in_messages(direct, f"127.0.0.1:{door.port}", door, found, asked, note)
    finally:
        if door:
            door.end()
        cluster.end()
    leader_moves(pliant, folder, asked, note)
    result = {"versions": versions(folder), "checks": checks, "seconds": round(time.monotonic() - begun)}
    if asked.record:
        asked.record.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result["versions"]))
    wrong = [name for name, good in checks.items() if not good]
    print(f"{len(checks) - len(wrong)} of {len(checks)} checks hold", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
