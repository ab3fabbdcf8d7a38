"""Runs a plain synchronous loop: turn by turn, then drain, then stop. Called last in `__main__.py` of such a service.

Invariant: between two turns the service's state is whole, so everything that is told to it is told there; a failure is
logged once; a clean end is 0, a crash or a drain that was cut short is 1.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Protocol

from headrace.contracts.durations import ms
from headrace.runtime.clock import Clock
from headrace.runtime.garbage import freeze_what_is_loaded
from headrace.runtime.heartbeat import Heartbeat, Vitals
from headrace.runtime.logging import get_logger
from headrace.runtime.supervisor import CLEAN, FAILED, GRACE, say_why

TURN = timedelta(milliseconds=100)
"""How long a turn may wait for input before it counts as late."""


class LoopService(Protocol):
    """A service whose loop is plain. Each turn takes a second at most."""

    @property
    def name(self) -> str:
        """As its logs and metrics call it."""
        ...

    def start(self) -> None:
        """Builds and opens what it needs."""
        ...

    def turn(self) -> None:
        """Waits a little for input and handles what is there."""
        ...

    def drain(self) -> bool:
        """One turn of finishing without taking more; True when nothing is left to finish."""
        ...

    def stop(self) -> None:
        """Lets go of everything. Called once, whatever happened before, also after a `start` that failed half-way."""
        ...


class DrainCutShort(Exception):  # noqa: N818 it says what happened
    """The service wasn't done when its grace was over."""


class _StopAtOnce(BaseException):
    """The second signal, in the middle of whatever the loop was doing."""


def run_loop(
    service: LoopService,
    clock: Clock,
    vitals: Vitals | None = None,
    *,
    grace: timedelta = GRACE,
    turn: timedelta = TURN,
) -> int:
    """Runs the service as this process until a signal; returns the exit status.

    The first SIGTERM or SIGINT drains, for `grace` at most; the second stops at once; a third kills.
    """
    freeze_what_is_loaded()
    stop = threading.Event()
    try:
        with _signals(stop):
            _live(service, stop, clock, vitals or Vitals(), grace, turn)
    except _StopAtOnce:
        get_logger("supervisor").warning("stopped at once", service=service.name)
    except DrainCutShort as cut:
        get_logger("supervisor").warning("drain cut short", service=service.name, reason=str(cut))
    except Exception as error:  # noqa: BLE001 the edge: whatever it is ends the service, and is logged here only
        say_why(service.name, error)
    else:
        return CLEAN
    return FAILED


def _live(
    service: LoopService,
    stop: threading.Event,
    clock: Clock,
    vitals: Vitals,
    grace: timedelta,
    turn: timedelta,
) -> None:
    """The whole life of a loop. Raises what the service raises, or DrainCutShort."""
    try:
        service.start()
        heartbeat = vitals.heartbeat(service.name)
        while not stop.is_set():
            with _one_turn(heartbeat, clock, turn):
                service.turn()
        vitals.drain()
        _drain(service, heartbeat, clock, grace, turn)
    except _StopAtOnce:
        raise  # whoever can't wait wants no farewell either
    except BaseException:
        service.stop()
        raise
    service.stop()


def _drain(
    service: LoopService, heartbeat: Heartbeat, clock: Clock, grace: timedelta, turn: timedelta
) -> None:
    deadline_ms = clock.now().boot_ms + ms(grace)
    while True:
        with _one_turn(heartbeat, clock, turn):
            if service.drain():
                return
        if clock.now().boot_ms >= deadline_ms:
            raise DrainCutShort(f"not done after {grace.total_seconds():g} s")


@contextmanager
def _one_turn(heartbeat: Heartbeat, clock: Clock, turn: timedelta) -> Iterator[None]:
    began_ms = clock.now().boot_ms
    yield
    heartbeat.turned(timedelta(milliseconds=clock.now().boot_ms - began_ms) - turn)


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)

    def told(number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            return
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)
        raise _StopAtOnce(signal.Signals(number).name)

    before = {number: signal.signal(number, told) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
