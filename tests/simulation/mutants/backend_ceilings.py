"""Wrong versions of what keeps a backend below what it takes in a minute. Listed by mutants.every."""

from collections.abc import Container
from typing import Any

from headrace.contracts.reports import PerMinute
from headrace.scheduler.core import attempt_log, backend_pacing, headroom, reconciling, releasing, room
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions import what_can_it_have_spent, what_does_a_backend_take
from headrace.scheduler.decisions.is_it_over_its_ceiling import Ceiling
from headrace.scheduler.decisions.what_can_it_have_spent import Asked, Told
from headrace.scheduler.decisions.what_does_a_backend_take import ceilings_of
from headrace.scheduler.state import backend_ceilings
from headrace.scheduler.state.backend_ceilings import BackendCeilings
from headrace.scheduler.state.ceilings import Owed
from headrace.scheduler.state.held import HeldAttempt
from tests.simulation.mutants.mutant import Mutant, Patches


def _as_it_is(per_minute: PerMinute | None) -> list[Ceiling]:
    return [
        each._replace(per_us=60_000_000, at_once=each.amount // 6 or 1) for each in ceilings_of(per_minute)
    ]


def a_sixth_at_once(patches: Patches) -> None:
    patches.set(backend_ceilings, "ceilings_of", _as_it_is)
    patches.set(what_does_a_backend_take, "PER_US", 60_000_000)


def one_step_gives_it_all(patches: Patches) -> None:
    """The gate is asked before a step alone, not after each release."""

    class Blind:
        closed_boots = staticmethod(backend_pacing.closed_boots)

        @staticmethod
        def is_closed(*_: Any) -> bool:
            return False

    patches.set(releasing, "backend_pacing", Blind)


def closed_ones_have_room(patches: Patches) -> None:
    class Blind:
        @staticmethod
        def is_closed(*_: Any) -> bool:
            return False

    patches.set(room, "backend_pacing", Blind)


def estimates_stand(patches: Patches) -> None:
    def ended(_state: PoolState, outcome: Outcome) -> None:
        if outcome.own is not None:
            outcome.own.spends = None

    patches.set(backend_pacing, "ended", ended)


def what_never_began_was_given(patches: Patches) -> None:
    def let_go(_state: PoolState, held: HeldAttempt) -> None:
        held.spends = None

    patches.set(backend_pacing, "let_go", let_go)


def the_next_owner_begins_at_nothing(patches: Patches) -> None:
    patches.set(backend_pacing, "to_keep", lambda _state: [])


def nobody_is_ever_forgotten(patches: Patches) -> None:
    def forget_gone(self: BackendCeilings, _live: Container[str], boot_ms: int) -> list[str]:
        return [whose for whose in self.forget_idle(boot_ms) if whose is not None]

    patches.set(BackendCeilings, "forget_gone", forget_gone)


def work_is_stopped_for_slots_that_stay_empty(patches: Patches) -> None:
    class Blind:
        @staticmethod
        def closed_boots(_state: PoolState) -> set[str]:
            return set()

    patches.set(headroom, "backend_pacing", Blind)


def debts_are_times(patches: Patches) -> None:
    patches.set(Owed, "at", lambda self, _ceiling: self.ms)


def nobody_is_spared(patches: Patches) -> None:
    patches.set(backend_pacing, "_spare", lambda _state, _outcome: None)


def whoever_asks_is_spared_for_as_long_as_it_asks(patches: Patches) -> None:
    patches.set(backend_ceilings, "MOST_SPARED_MS", 10**12)


def whatever_a_worker_says_counts(patches: Patches) -> None:
    patches.set(attempt_log, "believed", lambda _state, outcome: outcome)


def whatever_a_report_says_counts(patches: Patches) -> None:
    patches.set(reconciling, "tokens_so_far", lambda _state, _held, told: told)


def only_what_is_expected_is_believed(patches: Patches) -> None:
    patches.set(what_can_it_have_spent, "ANSWER_BESIDES", 0)
    patches.set(what_can_it_have_spent, "PROMPT_BESIDES", 0)


def images_are_as_long_as_their_links(patches: Patches) -> None:
    def prompt(_told: Told, asked: Asked) -> list[int]:
        return [asked.size + asked.said + what_can_it_have_spent.PROMPT_BESIDES]

    patches.set(what_can_it_have_spent, "_prompt", prompt)


def max_tokens_covers_what_is_thought(patches: Patches) -> None:
    answer = what_can_it_have_spent._answer

    def covered(told: Told, asked: Asked, took_ms: int | None) -> list[int]:
        return answer(told._replace(reasoning_tokens=told.reasoning_tokens or 0), asked, took_ms)

    patches.set(what_can_it_have_spent, "_answer", covered)


def only_the_best_of_them_count(patches: Patches) -> None:
    patches.set(what_can_it_have_spent, "_sequences", lambda asked: max(1, asked.choices))


def what_isnt_read_yet_is_one_sequence(patches: Patches) -> None:
    patches.set(what_can_it_have_spent, "MOST_SEQUENCES", 1)


_MOST = "a backend is given no more than it takes"
_HERE = "test_backend_ceilings::"
BACKEND_CEILINGS = (
    Mutant(
        "a sixth of a minute at once",
        _MOST,
        a_sixth_at_once,
        _HERE + "test_what_only_it_could_take_waits_and_never_fails",
    ),
    Mutant(
        "one step gives a backend all",
        _MOST,
        one_step_gives_it_all,
        _HERE + "test_what_only_it_could_take_waits_and_never_fails",
    ),
    Mutant(
        "a backend over its ceiling has room",
        _MOST,
        closed_ones_have_room,
        _HERE + "test_what_only_it_could_take_waits_and_never_fails",
    ),
    Mutant(
        "a backend is charged what was expected",
        "what was given is settled on actual use",
        estimates_stand,
        _HERE + "test_tokens_are_charged_as_expected_and_settled_as_taken",
    ),
    Mutant(
        "a backend is charged what never began",
        "an attempt that never began takes nothing",
        what_never_began_was_given,
        _HERE + "test_what_never_began_wasnt_given_to_it",
    ),
    Mutant(
        "a takeover forgets what a backend was given",
        "what was given survives a change of owner",
        the_next_owner_begins_at_nothing,
        _HERE + "test_a_takeover_and_a_new_boot_of_the_worker_keep_what_is_owed",
    ),
    Mutant(
        "backends are never forgotten",
        "memory is bounded by who lives and who owes",
        nobody_is_ever_forgotten,
        _HERE + "test_nothing_is_kept_of_a_backend_once_nothing_is_owed_and_its_worker_is_gone",
    ),
    Mutant(
        "work is stopped for slots that stay empty",
        "nobody is stopped for what brings nothing",
        work_is_stopped_for_slots_that_stay_empty,
        _HERE + "test_nobody_is_stopped_for_a_slot_that_its_backend_may_not_fill",
    ),
    Mutant(
        "what is owed is a time",
        "a ceiling that is lowered is owed what was spent",
        debts_are_times,
        "test_adopting::test_a_lowered_ceiling_is_owed_what_was_spent_below_the_old_one",
    ),
    Mutant(
        "whatever a worker says counts",
        "an attempt counts no more than it can have spent",
        whatever_a_worker_says_counts,
        "test_overstated::test_a_lie_is_counted",
    ),
    Mutant(
        "whatever a report says counts",
        "a report adds no more than can be in its time",
        whatever_a_report_says_counts,
        "test_overstated::test_a_report_that_lies_adds_what_can_be_in_its_time",
    ),
    Mutant(
        "only what is expected is believed",
        "an honest word is never cut",
        only_what_is_expected_is_believed,
        "test_overstated::test_large_images_thoughts_and_answers_to_choose_from_are_believed",
    ),
    Mutant(
        "images are as long as their links",
        "an honest word is never cut",
        images_are_as_long_as_their_links,
        "test_overstated::test_large_images_thoughts_and_answers_to_choose_from_are_believed",
    ),
    Mutant(
        "max_tokens covers what is thought",
        "an honest word is never cut",
        max_tokens_covers_what_is_thought,
        "test_overstated::test_large_images_thoughts_and_answers_to_choose_from_are_believed",
    ),
    Mutant(
        "of answers to choose from only the best count",
        "an honest word is never cut",
        only_the_best_of_them_count,
        "test_overstated::test_large_images_thoughts_and_answers_to_choose_from_are_believed",
    ),
    Mutant(
        "what isn't read yet is one sequence",
        "an honest word is never cut",
        what_isnt_read_yet_is_one_sequence,
        "test_overstated::test_an_honest_word_is_believed_before_its_request_is_read",
    ),
    Mutant(
        "a backend that asks to be spared isn't",
        "a Retry-After is meant for all",
        nobody_is_spared,
        "test_spared_backends::test_a_backend_that_asks_to_be_spared_is_given_nothing_until_then",
    ),
    Mutant(
        "a backend is spared for as long as it asks",
        "nothing waits for a lie for longer than a minute",
        whoever_asks_is_spared_for_as_long_as_it_asks,
        "test_spared_backends::test_nobody_is_spared_for_longer_than_a_minute",
    ),
)
