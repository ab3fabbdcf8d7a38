"""Wrong versions of what is dropped since it can't be in time. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.core import releasing
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.state import answer_lengths
from headrace.scheduler.state.speeds import Speeds
from tests.simulation.mutants.mutant import Mutant, Patches

_DROPS = "test_too_late::test_what_can_not_be_in_time_is_dropped_without_a_charge_when_its_tenant_has_more_than_slots"
_PART = "test_too_late::test_a_tenant_within_its_part_of_the_slots_is_not_judged_by_the_estimate_though_it_has_several"
_CUT = "test_expected_costs::test_the_most_is_that_of_all_where_most_long_answers_are_cut_off"
_MANY = "test_too_late::test_at_most_so_many_are_dropped_for_a_slot_and_then_the_core_comes_back_at_once"


def nothing_is_dropped(patches: Patches) -> None:
    patches.set(releasing, "is_it_too_late", lambda *_args, **_more: None)


def nobody_is_spared(patches: Patches) -> None:
    patches.set(releasing, "is_spared", lambda **_given: False)


def who_is_within_its_part_is_judged(patches: Patches) -> None:
    patches.set(releasing, "is_spared", lambda *, waiting, **_given: waiting == 1)


def everybody_is_spared(patches: Patches) -> None:
    patches.set(releasing, "is_spared", lambda **_given: True)


def what_is_cut_off_teaches_nothing(patches: Patches) -> None:
    patches.set(answer_lengths._Histogram, "add_longer", lambda _self, _tokens: None)


def what_is_cut_off_counts_as_it_is(patches: Patches) -> None:
    patches.set(answer_lengths._Histogram, "add_longer", answer_lengths._Histogram.add)


def a_drop_is_charged(patches: Patches) -> None:
    right = Endings.expire

    def expire(self: Endings, tracked: Any, kind: Any, detail: str = "") -> None:
        right(self, tracked, kind, detail)
        self._state.settle(tracked.record.tier, tracked.record.tenant, tracked.charge)

    patches.set(Endings, "expire", expire)


def all_are_dropped_in_one_go(patches: Patches) -> None:
    patches.set(releasing, "MOST_DROPS", 10**9)


def the_core_sleeps_after_drops(patches: Patches) -> None:
    right = Releasing.release

    def release(self: Releasing) -> bool:
        right(self)
        return False

    patches.set(Releasing, "release", release)


def a_pace_is_remembered_for_ever(patches: Patches) -> None:
    patches.set(Speeds, "_patience_ms", lambda _self: 10**12)


TOO_LATE = (
    Mutant("nothing is dropped", "what can't be in time costs no slot", nothing_is_dropped, _DROPS),
    Mutant("alone, and dropped", "who waits alone is tried", nobody_is_spared, _DROPS),
    Mutant(
        "within its part, and dropped",
        "the estimate judges who wants more",
        who_is_within_its_part_is_judged,
        _PART,
    ),
    Mutant("everybody spared", "what can't be in time costs no slot", everybody_is_spared, _DROPS),
    Mutant(
        "cut off, and unknown",
        "long answers are known by what was cut off",
        what_is_cut_off_teaches_nothing,
        _CUT,
    ),
    Mutant(
        "cut off, and taken as whole",
        "what was cut off would be longer",
        what_is_cut_off_counts_as_it_is,
        _CUT,
    ),
    Mutant("a drop is charged", "what was dropped costs nothing", a_drop_is_charged, _DROPS),
    Mutant("all dropped in one go", "drops don't hold up a step", all_are_dropped_in_one_go, _MANY),
    Mutant("asleep after drops", "nobody sleeps with room and work", the_core_sleeps_after_drops, _MANY),
    Mutant(
        "a pace for ever",
        "an estimate that is too long mends itself",
        a_pace_is_remembered_for_ever,
        "test_too_late::test_a_pool_that_was_slow_once_is_tried_again_although_all_was_dropped",
    ),
)
