"""Does another worker go by this name? Called while registering: two of one name would bury each other in turns.

Invariant: a boot that has said goodbye, or that is this process's own, is nobody else.
"""

from collections.abc import Collection, Iterable

from headrace.contracts.reports import Gone, Report, WorkerRecord


def others_of(records: Iterable[WorkerRecord], *, worker: str, own: Collection[str]) -> set[str]:
    """The boots of this name that are somebody else's and haven't left; `records` of `workers` in log order."""
    found: set[str] = set()
    for record in records:
        if isinstance(record, Report) and record.worker == worker and record.boot not in own:
            found.add(record.boot)
        elif isinstance(record, Gone):
            found.discard(record.boot)
    return found
