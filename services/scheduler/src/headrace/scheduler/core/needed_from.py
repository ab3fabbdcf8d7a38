"""From where on each log is still needed: what the next owner must read, and what may not be trimmed. Asked by
core.checkpointing.

Invariant: a position passes no record whose work isn't done: no request that isn't finished, no order that isn't obeyed, no
cancel that isn't passed on, no text from which a request goes on, and none that is on its way to the dead letters.
"""

from headrace.bus.messages import Place
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState


def attempts_to_keep(state: PoolState) -> dict[int, int]:
    """By partition, the positions in `attempts` that a checkpoint may say: before what isn't buried yet."""
    attempts, topic = dict(state.attempts_read), state.setting.place(TopicKind.ATTEMPTS).topic
    for origin in state.unburied:
        if origin.topic == topic:
            attempts[origin.partition] = min(attempts[origin.partition], origin.offset)
    return attempts


def attempts_needed(state: PoolState) -> dict[int, int]:
    """The first positions in `attempts` at which something stands that is needed: also texts that were read long ago."""
    needed = attempts_to_keep(state)
    for at in state.texts.places():
        needed[at.partition] = min(needed.get(at.partition, at.offset), at.offset)
    return needed


def control_to_keep(state: PoolState) -> int:
    """The position in `control` that a checkpoint may say: before what isn't obeyed or buried yet."""
    place = state.setting.place(TopicKind.CONTROL)
    firsts = [each.first_offset for each in (state.cancels, state.bulk_cancels, state.bulk_moves)]
    kept = [first for first in firsts if first is not None]
    kept += [drain.offset for drain in state.drains.values()] + list(state.passed_on)
    kept += [origin.offset for origin in state.unburied if origin.topic == place.topic]
    kept += [] if state.moving is None else [state.moving.offset]
    return min([state.control_read, *kept])


def needed_from(state: PoolState) -> dict[Place, int]:
    """The first position of each log that the next owner would need, were its checkpoint begun now."""
    setting = state.setting
    prefixes = {place: each.finished.prefix for place, each in state.partitions.by_place.items()}
    attempts = {setting.place(TopicKind.ATTEMPTS, p): offset for p, offset in attempts_needed(state).items()}
    return {**prefixes, **attempts, setting.place(TopicKind.CONTROL): control_to_keep(state)}
