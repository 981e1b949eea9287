"""Connections on real sockets, by the transports that the simulator runs: byte streams, and messages under a contract.

For a program that uses sockets today. Every operation has two forms: one that waits, and one for asyncio, whose name
ends in ``_async``. Those that wait take ``seconds``, after which they raise ``TimeoutError``; asyncio has its own
timeouts.

>>> import pliant.net
>>> with pliant.net.Node("127.0.0.1:0", listen=True) as server, pliant.net.Node() as client:
...     stream = client.connect(server.address)
...     stream.write(b"how are you?")
...     other = server.accept()
...     other.read_exactly(12)
b'how are you?'

Without a key nothing is encrypted, and only addresses of this machine are taken. `pliant keygen` makes a key file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import Any, NamedTuple

from . import _pliant
from ._errors import PliantError


def _countdown(seconds: float | None) -> Callable[[], float | None]:
    """Return what says how many of so many seconds are left."""
    # What is no number of seconds is refused by the call that waits.
    if seconds is None or not seconds >= 0:
        return lambda: seconds
    end = time.monotonic() + seconds
    return lambda: max(0.0, end - time.monotonic())


async def _of(pending: _pliant.Pending) -> Any:
    """Wait for an operation without holding up the loop."""
    loop = asyncio.get_running_loop()
    while True:
        news: asyncio.Future[None] = loop.create_future()

        def tell(news: asyncio.Future[None] = news) -> None:
            if not news.done():
                news.set_result(None)

        def wake(tell: Callable[[], None] = tell) -> None:
            loop.call_soon_threadsafe(tell)

        given = pending.poll(wake)
        if given is not None:
            return given[0]
        await news


class Delivery(NamedTuple):
    """What became of a flow of messages."""

    messages: int
    """How many there were."""
    delivered: int
    """How many arrived."""
    missing: list[int]
    """The numbers of those that did not."""


class _Closes:
    """Closes itself at the end of a ``with``."""

    def close(self) -> None:
        """Close it."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class Stream(_Closes):
    """Bytes both ways. One thread, or task, may read while another one writes."""

    def __init__(self, stream: _pliant.NetStream, min_share: float) -> None:
        """Wrap a stream; a node makes them."""
        self._stream, self._min_share = stream, min_share

    def read(self, most: int = 65536, seconds: float | None = None) -> bytes:
        """Return up to so many bytes, as soon as there are some; none at the end."""
        got: bytes = self._stream.read(most).wait(seconds)
        return got

    async def read_async(self, most: int = 65536) -> bytes:
        """Return up to so many bytes, as soon as there are some; none at the end."""
        got: bytes = await _of(self._stream.read(most))
        return got

    def read_exactly(self, count: int, seconds: float | None = None) -> bytes:
        """Return so many bytes.

        Raises:
            EOFError: The stream ends before.
            TimeoutError: They have not come within so many seconds. Those that have are lost.
        """
        parts, left = bytearray(), _countdown(seconds)
        while len(parts) < count:
            part = self.read(count - len(parts), left())
            if not part:
                raise EOFError(f"the stream ended after {len(parts)} of {count} bytes")
            parts += part
        return bytes(parts)

    async def read_exactly_async(self, count: int) -> bytes:
        """Return so many bytes.

        Raises:
            EOFError: The stream ends before.
        """
        parts = bytearray()
        while len(parts) < count:
            part = await self.read_async(count - len(parts))
            if not part:
                raise EOFError(f"the stream ended after {len(parts)} of {count} bytes")
            parts += part
        return bytes(parts)

    def write(self, data: bytes | bytearray | memoryview, seconds: float | None = None) -> None:
        """Write all of it; waits while the peer does not read.

        Raises:
            TimeoutError: The peer has not read enough within so many seconds. What was written before stays written.
        """
        view, left = memoryview(data).cast("B"), _countdown(seconds)
        while view:
            view = view[self._stream.write(bytes(view[:1048576])).wait(left()) :]

    async def write_async(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of it; waits while the peer does not read."""
        view = memoryview(data).cast("B")
        while view:
            view = view[await _of(self._stream.write(bytes(view[:1048576]))) :]

    def finish(self, seconds: float | None = None) -> None:
        """End what is written; returns once the peer has all of it."""
        self._stream.finish().wait(seconds)

    async def finish_async(self) -> None:
        """End what is written; returns once the peer has all of it."""
        await _of(self._stream.finish())

    def set_weight(self, weight: float) -> None:
        """Change the stream's weight against others (``weighted-fair``) while it runs."""
        self._stream.set_weight(weight, self._min_share)

    @property
    def counts(self) -> dict[str, int] | None:
        """Packets sent again, timeouts and marks so far; ``None`` of a closed stream."""
        counts = self._stream.counts()
        return None if counts is None else dict(zip(("retransmissions", "timeouts", "marks"), counts, strict=True))

    def close(self) -> None:
        """Close it: what was written is still sent, what arrives is not read."""
        self._stream.close()


class MessageSender:
    """Sends messages, of which the contract lets some be missing."""

    def __init__(self, sender: _pliant.NetSender) -> None:
        """Wrap a sender; a node makes them."""
        self._sender = sender

    def announce(self, messages: int) -> None:
        """Say how many messages there will be, if that is known: the bound on missing ones is of this number."""
        self._sender.announce(messages)

    def send(self, message: bytes) -> int:
        """Hand a message over, and return its number. Does not wait."""
        return self._sender.send(message)

    def send_all(self, messages: bytes, size: int) -> int:
        """Hand over messages of ``size`` bytes that lie one behind the other, and return how many. Does not wait."""
        return self._sender.send_all(messages, size)

    def finish(self, seconds: float | None = None) -> None:
        """Return once the peer has as many as the contract asks for."""
        self._sender.finish().wait(seconds)

    async def finish_async(self) -> None:
        """Return once the peer has as many as the contract asks for."""
        await _of(self._sender.finish())


class MessageReceiver:
    """Receives messages, in the order in which they arrive."""

    def __init__(self, receiver: _pliant.NetReceiver) -> None:
        """Wrap a receiver; a node makes them."""
        self._receiver = receiver
        self._collecting: _pliant.Pending | None = None

    def receive(self, seconds: float | None = None) -> tuple[int, bytes] | None:
        """Return the next message with its number; ``None`` once no more come."""
        got: tuple[int, bytes] | None = self._receiver.receive().wait(seconds)
        return got

    def collect(self, most: int, seconds: float | None = None) -> list[tuple[int, bytes]]:
        """Return all messages that still come, with their numbers, once no more do.

        Raises:
            OSError: They have more than ``most`` bytes together.
            TimeoutError: Others still come; the next call goes on.
        """
        self._collecting = self._collecting or self._receiver.collect(most)
        got: list[tuple[int, bytes]] = self._collecting.wait(seconds)
        self._collecting = None
        return got

    async def receive_async(self) -> tuple[int, bytes] | None:
        """Return the next message with its number; ``None`` once no more come."""
        got: tuple[int, bytes] | None = await _of(self._receiver.receive())
        return got

    @property
    def delivery(self) -> Delivery | None:
        """What became of all; ``None`` before the end."""
        delivery = self._receiver.delivery()
        return None if delivery is None else Delivery(*delivery)


class Node(_Closes):
    """A UDP socket with its connections."""

    def __init__(
        self,
        bind: str = "127.0.0.1:0",
        *,
        listen: bool = False,
        key: str | PathLike[str] | None = None,
        transport: str = "dctcp",
        min_delivery: float = 1.0,
        min_share: float = 1.0,
        weight: float = 1.0,
        line_rate: str | None = None,
    ) -> None:
        """Open a socket.

        Args:
            bind: The address that it has, ``IP:PORT``; port 0 is any free one.
            listen: Whether others may connect.
            key: The key file. Without one nothing is encrypted, on addresses of this machine only.
            transport: How it sends: ``dctcp``, ``cubic``, ``ledbat++``, ``weighted-fair``, ... or ``atp`` for messages.
            min_delivery: Least part of messages that must arrive.
            min_share: Least share of a stream's fair rate when it gives way (REFLEX).
            weight: Weight of its streams against others (``weighted-fair``).
            line_rate: The rate of this machine's link, such as ``"10Gbit/s"``; ``atp``'s greatest rate.

        Raises:
            PliantError: The transport does not honour the contract, or the key cannot be read.
        """
        self._min_share = min_share
        self._node = _pliant.NetNode(bind, listen, key, transport, min_delivery, min_share, weight, line_rate)

    @property
    def address(self) -> str:
        """The address that it has."""
        return self._node.address

    def connect(self, to: str, seconds: float | None = None) -> Stream:
        """Open a stream to a node that listens."""
        return Stream(self._node.connect(to).wait(seconds), self._min_share)

    async def connect_async(self, to: str) -> Stream:
        """Open a stream to a node that listens."""
        return Stream(await _of(self._node.connect(to)), self._min_share)

    def accept(self, seconds: float | None = None) -> Stream:
        """Wait for a stream that somebody opens."""
        return Stream(self._node.accept().wait(seconds), self._min_share)

    async def accept_async(self) -> Stream:
        """Wait for a stream that somebody opens."""
        return Stream(await _of(self._node.accept()), self._min_share)

    def connect_messages(self, to: str, seconds: float | None = None) -> MessageSender:
        """Open a flow of messages to a node that listens; the transport is ``atp``."""
        return MessageSender(self._node.connect_messages(to).wait(seconds))

    async def connect_messages_async(self, to: str) -> MessageSender:
        """Open a flow of messages to a node that listens; the transport is ``atp``."""
        return MessageSender(await _of(self._node.connect_messages(to)))

    def accept_messages(self, seconds: float | None = None) -> MessageReceiver:
        """Wait for a flow of messages that somebody opens."""
        return MessageReceiver(self._node.accept_messages().wait(seconds))

    async def accept_messages_async(self) -> MessageReceiver:
        """Wait for a flow of messages that somebody opens."""
        return MessageReceiver(await _of(self._node.accept_messages()))

    def close(self) -> None:
        """Close it, once its streams have ended what they do."""
        self._node.close()


__all__ = ["Delivery", "MessageReceiver", "MessageSender", "Node", "PliantError", "Stream"]
