"""What a part of a soak has done and what went wrong, as its threads tell."""

import json
import sys
import threading
import time

# Before a failure in a part's log.
FAILED = "failed: "


class Counts:
    """`name` stands before each failure. Work goes on for so many seconds, until `end`."""

    def __init__(self, name, seconds):
        self.name, self.end = name, time.monotonic() + seconds
        self.counts, self.failures, self.lock = {}, [], threading.Lock()

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + number

    def note(self, what):
        print(f"{time.strftime('%H:%M:%S')} {self.name}{what}", file=sys.stderr, flush=True)

    def fail(self, what):
        with self.lock:
            self.failures.append(f"{self.name}{what}")
            self.note(f"{FAILED}{what}")

    def guard(self, what, work, *of):
        try:
            work(*of)
        except Exception as error:  # What ends a thread would go unseen.
            self.fail(f"{what}: {error!r}")

    def require(self, *what):
        """Fails for each of these that never happened."""
        for each in what:
            if not self.counts.get(each):
                self.fail(f"did not happen: {each}")

    def tell(self):
        print(json.dumps({"counts": self.counts, "failures": self.failures}))


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
