"""Wrong versions of an operator's cancel of many requests, and of freezing. Listed by mutants.every."""

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.bus.messages import Message
from headrace.contracts.control import CancelMatching
from headrace.scheduler.core.carrying_out import CarryingOut
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.bulk_cancels import BulkCancel
from headrace.scheduler.state.standing_orders import StandingOrders
from tests.simulation.mutants.mutant import Mutant, Patches

_OUTLIVES = "an_operators_cancel_outlives_its_owner"
_WHATEVER_CLOCKS_SAY = "test_bulk_cancels::test_it_means_what_stands_before_its_ends_whatever_clocks_say"


def _kept_with(patches: Patches, wrong: Callable[[CancelMatching], CancelMatching]) -> None:
    """Orders without the ends that they name."""
    right = StandingOrders.keep

    def keep(self: StandingOrders[BulkCancel], cancel: BulkCancel) -> None:
        selection = msgspec.structs.replace(cancel.order.selection, stands_before=None)
        cancel.order = wrong(msgspec.structs.replace(cancel.order, selection=selection))
        right(self, cancel)

    patches.set(StandingOrders, "keep", keep)


def means_newer_ones_too(patches: Patches) -> None:
    _kept_with(patches, lambda order: msgspec.structs.replace(order, before_ms=4_000_000_000_000))


def goes_by_the_operators_clock(patches: Patches) -> None:
    _kept_with(patches, lambda order: order)


def checkpoints_pass_it(patches: Patches) -> None:
    patches.set(StandingOrders, "first_offset", property(lambda _self: None))


def over_when_it_has_begun(patches: Patches) -> None:
    """Used for moves, too."""

    def passed(self: CarryingOut[Any], order: Any) -> Any:
        self._walk = None
        self._standing.drop(order)
        return order

    patches.set(CarryingOut, "_passed", passed)


def checkpoints_forget_who_is_frozen(patches: Patches) -> None:
    right = Checkpoints._dirty

    def dirty(self: Checkpoints) -> list[Message]:
        self._state.dirty.discard("frozen")
        return right(self)

    patches.set(Checkpoints, "_dirty", dirty)


def who_is_frozen_keeps_its_credit(patches: Patches) -> None:
    right = Accounts.lift

    def lift(self: Accounts, tier: str, tenant: str, floor: int) -> None:
        if tenant != "a":  # the one that is frozen in the test
            right(self, tier, tenant, floor)

    patches.set(Accounts, "lift", lift)


BULK = (
    Mutant(
        "a checkpoint forgets who is frozen",
        "a change of owner changes nothing for whom an operator holds back",
        checkpoints_forget_who_is_frozen,
        "test_frozen::test_a_successor_holds_back_what_its_predecessor_was_told_to_though_the_order_is_passed",
    ),
    Mutant(
        "who is frozen gathers credit",
        "credit doesn't survive idling, nor being frozen",
        who_is_frozen_keeps_its_credit,
        "test_frozen::test_who_was_frozen_has_no_credit_for_that_time",
    ),
    Mutant(
        "a bulk cancel means newer requests too",
        "an order means what stands before the ends that it names",
        means_newer_ones_too,
        _WHATEVER_CLOCKS_SAY,
    ),
    Mutant(
        "a bulk cancel goes by the operator's clock",
        "an order means what stands before the ends that it names",
        goes_by_the_operators_clock,
        _WHATEVER_CLOCKS_SAY,
    ),
    Mutant(
        "a checkpoint passes a bulk cancel",
        "no checkpoint passes an order that isn't obeyed",
        checkpoints_pass_it,
        _OUTLIVES,
    ),
    Mutant(
        "a bulk cancel is over when it has begun",
        "an order stands until each end is in the log",
        over_when_it_has_begun,
        _OUTLIVES,
    ),
)
