"""Wrong versions of how the end of a log is known: by the word of a broker that may have lost it. Listed by mutants.every."""

from typing import Any

from headrace.contracts.topics import TopicKind
from headrace.scheduler.claiming import Claiming
from headrace.scheduler.core.log_ends import BarrierDesk
from headrace.scheduler.core.reconciling import Reconciling
from headrace.scheduler.state.held import Absence
from tests.simulation.mutants.mutant import Mutant, Patches


def brokers_are_believed_about_ends(patches: Patches) -> None:
    """A broker that was paused tells the end that it knew, and what was acknowledged since runs again."""

    def miss(self: Reconciling, held: Any) -> None:
        if held.absence is None:
            held.absence = Absence()
            self._state.missing[held.id] = held
            where = self._state.setting.place(TopicKind.ATTEMPTS, held.origin.partition)
            self._state.ends.want(
                where, lambda end: setattr(held.absence, "until", end) if held.absence else None
            )

    patches.set(Reconciling, "_miss", miss)


def a_claim_believes_a_broker_about_its_state(patches: Patches) -> None:
    right = Claiming._knows_ends

    def knows_ends(self: Claiming, now: Any, wait: Any) -> bool:
        if self._asked is not None and self._proved.get(self.warm.log.place) is None:
            self.asked = getattr(self, "asked", None) or self.warm.ends.ask([self.warm.log.place])  # type: ignore[attr-defined]
            answer = self.asked.answer()  # type: ignore[attr-defined]
            if answer is None:
                return False
            self._proved[self.warm.log.place] = answer[self.warm.log.place] - 1
            self._barriers._wanted.clear()
        return right(self, now, wait)

    patches.set(Claiming, "_knows_ends", knows_ends)


def a_broker_may_call_a_log_cut_short(patches: Patches) -> None:
    right = Claiming._prove

    def prove(self: Claiming, places: Any) -> None:
        if self._asked is None:
            right(self, places)
        else:
            self._proved |= dict.fromkeys(places, 0)

    patches.set(Claiming, "_prove", prove)


def a_barrier_counts_for_what_is_wanted_while_it_is_under_way(patches: Patches) -> None:
    right = BarrierDesk.want

    def want(self: BarrierDesk, place: Any, tell: Any) -> None:
        if place in self._sent:
            self._sent[place].tell.append(tell)
        else:
            right(self, place, tell)

    patches.set(BarrierDesk, "want", want)


ENDS = (
    Mutant(
        "brokers know ends",
        "what is missing is given up behind a barrier only",
        brokers_are_believed_about_ends,
        "test_barriers::test_what_a_worker_has_finished_is_not_run_again_on_the_word_of_a_broker_that_lost_the_log",
    ),
    Mutant(
        "a broker knows where state ends",
        "`state` is read up to a barrier",
        a_claim_believes_a_broker_about_its_state,
        "test_claiming::test_a_broker_that_lost_the_logs_hides_no_checkpoint_and_makes_no_log_too_short",
    ),
    Mutant(
        "a broker calls logs cut short",
        "a log that seems too short is asked once more, by a barrier",
        a_broker_may_call_a_log_cut_short,
        "test_claiming::test_a_broker_that_lost_the_logs_hides_no_checkpoint_and_makes_no_log_too_short",
    ),
    Mutant(
        "barrier under way counts",
        "a barrier counts for what was wanted before it was sent",
        a_barrier_counts_for_what_is_wanted_while_it_is_under_way,
        "test_barriers::test_one_barrier_serves_all_who_wanted_it_before_it_was_sent_and_nobody_else",
    ),
)
