"""Waiting for Ctrl-C or SIGTERM. Called by whatever runs until it is told to stop.

Invariant: the first signal ends the wait; later ones, while things are being stopped, are noted and do nothing, so that
a second Ctrl-C leaves no half-stopped processes behind.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

POLL_S = 0.2


class Stopped:
    """Set by the first signal. `wait` returns then; `told` says whether it has come."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def told(self) -> bool:
        """Whether someone wants an end."""
        return self._event.is_set()

    def tell(self) -> None:
        """As a signal does."""
        self._event.set()

    def wait(self) -> None:
        """Until a signal. Short waits: a signal's handler runs only between them on some platforms."""
        while not self._event.wait(POLL_S):
            pass


class Interrupted(Exception):  # noqa: N818 - reads as what happened
    """The first signal came in the middle of work that can't poll: a start, a download."""


@contextmanager
def until_stopped(*, interrupt: bool = False) -> Iterator[Stopped]:
    """Catches SIGINT and SIGTERM while entered. `interrupt`: the first one also raises Interrupted where it lands."""
    stopped, owner = Stopped(), os.getpid()

    def told(_number: int, _frame: FrameType | None) -> None:
        again = stopped.told
        stopped.tell()
        if interrupt and not again and os.getpid() == owner:
            raise Interrupted

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
