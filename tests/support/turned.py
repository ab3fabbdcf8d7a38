"""A thread that turns what services turn in their loops, while the test's own waits for what comes of it.

Used by tests of a real broker. Invariant: what the thread raises is what the test fails with, at once, and never hidden
behind the wait that it made hopeless.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from tests.support.eventually import PATIENCE


@contextmanager
def turned(*turns: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Calls `turns` one after the other, over and over, until the block ends. Yields `well`, for every condition that is
    waited for in the block: True, or it raises what a turn has raised. So does the end of the block, however it ended.
    """
    stop, errors = Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.is_set():
                for turn in turns:
                    turn()
        except BaseException as error:  # noqa: BLE001 - handed over to the test
            errors.append(error)

    def well() -> bool:
        if errors:
            raise errors[0]
        return True

    thread = Thread(target=run)
    thread.start()
    try:
        yield well
    finally:
        stop.set()
        thread.join(PATIENCE.total_seconds())
        well()
        assert not thread.is_alive(), "a turn doesn't end"
