"""What an operator orders, as tests of the scheduler write it to `control`."""

from itertools import product
from typing import Any

from headrace.bus.messages import message_of
from headrace.contracts.barriers import Barrier
from headrace.contracts.checkpoints import Positions, Reprioritised
from headrace.contracts.codec import decode
from headrace.contracts.control import DrainWorker, MovePool, UndrainWorker
from headrace.contracts.selections import Selection
from headrace.contracts.topics import TopicKind
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import place


def orders_passed(case: Case) -> int:
    """Before which word in `control` a successor would read on, behind the barrier of the first owner's gate."""
    records = [decode(TopicKind.STATE, r.header) for r in case.world.logs[place(TopicKind.STATE)]]
    return [record.control for record in records if isinstance(record, Positions)][-1] - 1


def order(case: Case, record: DrainWorker | UndrainWorker | MovePool) -> None:
    """An operator's word."""
    case.world.append(message_of(place(TopicKind.CONTROL), record))


def ends_now(case: Case) -> dict[str, dict[int, int]]:
    """Before which offsets all stands that was accepted until now, as the CLI's barriers prove it."""
    found: dict[str, dict[int, int]] = {}
    for tier, number in product(case.owner.setting.policy.tiers, range(2)):
        where = place(TopicKind.REQUESTS, number, tier)
        found.setdefault(where.topic, {})[number] = case.world.append(message_of(where, Barrier()))
    return found


def ordered(offset: int, priority: int, end: int = 10, **fields: Any) -> Reprioritised:
    selection = Selection(stands_before={"t": {0: end}}, **fields)
    return Reprioritised(offset=offset, selection=selection, priority=priority)
