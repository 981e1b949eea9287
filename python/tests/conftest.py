import os
import signal
import subprocess
from pathlib import Path

import matplotlib
import pytest

import pliant

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PLIANT_COMMAND", ROOT / "target/quick/pliant"))
matplotlib.use("agg")

# Three hosts, two groups, every law of a plain run, in milliseconds.
SMALL = {
    "duration": "2ms",
    "topology": {"kind": "star", "hosts": 4, "link": {"rate": "10Gbit/s", "delay": "1us"}},
    "traffic": {
        "search": {"kind": "poisson", "size": "20kB", "load": 0.4, "transport": "dctcp"},
        "copies": {"kind": "poisson", "size": "200kB", "load": 0.3, "transport": "cubic"},
    },
}


@pytest.fixture(autouse=True)
def interrupts():
    """A shell starts what runs in its background with interrupts ignored: tests send some."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def small() -> pliant.Scenario:
    return pliant.Scenario.from_dict(SMALL, "small")


@pytest.fixture(scope="session")
def command():
    """Run the command line; `make python` builds it."""
    assert PROGRAM.is_file(), f"there is no {PROGRAM}: `make python` builds it, PLIANT_COMMAND names another"

    def run(*words, check=True, env=None):
        done = subprocess.run(
            [str(PROGRAM), *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
            timeout=300,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run
