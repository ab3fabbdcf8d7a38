"""An instant as every decision gets it. Read only by headrace.runtime.clock; handed to pure code as an argument.

Invariant: deadlines and records use `wall_ms`; leases and intervals use `boot_ms`, which no clock change moves and which
goes on while a machine is suspended.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks, in whole milliseconds: Unix time, and time since boot."""

    wall_ms: int
    boot_ms: int
