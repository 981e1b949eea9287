"""What the benchmarks share: commands, network namespaces, waiting for something with an end to patience, memory."""

import os
import subprocess
import time
from pathlib import Path

PATIENCE = 30  # seconds until something that does not come is an error


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(word) for word in words]]


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come within {PATIENCE} s")
        time.sleep(0.02)


def resident_bytes(pid):
    try:
        # A process that has ended and was not waited for has no memory, which says nothing.
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") or None
    except (FileNotFoundError, ProcessLookupError):
        return None
