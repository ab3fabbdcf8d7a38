"""Wrong versions of an operator's cancel of many requests. Listed by mutants.every."""

from headrace.scheduler.core.bulk_cancelling import BulkCancelling
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit
from headrace.scheduler.state.bulk_cancels import BulkCancel, BulkCancels
from tests.simulation.mutants.mutant import Mutant, Patches

_OUTLIVES = "an_operators_cancel_outlives_its_owner"


def means_newer_ones_too(patches: Patches) -> None:
    def means(self: BulkCancel, facts: Facts) -> bool:
        return does_it_fit(self.order.selection, facts)

    patches.set(BulkCancel, "means", means)


def checkpoints_pass_it(patches: Patches) -> None:
    patches.set(BulkCancels, "first_offset", property(lambda _self: None))


def over_before_its_ends_are_in_the_log(patches: Patches) -> None:
    def passed(self: BulkCancelling, cancel: BulkCancel) -> None:
        self._walk = None
        self._state.bulk_cancels.drop(cancel)

    patches.set(BulkCancelling, "_passed", passed)


BULK = (
    Mutant(
        "a bulk cancel means newer requests too",
        "an order means what was accepted before its instant",
        means_newer_ones_too,
        _OUTLIVES,
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
        over_before_its_ends_are_in_the_log,
        _OUTLIVES,
    ),
)
