#!/usr/bin/env python3
"""Hellos from as many addresses as are given, none of which goes on, to a `pliant recv` on loopback. Prints what a record holds:
bytes sent and answered, the longest answer to a hello, the memory of the receiver before, after a tenth of the
flood and at its end, and whether a transfer beside it succeeds. Fails if an answer is not shorter than its hello, if memory grows
by more than 1 MiB after that tenth, or if the transfer fails."""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from hosts import memory_bytes

KIB = 1024
HELLO_BYTES = 64


def memory_kib(process):
    held = memory_bytes(process.pid)
    return held // KIB if held else sys.exit("flood.py: the receiver has ended")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pliant")
    arguments.add_argument("--hellos", type=int, default=200_000)
    arguments.add_argument("--record", type=Path, help="writes what it prints to this file, too")
    given = arguments.parse_args()
    pliant = Path(given.pliant).resolve()
    with tempfile.TemporaryDirectory(prefix="pliant-flood.") as path:
        key = Path(path) / "key"
        subprocess.run([pliant, "keygen", key], check=True, capture_output=True)
        receiver = subprocess.Popen([pliant, "recv", "--discard", "--count", "0", "--listen", "127.0.0.1:0", "--key", key],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            port = int(receiver.stderr.readline().rsplit(":", 1)[1])
            before, warm = memory_kib(receiver), None
            sent = answered = answers = longest = 0
            for number in range(given.hellos):
                if number == given.hellos // 10:
                    warm = memory_kib(receiver)
                # Kind hello, version 3, preshared key; a number. Nonce, cookie and padding are zeros.
                hello = (bytes([0x51, 0x30, 1, 0]) + (number + 1).to_bytes(4, "big")).ljust(HELLO_BYTES, b"\0")
                source = f"127.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                    stranger.bind((source, 0))
                    stranger.settimeout(0.2)
                    stranger.sendto(hello, ("127.0.0.1", port))
                    sent += len(hello)
                    try:
                        answer = len(stranger.recv(2000))
                    except TimeoutError:
                        continue
                    answers, answered, longest = answers + 1, answered + answer, max(longest, answer)
            after = memory_kib(receiver)
            source = Path(path) / "source"
            source.write_bytes(bytes(10**6))
            transfer = subprocess.run([pliant, "send", source, f"127.0.0.1:{port}", "--key", key, "--quiet"],
                                      stdout=subprocess.DEVNULL)
        finally:
            receiver.terminate()
            receiver.wait()
    record = {"hellos": given.hellos, "sent_bytes": sent, "answers": answers, "answered_bytes": answered,
              "hello_bytes": HELLO_BYTES, "longest_answer_bytes": longest, "memory_kib_before": before,
              "memory_kib_after_a_tenth": warm, "memory_kib_after": after, "transfer_succeeds": transfer.returncode == 0}
    text = json.dumps(record, indent=1)
    print(text)
    if given.record:
        given.record.write_text(text + "\n")
    holds = longest < HELLO_BYTES and after - warm <= KIB and transfer.returncode == 0
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
