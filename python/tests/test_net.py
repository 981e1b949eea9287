"""Connections between two nodes of this process: threads that wait, asyncio, messages, mistakes."""

import asyncio
import hashlib
import os
import signal
import threading

import pytest

import pliant
from pliant.net import Node

CONTENT = os.urandom(1 << 20) * 3


def echo(server):
    stream = server.accept()
    while part := stream.read():
        stream.write(part)
    stream.finish()


@pytest.mark.parametrize("transport", ["dctcp", "cubic", "ledbat++"])
def test_a_stream_brings_all_bytes_back(transport):
    """Three megabytes to an echo and back: one thread writes while another reads."""
    with Node(listen=True) as server, Node(transport=transport) as client:
        answering = threading.Thread(target=echo, args=(server,))
        answering.start()
        stream = client.connect(server.address)

        def send():
            stream.write(CONTENT)
            stream.finish()

        sending = threading.Thread(target=send)
        sending.start()
        digest = hashlib.sha256(stream.read_exactly(len(CONTENT)))
        assert stream.read() == b""
        sending.join()
        answering.join()
        assert digest.digest() == hashlib.sha256(CONTENT).digest()
        assert set(stream.counts) == {"retransmissions", "timeouts", "marks"}


def test_a_silent_peer_is_not_waited_for():
    """Whoever says less than was announced, or reads nothing, holds a program as long as it wants to be held."""
    with Node(listen=True) as server, Node() as client:
        stream = client.connect(server.address)
        stream.write(b"half")
        other = server.accept()
        with pytest.raises(TimeoutError):
            other.read_exactly(5, seconds=0.05)
        with pytest.raises(TimeoutError):
            stream.write(bytes(64 << 20), seconds=0.2)
        with pytest.raises(pliant.PliantError):
            stream.write(b"x", seconds=float("nan"))


def test_many_streams_of_one_loop():
    """Ten streams at once on asyncio, more than it has threads: the loop itself waits for all."""

    async def serve(server, count):
        async def one(stream):
            content = await stream.read_exactly_async(200_000)
            await stream.write_async(content[::-1])
            await stream.finish_async()

        await asyncio.gather(*[one(await server.accept_async()) for _ in range(count)])

    # One that goes away ends its connection, while the other side may still wait to hear that its end has come.
    streams = []

    async def call(client, address, number):
        content = bytes([number]) * 100_000 + bytes(100_000)
        stream = await client.connect_async(address)
        streams.append(stream)
        await stream.write_async(content)
        return await stream.read_exactly_async(200_000) == content[::-1]

    async def all_of_them():
        with Node(listen=True) as server, Node() as client:
            serving = asyncio.ensure_future(serve(server, 10))
            right = await asyncio.gather(*[call(client, server.address, number) for number in range(10)])
            await serving
            return right

    assert asyncio.run(asyncio.wait_for(all_of_them(), 60)) == [True] * 10


def test_what_is_cancelled_takes_nothing_with_it():
    async def work():
        with Node(listen=True) as server, Node() as client:
            accepting = asyncio.ensure_future(server.accept_async())
            stream = await client.connect_async(server.address)
            other = await accepting
            reading = asyncio.ensure_future(stream.read_async())
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await other.write_async(b"still here")
            return await stream.read_exactly_async(10)

    assert asyncio.run(asyncio.wait_for(work(), 60)) == b"still here"


def test_messages_arrive_as_the_contract_says():
    """Of a thousand messages at least 90 % arrive, each whole, and the rest are told by number."""
    messages = [bytes([number % 251]) * 800 for number in range(1000)]
    options = {"transport": "atp", "min_delivery": 0.9, "line_rate": "1Gbit/s"}
    with Node(listen=True, min_delivery=0.9, transport="atp") as server, Node(**options) as client:
        sender = client.connect_messages(server.address)
        sender.announce(len(messages))
        for number, message in enumerate(messages):
            assert sender.send(message) == number
        finishing = threading.Thread(target=sender.finish)
        finishing.start()
        receiver, got = server.accept_messages(), {}
        while (message := receiver.receive()) is not None:
            got[message[0]] = message[1]
        finishing.join()
        assert all(messages[number] == content for number, content in got.items())
        delivery = receiver.delivery
        assert delivery.messages == 1000 and delivery.delivered == len(got) >= 900
        assert set(delivery.missing) == set(range(1000)) - set(got)


def test_an_interrupt_ends_a_wait():
    with Node(listen=True) as server:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            server.accept()
        timer.join()


def test_mistakes_are_told_in_one_line(tmp_path):
    for options, why in [
        ({"transport": "dcctp"}, "did you mean `dctcp`"),
        ({"bind": "localhost"}, "an address is IP:PORT"),
        ({"bind": "192.0.2.7:0"}, "."),
        ({"key": tmp_path / "none.key"}, "none.key"),
        ({"transport": "cubic", "weight": 2.0}, "weight"),
        ({"min_share": 2.0}, "min_share"),
    ]:
        with pytest.raises((pliant.PliantError, OSError), match=why) as error:
            Node(**options)
        assert "\n" not in str(error.value)
    with Node() as client:
        with pytest.raises(pliant.PliantError, match="an address is IP:PORT"):
            client.connect("nowhere")
    with pytest.raises(pliant.PliantError, match="the node is closed"):
        client.connect("127.0.0.1:1")


def test_the_end_of_a_stream_is_told():
    with Node(listen=True) as server, Node() as client:
        stream = client.connect(server.address)
        other = server.accept()
        stream.write(b"abc")
        finishing = threading.Thread(target=stream.finish)
        finishing.start()
        with pytest.raises(EOFError, match="after 3 of 4 bytes"):
            other.read_exactly(4)
        finishing.join()
        stream.close()
        with pytest.raises(OSError, match="the stream is closed"):
            stream.read()
        assert stream.counts is None
