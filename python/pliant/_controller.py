"""Congestion controllers written in Python."""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

from . import _pliant
from ._pliant import Ack, Congestion


class Controller:
    """A congestion controller of your own, for trying an idea out.

    It is about a hundred times slower than a built-in one, because each acknowledgement calls Python. An idea that
    holds is worth writing in Rust (`docs/extending.md`).

    A subclass sets ``self.window`` in ``__init__``, and changes it in ``on_ack`` and ``on_congestion``. The transport
    does the rest: detection and repair of losses, timers, the echo of marks. For each acknowledgement it calls
    ``on_ack``, and then ``on_congestion`` if there is congestion. Keyword parameters of ``__init__`` that are numbers
    are settings, in the group's table ``tcp``.

    >>> import pliant
    >>> class Aimd(pliant.Controller):
    ...     def __init__(self, mss, *, increase=1.0, decrease=0.5):
    ...         self.mss, self.increase, self.decrease = mss, increase, decrease
    ...         self.window = 10 * mss
    ...     def on_ack(self, ack):
    ...         if ack.window_limited and not ack.in_recovery:
    ...             self.window += self.increase * self.mss * ack.acked / self.window
    ...     def on_congestion(self, event):
    ...         self.window = self.ssthresh = max(2 * self.mss, self.window * self.decrease)
    >>> pliant.register_controller("aimd", Aimd)
    >>> s = pliant.Scenario.load("demo").set("duration", "1ms").set("traffic.search.transport", "aimd")
    >>> gentle = s.set("traffic.search.tcp.decrease", 0.8)
    >>> pliant.run(s).digest == pliant.run(gentle).digest
    False
    """

    ecn: str = "off"
    """``"off"``, ``"classic"`` (RFC 3168) or ``"accurate"`` (each mark is echoed, as for DCTCP)."""
    needs_one_way_delay: bool = False
    """Whether ``ack.delay`` is measured."""
    needs_hold_time: bool = False
    """Whether ``ack.hold`` is measured."""

    window: float
    """Bytes that may be in flight (cwnd), at least 1."""
    ssthresh: float | None = None
    """Slow start ends at this window, in bytes. ``None`` before any congestion."""
    pacing_rate: float | None = None
    """Most payload that leaves, in bits per second. ``None`` leaves it to the window alone. A controller that paces
    has a rate from the beginning."""

    def on_ack(self, ack: Ack) -> None:
        """Take an acknowledgement."""

    def on_congestion(self, event: Congestion) -> None:
        """Take a loss, a mark or a timeout."""

    def on_lost(self, bytes: int) -> None:
        """Hear how many bytes the transport considers lost. ``on_congestion`` is called too, once per recovery."""

    def on_recovered(self, flight: int) -> None:
        """Hear that loss recovery has ended with so many bytes in flight."""

    def on_idle(self) -> None:
        """Hear that the sender was idle for longer than a retransmission timeout."""

    def set_hops(self, hops: int) -> None:
        """Hear how many links the path has, before the first packet."""


def register_controller(name: str, controller: type[Controller]) -> None:
    """Let scenarios name a controller: ``transport = "name"``.

    A name that was registered before gets the new class, so a cell of a notebook may run again. Resolved scenarios
    hold a hash of the class's code: a point of a sweep runs again after the class has changed. Workers of a cluster
    must register the class too (``client.run(pliant.register_controller, name, controller)``), and refuse a scenario
    of other code.

    An exception of a controller ends the run, which raises it.

    Args:
        name: A name that no built-in transport has.
        controller: The class. One object of it is made for each flow, with the payload of a full segment in bytes.

    Raises:
        TypeError: The class is no subclass of Controller, or a parameter has no number as its default.
        ValueError: The name is taken or not well-formed, or a parameter has the name of one of TCP's settings.
    """
    if not (isinstance(controller, type) and issubclass(controller, Controller)):
        raise TypeError(f"{controller!r} is not a subclass of pliant.Controller")
    settings: list[tuple[str, float]] = []
    # The first parameter is the segment's payload.
    for parameter in list(inspect.signature(controller).parameters.values())[1:]:
        default = parameter.default
        if isinstance(default, bool) or not isinstance(default, (int, float)):
            name = f"{controller.__name__}.__init__"
            raise TypeError(f"{name}: the parameter {parameter.name!r} needs a number as default")
        settings.append((parameter.name, float(default)))
    _pliant.add_controller(name, controller, _hash_of(controller), settings)


def _hash_of(controller: type) -> str:
    """Hash what the class and its bases compute: bytecode, constants and values, but no names of files or lines."""
    parts: list[str] = []
    for base in controller.__mro__:
        if base in (Controller, object):
            continue
        for name, value in sorted(vars(base).items()):
            if name.startswith("__") and name != "__init__":
                continue
            parts += [name, *_parts_of(value)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _parts_of(value: Any) -> Iterator[str]:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        for function in (value.fget, value.fset):
            yield from _parts_of(function)
    elif isinstance(value, types.FunctionType):
        yield repr((value.__defaults__, value.__kwdefaults__))
        yield from _parts_of(value.__code__)
    elif isinstance(value, types.CodeType):
        yield value.co_code.hex()
        yield repr((value.co_names, value.co_varnames))
        for constant in value.co_consts:
            yield from _parts_of(constant)
    else:
        yield repr(value)
