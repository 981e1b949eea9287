#!/usr/bin/env python3
"""Objects, for daemon_soak.py: runs beside a daemon with a door for objects, changes what another daemon offers, and fetches it.

`object_soak.py near`: named files come and go in a folder that two daemons and a mirror of HTTP offer, of which one daemon is killed again
and again. They are fetched whole, in ranges and by hash, and some fetches are aborted. The files of a folder with subfolders
change, are fetched by the door one by one, and by `pliant fetch` as a whole, which is killed now and then.
`object_soak.py far`: the same by the door of the daemon that is killed, whose disk is full now and then.
`object_soak.py mirror`: the mirror, which sends a wrong byte now and then.

Every byte is compared. A file that has not changed for a while has to come; a file that goes may stop."""

import argparse
import collections
import contextlib
import http.client
import http.server
import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from soak_counts import Counts, run_all

# A folder is checked every three seconds and takes longer on a busy machine; until all sources have seen a change they disagree.
SETTLED_SECONDS = 15
PATIENCE_SECONDS = 120
# How long a daemon waits for a source's answer, and the share of fetches in which none may come.
ANSWER_SECONDS, LATE_SHARE = 5, 0.01
NAMED, LISTED, AT_ONCE = 12, 12, 3
CHANGE_SECONDS, TREE_SECONDS, PAUSE_SECONDS = 4, 20, 0.2
FULL_EVERY, FULL_SECONDS = 60, 8
FALSE_SHARE, ABORT_SHARE, KILL_SHARE = 0.05, 0.1, 0.3


