#!/usr/bin/env python3
"""Apache Kafka and unmodified clients through a Kafka door, beside the same clients without it.

Usage: run.py PLIANT FOLDER [--brokers N] [--records N] [--record FILE]
FOLDER holds jars/ (the broker) and is where logs and settings go. `make kafka` prepares it.
Every line of the checks compares bytes. The exit code is 1 if one differs.
"""

import argparse
import asyncio
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka

PARTITIONS = 3
PATIENCE = 60  # seconds until something that does not come is an error


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(port, process, log):
    """Until somebody accepts connections on a port."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"it ended by itself: {log.read_text()[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nobody listens on port {port}: {log}")


# The user of the listener with SASL, and how clients name it.
USER = {"sasl.username": "alice", "sasl.password": "alice-secret"}
# Of every broker's listener with SASL.
SASL = f"""
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_{USER["sasl.username"]}="{USER["sasl.password"]}";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""
STORE_PASSWORD = "of-the-store"


@contextlib.contextmanager
def ends_on_failure(part):
    """Ends what a part of the bench has started if its start fails."""
    try:
        yield
    except BaseException:
        part.end()
        raise


class Cluster:
    """Brokers in KRaft mode, each a controller too, with a listener each without and with SASL, with TLS, and one for a relay,
    at whose port it says it is. `more` are further settings."""

    def __init__(self, folder, count, more=""):
        self.jars = str(folder / "jars" / "*")
        ports = free_ports(6 * count)
        self.ports, self.sasl_ports, self.tls_ports, self.relay_ports, self.relayed_ports, controllers = (
            ports[n::6] for n in range(6))
        store = folder / "broker.p12"
        if not store.exists():
            subprocess.run(
                ["keytool", "-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-keystore", str(store), "-storetype", "PKCS12",
                 "-storepass", STORE_PASSWORD], check=True, capture_output=True)
        voters = ",".join(f"{n + 1}@127.0.0.1:{port}" for n, port in enumerate(controllers))
        cluster = self.java("kafka.tools.StorageTool", "random-uuid").stdout.split()[-1]
        self.processes = []
        for n, (port, controller) in enumerate(zip(self.ports, controllers)):
            listeners = {"PLAINTEXT": port, "SASL": self.sasl_ports[n], "TLS": self.tls_ports[n]}
            listens, advertises = ([f"{name}://127.0.0.1:{port}" for name, port in (listeners | others).items()] for others in (
                {"RELAYED": self.relayed_ports[n], "CONTROLLER": controller}, {"RELAYED": self.relay_ports[n]}))
            home = folder / f"broker{n + 1}"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            replicas = min(3, count)
            (home / "server.properties").write_text(f"""
process.roles=broker,controller
node.id={n + 1}
controller.quorum.voters={voters}
listeners={",".join(listens)}
advertised.listeners={",".join(advertises)}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,RELAYED:PLAINTEXT,CONTROLLER:PLAINTEXT
ssl.keystore.location={store}
ssl.keystore.password={STORE_PASSWORD}
{SASL}controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={home}/data
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=3
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
{more}""")
            user = f"SCRAM-SHA-256=[name={USER['sasl.username']},password={USER['sasl.password']}]"
            self.java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(home / "server.properties"),
                      "--add-scram", user)
            self.processes.append((self.start(home), port, home / "log"))
        with ends_on_failure(self):
            for process, port, log in self.processes:
                wait_for(port, process, log)

    def java(self, *arguments, **more):
        return subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", self.jars, *arguments],
            check=True, text=True, capture_output=True, timeout=2 * PATIENCE, **more)

    def start(self, home):
        with open(home / "log", "w") as log:
            return subprocess.Popen(
                ["java", "-Xms128m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self.jars,
                 "kafka.Kafka", str(home / "server.properties")], stdout=log, stderr=log)

    def end(self):
        for process, _, _ in self.processes:
            process.kill()
            process.wait()


