"""Wrong versions of how much a worker may be given. Listed by mutants.every.

Wrong ways to learn a limit, which take an engine that is overloaded to be seen, are in tests/unit/scheduler.
"""

from typing import Any

from headrace.scheduler.core import room
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.decisions import how_much_may_a_backend_hold
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.held import HeldAttempt
from tests.simulation.mutants.mutant import Mutant, Patches


def what_is_held_is_forgotten(patches: Patches) -> None:
    right = how_much_may_a_backend_hold.room_of

    def room_of(**given: Any) -> int:
        return right(**{**given, "held": 0})

    patches.set(room, "room_of", room_of)


def the_learned_counts_alone(patches: Patches) -> None:
    """What was learned is believed beyond what the operator allows."""
    right = how_much_may_a_backend_hold.room_of

    def room_of(**given: Any) -> int:
        return right(**{**given, "limit": 3, "learned": None})

    patches.set(room, "room_of", room_of)


def caches_are_endless(patches: Patches) -> None:
    patches.set(BackendLimits, "may_take", lambda _self, _load: True)


def the_new_is_not_in_the_cache(patches: Patches) -> None:
    """What is on its way counts only once a report shows it."""
    right = Holding.released

    def released(self: Holding, tracked: Any, held: HeldAttempt) -> None:
        right(self, tracked, held)
        self._state.limits[held.boot].loads.drop(held.id)

    patches.set(Holding, "released", released)


def caches_never_empty(patches: Patches) -> None:
    right = Returning.let_go

    def let_go(self: Returning, held: HeldAttempt) -> None:
        limits = self._state.limits.pop(held.boot, None)
        right(self, held)
        if limits is not None:
            self._state.limits[held.boot] = limits

    patches.set(Returning, "let_go", let_go)


LIMITS = (
    Mutant(
        "held forgotten",
        "a worker isn't given more than it may hold",
        what_is_held_is_forgotten,
        "a_worker_has_more_to_do_than_it_may_hold",
    ),
    Mutant(
        "learned limit alone",
        "never more than the worker's own limit",
        the_learned_counts_alone,
        "a_worker_has_more_to_do_than_it_may_hold",
    ),
    Mutant(
        "endless caches",
        "the forecast fits the cache",
        caches_are_endless,
        "a_cache_holds_fewer_than_the_limit",
    ),
    Mutant(
        "new loads unknown",
        "what is on its way will need its tokens",
        the_new_is_not_in_the_cache,
        "a_cache_holds_fewer_than_the_limit",
    ),
    Mutant(
        "caches never empty",
        "who has ended gives its tokens back",
        caches_never_empty,
        "a_cache_holds_fewer_than_the_limit",
    ),
)
