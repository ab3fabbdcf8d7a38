"""Wrong versions of an operator's move of many requests to another pool. Listed by mutants.every."""

import msgspec

from headrace.contracts.control import MoveMatching
from headrace.contracts.selections import Find
from headrace.scheduler.core import needed_from
from headrace.scheduler.core.finding import Finding
from headrace.scheduler.core.moving import Moving
from headrace.scheduler.core.pool_state import PoolState
from tests.simulation.mutants.bulk import over_when_it_has_begun
from tests.simulation.mutants.mutant import Mutant, Patches

_TESTS = "test_moving::test_"


def checkpoints_pass_it(patches: Patches) -> None:
    def control_to_keep(state: PoolState) -> int:
        return state.control_read

    patches.set(needed_from, "control_to_keep", control_to_keep)


def means_newer_ones_too(patches: Patches) -> None:
    right = Moving.keep

    def keep(self: Moving, offset: int, order: MoveMatching) -> None:
        ends = {
            topic: dict.fromkeys(partitions, 10**9)
            for topic, partitions in (order.selection.stands_before or {}).items()
        }
        selection = msgspec.structs.replace(order.selection, stands_before=ends)
        right(self, offset, msgspec.structs.replace(order, selection=selection))

    patches.set(Moving, "keep", keep)


def the_wrong_order_is_told_of(patches: Patches) -> None:
    def moved(self: Finding, find: Find) -> int | None:
        moves = self._state.bulk_moves
        return next((move.done for move in (*moves, *reversed(moves.over)) if move.order.to == find.to), None)

    patches.set(Finding, "_moved", moved)


MOVES = (
    Mutant(
        "who asks is told of another's move",
        "what an order came to is told to who asks in its words",
        the_wrong_order_is_told_of,
        _TESTS + "all_that_wait_and_fit_go_and_what_came_later_stays",
    ),
    Mutant(
        "a move of many requests means newer ones too",
        "an order means what stands before the ends that it names",
        means_newer_ones_too,
        _TESTS + "all_that_wait_and_fit_go_and_what_came_later_stays",
    ),
    Mutant(
        "a checkpoint passes a move of many requests",
        "no checkpoint passes an order before all that it means has gone, or its intent is in it",
        checkpoints_pass_it,
        _TESTS + "an_order_waits_for_what_stands_unread_and_for_room",
    ),
    Mutant(
        "a move of many requests is over when it has begun",
        "an order stands until a whole pass finds none that may go",
        over_when_it_has_begun,
        _TESTS + "an_order_waits_for_what_stands_unread_and_for_room",
    ),
)