class Door:
    """Two daemons; the first has the door. `of_door`, `of_exit` and `of_class` are more lines of their tables."""

    def __init__(self, pliant, folder, bootstrap, of_door="", of_exit="", of_class="", hosts=None, sockets=None):
        """`hosts` are for two hosts: the near one's address, that of the far one, and what runs a command on the near one.
        `sockets` are the port of the far daemon's socket, and that of each near one: there may be several, each with a door."""
        self.pliant = pliant
        self.home = home = folder / "daemons"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        subprocess.run([pliant, "keygen", str(home / "lab.key")], check=True, capture_output=True)
        far, *nears = sockets or free_ports(2)
        self.nears = ["near", *(f"near{number}" for number in range(2, len(nears) + 1))]
        self.ports = free_ports(len(nears))
        self.port = self.ports[0]
        self.bootstraps = [f"127.0.0.1:{port}" for port in self.ports]
        near_host, far_host, self.on_near = hosts or ("127.0.0.1", "127.0.0.1", [])
        transport = f"[classes.bulk]\ntransport = \"dctcp\"\n{of_class}"
        (home / "far.toml").write_text(
            f'listen = "{far_host}:{far}"\nkey = "lab.key"\ncontrol = "far.sock"\n{transport}'
            f'[exit]\nallow = ["127.0.0.1:*"]\n{of_exit}')
        for name, near, port in zip(self.nears, nears, self.ports):
            (home / f"{name}.toml").write_text(
                f'listen = "{near_host}:{near}"\nkey = "lab.key"\ncontrol = "{name}.sock"\n'
                f'[peers]\nfar = "{far_host}:{far}"\n{transport}'
                f'[[kafka]]\nlisten = "127.0.0.1:{port}"\nto = "far"\nbootstrap = "{bootstrap}"\nclass = "bulk"\n{of_door}')
        self.processes = {}
        with ends_on_failure(self):
            for name in ["far", *self.nears]:
                self.start(name)
            self.wait()

    def start(self, name):
        with open(self.home / f"{name}.log", "a") as log:
            command = [self.pliant, "daemon", str(self.home / f"{name}.toml")]
            self.processes[name] = subprocess.Popen(
                [*self.on_near, *command] if name in self.nears else command, stdout=log, stderr=log)

    def wait(self):
        """Until the near daemons answer: their doors are open then."""
        deadline = time.monotonic() + PATIENCE
        for name in self.nears:
            asked = [self.pliant, "status", "--json", "--control", str(self.home / f"{name}.sock")]
            while subprocess.run(asked, capture_output=True).returncode:
                if self.processes[name].poll() is not None or time.monotonic() > deadline:
                    log = (self.home / f"{name}.log").read_text()
                    raise SystemExit(f"the {name} daemon does not answer: {log[-2000:]}")
                time.sleep(0.05)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def ask(self, *words):
        """What the far daemon says."""
        asked = [self.pliant, *words, "--json", "--control", str(self.home / "far.sock")]
        return json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)

    def ledger(self, topic):
        """What the far daemon says of a topic, by partition, once it has heard what became of all records."""
        deadline = time.monotonic() + PATIENCE
        while True:
            told = self.ask("kafka", "ledger", topic)
            if not any(row["unsettled"] for row in told) or time.monotonic() > deadline:
                return {row["partition"]: row for row in told}

    def says(self, what):
        """Whether the near daemon says it, now or soon."""
        deadline = time.monotonic() + PATIENCE / 6
        while what not in (self.home / "near.log").read_text():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def end(self):
        for name in self.processes:
            self.kill(name)


class Relays:
    """A pair of relays in front of each broker, TLS between them: what carries bytes and does nothing else."""

    def __init__(self, folder, cluster):
        self.processes = []
        with ends_on_failure(self):
            for near, target in zip(cluster.relay_ports, cluster.relayed_ports):
                [far] = free_ports(1)
                for side, listens, leads in [("far", far, target), ("near", near, far)]:
                    command = [str(folder / "go-relay"), side, f"127.0.0.1:{listens}", f"127.0.0.1:{leads}"]
                    self.processes.append(subprocess.Popen(command))
                    wait_for(listens, self.processes[-1], folder / "go-relay.log")

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def records(count, size, seed):
    """Values that tell order, loss and change."""
    draw = random.Random(seed)
    return [b"%08d" % number + draw.randbytes(size - 8) for number in range(count)]


