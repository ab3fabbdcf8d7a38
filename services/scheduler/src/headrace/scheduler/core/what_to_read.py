"""Which logs the owner reads: from where on, and which of them not for now. Asked by PoolCore.

Invariant: what opens the gate doesn't stand behind a backlog of requests, so none is read before it is open; past it, a
partition whose window is full waits in its log.
"""

from collections.abc import Mapping

from headrace.bus.messages import Place
from headrace.bus.ports import START
from headrace.contracts.durations import ms
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState


def positions(state: PoolState, of_others: Mapping[Place, int]) -> dict[Place, int]:
    """What to read, and from where. `of_others`: logs that tell of other pools."""
    setting = state.setting
    attempts = {setting.place(TopicKind.ATTEMPTS, p): at for p, at in state.attempts_read.items()}
    requests = {place: partition.next_offset for place, partition in state.partitions.by_place.items()}
    wires = {
        setting.place(TopicKind.CONTROL): state.control_read,
        setting.place(TopicKind.WORKERS): state.workers_read or START,
    }
    return {**attempts, **requests, **wires, **of_others}


def paused(state: PoolState) -> set[Place]:
    """The partitions of `requests` of which nothing is to be read now, decided anew."""
    resume_ms = ms(state.setting.timings.resume)
    for place, partition in state.partitions.by_place.items():
        spilled = state.spilled.count_of(place)
        if partition.paused or partition.records or spilled:
            partition.decide(state.setting.window, state.now.boot_ms, resume_ms, spilled)
    return state.partitions.paused() if state.open else set(state.partitions.by_place)
