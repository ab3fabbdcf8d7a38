"""Rules about checkpoints, for histories that have the log `state`: epochs only grow, finished means ended.

A `finished` record: `topic`, `partition`, `prefix`, `beyond` (first offset of a block of 4,096 -> bitmap, base64 in JSON).
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from tests.support.checker.history import History

BLOCK = 4096


def old_owners_checkpoint(history: History) -> Iterator[str]:
    """A checkpoint of an earlier epoch stands behind one of a later epoch."""
    greatest: dict[str, int] = {}
    for each in history.records("state"):
        if each.record.get("type") != "ownership":
            continue
        epoch, known = each.record["epoch"], greatest.get(each.topic, 0)
        if epoch < known:
            yield f"{each.topic}@{each.offset}: a checkpoint of epoch {epoch} after one of epoch {known}"
        greatest[each.topic] = max(known, epoch)


def finished_without_end(history: History) -> Iterator[str]:
    """A request that the last checkpoint calls finished has no terminal record."""
    ended = {each.record["id"] for each in history.records("results")}
    last = last_checkpoint(history)
    for each in history.records("requests"):
        request = each.record.get("id")
        if (
            request is not None
            and request not in ended
            and is_finished(last, each.topic, each.partition, each.offset)
        ):
            yield f"{request} is finished in the checkpoint and has no terminal record"


def last_checkpoint(history: History) -> dict[tuple[str, int], dict[str, Any]]:
    """The last `finished` record of each request partition; topics by the end of their name."""
    return {
        (each.record["topic"], each.record["partition"]): each.record
        for each in history.records("state")
        if each.record.get("type") == "finished"
    }


def is_finished(last: dict[tuple[str, int], dict[str, Any]], topic: str, partition: int, offset: int) -> bool:
    """Whether the checkpoint has this offset as finished. The checkpoint's topics may have a prefix before `topic`."""
    found = [one for (name, number), one in last.items() if number == partition and name.endswith(topic)]
    if not found:
        return False
    record = found[0]
    if offset < record["prefix"]:
        return True
    block = offset - offset % BLOCK
    bitmap = record.get("beyond", {}).get(str(block), b"")
    bits = b64decode(bitmap) if isinstance(bitmap, str) else bitmap
    byte, bit = divmod(offset - block, 8)
    return byte < len(bits) and bool(bits[byte] >> bit & 1)
