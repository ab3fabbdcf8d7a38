"""Wrong versions of what callers are told of their waits. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.decisions import estimate_wait
from headrace.scheduler.decisions.estimate_wait import Likely
from headrace.scheduler.state import wait_errors
from headrace.scheduler.state.wait_errors import WaitErrors
from tests.simulation.mutants.mutant import Mutant, Patches


def estimates_always_come_true(patches: Patches) -> None:
    patches.set(estimate_wait, "likely", lambda expected, _errors: Likely(expected, expected))


def any_length_is_told(patches: Patches) -> None:
    patches.set(estimate_wait, "LONGEST_MS", 10**40)


def who_is_overdue_isnt_counted(patches: Patches) -> None:
    right = WaitErrors.of
    patches.set(WaitErrors, "of", lambda self, tier, _boot_ms: right(self, tier, -1))


def waits_are_remembered_for_ever(patches: Patches) -> None:
    patches.set(wait_errors, "REMEMBERED", 10**6)


def all_are_noted(patches: Patches) -> None:
    patches.set(WaitErrors, "is_due", lambda _self, _boot_ms: True)


def tiers_wait_alike(patches: Patches) -> None:
    right = WaitErrors.note

    def note(self: WaitErrors, request_id: str, _tier: str, expected_ms: int, **more: Any) -> None:
        right(self, request_id, "t", expected_ms, **more)

    patches.set(WaitErrors, "note", note)


def _mutant(patch: Any, breaks: str, test: str) -> Mutant:
    return Mutant(patch.__name__, breaks, patch, "test_waits_told::test_" + test)


_OVERDUE = "who_still_waits_counts_once_it_is_overdue_and_who_has_ended_no_more"
_RANGE = "19_of_20_start_as_soon_as_they_were_told_and_half_as_soon_as_that_was_said"

WAITS = (
    _mutant(estimates_always_come_true, "19 of 20 start within what is told", _RANGE),
    _mutant(any_length_is_told, "nobody is told of years", "nothing_is_told_that_is_longer_than_a_year"),
    _mutant(who_is_overdue_isnt_counted, "what waits for longer than was told counts", _OVERDUE),
    _mutant(
        all_are_noted, "what is noted is known until it ends, however long that takes",
        "however_long_waits_are_it_is_learnt_how_far_off_they_are",
    ),
    _mutant(tiers_wait_alike, "a tier's waits are told by its own", _OVERDUE),
    _mutant(
        waits_are_remembered_for_ever, "so much is remembered at most",
        "no_more_is_remembered_than_allowed",
    ),
)  # fmt: skip