def create(bootstrap, topic, replicas, config=None):
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    new = confluent_kafka.admin.NewTopic(topic, PARTITIONS, replicas, config=config or {})
    for each in admin.create_topics([new]).values():
        each.result(PATIENCE)


# Each client: produce(bootstrap, topic, values, codec) and consume(bootstrap, topic, count), which gives
# {(partition, offset): value}. Value n goes to partition n % PARTITIONS.

def librdkafka_produce(bootstrap, topic, values, codec):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "enable.idempotence": True})
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(PATIENCE) == 0


def librdkafka_consume(bootstrap, topic, count):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{random.random()}", "auto.offset.reset": "earliest",
         "check.crcs": True})
    consumer.subscribe([topic])
    got = {}
    deadline = time.monotonic() + PATIENCE
    while len(got) < count and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.2):
            assert not message.error(), message.error()
            got[message.partition(), message.offset()] = message.value()
    consumer.commit(asynchronous=False)
    consumer.close()
    return got


def kafka_python_produce(bootstrap, topic, values, codec):
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec)
    for number, value in enumerate(values):
        producer.send(topic, value, partition=number % PARTITIONS)
    producer.flush(PATIENCE)
    producer.close()


def kafka_python_consume(bootstrap, topic, count):
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=f"{topic}-{random.random()}",
        consumer_timeout_ms=PATIENCE * 1000, check_crcs=True)
    got = {}
    for message in consumer:
        got[message.partition, message.offset] = message.value
        if len(got) == count:
            break
    consumer.close()
    return got


def aiokafka_produce(bootstrap, topic, values, codec):
    async def produce():
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, enable_idempotence=True)
        await producer.start()
        last = [await producer.send(topic, value, partition=number % PARTITIONS) for number, value in enumerate(values)]
        await asyncio.gather(*last)
        await producer.stop()
    asyncio.run(produce())


def aiokafka_consume(bootstrap, topic, count):
    async def consume():
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=f"{topic}-{random.random()}")
        await consumer.start()
        got = {}
        while len(got) < count:
            batches = await asyncio.wait_for(consumer.getmany(timeout_ms=500), PATIENCE)
            for messages in batches.values():
                for message in messages:
                    got[message.partition, message.offset] = message.value
        await consumer.stop()
        return got
    return asyncio.run(consume())


CLIENTS = {
    "librdkafka": (librdkafka_produce, librdkafka_consume),
    "kafka-python": (kafka_python_produce, kafka_python_consume),
    "aiokafka": (aiokafka_produce, aiokafka_consume),
}
CODECS = {"librdkafka": ["none", "gzip", "snappy", "lz4", "zstd"], "kafka-python": ["none", "gzip"],
          "aiokafka": ["none", "gzip"]}


def digest(got):
    """Of all records in the order of their partitions and offsets."""
    whole = hashlib.sha256()
    for (partition, offset), value in sorted(got.items()):
        whole.update(b"%d %d %d " % (partition, offset, len(value)) + value)
    return whole.hexdigest()


def java_consume(cluster, bootstrap, topic, count):
    """The Java client's reader: lines, as the console prints them, in the order of each partition."""
    done = cluster.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", topic,
        "--from-beginning", "--max-messages", str(count), "--timeout-ms", str(PATIENCE * 1000),
        "--property", "print.partition=true", "--property", "print.offset=true")
    return java_lines(done.stdout)


def java_lines(text):
    """{(partition, offset): value} of what the console has printed."""
    rows = re.findall(r"Partition:(\d+)\s+Offset:(\d+)\s+(\S+)", text)
    return {(int(partition), int(offset)): value.encode() for partition, offset, value in rows}


def java_produce(cluster, bootstrap, topic, values):
    cluster.java(
        "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic,
        input="".join(value.decode() + "\n" for value in values))


