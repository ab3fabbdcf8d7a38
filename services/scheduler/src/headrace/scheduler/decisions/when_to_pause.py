"""When a request partition is no longer read, and when it is again. Called by state.partitions, and by state.read_ahead while
standing by.

Invariant: the log holds the backlog, memory only a bounded window of each partition: at most `high` plus one batch, and the
metadata of `high_spilled`.
"""

from dataclasses import dataclass

OVERHEAD = 2_250
"""Bytes that a record in memory takes beside its payload, as tests.benchmarks.takeover measures."""


@dataclass(frozen=True, slots=True)
class Window:
    """How much of a request partition may be in memory: paused at `high`, read again below `low`; records and bytes.
    `spilled`: requests of which the metadata is kept alone.
    """

    high_records: int = 4_000
    low_records: int = 2_000
    high_bytes: int = 32 * 1024 * 1024
    low_bytes: int = 16 * 1024 * 1024
    high_spilled: int = 1_000_000
    low_spilled: int = 900_000

    def __post_init__(self) -> None:
        pairs = (
            (self.low_records, self.high_records),
            (self.low_bytes, self.high_bytes),
            (self.low_spilled, self.high_spilled),
        )
        if not all(0 <= low < high for low, high in pairs):
            raise ValueError("a window's low watermarks must lie below its high ones")


def should_be_paused(*, paused: bool, records: int, size: int, window: Window, spilled: int = 0) -> bool:
    """Hysteresis: between the watermarks it stays as it is. `size` in bytes."""
    if records >= window.high_records or size >= window.high_bytes or spilled >= window.high_spilled:
        return True
    over_low = records > window.low_records or size > window.low_bytes or spilled > window.low_spilled
    return paused and over_low


def paused_since(
    since_ms: int | None,
    *,
    records: int,
    size: int,
    window: Window,
    boot_ms: int,
    resume_after_ms: int,
    spilled: int = 0,
) -> int | None:
    """Since when it is paused, ms since boot; None: it is read. A pause lasts `resume_after_ms` at least."""
    paused = since_ms is not None
    if should_be_paused(paused=paused, records=records, size=size, window=window, spilled=spilled):
        return boot_ms if since_ms is None else since_ms
    return since_ms if since_ms is not None and boot_ms - since_ms < resume_after_ms else None
