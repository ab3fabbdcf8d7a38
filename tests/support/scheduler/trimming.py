"""A pool whose logs are long and finished, and an owner whose outputs are looked at. Used by tests of what is deleted."""

from dataclasses import replace

from headrace.bus.messages import Place, message_of
from headrace.contracts.clock import Now
from headrace.contracts.control import DeliveryPosition
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.step import Inputs, Outputs
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import place

HISTORY = 10_000
REQUESTS, ATTEMPTS = place(TopicKind.REQUESTS, 0, "batch"), place(TopicKind.ATTEMPTS, 0)
CONTROL = place(TopicKind.CONTROL)


class Trimming(Case):
    """An owner whose outputs are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[Place, int]] = []
        self.undelivered: list[int] = []
        self.watched: PoolCore | None = None

    def look(self) -> None:
        """Look at every step from now on; what is asked for is answered in the next."""
        core = self.owner.core
        assert core is not None
        if core is self.watched:
            return
        step, self.watched = core.step, core
        answer: list[dict[Place, int]] = []

        def watched(inputs: Inputs, now: Now) -> Outputs:
            trimmed = answer.pop() if answer else None
            out = step(replace(inputs, trimmed=trimmed), now)
            if out.trim:
                self.asked.append(out.trim)
                answer.append(out.trim)
            if out.undelivered is not None:
                self.undelivered.append(out.undelivered)
            return out

        core.step = watched  # type: ignore[method-assign]

    def deliver(self, where: Place, offset: int) -> None:
        record = DeliveryPosition(topic=where.topic, partition=where.partition, next_offset=offset)
        self.world.append(message_of(CONTROL, record))


def finished(count: int) -> Trimming:
    """An owner that has seen so many attempts and queries, none of which matters any more."""
    case = Trimming()
    case.run(600)
    case.look()
    core = case.owner.core
    assert core is not None
    state = core.state
    for where in (REQUESTS, ATTEMPTS, CONTROL):
        case.world.logs[where] += [None] * (count - len(case.world.logs[where]))  # type: ignore[list-item]
    state.attempts_read[0] = state.control_read = count
    partition = state.partitions.by_place[REQUESTS]
    partition.finished.prefix = partition.next_offset = count
    case.owner.at |= {REQUESTS: count, ATTEMPTS: count, CONTROL: count}
    return case
