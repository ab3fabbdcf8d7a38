"""Finds out whether each log is still the one that the checkpoint speaks of: by its topic's id, its length, and the leader
epochs of its records. Asked at a takeover, and for each record of a log that is kept.

Invariant: a log that was made anew, or lost its end and grew again, stops the pool with a sentence before an offset is taken
for what it isn't. A mere change of leader stops nobody.
"""

from collections.abc import Mapping

from headrace.bus.messages import Place, Received
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState

_WAYS_OUT = "bring the old log back, or delete all topics of this pool and make them anew"


class UnusableStateError(Exception):
    """The checkpoints can't be used; the message says why and what to do."""


def check_topics(known: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Both map topics to their ids. Raises UnusableStateError when one was deleted and made anew."""
    for topic, topic_id in found.items():
        if known.get(topic, topic_id) != topic_id:
            raise UnusableStateError(
                f"the topic {topic} was deleted and made anew, so the checkpoint's offsets mean nothing in it: {_WAYS_OUT}"
            )


def too_short(state: PoolState, ends: Mapping[Place, int]) -> dict[Place, int]:
    """The logs that end before what the checkpoint knows of them, and up to where it knows them."""
    setting = state.setting
    needed = {place: partition.finished.end for place, partition in state.partitions.by_place.items()}
    needed |= {setting.place(TopicKind.ATTEMPTS, p): at for p, at in state.attempts_read.items()}
    needed[setting.place(TopicKind.CONTROL)] = state.control_read
    return {place: needed[place] for place, end in ends.items() if end < needed.get(place, 0)}


def check_lengths(state: PoolState, ends: Mapping[Place, int]) -> None:
    """Raises UnusableStateError when a log ends before what the checkpoint knows of it."""
    for place, needed in too_short(state, ends).items():
        raise UnusableStateError(
            f"{place.topic}/{place.partition} ends at offset {ends[place]}, but the checkpoint knows it up to {needed}: "
            f"the log lost records that were acknowledged; {_WAYS_OUT}"
        )


def to_compare(state: PoolState) -> set[Place]:
    """Where the record before the position tells, by its leader, whether the log is still the one that was read."""
    requests = state.partitions.by_place.items()
    return {place for place, partition in requests if partition.knows_its_leader()} | set(state.leaders)


def note_leader(state: PoolState, received: Received, *, read_to: int) -> None:
    """Remember under which leader a record of `attempts` or `control` was written; one that was read before can't have
    got a later leader, unless the log lost its end and grew anew. `requests` remember theirs by partition.
    """
    epoch, place = received.leader_epoch, received.place
    if epoch is None:
        return
    known = state.leaders.get(place)
    if known is not None and received.offset < read_to and epoch > known:
        lost_its_end(state, place, received.offset)
    elif known is None or epoch > known:
        state.leaders[place] = epoch


def lost_its_end(state: PoolState, place: Place, offset: int) -> None:
    """Stop: the log isn't the one that the checkpoint speaks of."""
    state.out.stop = (
        f"{place.topic}/{place.partition} lost records from offset {offset} on and has grown anew, so the checkpoint "
        f"speaks of records that are gone: {_WAYS_OUT}"
    )


def attempts_leaders(state: PoolState) -> dict[int, int]:
    """By partition of `attempts`: the leader epoch of the newest record read."""
    topic = state.setting.place(TopicKind.ATTEMPTS).topic
    return {place.partition: epoch for place, epoch in state.leaders.items() if place.topic == topic}
