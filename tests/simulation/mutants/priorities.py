"""Wrong versions of an operator's new priorities. Listed by mutants.every."""

from collections.abc import Callable, Iterable

import msgspec

from headrace.bus.messages import Message
from headrace.contracts.checkpoints import Reprioritised
from headrace.contracts.control import Reprioritise
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.intake import Intake
from headrace.scheduler.core.reprioritising import Reprioritising
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit
from headrace.scheduler.decisions.pick_next import OrderKey, order_of
from headrace.scheduler.state import priority_orders
from headrace.scheduler.state.priority_orders import PriorityOrders
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tenant_queue import FlowQueue
from headrace.scheduler.state.tracked import Phase, Tracked
from tests.simulation.mutants.mutant import Mutant, Patches

_QUEUE_REORDERS = "test_queue_reorders::test_"
_REPRIORITISING = "test_reprioritising::test_"
_WHICH_PRIORITY = "test_which_priority::test_"
_OUTLIVES = "an_operators_new_priority_outlives_its_owner"


def checkpoints_forget_them(patches: Patches) -> None:
    right = Checkpoints._dirty

    def dirty(self: Checkpoints) -> list[Message]:
        state = self._state
        state.dirty -= {key for key in state.dirty if key.startswith("reprioritised/")}
        return right(self)

    patches.set(Checkpoints, "_dirty", dirty)


def the_oldest_counts(patches: Patches) -> None:
    def which(facts: Facts, orders: Iterable[Reprioritised]) -> int | None:
        anywhere = facts._replace(stage=None)
        meant = (order for order in orders if does_it_fit(order.selection, anywhere))
        oldest = min(meant, key=lambda order: order.offset, default=None)
        return None if oldest is None else oldest.priority

    patches.set(priority_orders, "which_priority", which)


def mean_newer_ones_too(patches: Patches) -> None:
    right = Reprioritising.keep

    def keep(self: Reprioritising, offset: int, order: Reprioritise) -> None:
        ends = {
            topic: dict.fromkeys(partitions, 10**9)
            for topic, partitions in (order.selection.stands_before or {}).items()
        }
        selection = msgspec.structs.replace(order.selection, stands_before=ends)
        right(self, offset, msgspec.structs.replace(order, selection=selection))

    patches.set(Reprioritising, "keep", keep)


def the_old_place_counts(patches: Patches) -> None:
    def first(self: FlowQueue) -> Tracked | None:
        while self.heap and self.heap[0][2].phase is not Phase.WAITING:
            self.heap.pop(0)
        return self.heap[0][2] if self.heap else None

    patches.set(FlowQueue, "first", first)


def what_is_read_later_keeps_its_own(patches: Patches) -> None:
    def order(self: Intake, record: RequestRecord, origin: Origin) -> OrderKey:
        tier = self._state.setting.policy.tiers[record.tier]
        return order_of(record, origin.offset, tier.queue_timeout)

    patches.set(Intake, "_order_of", order)


def spilled_ones_stay_where_they_are(patches: Patches) -> None:
    def reprioritise(_self: Spilled, _request_id: str, _priority: int) -> bool:
        return False

    patches.set(Spilled, "reprioritise", reprioritise)


def over_when_they_were_obeyed(patches: Patches) -> None:
    def forget(self: PriorityOrders, _prefix: Callable[[str, int], int | None]) -> list[int]:
        over = list(self.standing)
        self.standing.clear()
        return over

    patches.set(PriorityOrders, "forget_over", forget)


PRIORITIES = (
    Mutant(
        "a checkpoint forgets an order of new priorities",
        "a request that is read again gets its priority again",
        checkpoints_forget_them,
        _OUTLIVES,
    ),
    Mutant(
        "of two orders of new priorities the older counts",
        "of the orders that mean a request the newest counts",
        the_oldest_counts,
        _WHICH_PRIORITY + "who_forgets_what_is_needless_says_the_same",
    ),
    Mutant(
        "an order of new priorities means newer requests too",
        "an order means what stands before the ends that it names",
        mean_newer_ones_too,
        _REPRIORITISING + "what_came_later_is_not_meant_and_another_tenant_feels_nothing",
    ),
    Mutant(
        "a request counts at its old place, too",
        "an entry of a heap counts only where its request stands now",
        the_old_place_counts,
        _QUEUE_REORDERS + "what_waits_is_picked_by_its_newest_priority_wherever_it_is_kept",
    ),
    Mutant(
        "what is read after an order keeps its own priority",
        "each request that an order means gets its priority, whenever it is read",
        what_is_read_later_keeps_its_own,
        _REPRIORITISING + "what_stands_unread_behind_a_full_window_gets_it_as_it_is_read",
    ),
    Mutant(
        "what is spilled keeps its own priority",
        "each request that an order means gets its priority, wherever it is kept",
        spilled_ones_stay_where_they_are,
        _REPRIORITISING + "a_request_that_is_spilled_keeps_its_new_place_when_its_payload_comes",
    ),
    Mutant(
        "an order of new priorities is forgotten once it is obeyed",
        "an order is kept until all that it means is finished",
        over_when_they_were_obeyed,
        _OUTLIVES,
    ),
)
