"""Waiting for Ctrl-C or SIGTERM. Called by whatever runs until it is told to stop.

Invariant: the first signal ends the wait; later ones, while things are being stopped, do nothing, so that a second Ctrl-C
leaves nothing half-stopped.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

POLL_S = 0.2


class Interrupted(KeyboardInterrupt):
    """The first signal, where it landed: in a start, a download, an event loop. Asyncio lets this kind through."""


class Stopped:
    """Told by the first signal. While `eager`, that signal also raises Interrupted in the main thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.eager = False

    @property
    def told(self) -> bool:
        """Whether someone wants an end."""
        return self._event.is_set()

    def tell(self) -> None:
        """What a signal does. Raises Interrupted the first time, while eager."""
        again = self._event.is_set()
        self._event.set()
        if self.eager and not again:
            raise Interrupted

    def wait(self) -> None:
        """Until a signal. In short waits: where the system restarts waits, a handler runs only between them."""
        while not self._event.wait(POLL_S):
            pass

    def calm(self) -> None:
        """From here on nothing is interrupted: the time of stopping things in order."""
        self.eager = False


@contextmanager
def until_stopped() -> Iterator[Stopped]:
    """SIGINT and SIGTERM tell `Stopped` while entered; afterwards they do what they did before, or, once told, nothing."""
    stopped = Stopped()

    def told(_number: int, _frame: FrameType | None) -> None:
        stopped.tell()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            # Once told, this process is on its way out: a further Ctrl-C must not make an ugly end of it.
            signal.signal(number, signal.SIG_IGN if stopped.told else handler)
