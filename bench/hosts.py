"""What the benchmarks between network namespaces share: commands, and waiting for something with an end to patience."""

import subprocess
import time

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
