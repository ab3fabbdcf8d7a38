"""Wrong versions of where a request runs by what caches hold, and of whom that lets pass. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.core import routing
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.core.routing import Routing
from headrace.scheduler.decisions import which_backend, who_may_pass
from headrace.scheduler.state.cached_prefixes import CachedPrefixes
from tests.simulation.mutants.mutant import Mutant, Patches

_ROUTING = "test_routing::"


def caches_mean_nothing(patches: Patches) -> None:
    patches.set(CachedPrefixes, "blocks_of", lambda _self, _hashes: {})


def the_coldest_is_chosen(patches: Patches) -> None:
    patches.set(which_backend, "_colder", lambda warmth: warmth)


def hints_know_no_bound(patches: Patches) -> None:
    patches.set(which_backend, "most_held", lambda limit, **_more: 10 * limit)


def sessions_have_no_home(patches: Patches) -> None:
    patches.set(Routing, "_homes_of", lambda _self, _record, _roomy: None)


def the_dead_keep_their_caches(patches: Patches) -> None:
    patches.set(CachedPrefixes, "forget", lambda _self, _boot: None)


def a_miss_teaches_nothing(patches: Patches) -> None:
    patches.set(CachedPrefixes, "were_gone", lambda _self, _boot, _since: None)


def the_first_always_goes(patches: Patches) -> None:
    patches.set(routing, "may_be_passed", lambda **_more: False)


def the_first_is_passed_for_ever(patches: Patches) -> None:
    patches.set(routing, "may_be_passed", lambda **_more: True)


def priorities_are_passed(patches: Patches) -> None:
    """And what came long before, and deadlines."""
    patches.set(routing, "near", lambda orders: range(len(list(orders))))


def nobody_waits_for_a_cache(patches: Patches) -> None:
    patches.set(routing, "waits_ms", lambda *_args, **_more: 0)


def a_cache_is_waited_for_for_long(patches: Patches) -> None:
    patches.set(routing, "waits_ms", lambda *_args, **_more: 10**6)


def whoever_is_near_goes(patches: Patches) -> None:
    """Another tenant, by more than the largest charge."""
    patches.set(who_may_pass, "may_go_before", lambda *_args, **_more: True)


def models_run_anywhere(patches: Patches) -> None:
    right = Routing._keep_up

    def keep_up(self: Routing) -> None:
        right(self)
        self._adapters = False

    patches.set(Routing, "_keep_up", keep_up)


def who_fits_no_cache_is_passed(patches: Patches) -> None:
    patches.set(Releasing, "_fits", lambda _self, _tracked, _workers: True)


def _mutant(patch: Any, breaks: str, test: str) -> Mutant:
    return Mutant(patch.__name__, breaks, patch, _ROUTING + "test_" + test)


_HOME = "who_goes_on_with_a_prompt_is_sent_to_where_its_beginning_is"
_FIRST = "the_first_is_passed_so_often_and_then_goes_wherever_there_is_room"
_ORDER = "nobody_passes_a_deadline_or_what_came_long_before"
_ANOTHER = "whoever_goes_before_another_counters_never_differ_by_more_than_the_largest_charge"
_SESSION = "a_session_stays_where_it_ran_and_finds_its_home_again_under_another_owner"
_MODEL = "in_a_pool_of_several_models_each_runs_where_it_ran_and_the_most_used_spreads_by_load"
_WAITS = "a_request_waits_a_moment_for_the_one_backend_that_has_its_prompt"
_NOT_LONG = "it_waits_no_longer_than_its_prompt_would_take_and_goes_where_there_is_room"
_MISS = "an_engine_that_computed_it_anew_had_dropped_all_that_is_older"

ROUTING = (
    _mutant(caches_mean_nothing, "a prompt is sent to where its beginning is", _HOME),
    _mutant(the_coldest_is_chosen, "a prompt is sent to where most of it is", _HOME),
    _mutant(hints_know_no_bound, "a hint loads no backend beyond its part", "a_hint_loads_no_backend_beyond_its_bound"),
    _mutant(sessions_have_no_home, "every owner sends a session to the same place", _SESSION),
    _mutant(the_dead_keep_their_caches, "a dead boot has no cache", "a_dead_boot_has_no_cache"),
    _mutant(a_miss_teaches_nothing, "what an engine says of its cache counts", _MISS),
    _mutant(the_first_always_goes, "of near requests the one goes whose prompt is there", _FIRST),
    _mutant(the_first_is_passed_for_ever, "nobody is passed for ever", _FIRST),
    _mutant(priorities_are_passed, "priorities and deadlines are kept", _ORDER),
    _mutant(nobody_waits_for_a_cache, "a moment's wait for a cache is taken", _WAITS),
    _mutant(a_cache_is_waited_for_for_long, "nobody waits longer than computing takes", _NOT_LONG),
    _mutant(models_run_anywhere, "a model runs where it ran", _MODEL),
    _mutant(who_fits_no_cache_is_passed, "who fits no cache isn't passed", "nobody_passes_who_fits_no_cache"),
    _mutant(whoever_is_near_goes, "the bounds between tenants hold", _ANOTHER),
)  # fmt: skip
