"""Keeps Ctrl-C to ourselves when `make` started us. Entered by the demo around everything.

The terminal sends Ctrl-C to every process of its foreground group; `make` would die of it and print an error although the
demo ends well. So the demo becomes the foreground group alone, and gives the terminal back at its end.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def own_foreground() -> Iterator[None]:
    """Does nothing without a terminal, or where we lead our group already."""
    if not sys.stdin.isatty() or not hasattr(os, "tcsetpgrp") or os.getpgrp() == os.getpid():
        yield
        return
    terminal = sys.stdin.fileno()
    # Taking or returning the terminal from the background raises SIGTTOU; and nobody could continue a stopped group.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTSTP)}
    group = os.getpgrp()
    taken = False
    with suppress(OSError):
        if os.tcgetpgrp(terminal) == group:
            os.setpgid(0, 0)
            os.tcsetpgrp(terminal, os.getpgrp())
            taken = True
    try:
        yield
    finally:
        if taken:
            with suppress(OSError):
                os.tcsetpgrp(terminal, group)
        for number, handler in before.items():
            signal.signal(number, handler)
