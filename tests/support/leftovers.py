"""What a closed client may not leave behind. Called by tests of clients, and of what makes many of them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def without_collector() -> Iterator[None]:
    """The garbage collector would find some day what is left; or in a thread of the client's own, which ends the process."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def client_threads() -> int:
    """Threads of librdkafka in this process."""
    found = 0
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            found += path.read_text().startswith("rdk:")
    return found
