"""Waiting in tests: on a condition, with a deadline. Called by every test that waits for another process or thread."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

POLL = timedelta(milliseconds=20)
PATIENCE = timedelta(seconds=60)
"""Long, for a machine that does much else: a condition that comes true is never waited for longer than it takes."""


def eventually(condition: Callable[[], T], what: str, within: timedelta = PATIENCE) -> T:
    """The first truthy value of `condition`; raises AssertionError naming `what` after `within`."""
    deadline = time.monotonic() + within.total_seconds()
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within.total_seconds():.0f} s: {what}")
        time.sleep(POLL.total_seconds())
    return value


def eventually_without(
    errors: type[Exception] | tuple[type[Exception], ...],
    call: Callable[[], T],
    what: str,
    within: timedelta = PATIENCE,
) -> T:
    """What `call` returns, once it raises none of these; AssertionError after `within` comes from the last of them."""
    deadline = time.monotonic() + within.total_seconds()
    while True:
        try:
            return call()
        except errors as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within.total_seconds():.0f} s: {what}") from error
            time.sleep(POLL.total_seconds())


async def eventually_async(
    condition: Callable[[], Awaitable[T]], what: str, within: timedelta = PATIENCE
) -> T:
    """As `eventually`, for a condition that is awaited."""
    deadline = time.monotonic() + within.total_seconds()
    while not (value := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within.total_seconds():.0f} s: {what}")
        await asyncio.sleep(POLL.total_seconds())
    return value
