"""Wrong versions of how much a worker may be given. Listed by mutants.every.

Wrong ways to learn a limit, which take an engine that is overloaded to be seen, are in tests/unit/scheduler.
"""

from typing import Any

from headrace.scheduler.core import room, taking_back
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.taking_back import TakingBack
from headrace.scheduler.decisions import does_its_cache_thrash, how_much_may_a_backend_hold, whom_to_take_back
from headrace.scheduler.decisions.whom_to_take_back import Inside
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


def what_was_seen_before_a_remedy_counts(patches: Patches) -> None:
    patches.set(does_its_cache_thrash, "LAG_MS", 0)


def one_preemption_is_enough(patches: Patches) -> None:
    patches.set(does_its_cache_thrash, "ENOUGH", 1)


def who_gets_on_is_taken_back(patches: Patches) -> None:
    patches.set(Inside, "stands", property(lambda each: each.still_ms is not None))


def who_was_stopped_is_taken_back_again(patches: Patches) -> None:
    _inside_as(patches, stopped=False)


def readers_see_answers_begin_anew(patches: Patches) -> None:
    _inside_as(patches, goes_on=True)


def what_hangs_is_taken_back(patches: Patches) -> None:
    right = whom_to_take_back.whom_to_take_back
    patches.set(
        taking_back, "whom_to_take_back", lambda inside, **more: right(inside, **{**more, "ends": True})
    )


def _inside_as(patches: Patches, **wrong: Any) -> None:
    right = TakingBack._inside

    def inside(self: TakingBack, held: HeldAttempt, limits: BackendLimits) -> Inside:
        return right(self, held, limits)._replace(**wrong)

    patches.set(TakingBack, "_inside", inside)


_TAKEN = "test_taking_back::"
TAKING_BACK = (
    Mutant("late gauges prove", "each remedy is given its time", what_was_seen_before_a_remedy_counts,
           f"{_TAKEN}test_few_preemptions_and_what_gauges_show_shortly_after_a_remedy_prove_nothing"),
    Mutant("one preemption proves", "only what thrashes loses anything", one_preemption_is_enough,
           f"{_TAKEN}test_few_preemptions_and_what_gauges_show_shortly_after_a_remedy_prove_nothing"),
    Mutant("running ones taken back", "only what stands still is taken back", who_gets_on_is_taken_back,
           f"{_TAKEN}test_a_long_request_that_stands_still_in_a_thrashing_engine_is_taken_back_and_goes_on_from_its_text"),
    Mutant("taken back again", "of a request once", who_was_stopped_is_taken_back_again,
           f"{_TAKEN}test_a_long_request_that_stands_still_in_a_thrashing_engine_is_taken_back_and_goes_on_from_its_text"),
    Mutant("readers restarted", "no stream begins anew for it", readers_see_answers_begin_anew,
           f"{_TAKEN}test_only_what_is_large_goes_on_and_shows_nobody_that_it_begins_anew_is_taken_back"),
    Mutant("hanging ones taken back", "where nothing goes on nothing is taken back", what_hangs_is_taken_back,
           f"{_TAKEN}test_nothing_is_taken_back_from_an_engine_that_is_merely_full_or_that_hangs"),
)  # fmt: skip
LIMITS = (
    *TAKING_BACK,
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
