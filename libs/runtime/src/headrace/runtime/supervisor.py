"""Runs asyncio services: start, drain when told, stop, and an exit status. Called last in each `__main__.py`.

`run_async` handles SIGTERM and SIGINT for the whole process (as PID 1 too, where Python has no default for SIGTERM);
`serve_async` is the same without signals, for several services under one outer runner. A service runs until its `stop`
event is set, then drains and returns. The first one that ends stops the others.
Invariant: a failure is logged once, here; a clean end is 0, a crash or a drain that was cut short is 1.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.contracts.mistakes import CannotRunError
from headrace.runtime.garbage import freeze_what_is_loaded
from headrace.runtime.heartbeat import Heartbeat, Vitals
from headrace.runtime.logging import get_logger

CLEAN, FAILED = 0, 1
GRACE = timedelta(seconds=30)
"""How long draining may take."""

_BEAT = timedelta(milliseconds=500)
_LAST_WORDS = timedelta(seconds=2)


@dataclass(frozen=True)
class Service:
    """A service as its supervisor knows it. `run` builds what belongs to the event loop and works until told to stop."""

    name: str
    run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    vitals: Vitals = field(default_factory=Vitals)


def run_async(
    services: Sequence[Service],
    *,
    grace: timedelta = GRACE,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Runs services as this process until a signal or the end of one of them; returns the exit status.

    The first SIGTERM or SIGINT drains, for `grace` at most; the second stops at once; a third kills.
    """
    freeze_what_is_loaded()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_under_signals(services, grace))


async def serve_async(
    services: Sequence[Service],
    stop: asyncio.Event,
    *,
    at_once: asyncio.Event | None = None,
    grace: timedelta = GRACE,
) -> int:
    """As `run_async`, on the running loop: drains when `stop` is set, cancels when `at_once` is."""
    tasks = {asyncio.create_task(_live(service, stop), name=service.name): service for service in services}
    try:
        await stop.wait()
        for service in services:
            service.vitals.drain()
        return await _ended(tasks, at_once or asyncio.Event(), grace)
    finally:
        await _cancel(tasks)


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, else None, which means asyncio's own: for `loop_factory`."""
    try:
        import uvloop  # noqa: PLC0415 an extra of some services only
    except ImportError:
        return None
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_event_loop


async def _under_signals(services: Sequence[Service], grace: timedelta) -> int:
    loop, stop, at_once = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def told(number: signal.Signals) -> None:
        if stop.is_set():
            at_once.set()
            _forget_signals(loop)
        get_logger("supervisor").info(
            "stopping at once" if at_once.is_set() else "stopping", signal=number.name
        )
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told, number)
    try:
        return await serve_async(services, stop, at_once=at_once, grace=grace)
    finally:
        _forget_signals(loop)


def _forget_signals(loop: asyncio.AbstractEventLoop) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)


async def _live(service: Service, stop: asyncio.Event) -> bool:
    """One service's whole life; False when it crashed."""
    try:
        async with _beating(service.vitals.heartbeat(service.name)):
            await service.run(stop)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _crashed(service, error)  # something inside was cancelled, and not by us
    except Exception as error:  # noqa: BLE001 the edge: whatever it is ends the service, and is logged here only
        return _crashed(service, error)
    else:
        return True
    finally:
        stop.set()


def _crashed(service: Service, error: BaseException) -> bool:
    say_why(service.name, error)
    return False


def say_why(service: str, error: BaseException) -> None:
    """The one line that a service's end leaves in its log."""
    log = get_logger("supervisor")
    if isinstance(error, CannotRunError):
        log.error("service can't run", service=service, reason=str(error))
    else:
        log.error("service crashed", service=service, exc_info=error)


@asynccontextmanager
async def _beating(heartbeat: Heartbeat) -> AsyncIterator[None]:
    task = asyncio.create_task(_beat(heartbeat), name=f"{heartbeat.service} heartbeat")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat(heartbeat: Heartbeat) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _BEAT.total_seconds()
        await asyncio.sleep(_BEAT.total_seconds())
        heartbeat.turned(timedelta(seconds=loop.time() - due))


async def _ended(tasks: dict[asyncio.Task[bool], Service], at_once: asyncio.Event, grace: timedelta) -> int:
    """Waits for the services to drain; whoever hasn't when the time is over is cut short."""
    hurry, whole = asyncio.create_task(at_once.wait()), asyncio.create_task(asyncio.wait(tasks))
    await asyncio.wait((hurry, whole), timeout=grace.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
    for waiting in (hurry, whole):
        waiting.cancel()
    late = [service.name for task, service in tasks.items() if not task.done()]
    if late:
        get_logger("supervisor").warning("drain cut short", services=late, grace_s=grace.total_seconds())
        return FAILED
    return CLEAN if all(not task.cancelled() and task.result() for task in tasks) else FAILED


async def _cancel(tasks: dict[asyncio.Task[bool], Service]) -> None:
    """Stops what still runs; a task that swallows its cancellation is left behind after a moment."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_WORDS.total_seconds())
