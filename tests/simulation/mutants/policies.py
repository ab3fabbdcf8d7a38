"""Wrong versions of how pools and tiers come and go while services run. Listed by mutants.every."""

from headrace.contracts.policy import Policy
from headrace.scheduler import pool_loop, service
from headrace.scheduler.core.attempt_log import AttemptLog
from headrace.scheduler.core.holding import Holding
from tests.simulation.mutants.mutant import Mutant, Patches


def other_tiers_are_taken_in_place(patches: Patches) -> None:
    patches.set(pool_loop, "must_begin_anew", lambda _old, _new: False)


def every_change_begins_anew(patches: Patches) -> None:
    patches.set(pool_loop, "must_begin_anew", lambda _old, _new: True)


def what_goes_is_dropped(patches: Patches) -> None:
    def with_what_went(_old: Policy, new: Policy) -> Policy:
        return new

    patches.set(service, "with_what_went", with_what_went)


def what_ends_in_a_tier_that_went_is_forgotten(patches: Patches) -> None:
    patches.set(AttemptLog, "_note_unserved", lambda _self, _record: None)


def what_runs_of_a_tier_that_went_isnt_counted(patches: Patches) -> None:
    patches.set(Holding, "_holds_besides", lambda _self, _report: None)


_ANEW = "test_policies_that_begin_anew::test_an_owner_takes_its_pool_over_anew_for_a_tier_that_comes_and_keeps_one_that_goes"
POLICIES = (
    Mutant(
        "other tiers are taken in place",
        "what decides which logs an owner reads changes only where it begins",
        other_tiers_are_taken_in_place,
        _ANEW,
    ),
    Mutant(
        "every change begins anew",
        "a change of opinions costs no second without releases",
        every_change_begins_anew,
        _ANEW,
    ),
    Mutant(
        "what goes is dropped",
        "what was accepted is served, whatever the policy says now",
        what_goes_is_dropped,
        _ANEW,
    ),
    Mutant(
        "what ends in a tier that went is forgotten",
        "nothing that has ended runs again",
        what_ends_in_a_tier_that_went_is_forgotten,
        "test_policies_that_begin_anew::test_what_ends_in_a_tier_that_a_new_owner_doesnt_serve_isnt_run_again",
    ),
    Mutant(
        "what runs of a tier that went isn't counted",
        "a backend is sent no more than it may hold",
        what_runs_of_a_tier_that_went_isnt_counted,
        "test_policies_that_begin_anew::test_what_runs_of_a_tier_that_went_takes_its_slot_until_it_ends",
    ),
)
