"""Which partition of `work.{pool}` shall this worker read? Called when it registers.

Invariant: the lane with the fewest live workers; sharing is harmless, records name the worker.
"""

from collections.abc import Iterable
from zlib import crc32

from headrace.contracts.reports import Gone, Report, WorkerRecord


def pick_lane(records: Iterable[WorkerRecord], *, lanes: int, worker: str) -> int:
    """A lane of 0..lanes-1, from the recent records of `workers` in log order. Ties are spread by the worker's name."""
    load = [0] * lanes
    for other in _alive(records):
        if other.worker != worker and other.lane < lanes:
            load[other.lane] += 1
    first = crc32(worker.encode()) % lanes
    return min(range(lanes), key=lambda lane: (load[lane], (lane - first) % lanes))


def _alive(records: Iterable[WorkerRecord]) -> list[Report]:
    newest: dict[str, Report] = {}
    for record in records:
        if isinstance(record, Report):
            known = newest.get(record.worker)
            if known is None or record.boot >= known.boot:
                newest[record.worker] = record
        elif (
            isinstance(record, Gone) and record.worker in newest and newest[record.worker].boot == record.boot
        ):
            del newest[record.worker]
    return list(newest.values())
