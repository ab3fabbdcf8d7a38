"""From where is a partition to be read: where SQL stands, if its log is still the one this was said of? Asked by reading.

Invariant: nothing is skipped in silence: a log that isn't the one that SQL knows is read only when somebody has accepted the
loss.
"""

from dataclasses import dataclass

RUNBOOK = "see HeadraceLogGone in docs/runbooks.md"


@dataclass(frozen=True, slots=True)
class Stand:
    """A row of the positions: the next offset to read, and the id of the topic that it is said of; None: nobody noted it."""

    next_offset: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Read from `position`; None: from the log's start, wherever that is. `loss`: what is passed over, as a sentence."""

    position: int | None
    loss: str | None = None


def where_to_read(
    topic: str, partition: int, stand: Stand | None, topic_id: str | None, *, accept_loss: bool
) -> ReadFrom | str:
    """The position, or a sentence why there is none. `topic_id`: of the topic as the brokers have it; None: it is absent.

    A partition that SQL doesn't know is needed from its first record on.
    """
    if topic_id is None:
        return f"the topic {topic} was deleted: bring it back, or {RUNBOOK}"
    if stand is None:
        return ReadFrom(None) if accept_loss else ReadFrom(0)
    if stand.topic_id in (None, topic_id):
        return ReadFrom(stand.next_offset)
    sentence = (
        f"the topic {topic} was deleted and made anew, so position {stand.next_offset} of partition "
        f"{partition} in the database means nothing in it"
    )
    return ReadFrom(None, sentence) if accept_loss else f"{sentence}: {RUNBOOK}"
