"""How far runs are: a line on a terminal, a bar in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

# What is over sooner needs no bar, in seconds.
_FIRST_SHOWN = 0.5
_BAR = 30


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in running.config


class Progress:
    """Shows what is done while it lasts, and leaves nothing behind."""

    def __init__(self, wanted: bool | None) -> None:
        """Show it if ``wanted``; ``None`` where somebody looks: on a terminal and in a notebook."""
        self._notebook = _in_notebook()
        self._shown = (self._notebook or sys.stderr.isatty()) if wanted is None else wanted
        self._started = time.monotonic()
        self._drawn = False
        self._handle: Any = None

    def __enter__(self) -> Progress:
        """Begin."""
        return self

    def __call__(self, done: float, over: int, runs: int, packet_hops: int) -> None:
        """Take how far the runs are: from 0 to 1, runs over, runs, and packet-hops."""
        elapsed = time.monotonic() - self._started
        if not self._shown or elapsed < _FIRST_SHOWN:
            return
        left = elapsed * (1 - done) / done if done > 0.001 else None
        rate = packet_hops / elapsed / 1e6
        parts = [f"{done:4.0%}"]
        if runs > 1:
            parts.append(f"{over} of {runs} runs")
        if packet_hops:
            parts.append(f"{rate:.1f} M hops/s")
        parts.append(f"{elapsed:.0f} s elapsed")
        if left is not None:
            parts.append(f"{left:.0f} s left")
        self._draw(done, ", ".join(parts))

    def say(self, text: str) -> None:
        """Print a line on stderr, where the bar was: the next progress draws it again below."""
        if self._drawn and not self._notebook:
            sys.stderr.write("\r\x1b[K")
        print(text, file=sys.stderr, flush=True)

    def _draw(self, done: float, text: str) -> None:
        self._drawn = True
        if self._notebook:
            from IPython.display import HTML, display

            content = HTML(f'<progress max="1" value="{done:.3f}"></progress> {text}')
            if self._handle is None:
                self._handle = display(content, display_id=True)
            else:
                self._handle.update(content)
        else:
            full = round(done * _BAR)
            sys.stderr.write(f"\r\x1b[K[{'#' * full}{' ' * (_BAR - full)}] {text}")
            sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if not self._drawn:
            return
        if self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(""))
        else:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
