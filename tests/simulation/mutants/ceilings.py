"""Wrong versions of ceilings, and of a change of policy. Listed by mutants.every."""

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from headrace.contracts.checkpoints import Debt, Paced
from headrace.contracts.ids import AttemptId
from headrace.contracts.outcomes import AttemptRecord
from headrace.scheduler.core import believing, pacing
from headrace.scheduler.core.falling_back import FallingBack
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import most_tokens
from headrace.scheduler.decisions.is_it_over_its_ceiling import charged
from headrace.scheduler.decisions.which_fallback import Here
from headrace.scheduler.state import ceilings
from headrace.scheduler.state.account import Account
from headrace.scheduler.state.ceilings import Ceilings, Whose
from headrace.scheduler.state.held import HeldAttempt, Reserved
from headrace.scheduler.state.held_back import HeldBack
from tests.simulation.mutants.mutant import Mutant, Patches


def time_without_a_debt_is_saved_up(patches: Patches) -> None:
    patches.set(ceilings, "charged", lambda due, _now, amount, of: charged(due, due, amount, of))


def estimates_are_never_settled(patches: Patches) -> None:
    def ended(_state: PoolState, _record: AttemptRecord) -> None:
        return

    patches.set(pacing, "ended", ended)


def what_never_began_is_spent(patches: Patches) -> None:
    def let_go(_state: PoolState, _held: HeldAttempt) -> None:
        return

    patches.set(pacing, "let_go", let_go)


def nobody_is_told_who_is_over(patches: Patches) -> None:
    def pace(_self: HeldBack, _tenant: str) -> None:
        return

    patches.set(HeldBack, "pace", pace)


def pools_have_no_ceilings(patches: Patches) -> None:
    patches.set(Ceilings, "pool_is_closed", False)


def a_change_of_owner_forgets_debts(patches: Patches) -> None:
    patches.set(Ceilings, "debts", lambda _self, _whose, _boot_ms: {})


def nobody_counts_what_was_released_since_the_checkpoint(patches: Patches) -> None:
    patches.set(Ceilings, "knows", lambda _self, _tenant, _attempt: True)


def everything_is_charged_again_by_the_next_owner(patches: Patches) -> None:
    patches.set(Ceilings, "knows", lambda _self, _tenant, _attempt: False)


def the_next_owners_clock_is_believed(patches: Patches) -> None:
    right = pacing.owe

    def owe(state: PoolState, kept: dict[Whose, Paced]) -> None:
        forever = {
            whose: Paced(
                tenant=whose,
                through=AttemptId(1, 5),
                debts={key: Debt(due_ms=debt.due_ms, owed_ms=10**9) for key, debt in record.debts.items()},
            )
            for whose, record in kept.items()
        }
        right(state, forever)

    patches.set(pacing, "owe", owe)


def estimates_ignore_ceilings(patches: Patches) -> None:
    patches.set(pacing, "longest_ms", lambda _state, waits_ms, *_: waits_ms)


def charges_in_flight_keep_their_old_weight(patches: Patches) -> None:
    def reshare(self: Account, share: Fraction, _charges: Iterable[int]) -> None:
        self.share = share

    patches.set(Account, "reshare", reshare)


def fallbacks_get_round_ceilings(patches: Patches) -> None:
    right = FallingBack._here

    def here(self: FallingBack, *given: Any) -> Here:
        return right(self, *given)._replace(paced=False)

    patches.set(FallingBack, "_here", here)


def another_policy_clears_debts(patches: Patches) -> None:
    patches.set(Ceilings, "owe", lambda *_, **__: None)


def no_cached_token_is_in_a_charge(patches: Patches) -> None:
    patches.set(believing, "most_tokens", lambda charge, of: most_tokens(charge, replace(of, cached=0)))


def nobody_reads_what_was_expected(patches: Patches) -> None:
    right = believing.tokens_expected

    def tokens_expected(state: PoolState, held: HeldAttempt) -> int:
        held.expects = 0
        return right(state, held)

    patches.set(pacing, "tokens_expected", tokens_expected)


def what_a_checkpoint_knows_is_never_corrected(patches: Patches) -> None:
    right = pacing.found

    def found(state: PoolState, held: HeldAttempt, worker: str) -> None:
        right(state, held, worker)
        if held.reserved is not None and held.reserved.owed:
            held.reserved = None

    patches.set(pacing, "found", found)


def what_ended_without_an_owner_is_never_corrected(patches: Patches) -> None:
    right = pacing.ended

    def ended(state: PoolState, outcome: Outcome) -> None:
        right(state, dataclasses.replace(outcome, record=replace(outcome.record, expects=0)))

    patches.set(pacing, "ended", ended)


def the_next_owner_counts_prompts_again(patches: Patches) -> None:
    patches.set(believing, "prompt_of", lambda _state, held: held.said)


def a_workers_word_lowers_debts(patches: Patches) -> None:
    patches.set(Reserved, "until", lambda self, _took: self.tokens)


