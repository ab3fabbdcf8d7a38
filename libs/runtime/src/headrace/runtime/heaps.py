"""Keeps the C heaps few and small. Called by runtime.process, before any thread is started, and with each turn of a loop.

glibc gives nearly each thread a heap of its own, and each keeps the most that it ever held: of a client of Kafka, with its
five threads, whatever it fetched at a time after an outage. What is live stays the same, yet a process grows with every burst
that meets another thread. With two heaps, what one thread gave back is what the next one takes; and large blocks, as batches
from a broker are, go back to the kernel at once, also after the first of them: the threshold would otherwise rise with each.

By itself glibc gives back only what is free at a heap's end, where something small always lies: the bodies of a queue that
was worked off would stay with the process for good. So where much is free, the kernel gets all of it.
"""

import ctypes
from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.runtime.clock import Clock

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""<malloc.h>"""
_HEAPS = 2
_LARGE = 256 * 1024
_MUCH = 64 * 1024 * 1024
"""Bytes. To give back 200 MiB takes some 25 ms of the processor, to get them again 50; what is given already, 7 at most."""
_EVERY_MS = ms(timedelta(minutes=1))


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of <malloc.h>; `fordblks` is what is free, in bytes, whether the kernel has it or not."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    ]  # fmt: skip


def keep_heaps_few() -> bool:
    """Whether this C library can be told so: glibc; others have no heap for each thread."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_ARENA_MAX, _HEAPS)) and bool(mallopt(_M_MMAP_THRESHOLD, _LARGE))


class SpareHeap:
    """Gives back to the kernel what is free in the heaps, once a minute at most. Does nothing where glibc isn't."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        library = ctypes.CDLL(None)
        self._info, self._trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
        if self._info is not None:
            self._info.restype = _MallInfo
        self._next_ms = clock.now().boot_ms + _EVERY_MS

    def turned(self) -> None:
        """A loop goes round."""
        now_ms = self._clock.now().boot_ms
        if now_ms < self._next_ms or self._info is None or self._trim is None:
            return
        self._next_ms = now_ms + _EVERY_MS
        if self._info().fordblks >= _MUCH:
            self._trim(0)
