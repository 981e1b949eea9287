"""Workers on real sockets: who takes part, whether they agree, and messages between them."""

from __future__ import annotations

import contextlib
import json
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from .. import net
from .._errors import PliantError
from .._pliant import __version__
from ._coding import Array, Coding
from ._transpose import DTYPES, PHASES, Arrival, Tag, Transpose

_T = TypeVar("_T")

# Before each message: a mark, the phase, the dtype, the sender, the step, the vector's elements.
_HEAD = struct.Struct("<2sBBIII")
_MARK = b"pt"
MOST_MESSAGE_BYTES = 1 << 20
# What one worker may send for one part.
_MOST_BYTES = 1 << 30
# Steps around the latest one whose parts are kept: a peer is never more than a step's buckets ahead, or behind.
_MOST_APART = 256
_MOST_LINE = 4096
# How often those that wait look whether the group is closed.
_TICK = 0.25
# What a worker that leaves had sent has arrived, and is still being read.
_GRACE = 2.0


class Group(Transpose):
    """Workers that reduce together.

    Each worker makes one, with the same settings and its own rank. ``all_reduce`` is called by all of them in the same
    order with vectors of the same size.

    >>> import threading, numpy as np
    >>> addresses = ["127.0.0.1:7651", "127.0.0.1:7652"]
    >>> def work(rank, means):
    ...     with Group(rank, addresses, bound=0.0) as group:
    ...         means[rank] = group.all_reduce(np.array([1.0, 2.0, 3.0]) * (rank + 1))
    >>> means = {}
    >>> workers = [threading.Thread(target=work, args=(rank, means)) for rank in (0, 1)]
    >>> for worker in workers: worker.start()
    >>> for worker in workers: worker.join()
    >>> means[0], means[1]
    (array([1.5, 3. , 4.5]), array([1.5, 3. , 4.5]))
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        *,
        bound: float = 0.05,
        gather_bound: float | None = None,
        unbiased: str = "rotate",
        key: str | PathLike[str] | None = None,
        line_rate: str | None = None,
        message_bytes: int = 1024,
        seed: int = 0,
        patience: float = 30.0,
        control: net.Node | None = None,
    ) -> None:
        """Meet the other workers; returns once all are there and agree.

        Args:
            rank: Which worker this is, from 0.
            addresses: Where each worker listens, ``IP:PORT``, by rank.
            bound: Greatest part of a worker's messages that may be missing, per step and phase, in [0, 1). Whatever is
                missing once the bound is met is not waited for.
            gather_bound: The bound of the second phase, in which means go to all; ``bound`` if left out. With 0 all
                workers have the same result to the bit.
            unbiased: ``rotate`` or ``scale``: how a vector stands for itself while a part is missing.
            key: The key file. Without one nothing is encrypted, on addresses of this machine only.
            line_rate: The rate of this machine's link, such as ``"10Gbit/s"``.
            message_bytes: Bytes of a message, 64 bytes to 1 MiB. One that needs two packets is missing if one is.
            seed: Of random orders and signs.
            patience: Seconds after which a worker that sends nothing is an error, for all workers. A worker must not
                compute for longer between two steps.
            control: A node that listens at this worker's address already; it is closed with the group.

        Raises:
            PliantError: A setting is out of its range or differs between workers, or a worker does not come.
        """
        gather_bound = bound if gather_bound is None else gather_bound
        self.world, self.rank = len(addresses), rank
        for name, value in (("bound", bound), ("gather_bound", gather_bound)):
            if not 0 <= value < 1:
                raise PliantError(f"{name} must be at least 0 and below 1, not {value}")
        if self.world < 2:
            raise PliantError(f"a group has at least two workers, not {self.world}")
        if not 0 <= rank < self.world:
            raise PliantError(f"rank must be 0 to {self.world - 1}, not {rank}")
        if unbiased not in ("rotate", "scale"):
            raise PliantError(f"unbiased must be rotate or scale, not {unbiased}")
        if not 64 <= message_bytes <= MOST_MESSAGE_BYTES:
            raise PliantError(f"message_bytes must be 64 to {MOST_MESSAGE_BYTES}, not {message_bytes}")
        if not patience > 0:
            raise PliantError(f"patience must be above 0 seconds, not {patience}")
        self.bounds, self.rotate, self.seed = (bound, gather_bound), unbiased == "rotate", seed
        self.message_bytes = message_bytes - _HEAD.size
        self.patience = patience
        self.addresses = list(addresses)
        self._settings: dict[str, Any] = {
            "version": __version__,
            "world": self.world,
            "bound": bound,
            "gather_bound": gather_bound,
            "unbiased": unbiased,
            "message_bytes": message_bytes,
            "seed": seed,
        }
        self._sequence = 0
        self._changed = threading.Condition()
        self._came: dict[Tag, tuple[int, list[int], bytes] | None] = {}
        self._failure: str | None = None
        self._left: dict[int, tuple[str, float]] = {}
        self._closed = False
        self._streams: dict[int, net.Stream] = {}
        self._targets: dict[int, str] = {}
        self._posts = 0
        self.arrived: dict[str, list[int]] = {"reduce": [0, 0], "gather": [0, 0]}
        """By phase, messages that were sent to this worker so far, and those of them that arrived."""
        self._nodes: dict[float, net.Node] = {}
        host = addresses[rank].rpartition(":")[0]
        self._control = control
        self._pools = [ThreadPoolExecutor(max_workers=64, thread_name_prefix=name) for name in ("post", "take")]
        try:
            self._control = control or net.Node(addresses[rank], listen=True, key=key)
            self._incoming = net.Node(f"{host}:0", listen=True, key=key, transport="atp")
            for of in {0.0, bound, gather_bound}:
                self._nodes[of] = net.Node(
                    f"{host}:0", key=key, transport="atp", min_delivery=1.0 - of, line_rate=line_rate
                )
            self._meet()
        except BaseException as error:
            self._fail(str(error) or type(error).__name__)
            self._release()
            raise
        threading.Thread(target=self._accept).start()
        for peer in self._streams:
            threading.Thread(target=self._watch, args=(peer,)).start()

    # Meeting.

    def _meet(self) -> None:
        """A stream to each worker of a lower rank, and from each of a higher one; each side says its settings first."""
        assert self._control is not None
        deadline = time.monotonic() + self.patience

        def missing() -> str:
            gone = ", ".join(str(peer) for peer in range(self.world) if peer not in {self.rank, *self._streams})
            return f"worker {gone} did not come within {self.patience:g} s"

        def left() -> float:
            if (seconds := deadline - time.monotonic()) <= 0:
                raise PliantError(missing())
            return seconds

        for peer in range(self.rank):
            while True:
                try:
                    stream = self._control.connect(self.addresses[peer], seconds=left())
                    self._say(stream, {"hello": self.rank, "messages": self._incoming.address, **self._settings})
                    self._agree(stream, self._line(stream, left()), peer)
                    break
                except OSError:
                    # It has not begun to listen, or not come that far.
                    time.sleep(min(_TICK, left()))
        while len(self._streams) < self.world - 1:
            try:
                stream = self._control.accept(seconds=left())
                said = self._line(stream, min(left(), 5.0))
                if said.get("hello") not in range(self.rank + 1, self.world):
                    raise OSError("a stranger")
                self._say(stream, {"hello": self.rank, "messages": self._incoming.address, **self._settings})
                self._agree(stream, said, said["hello"])
            except OSError:
                # Somebody else, or one that tries again.
                continue

    def _say(self, stream: net.Stream, what: dict[str, Any]) -> None:
        stream.write(json.dumps(what).encode() + b"\n")

    def _line(self, stream: net.Stream, seconds: float) -> dict[str, Any]:
        deadline, line = time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            part = stream.read(1, seconds=max(0.0, deadline - time.monotonic()))
            line += part
            if not part or len(line) > _MOST_LINE:
                raise OSError("no line")
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise OSError("no line of settings")
        return said

    def _agree(self, stream: net.Stream, said: dict[str, Any], peer: int) -> None:
        if "failed" in said:
            raise PliantError(f"worker {peer} gave up: {said['failed']}")
        if said.get("hello") != peer:
            raise PliantError(f"{self.addresses[peer]} is not worker {peer}, but worker {said.get('hello')}")
        for name, value in self._settings.items():
            if said.get(name) != value:
                raise PliantError(
                    f"{name} must be the same for all workers: worker {peer} has {said.get(name)}, "
                    f"worker {self.rank} has {value}"
                )
        if not isinstance(said.get("messages"), str):
            raise PliantError(f"worker {peer} does not say where it takes messages")
        self._streams[peer], self._targets[peer] = stream, said["messages"]

    def _goes_on(self) -> bool:
        # At the end of a program that does not close the group the interpreter waits for threads.
        return not self._closed and threading.main_thread().is_alive()

    def _within(self, tick: Callable[[], _T]) -> _T:
        """Wait in short pieces, no longer than the patience, and not for a group that is closed."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return tick()
            except TimeoutError:
                if time.monotonic() > deadline or not self._goes_on():
                    raise

    # What comes.

    def _accept(self) -> None:
        while self._goes_on():
            try:
                receiver = self._incoming.accept_messages(seconds=_TICK)
            except TimeoutError:
                continue
            except (OSError, PliantError) as error:
                return self._fail(f"the socket failed: {error}")
            with contextlib.suppress(RuntimeError):
                self._pools[1].submit(self._collect, receiver)

    def _collect(self, receiver: net.MessageReceiver) -> None:
        """Take all messages of a flow, and put them where whoever waits finds them."""
        # What breaks off is missed by whoever waits for it; a stranger's does no harm.
        try:
            got = self._within(lambda: receiver.collect(_MOST_BYTES, seconds=_TICK))
        except OSError:
            return
        delivery = receiver.delivery
        if not got or delivery is None:
            return
        heads = {message[: _HEAD.size] for _, message in got}
        sizes = {len(message) for _, message in got}
        if len(heads) != 1 or len(sizes) != 1 or min(sizes) <= _HEAD.size:
            return
        mark, phase, kind, sender, sequence, length = _HEAD.unpack(heads.pop())
        if mark != _MARK or phase >= len(PHASES) or kind >= len(DTYPES) or sender >= self.world:
            return
        numbers = [number for number, _ in got]
        content = struct.pack("<BI", kind, length) + b"".join(message[_HEAD.size :] for _, message in got)
        tag = Tag(sequence, phase, sender)
        with self._changed:
            if tag not in self._came and abs(sequence - self._sequence) < _MOST_APART:
                self._came[tag] = (delivery.messages, numbers, content)
                self._changed.notify_all()

    def take(self, tag: Tag, coding: Coding, dtype: np.dtype[Any]) -> tuple[list[int], Array]:
        """Wait until what arrives of a worker's messages has arrived; their numbers, and a row for each."""
        deadline = time.monotonic() + self.patience
        with self._changed:
            while (came := self._came.get(tag)) is None:
                now = time.monotonic()
                self._check()
                if (gone := self._left.get(tag.sender)) and now > gone[1] + _GRACE:
                    break
                if now >= deadline:
                    break
                self._changed.wait(min(_TICK, deadline - now))
            # The place stays, so that a second flow of the same name is none.
            self._came[tag] = None
        if came is None:
            gone = self._left.get(tag.sender)
            why = f"worker {tag.sender} {gone[0] if gone else f'sent nothing for {self.patience:g} s'}"
            raise PliantError(f"{why}, while worker {self.rank} waited for step {tag.sequence}")
        messages, numbers, content = came
        kind, length = struct.unpack_from("<BI", content)
        theirs = (length, str(DTYPES[kind]))
        if theirs != (coding.length, str(dtype)) or messages != coding.rows:
            raise PliantError(
                f"worker {tag.sender} has {theirs[0]} elements of {theirs[1]} in a part of step {tag.sequence}, worker "
                f"{self.rank} has {coding.length} of {dtype}: all workers reduce the same vectors in the same order"
            )
        rows = np.frombuffer(content, dtype, offset=5)
        if rows.size != len(numbers) * coding.row or len(set(numbers)) != len(numbers) or max(numbers) >= coding.rows:
            raise PliantError(f"worker {tag.sender} sent messages of another size in step {tag.sequence}")
        return numbers, rows.reshape(len(numbers), coding.row)

    # What goes.

    def post(self, tag: Tag, to: int, coding: Coding, messages: Array, bound: float) -> None:
        """Send messages, of which all but ``bound`` arrive; does not wait."""
        kind = DTYPES.index(messages.dtype)
        head = _HEAD.pack(_MARK, tag.phase, kind, tag.sender, tag.sequence, coding.length)
        size = len(head) + coding.row * messages.itemsize
        framed = np.empty((coding.rows, size), np.uint8)
        framed[:, : len(head)] = np.frombuffer(head, np.uint8)
        framed[:, len(head) :] = messages.view(np.uint8).reshape(coding.rows, -1)
        with self._changed:
            self._check()
            self._posts += 1
            self._pools[0].submit(self._send, to, framed.tobytes(), size, bound)

    def _send(self, to: int, messages: bytes, size: int, bound: float) -> None:
        try:
            sender = self._nodes[bound].connect_messages(self._targets[to], seconds=self.patience)
            sender.announce(len(messages) // size)
            sender.send_all(messages, size)
            with contextlib.suppress(ConnectionResetError):
                # The peer has taken what it needs, and may have closed the flow before this side learns of it.
                self._within(lambda: sender.finish(seconds=_TICK))
        except (OSError, PliantError) as error:
            self._lose(to, f"cannot be reached ({error})")
        finally:
            with self._changed:
                self._posts -= 1
                self._changed.notify_all()

    # Ends.

    def _lose(self, peer: int, why: str) -> None:
        """Those that wait for the worker learn why it does not come, unless what they wait for is here."""
        with self._changed:
            self._left.setdefault(peer, (why, time.monotonic()))
            self._changed.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise PliantError(self._failure)
        if self._closed:
            raise PliantError("the group is closed")

    def _fail(self, why: str) -> None:
        """All that wait, here and at the other workers, learn why."""
        with self._changed:
            if self._failure is not None or self._closed:
                return
            self._failure = why
            self._changed.notify_all()
        for stream in self._streams.values():
            with contextlib.suppress(OSError, PliantError):
                self._say(stream, {"failed": why[:1000]})

    def _watch(self, peer: int) -> None:
        """What a worker says later is that it ends."""
        stream, line = self._streams[peer], b""
        said: dict[str, Any] = {}
        while not said:
            if not self._goes_on():
                return
            try:
                part = stream.read(_MOST_LINE, seconds=_TICK)
                line += part
                if line.endswith(b"\n") or not part or len(line) > _MOST_LINE:
                    said = json.loads(line)
            except TimeoutError:
                continue
            except (OSError, ValueError) as error:
                said = {"lost": str(error)}
        if self._closed:
            return
        if "failed" in said:
            self._fail(f"worker {peer} gave up: {said['failed']}")
        self._lose(peer, "left the group" if "closed" in said else f"is lost ({said.get('lost')})")

    def next_sequence(self) -> int:
        """Take the number of a step; all workers take them in the same order."""
        with self._changed:
            self._sequence += 1
            return self._sequence

    def reduce(self, vector: Array, *, exact: bool = False, sequence: int | None = None) -> tuple[Array, list[Arrival]]:
        """Return an unbiased estimate of the mean of all workers' vectors, and what arrived for it.

        Args:
            vector: This worker's, float32 or float64, of any shape.
            exact: Nothing may be missing this time; for parameters, for example.
            sequence: A number from :meth:`next_sequence`, taken before; for calls from several threads.

        Raises:
            PliantError: A worker is gone, sends nothing, or reduces something else. The group is of no more use.
        """
        if np.asarray(vector).dtype not in DTYPES:
            raise PliantError(f"all_reduce takes float32 and float64, not {np.asarray(vector).dtype}")
        with self._changed:
            self._check()
        sequence = self.next_sequence() if sequence is None else sequence
        try:
            mean, arrivals = self.mean(sequence, np.asarray(vector), exact)
        except PliantError as error:
            self._fail(str(error))
            raise
        with self._changed:
            for arrival in arrivals:
                counts = self.arrived[arrival.phase]
                counts[0] += arrival.messages
                counts[1] += arrival.arrived
            self._forget(sequence)
        return mean, arrivals

    def _forget(self, sequence: int) -> None:
        """The places of steps long past are given up: nothing of them is under way any more."""
        if sequence % 64:
            return
        old = [tag for tag, came in self._came.items() if came is None and tag.sequence < sequence - _MOST_APART]
        for tag in old:
            del self._came[tag]

    def all_reduce(self, vector: Array, *, exact: bool = False) -> Array:
        """Return an unbiased estimate of the mean of all workers' vectors; see :meth:`reduce`."""
        return self.reduce(vector, exact=exact)[0]

    def close(self) -> None:
        """Leave: waits until what was sent has arrived, and tells the others."""
        with self._changed:
            if self._closed:
                return
            deadline = time.monotonic() + self.patience
            while self._posts and self._failure is None and time.monotonic() < deadline:
                self._changed.wait(_TICK)
            tell = self._failure is None
            self._closed = True
            self._changed.notify_all()
        for stream in self._streams.values():
            with contextlib.suppress(OSError, PliantError):
                if tell:
                    self._say(stream, {"closed": self.rank})
                stream.finish(seconds=1.0)
        self._release()

    def _release(self) -> None:
        self._closed = True
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for stream in self._streams.values():
            stream.close()
        for node in [self._control, getattr(self, "_incoming", None), *self._nodes.values()]:
            if node is not None:
                node.close()

    def __enter__(self) -> Group:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave."""
        if error is not None:
            self._fail(f"{type(error).__name__}: {error}".splitlines()[0])
        self.close()


__all__ = ["Group"]
