"""Which priority does an operator want a request to have inside its tenant, and how long does such an order matter? Called by
state.priority_orders.

Invariant: of the orders that mean a request the one that stands last in `control` counts, however they are listed; and what
an order means doesn't change while a request is unfinished, so that whoever reads it again gives it the same priority.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from headrace.contracts.checkpoints import Reprioritised
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit, end_in

Ends = Mapping[str, Mapping[int, int]]


def which_priority(facts: Facts, orders: Iterable[Reprioritised]) -> int | None:
    """The one that is ordered; None: its own. What runs is meant, too: it may wait again."""
    anywhere = facts._replace(stage=None)
    meant = (order for order in orders if does_it_fit(order.selection, anywhere))
    newest = max(meant, key=lambda order: order.offset, default=None)
    return None if newest is None else newest.priority


def is_over(order: Reprioritised, prefix: Callable[[str, int], int | None]) -> bool:
    """Whether nothing that it means can be unfinished. `prefix`: up to where a partition's requests are finished; None: it
    isn't this pool's, or not any more.
    """
    return all(
        (done := prefix(topic, partition)) is None or done >= end
        for topic, partitions in _ends(order).items()
        for partition, end in partitions.items()
    )


def replaces(newer: Reprioritised, older: Reprioritised) -> bool:
    """Whether the newer means all that the older does: then nobody need remember the older."""
    if not _same_filters(newer, older) or newer.offset < older.offset:
        return False
    return all(
        end <= end_in(_ends(newer), topic, partition)
        for topic, partitions in _ends(older).items()
        for partition, end in partitions.items()
    )


def _ends(order: Reprioritised) -> Ends:
    return order.selection.stands_before or {}


def _same_filters(one: Reprioritised, other: Reprioritised) -> bool:
    first, second = (msgspec.structs.replace(each.selection, stands_before=None) for each in (one, other))
    return first == second
