"""What compaction leaves of a log: the newest record of each key. Called by both adapters of FencedState."""

from collections.abc import Iterable

from headrace.bus.messages import Received


def newest_of_each_key(records: Iterable[Received]) -> list[Received]:
    """The newest of each key in log order. A tombstone deletes its key; a record without a key belongs to no part.

    So the answer is the same whether or not the broker has compacted yet.
    """
    newest: dict[bytes, Received] = {}
    for record in records:
        if record.key is None:
            continue
        newest.pop(record.key, None)
        if record.value is not None:
            newest[record.key] = record
    return list(newest.values())