def transactions(bootstrap, topic):
    """Committed and aborted transactions in turn; gives what a reader of committed records has to get."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE)
    committed = []
    for number in range(20):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, record) for record in range(50)]
        for value in values:
            producer.produce(topic, value, partition=number % PARTITIONS)
        if number % 3 == 2:
            producer.flush(PATIENCE)
            producer.abort_transaction(PATIENCE)
        else:
            producer.commit_transaction(PATIENCE)
            committed += values
    return committed


def consume_rate(bootstrap, topic, count):
    """Records per second of librdkafka's consumer, from its start: it has tens of megabytes before it gives the first."""
    start = time.perf_counter()
    consumer = confluent_kafka.Consumer(
        # With the default it waits for a second whenever it holds 100,000 records or 64 MB.
        {"bootstrap.servers": bootstrap, "group.id": "rate", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1})
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    got, deadline = 0, time.monotonic() + PATIENCE
    while got < count and time.monotonic() < deadline:
        got += len(consumer.consume(10_000, 0.2))
    elapsed = time.perf_counter() - start
    consumer.close()
    return got / elapsed


def produce_times(bootstrap, topic, count):
    """How long each of some single records takes to be acknowledged, in milliseconds, sorted."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.produce(topic, b"first", partition=0)
    producer.flush(PATIENCE)
    times = []
    for _ in range(count):
        acknowledged = []
        start = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=lambda error, _: acknowledged.append(error))
        while not acknowledged:
            producer.poll(1)
        assert acknowledged == [None], acknowledged
        times.append((time.perf_counter() - start) * 1000)
    return sorted(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pliant")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--record", type=Path, help="where the result goes, as JSON")
    asked = parser.parse_args()
    folder, pliant = asked.folder.resolve(), os.path.abspath(asked.pliant)
    checks = {}

    def note(name, good):
        checks[name] = good
        print(f"{'same' if good else 'DIFFERS'}: {name}", flush=True)

    cluster = Cluster(folder, asked.brokers)
    door = large = topics = relays = None
    try:
        direct = f"127.0.0.1:{cluster.ports[0]}"
        door = Door(pliant, folder, direct)
        through = f"127.0.0.1:{door.port}"
        check(cluster, direct, through, asked, note)
        relays = Relays(folder, cluster)
        # Loopback takes packets of 65,536 bytes, and those of TCP are as large.
        (folder / "large").mkdir(exist_ok=True)
        large = Door(pliant, folder / "large", direct, of_class="mtu = 60000\n")
        (folder / "by_topic").mkdir(exist_ok=True)
        topics = Door(pliant, folder / "by_topic", direct, of_class='[classes.speed]\ntransport = "dctcp"\n',
                      of_door='[kafka.topics."speed-*"]\nclass = "speed"\n')
        speeds = measure(
            {"direct": direct, "through the door": through, "through the door by topic": f"127.0.0.1:{topics.port}",
             "through the door by large packets": f"127.0.0.1:{large.port}", "by relays": f"127.0.0.1:{cluster.relay_ports[0]}"}, asked)
        door.end()
        by_topic(cluster, pliant, folder, direct, asked, note)
        if asked.brokers == 1:
            secured(cluster, pliant, folder, note)
    finally:
        for each in [door, large, topics, relays, cluster]:
            if each:
                each.end()
    jars = (folder / "jars").glob("kafka_*.jar")
    versions = {name: importlib.metadata.version(name) for name in ["confluent-kafka", "kafka-python", "aiokafka"]}
    versions["librdkafka"] = confluent_kafka.libversion()[0]
    versions["kafka"] = sorted(jars)[0].stem
    result = {"brokers": asked.brokers, "versions": versions, "checks": checks, "speeds": speeds}
    if asked.record:
        asked.record.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(versions))
    wrong = [name for name, good in checks.items() if not good]
    print(f"{len(checks) - len(wrong)} of {len(checks)} checks hold", *wrong, sep="\n")
    sys.exit(bool(wrong))


def check(cluster, direct, through, asked, note):
    brokers = confluent_kafka.admin.AdminClient({"bootstrap.servers": through}).list_topics(timeout=PATIENCE).brokers
    ports = {broker.port for broker in brokers.values()}
    note("every broker is behind the door", len(ports) == asked.brokers and not ports & set(cluster.ports))
    replicas = min(3, asked.brokers)
    for name, (produce, consume) in CLIENTS.items():
        for codec in CODECS[name]:
            topic = f"{name}-{codec}"
            create(through, topic, replicas)
            values = records(asked.records, 100, topic)
            produce(through, topic, values, codec)
            behind, beside = consume(through, topic, len(values)), consume(direct, topic, len(values))
            note(f"{name} {codec}: consumed through the door and beside it", digest(behind) == digest(beside))
            sent = {(n % PARTITIONS, n // PARTITIONS): value for n, value in enumerate(values)}
            note(f"{name} {codec}: consumed as produced through the door", digest(behind) == digest(sent))
    values = [value.hex().encode() for value in records(asked.records, 50, "java")]
    create(through, "java", replicas)
    java_produce(cluster, through, "java", values)
    got = java_consume(cluster, through, "java", len(values))
    note("java: consumed as produced through the door", sorted(got.values()) == sorted(values))
    note("java: the same beside the door", digest(got) == digest(librdkafka_consume(direct, "java", len(values))))
    create(through, "transactions", replicas)
    committed = transactions(through, "transactions")
    got = librdkafka_consume(through, "transactions", len(committed))
    note("transactions: committed records and no other", sorted(got.values()) == sorted(committed))


def ends_after(port, request):
    """Whether a connection ends without an answer once these bytes were sent."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(request)
        try:
            return client.recv(100) == b""
        except ConnectionResetError:
            return True


