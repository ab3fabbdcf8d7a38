"""Keeps the C heaps few and small. Called once by runtime.process, before any thread is started.

glibc gives nearly each thread a heap of its own, and each keeps the most that it ever held: of a client of Kafka, with its
five threads, whatever it fetched at a time after an outage. What is live stays the same, yet a process grows with every burst
that meets another thread. With two heaps, what one thread gave back is what the next one takes; and large blocks, as batches
from a broker are, go back to the kernel at once, also after the first of them: the threshold would otherwise rise with each.
"""

import ctypes

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""<malloc.h>"""
_HEAPS = 2
_LARGE = 256 * 1024


def keep_heaps_few() -> bool:
    """Whether this C library can be told so: glibc; others have no heap for each thread."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_ARENA_MAX, _HEAPS)) and bool(mallopt(_M_MMAP_THRESHOLD, _LARGE))