_OWED = "what is owed survives a change of owner"
CEILINGS = (
    Mutant(
        "time without a debt is saved up",
        "in no time more than the ceiling says",
        time_without_a_debt_is_saved_up,
        "test_is_it_over_its_ceiling::test_time_in_which_nothing_was_spent_isnt_saved_up",
    ),
    Mutant(
        "estimates are never settled",
        "a ceiling counts what was taken, not what was expected",
        estimates_are_never_settled,
        "test_ceilings::test_tokens_are_charged_as_expected_and_settled_as_taken",
    ),
    Mutant(
        "what never began is spent",
        "an attempt that never began takes nothing",
        what_never_began_is_spent,
        "test_ceilings::test_what_was_handed_back_unstarted_wasnt_spent",
    ),
    Mutant(
        "who is over a ceiling is served",
        "nothing of a tenant over its ceiling is released",
        nobody_is_told_who_is_over,
        "test_ceilings::test_requests_over_a_ceiling_wait_for_it_and_others_dont",
    ),
    Mutant(
        "a pool's ceiling means nothing",
        "a hosted API is given what it allows",
        pools_have_no_ceilings,
        "test_ceilings::test_a_pools_own_ceiling_lets_nothing_be_released",
    ),
    Mutant(
        "a takeover forgets debts",
        _OWED,
        a_change_of_owner_forgets_debts,
        "test_ceilings_over_owners::test_what_is_owed_survives_a_change_of_owner",
    ),
    Mutant(
        "what was released since the checkpoint is free",
        _OWED,
        nobody_counts_what_was_released_since_the_checkpoint,
        "test_ceilings_over_owners::test_what_was_released_since_the_last_checkpoint_counts_for_the_next_owner_as_well",
    ),
    Mutant(
        "no cached token is in a charge",
        _OWED,
        no_cached_token_is_in_a_charge,
        "test_ceilings_of_cached_prompts::test_of_a_worker_that_doesnt_echo_what_was_expected_the_cheapest_tokens_are_counted",
    ),
    Mutant(
        "nobody reads what was expected",
        "what is in flight at a takeover counts as it was charged",
        nobody_reads_what_was_expected,
        "test_ceilings_of_cached_prompts::test_what_is_mostly_cached_counts_whole_under_an_owner_that_doesnt_know_its_release",
    ),
    Mutant(
        "what a checkpoint knows is never corrected",
        _OWED,
        what_a_checkpoint_knows_is_never_corrected,
        "test_ceilings_of_cached_prompts::test_what_a_checkpoint_knows_is_counted_once_and_what_it_takes_beyond_by_whoever_owns_the_pool",
    ),
    Mutant(
        "what ended without an owner is never corrected",
        _OWED,
        what_ended_without_an_owner_is_never_corrected,
        "test_ceilings_of_cached_prompts::test_what_ended_while_nobody_owned_the_pool_counts_as_far_as_it_took_more",
    ),
    Mutant(
        "the next owner counts prompts again",
        "an attempt is counted once",
        the_next_owner_counts_prompts_again,
        "test_ceilings_of_cached_prompts::test_what_an_answer_took_beyond_before_a_change_of_owner_is_counted_once",
    ),
    Mutant(
        "a worker's word lowers debts",
        "no worker's word lowers a debt",
        a_workers_word_lowers_debts,
        "test_ceilings_of_cached_prompts::test_no_workers_word_on_what_was_expected_lowers_a_debt",
    ),
    Mutant(
        "what runs at a takeover is charged twice",
        "an attempt is charged once, by whichever owner",
        everything_is_charged_again_by_the_next_owner,
        "test_ceilings_over_owners::test_who_is_known_to_the_checkpoint_isnt_charged_twice",
    ),
    Mutant(
        "debts by the clock alone",
        "nobody is paced for longer than what was owed",
        the_next_owners_clock_is_believed,
        "test_ceilings_over_owners::test_a_clock_that_is_behind_paces_nobody_longer",
    ),
    Mutant(
        "charges in flight keep their old weight",
        "a charge is taken back as it stands",
        charges_in_flight_keep_their_old_weight,
        "test_adopting::test_a_counter_with_another_share_is_what_a_new_owner_would_have",
    ),
    Mutant(
        "a fallback gets round a ceiling",
        "who is over a ceiling waits, wherever else there is room",
        fallbacks_get_round_ceilings,
        "test_fallbacks::test_who_is_held_back_does_not_get_round_it_by_a_fallback",
    ),
    Mutant(
        "another policy clears what is owed",
        "ceilings go on over a change of policy",
        another_policy_clears_debts,
        "test_adopting::test_ceilings_go_on_from_what_is_owed",
    ),
    Mutant(
        "estimates ignore ceilings",
        "an estimate knows of a ceiling",
        estimates_ignore_ceilings,
        "test_ceilings::test_it_says_which_ceiling_and_until_when_and_estimates_by_it",
    ),
)