def handshake(port, version, mechanism):
    """Kafka's answer to a handshake of SASL: the error's number."""
    text = mechanism.encode()
    body = struct.pack(">hhi", 17, version, 7) + struct.pack(">h", -1) + struct.pack(">h", len(text)) + text
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(struct.pack(">i", len(body)) + body)
        answer = client.recv(1000)
    return struct.unpack(">h", answer[8:10])[0]


def secured(cluster, pliant, folder, note):
    """What a door says of SASL and TLS."""
    door = Door(pliant, folder, f"127.0.0.1:{cluster.sasl_ports[0]}")
    try:
        through = f"127.0.0.1:{door.port}"
        for mechanism in ["PLAIN", "SCRAM-SHA-256"]:
            settings = {"bootstrap.servers": through, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism} | USER
            topic = f"sasl-{mechanism}"
            create(f"127.0.0.1:{cluster.ports[0]}", topic, 1)
            producer = confluent_kafka.Producer(settings)
            values = records(1000, 100, topic)
            for value in values:
                producer.produce(topic, value, partition=0)
            left = producer.flush(PATIENCE)
            consumer = confluent_kafka.Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
            consumer.subscribe([topic])
            got = []
            deadline = time.monotonic() + PATIENCE
            while len(got) < len(values) and time.monotonic() < deadline:
                got += [message.value() for message in consumer.consume(1000, 0.2)]
            consumer.close()
            note(f"SASL, {mechanism}: consumed as produced through the door", left == 0 and got == values)
            said = []
            wrong = settings | {"sasl.password": "none", "error_cb": lambda error, said=said: said.append(error.code())}
            client = confluent_kafka.admin.AdminClient(wrong)
            while not said and time.monotonic() < deadline:
                client.poll(0.2)
            note(f"SASL, {mechanism}: a wrong password is told as the broker tells it",
                 confluent_kafka.KafkaError._AUTHENTICATION in said)
        reader = kafka.KafkaConsumer(
            topic, bootstrap_servers=through, auto_offset_reset="earliest", security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256", sasl_plain_username=USER["sasl.username"],
            sasl_plain_password=USER["sasl.password"], consumer_timeout_ms=PATIENCE * 1000)
        got = [next(reader).value for _ in values]
        reader.close()
        note("SASL, SCRAM-SHA-256, kafka-python: the same", got == values)
        for version, mechanism, said in [(1, "GSSAPI", "GSSAPI (Kerberos)"), (0, "PLAIN", "SASL in version 0")]:
            error = handshake(door.port, version, mechanism)
            note(f"SASL, {mechanism} of version {version}: the client gets Kafka's error 33 ({error})", error == 33)
            note(f"SASL, {mechanism} of version {version}: the daemon says why", door.says(said))
        ended = ends_after(door.port, b"\x16\x03\x01\x02\x00")
        note("a client that speaks TLS: its connection ends, and the daemon says why", ended and door.says("the client speaks TLS"))
    finally:
        door.end()
    door = Door(pliant, folder, f"127.0.0.1:{cluster.tls_ports[0]}")
    try:
        ended = ends_after(door.port, struct.pack(">ihhih", 10, 18, 0, 7, -1))
        note("a broker that speaks TLS: the connection ends, and the daemon says why", ended and door.says("the broker speaks TLS"))
    finally:
        door.end()


