"""Loops that a thread turns while an asyncio test goes on. Used by tests that put ingest and a real owner together."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def turned(*turns: Callable[[], None]) -> Iterator[None]:
    """These are turned by a thread of their own meanwhile."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def turn() -> None:
        try:
            while not stop.is_set():
                for each in turns:
                    each()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        assert not failed