class Objects(Counts):
    def __init__(self, given):
        super().__init__(f"{given.what} objects: ", given.seconds)
        self.given = given
        self.draw = random.Random(given.seed)
        # What is there: content, since when, and its hash once the door has told it.
        self.named, self.listed, self.hashes = {}, {}, {}
        self.number, self.tree_changed = 0, 0.0
        self.full = []
        # When each path was asked for.
        self.asked = collections.defaultdict(list)

    def content(self):
        return self.draw.randbytes(int(10 ** self.draw.uniform(1, 6.5)))

    @staticmethod
    def write(path, content):
        """A file that is there as a whole at once: names with a dot are not offered."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}")
        part.write_bytes(content)
        part.rename(path)

    def change_named(self):
        self.number += 1
        name, content = f"{self.given.what}-{self.number}", self.content()
        self.write(self.given.offered / name, content)
        with self.lock:
            self.named[name] = (content, time.monotonic())
        if len(self.named) > NAMED:
            with self.lock:
                gone = self.draw.choice(list(self.named)[: NAMED // 2])
                self.named.pop(gone)
                self.hashes.pop(gone, None)
            (self.given.offered / gone).unlink()
            self.count("files that went")
        self.count("files that came")

    def change_listed(self):
        name = f"{self.draw.randrange(3)}/{self.draw.randrange(LISTED // 3)}"
        content, path = self.content(), self.given.tree / name
        with self.lock:
            self.tree_changed = time.monotonic()
            if name in self.listed and self.draw.random() < 0.3:
                self.listed.pop(name)
                path.unlink()
            else:
                self.write(path, content)
                self.listed[name] = (content, time.monotonic())
            self.tree_changed = time.monotonic()
        self.count("changes of the folder")

    def changes(self):
        while time.monotonic() < self.end:
            self.change_named()
            time.sleep(CHANGE_SECONDS)

    def trees(self):
        """Changes the folder, and fetches all of it once both daemons have seen that."""
        into = self.given.scratch / f"{self.given.what}-into"
        into.mkdir()
        while time.monotonic() < self.end:
            self.change_listed()
            time.sleep(TREE_SECONDS)
            if not self.given.sources or not self.listed:
                continue
            command = [self.given.pliant, "fetch", *self.given.sources, "--key", self.given.key, "--name", f"{self.given.tree.name}/",
                       "--into", into, "--overwrite", "--quiet"]
            if self.draw.random() < KILL_SHARE:
                killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(self.draw.uniform(0.05, 1))
                killed.kill()
                killed.wait()
                self.count("fetches of the folder that were killed")
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
            if done.returncode:
                self.fail(f"fetch of the folder: exit code {done.returncode}: {done.stderr.strip()}")
                continue
            for name, (content, _) in self.listed.items():
                if (into / self.given.tree.name / name).read_bytes() != content:
                    self.fail(f"fetch of the folder: {name} differs")
            self.count("folders")

    def away(self, begun):
        """Whether the door's daemon was killed meanwhile, or is not back yet."""
        try:
            times = json.loads(self.given.away.read_text()) if self.given.away else []
        except (FileNotFoundError, ValueError):
            times = []
        return any(back is None or back + SETTLED_SECONDS > begun for _, back in times)

    def is_there(self, name, entry):
        with self.lock:
            return (self.listed if "/" in name else self.named).get(name) is entry

    def waited(self, path, now):
        """For how long the door may have waited for this file: a request takes part in a fetch that an earlier one began."""
        with self.lock:
            asked = self.asked[path] = [at for at in self.asked[path] if at > now - 2 * ANSWER_SECONDS]
        return now - min(asked, default=now)

    def excuse(self, status, name, entry, path, begun):
        """Why a fetch may fail, or None."""
        if not self.is_there(name, entry):
            return "gone meanwhile"
        if "/" in name and status in (404, 502) and self.tree_changed + SETTLED_SECONDS > begun:
            return "folder changed meanwhile"
        if any(until is None or until > begun - 1 for until in self.full) and status in (502, 507, None):
            return "disk full"
        if self.away(begun):
            return "door away"
        # In an outage, or on a busy machine: the others that answer do not have it.
        is_late = status in (404, 502) and self.waited(path, time.monotonic()) >= ANSWER_SECONDS
        return "no answer in time" if is_late else None

    def fetch(self, draw):
        now = time.monotonic()
        with self.lock:
            # A name has one content for all time. The folder's are read anew.
            files = [(name, entry) for of in (self.named, self.listed) for name, entry in of.items() if entry[1] + SETTLED_SECONDS < now]
        if not files:
            return time.sleep(0.2)
        name, entry = draw.choice(files)
        content, begun, status = entry[0], time.monotonic(), None
        path, headers, expected = f"/objects/{self.given.tree.name}/{name}" if "/" in name else f"/objects/{name}", {}, content
        way = draw.choice(("whole", "whole", "range", "hash", "abort"))
        if way == "hash" and (known := self.hashes.get(name)):
            path = f"/objects/{known}"
        if way == "range" and content:
            first = draw.randrange(len(content))
            last = draw.randrange(first, len(content))
            headers, expected = {"Range": f"bytes={first}-{last}"}, content[first : last + 1]
        connection = http.client.HTTPConnection("127.0.0.1", self.given.door, timeout=PATIENCE_SECONDS)
        with self.lock:
            self.asked[path].append(begun)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            status = answer.status
            if status not in (200, 206):
                raise ValueError(f"status {status}: {answer.read().decode(errors='replace').strip()}")
            if way == "abort" and len(content) > 1:
                got = answer.read(draw.randrange(1, len(content)))
                if content[: len(got)] != got and self.is_there(name, entry):
                    self.fail(f"{name}, aborted: other bytes came")
                return self.count("aborted")
            got = answer.read()
            if got != expected:
                return self.fail(f"{name}, {way}: other bytes came") if self.is_there(name, entry) else self.count("changed meanwhile")
            if "/" not in name:
                self.hashes[name] = answer.getheader("ETag").strip('"')
            self.count(f"fetches {'of the folder' if '/' in name else 'by name'}")
            self.count("ranges" if headers else "by hash" if path.endswith(self.hashes.get(name, "-")) else "whole")
            self.count("bytes", len(got))
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The status had gone before the body was cut off.
            if isinstance(error, http.client.IncompleteRead):
                status = None
            # Silence has no excuse: a door says what is wrong, or cuts the body off.
            why = None if isinstance(error, TimeoutError) else self.excuse(status, name, entry, path, begun)
            if why is None:
                self.fail(f"{name} of {len(content)} bytes, {way}, after {time.monotonic() - begun:.1f} s: {error!r}")
                time.sleep(1)
            else:
                self.count(f"excused: {why}")
                time.sleep(0.1)
        finally:
            connection.close()

    def fetches(self):
        with self.lock:
            draw = random.Random(self.draw.random())
        while time.monotonic() < self.end:
            self.fetch(draw)
            time.sleep(draw.uniform(0, 2 * PAUSE_SECONDS))

    def fill(self):
        """Fills the disk of the door's cache, for a while."""
        while time.monotonic() < self.end - FULL_EVERY / 2:
            time.sleep(FULL_EVERY / 2)
            self.full.append(None)
            with contextlib.suppress(OSError), self.given.disk.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            self.count("times that the disk was full")
            time.sleep(FULL_SECONDS)
            self.given.disk.unlink()
            self.full[-1] = time.monotonic()
            time.sleep(FULL_EVERY / 2 - FULL_SECONDS)

    def run(self):
        works = [self.changes, self.trees, *[self.fetches] * AT_ONCE, *([self.fill] if self.given.disk else [])]
        run_all([threading.Thread(target=self.guard, args=(work.__name__, work)) for work in works])
        self.require("files that came", "files that went", "changes of the folder", "folders", "fetches by name", "fetches of the folder",
                     "whole", "ranges", "by hash", "aborted", *(["times that the disk was full"] if self.given.disk else []))
        late, fetches = (self.counts.get(what, 0) for what in ("excused: no answer in time", "fetches by name"))
        if late > LATE_SHARE * fetches:
            self.fail(f"no answer came in time to {late} fetches, beside {fetches} by name")
        self.tell()