def by_topic(cluster, pliant, folder, direct, asked, note):
    """Topics of a class of their own, and others: what is produced and consumed, and in which class it travels."""
    door = Door(pliant, folder, direct, of_class='[classes.low]\ntransport = "ledbat++"\n',
                of_door='[kafka.topics."low-*"]\nclass = "low"\n')

    def carried():
        """Bytes both ways, by class."""
        asked = [pliant, "status", "--json", "--control", str(door.home / "near.sock")]
        status = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        carried = dict.fromkeys(["bulk", "low"], (0, 0))
        return carried | {each["class"]: (each["sent_bytes"], each["received_bytes"]) for each in status["bundles"]}

    try:
        through = f"127.0.0.1:{door.port}"
        replicas = min(3, asked.brokers)
        clients = CLIENTS | {"java": (functools.partial(java_produce, cluster), functools.partial(java_consume, cluster))}
        for name, (produce, consume) in clients.items():
            values = [value.hex().encode() for value in records(asked.records, 50, name)]
            for topic, own, other in [(f"low-{name}", "low", "bulk"), (f"online-{name}", "bulk", "low")]:
                create(direct, topic, replicas)
                before = carried()
                codec = [] if name == "java" else ["none"]
                produce(through, topic, values, *codec)
                got = consume(through, topic, len(values))
                note(f"{topic}: consumed as produced, by class {own}", sorted(got.values()) == sorted(values))
                grown = {each: [now - then for now, then in zip(carried()[each], before[each])] for each in before}
                note(f"{topic}: records travel in class {own}, both ways",
                     min(grown[own]) >= 100 * len(values) and max(grown[other]) < 10 * len(values))
        create(direct, "low-transactions", replicas)
        committed = transactions(through, "low-transactions")
        got = librdkafka_consume(through, "low-transactions", len(committed))
        note("low-transactions: committed records and no other", sorted(got.values()) == sorted(committed))
    finally:
        door.end()


def measure(ways, asked):
    """The same by each way in turns; the median of three."""
    speeds = {}
    replicas = min(3, asked.brokers)
    direct = ways["direct"]
    for size in [100, 1000]:
        topic, count = f"speed-{size}", 200_000_000 // size
        create(direct, topic, replicas)
        librdkafka_produce(direct, topic, records(count, size, topic), "none")
        runs = [[consume_rate(way, topic, count) for way in ways.values()] for _ in range(3)]
        for number, way in enumerate(ways):
            speeds[f"consume {size} B, {way}, records/s"] = round(sorted(run[number] for run in runs)[1])
    runs = [[produce_times(way, "speed-100", 1000) for way in ways.values()] for _ in range(3)]
    for number, way in enumerate(ways):
        speeds[f"produce p99, {way}, ms"] = round(sorted(run[number][989] for run in runs)[1], 2)
        speeds[f"produce p50, {way}, ms"] = round(sorted(run[number][499] for run in runs)[1], 2)
    for name, value in speeds.items():
        print(f"{value:>12}  {name}")
    return speeds


if __name__ == "__main__":
    main()
