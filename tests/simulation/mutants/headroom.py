"""Wrong versions of which slots are kept for a tier, and which it takes back. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.core import headroom
from headrace.scheduler.core.headroom import Headroom
from headrace.scheduler.decisions.what_is_lent import Share
from headrace.scheduler.decisions.whom_to_preempt import stop_costs
from headrace.scheduler.state.wanted import Wanted
from tests.simulation.mutants.mutant import Mutant, Patches

_WHOLE = "test_headroom::test_whole_slots_that_a_tier_has_wanted_are_never_lent_and_are_there_at_once"
_KEPT = "test_whom_to_preempt::test_who_goes_on_later_is_stopped_rather_than_who_loses_a_little_less_text"
_PART = "test_headroom::test_a_tier_takes_its_part_back_and_leaves_the_others_theirs"
_OFTEN = "test_simulate_contenders::test_what_was_stopped_too_often_to_be_stopped_again_comes_to_hold_no_slot_that_is_wanted"
_URGENT = (
    "test_headroom::test_an_urgent_request_behind_full_slots_gets_the_slot_of_the_least_done_within_250_ms"
)


def what_nobody_wants_is_kept(patches: Patches) -> None:
    patches.set(Wanted, "most", lambda _self, _boot_ms: 10**9)


def nothing_is_kept(patches: Patches) -> None:
    patches.set(headroom, "closed_to", lambda *_args, **_more: set())


def a_part_is_taken_back_by_nobody(patches: Patches) -> None:
    patches.set(Share, "to_take_besides", lambda _self, _slots, _boot_ms: 0)


def all_is_taken_back(patches: Patches) -> None:
    """As long as anybody waits."""
    patches.set(Share, "to_take_besides", lambda self, _slots, _boot_ms: self.waiting)


def others_keep_nothing(patches: Patches) -> None:
    right = Headroom._stop_for

    def stop_for(self: Headroom, tier: str, owed: int, _able: Any) -> None:
        right(self, tier, owed, self._others)

    patches.set(Share, "to_take_besides", lambda self, _slots, _boot_ms: self.waiting)
    patches.set(Headroom, "_stop_for", stop_for)


def what_was_taken_back_goes_to_anybody(patches: Patches) -> None:
    patches.set(Headroom, "_stopping_for", lambda _self, _tier: 0)


def what_can_not_be_stopped_runs_everywhere(patches: Patches) -> None:
    patches.set(headroom, "may_stay", lambda _shares, *, slots: slots + 1)


def a_kept_text_counts_for_nothing(patches: Patches) -> None:
    right = stop_costs

    def costs(prompt: int, answer: int, weights: Any, *, kept: bool) -> int:  # noqa: ARG001
        return right(prompt, answer, weights, kept=False)

    patches.set(headroom, "stop_costs", costs)


HEADROOM = (
    Mutant("a kept text counts for nothing", "whose stop costs least is stopped", a_kept_text_counts_for_nothing, _KEPT),
    Mutant("unwanted slots kept", "nobody's slots idle for a tier that isn't used", what_nobody_wants_is_kept, _WHOLE),
    Mutant("nothing kept", "whole slots are never lent", nothing_is_kept, _WHOLE),
    Mutant("no part taken back", "a tier gets its part behind long work", a_part_is_taken_back_by_nobody, _PART),
    Mutant("all taken back", "no more is taken back than a tier's part", all_is_taken_back, _PART),
    Mutant("others keep nothing", "a tier's own part is stopped for nobody's", others_keep_nothing, _PART),
    Mutant("unstoppable everywhere", "a tier's slots can be taken back", what_can_not_be_stopped_runs_everywhere, _OFTEN),
    Mutant("stopped again and again", "as many are stopped as are owed", what_was_taken_back_goes_to_anybody, _URGENT),
)  # fmt: skip