class Mirror(http.server.BaseHTTPRequestHandler):
    """Files of a folder, and ranges of them."""

    protocol_version = "HTTP/1.1"
    counts = {"answers": 0, "false": 0}

    def do_GET(self):
        try:
            content = (self.server.folder / self.path.rpartition("/")[2]).read_bytes()
        except OSError:
            return self.send_error(404)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        size, part = len(content), content
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or size), size - 1)
            if first >= size:
                return self.send_error(416)
            part = content[first : last + 1]
        self.counts["answers"] += 1
        if part and random.random() < FALSE_SHARE:
            self.counts["false"] += 1
            part = bytes((part[0] ^ 1,)) + part[1:]
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(part)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def mirror(address, port, folder):
    server = http.server.ThreadingHTTPServer((address, port), Mirror)
    server.folder = folder
    signal.signal(signal.SIGTERM, lambda *_: (print(json.dumps(Mirror.counts), flush=True), os._exit(0)))
    server.serve_forever()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("near", "far", "mirror"))
    arguments.add_argument("--offered", type=Path, help="folder whose files come and go")
    arguments.add_argument("--address")
    arguments.add_argument("--door", type=int, help="port of the door, or of the mirror")
    arguments.add_argument("--tree", type=Path, help="folder with subfolders, offered under its name")
    arguments.add_argument("--scratch", type=Path)
    arguments.add_argument("--pliant")
    arguments.add_argument("--key")
    arguments.add_argument("--sources", nargs="*", default=[], help="for `pliant fetch`")
    arguments.add_argument("--away", type=Path, help="when the door's daemon was not there, as JSON")
    arguments.add_argument("--disk", type=Path, help="a file on the disk of the door's cache")
    arguments.add_argument("--seconds", type=float)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    if given.what == "mirror":
        mirror(given.address, given.door, given.offered)
    else:
        Objects(given).run()


if __name__ == "__main__":
    main()
