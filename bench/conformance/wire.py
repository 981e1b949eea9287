#!/usr/bin/env python3
"""A wire between two network devices, which delays each frame: what netem does, where the kernel was built without it.

Usage: wire.py MICROSECONDS DEVICE DEVICE
Prints a line once it carries, and after SIGTERM a line of JSON: frames carried, frames more than LATE after their time, and
frames lost for want of room. Checksums must be whole: devices that leave them to hardware have none here.
"""

import json
import queue
import signal
import socket
import struct
import sys
import threading
import time

LATE = 0.001  # seconds
BUFFER = 8 << 20
# What Python has no names for.
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE, SO_TIMESTAMPNS, ALL_PROTOCOLS = 263, 6, 23, 33, 35, 3
ROOM = socket.CMSG_SPACE(16)  # for a time of arrival


class Direction:
    def __init__(self, source, target, delay):
        self.source, self.target, self.delay = source, target, delay
        self.waiting, self.carried, self.late = queue.SimpleQueue(), 0, 0
        for work in (self.receive, self.send):
            threading.Thread(target=work, daemon=True).start()

    def receive(self):
        while True:
            frame, ((_, _, stamp),), *_ = self.source.recvmsg(1 << 16, ROOM)
            seconds, nanoseconds = struct.unpack("qq", stamp)
            self.waiting.put((seconds + nanoseconds / 1e9 + self.delay, frame))

    def send(self):
        while True:
            due, frame = self.waiting.get()
            if (wait := due - time.time()) > 0:
                time.sleep(wait)
            self.target.send(frame)
            self.carried += 1
            self.late += time.time() > due + LATE


def end(device):
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    # When a frame came, not when this program was woken for it.
    packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    packets.bind((device, ALL_PROTOCOLS))
    return packets


def lost(packets):
    return struct.unpack("II", packets.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]


def main():
    delay, ends = int(sys.argv[1]) / 1e6, [end(device) for device in sys.argv[2:4]]
    # Before there are threads, which inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    directions = [Direction(*pair, delay) for pair in (ends, ends[::-1])]
    print("carrying", flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    counts = {name: sum(getattr(each, name) for each in directions) for name in ("carried", "late")}
    print(json.dumps({**counts, "lost": sum(map(lost, ends))}))


if __name__ == "__main__":
    main()
