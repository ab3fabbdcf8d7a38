"""Wrong versions of what a prompt is charged of which a cache probably has a part. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.core import intake, reconciling
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.routing import Routing
from headrace.scheduler.decisions import how_far_back_a_cache_reaches, how_much_is_cached
from headrace.scheduler.decisions.estimate_cost import raised_charge
from headrace.scheduler.state.cached_prefixes import CachedPrefixes
from headrace.scheduler.state.cached_shares import CachedShares
from headrace.scheduler.state.held import Expected
from tests.simulation.mutants.mutant import Mutant, Patches


def hints_are_believed(patches: Patches) -> None:
    """Whatever engines find."""
    patches.set(Estimating, "cached_of", lambda _self, _record, believed=None: believed or 0)


def prompts_are_charged_whole(patches: Patches) -> None:
    patches.set(Estimating, "cached_of", lambda _self, _record, _believed=None: 0)


def engines_are_never_heard_again(patches: Patches) -> None:
    """Once they have told of enough."""
    right = CachedShares.learn

    def learn(
        self: CachedShares, tenant: str, model: str, *, prompt: int, believed: int, cached: int
    ) -> None:
        if cached:
            right(self, tenant, model, prompt=prompt, believed=believed, cached=cached)

    patches.set(CachedShares, "learn", learn)


def one_attempt_is_enough(patches: Patches) -> None:
    patches.set(how_much_is_cached, "NEEDED", 1)


def tenants_are_one(patches: Patches) -> None:
    right = CachedShares.of
    patches.set(CachedShares, "of", lambda self, _tenant, model: right(self, "a", model))


def more_is_cached_than_there_is(patches: Patches) -> None:
    patches.set(how_much_is_cached, "cached_of", lambda prompt, _tokens, _share: prompt + 1)


def everywhere_is_warm(patches: Patches) -> None:
    """A backend that never saw it counts as one that did."""
    right = Routing._expected

    def expected(self: Routing, record: Any, boot: str) -> Any:
        found = right(self, record, boot)
        return found or (Expected(record.prompt_tokens, 0, 0, True) if record.prefix else None)

    patches.set(Routing, "_expected", expected)


def caches_reach_back_for_ever(patches: Patches) -> None:
    patches.set(CachedPrefixes, "reaches", lambda _self, _boot, _age: True)


def a_cache_is_never_known_again(patches: Patches) -> None:
    """Once it was emptied."""
    right = how_far_back_a_cache_reaches.reach_after

    def reach_after(reach: int | None, age: int, *, found: bool) -> int | None:
        return reach if found else right(reach, age, found=found)

    patches.set(how_far_back_a_cache_reaches, "reach_after", reach_after)


def what_runs_is_forgotten(patches: Patches) -> None:
    """By a new owner that has read its requests before a report."""
    patches.set(reconciling, "recall", lambda *_args: None)


def what_is_read_late_is_forgotten(patches: Patches) -> None:
    """By a new owner that has read a report before its requests."""
    patches.set(intake, "recall", lambda *_args: None)


def what_ran_is_forgotten(patches: Patches) -> None:
    patches.set(CachedPrefixes, "begin", lambda _self, _boot, _prefixes: None)


def what_ran_once_is_the_latest_for_ever(patches: Patches) -> None:
    right = CachedPrefixes.begin

    def begin(self: CachedPrefixes, boot: str, prefixes: Any) -> None:
        known = self._keys.pop(boot, {})
        right(self, boot, prefixes)
        self._keys[boot] = known | self._keys.get(boot, {})

    patches.set(CachedPrefixes, "begin", begin)


def a_report_takes_cached_tokens_back(patches: Patches) -> None:
    """Charges of running attempts are raised as if nothing had been cached."""
    patches.set(reconciling, "raised_charge", lambda *args, cached: raised_charge(*args, cached=0 * cached))


def _mutant(patch: Any, breaks: str, test: str) -> Mutant:
    return Mutant(patch.__name__, breaks, patch, "test_cached_charges::test_" + test)


_WARM = "a_warm_prompt_is_charged_what_engines_found_and_a_cold_backend_the_whole"
_REACH = "what_the_cache_doesnt_reach_back_to_is_charged_whole"
_AGAIN = "how_far_back_a_cache_reaches_is_found_whatever_was_thought_before"
_RUNS = "a_new_owner_knows_where_the_prompts_are_that_run"
_RAN = "a_new_owner_learns_what_a_worker_ran_before_and_from_then_on_knows_better"

CACHED = (
    _mutant(hints_are_believed, "hints alone lower no charge", "hints_lower_no_charge_where_the_engine_finds_nothing"),
    _mutant(prompts_are_charged_whole, "what is cached is charged as cached", _WARM),
    _mutant(
        engines_are_never_heard_again, "what engines find of late counts", "an_engine_that_finds_nothing_any_more_is_heard"
    ),
    _mutant(one_attempt_is_enough, "a share is known from several attempts", _WARM),
    _mutant(tenants_are_one, "a tenant's charges rest on its own prompts", "one_tenants_caches_lower_no_others_charge"),
    _mutant(
        more_is_cached_than_there_is, "no more is cached than the prompt has",
        "no_more_is_expected_in_a_cache_than_the_prompt_has_and_engines_have_found",
    ),
    _mutant(everywhere_is_warm, "a cold backend's prompt is charged whole", _WARM),
    _mutant(caches_reach_back_for_ever, "what was dropped is charged whole", _REACH),
    _mutant(a_cache_is_never_known_again, "how far back a cache reaches is never known for good", _AGAIN),
    _mutant(what_runs_is_forgotten, "a new owner knows whose prompts run where", _RUNS),
    _mutant(what_is_read_late_is_forgotten, "a new owner knows whose prompts run where", _RUNS),
    _mutant(what_ran_is_forgotten, "a new owner learns what workers ran", _RAN),
    _mutant(what_ran_once_is_the_latest_for_ever, "what an owner has seen itself counts", _RAN),
    _mutant(
        a_report_takes_cached_tokens_back, "a charge is raised by what was spent alone",
        "what_another_owner_charged_isnt_raised_before_more_is_spent_than_that",
    ),
)  # fmt: skip
