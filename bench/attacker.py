#!/usr/bin/env python3
"""Somebody without the key, for soak.py: runs in a network namespace whose traffic it sees, and sends to a host's ports what
a stranger can (needs root): noise; headers that are right and nothing else; hellos with a cookie of its own and nonsense
behind it; hellos from addresses that are not its own, from port 0, and from where no answer can go; and datagrams that it has
seen, again, from its own address and from their sender's. Ends at SIGTERM and prints what it has sent, and what was
answered."""

import argparse
import json
import random
import signal
import socket
import struct
import time

MAGIC, VERSION = 0x51, 3
HELLO, COOKIE, KINDS = 0, 1, 7
PRESHARED = 1
RECORDED = 200


def header(kind, number):
    return bytes((MAGIC, VERSION << 4 | kind, PRESHARED, 0)) + struct.pack("!I", number)


def hello(random_bytes, number, nonce, cookie=bytes(24), message=24):
    return header(HELLO, number) + nonce + cookie + random_bytes(message)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def forged(source, port, to, to_port, payload):
    """An IPv4 packet with a UDP datagram; UDP's checksum may be left out."""
    udp = struct.pack("!HHHH", port, to_port, 8 + len(payload), 0) + payload
    start = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    sum_of = checksum(start + addresses)
    return start[:10] + struct.pack("!H", sum_of) + addresses + udp


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("own", help="own address")
    arguments.add_argument("honest", help="address of an honest sender")
    arguments.add_argument("to", help="address of the receiver")
    arguments.add_argument("ports", nargs="+", type=int)
    arguments.add_argument("--per-second", type=float, default=300)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    draw = random.Random(given.seed)
    network = given.own.rsplit(".", 1)[0]
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind((given.own, 0))
    own.setblocking(False)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
    seen.setblocking(False)
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    recorded, counts = [], dict.fromkeys(("noise", "headers", "cookies", "nonsense", "spoofed", "repeated", "answers"), 0)

    def record():
        while True:
            try:
                packet, about = seen.recvfrom(65535)
            except BlockingIOError:
                return
            if len(packet) < 36 or packet[9] != socket.IPPROTO_UDP or socket.inet_ntoa(packet[12:16]) != given.honest:
                continue
            port, to_port = struct.unpack("!HH", packet[20:24])
            if to_port in given.ports:
                # Requests are the rarest and the best.
                if packet[28] == MAGIC and packet[29] & 15 == HELLO or draw.random() < 0.001:
                    recorded.append((port, to_port, packet[28:]))
                    del recorded[:-RECORDED]

    def answered():
        while True:
            try:
                answer, (_, port) = own.recvfrom(65535)
            except (BlockingIOError, ConnectionError):
                return
            counts["answers"] += 1
            if len(answer) == 40 and answer[:2] == bytes((MAGIC, VERSION << 4 | COOKIE)):
                number, nonce, cookie = struct.unpack("!I8s24s", answer[4:])
                send(hello(draw.randbytes, number, nonce, cookie, draw.randrange(200)), port)
                counts["nonsense"] += 1

    def send(payload, port):
        try:
            own.sendto(payload, (given.to, port))
        except OSError:
            pass  # The link's queue is full, or nobody listens.

    def send_forged(source, port, to_port, payload):
        try:
            raw.sendto(forged(source, port, given.to, to_port, payload), (given.to, 0))
        except OSError:
            pass

    next_at = time.monotonic()
    while not over:
        record()
        answered()
        port, choice = draw.choice(given.ports), draw.randrange(10)
        nonce = draw.randbytes(8)
        if choice < 2:
            send(draw.randbytes(draw.randrange(1, 1200)), port)
            counts["noise"] += 1
        elif choice < 4:
            send(header(draw.randrange(KINDS), draw.getrandbits(32)) + draw.randbytes(draw.randrange(64)), port)
            counts["headers"] += 1
        elif choice < 6:
            send(hello(draw.randbytes, draw.getrandbits(32), nonce), port)
            counts["cookies"] += 1
        elif choice < 8 or not recorded:
            nobody = [f"{network}.{draw.randrange(100, 250)}", f"{network}.255", "255.255.255.255", given.honest, given.to]
            source_port = draw.choice((0, 1, 7410, draw.randrange(1024, 65536)))
            send_forged(draw.choice(nobody), source_port, port, hello(draw.randbytes, draw.getrandbits(32), nonce))
            counts["spoofed"] += 1
        else:
            source_port, to_port, payload = draw.choice(recorded)
            if choice == 8:
                send(payload, to_port)
            else:
                send_forged(given.honest, source_port, to_port, payload)
            counts["repeated"] += 1
        next_at = max(next_at + 1 / given.per_second, time.monotonic() - 0.1)
        time.sleep(max(0.0, next_at - time.monotonic()))
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main()
