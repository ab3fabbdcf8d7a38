"""Wrong versions of what becomes of a stopped request's text, with its owner. Listed by mutants.every."""

from typing import Any

from msgspec import structs

from headrace.inference_worker.protocol import records
from headrace.ingest.decisions.follow_chunks import ChunkOrder, Shown
from headrace.scheduler.core import needed_from, returning
from headrace.scheduler.core.continuing import Continuing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.state.kept_texts import KeptTexts
from tests.simulation.mutants.mutant import Mutant, Patches

_GOES_ON = "test_going_on::test_a_stopped_request_goes_on_from_its_text_and_only_the_rest_is_charged"
_NEXT_OWNER = "test_texts_kept::test_the_next_owner_reads_the_text_again_and_goes_on_from_it"
_TRIMMED = (
    "test_texts_kept::test_attempts_is_not_trimmed_past_a_text_that_is_needed_until_its_request_has_ended"
)
_AGAIN = "test_going_on::test_a_request_that_says_more_each_time_is_stopped_as_often_as_is_needed"
_FAILED = "test_texts_that_count::test_a_failure_that_may_be_due_to_a_text_leaves_none"
_DEATH = "a_stopped_answers_worker_dies_when_it_goes_on"
_TWO = "two_stopped_answers_go_on"
_LAST_WORDS = "the_last_words_before_a_stop_are_lost"
_SEEN = "a_stopped_answer_goes_on_before_its_readers_eyes"
_OVER_OWNERS = "a_stopped_answer_goes_on_under_the_next_owner"
_OTHERS = "test_going_on::test_each_of_two_goes_on_from_its_own_text"


def a_needed_text_is_trimmed(patches: Patches) -> None:
    patches.set(needed_from, "attempts_needed", needed_from.attempts_to_keep)


def an_ended_requests_text_is_kept(patches: Patches) -> None:
    patches.set(KeptTexts, "drop", lambda _self, _request_id: False)


def the_next_owner_asks_for_no_text(patches: Patches) -> None:
    patches.set(Continuing, "begin", lambda _self: None)


def nobody_waits_for_a_text(patches: Patches) -> None:
    right = Continuing.begin

    def begin(self: Continuing) -> None:
        dues = dict(self._state.dues)
        right(self)
        self._state.dues.update(dues)
        self._to_ask = []

    patches.set(Continuing, "begin", begin)


def anothers_text_is_gone_on_from(patches: Patches) -> None:
    right = KeptTexts.of

    def of(self: KeptTexts, request_id: str) -> Any:
        own = right(self, request_id)
        return own and next((text.stored for text in self._texts.values() if text.stored), own)

    patches.set(KeptTexts, "of", of)


def the_whole_is_charged_again(patches: Patches) -> None:
    patches.set(PoolState, "said", lambda _self, _request_id: 0)


def a_failure_leaves_its_text(patches: Patches) -> None:
    patches.set(returning, "is_text_blameless", lambda _kind, *, started: started or True)


def stops_in_vain_are_not_counted(patches: Patches) -> None:
    patches.set(returning, "has_gained", lambda _before, _left: True)


def readers_go_on_whatever_they_were_shown(patches: Patches) -> None:
    right = ChunkOrder._newer

    def newer(self: ChunkOrder, chunk: Any) -> Shown:
        if chunk.after is not None:
            self.attempt, self.intact, self._next = chunk.after, True, 0
            self._characters = chunk.since
        return right(self, chunk)

    patches.set(ChunkOrder, "_newer", newer)


def no_reader_goes_on(patches: Patches) -> None:
    right = ChunkOrder._newer

    def newer(self: ChunkOrder, chunk: Any) -> Shown:
        return right(self, structs.replace(chunk, after=None))

    patches.set(ChunkOrder, "_newer", newer)


def a_result_counts_its_last_attempt_alone(patches: Patches) -> None:
    patches.set(records, "usage_of_whole", lambda own, _before: own)


def a_worker_keeps_no_text(patches: Patches) -> None:
    patches.set(records, "_text_of", lambda _run, _outcome, _settlement: None)


TEXTS = (
    Mutant("a needed text trimmed", "what may be gone on from stays in the log", a_needed_text_is_trimmed, _TRIMMED),
    Mutant("texts kept for ever", "an ended request needs no text", an_ended_requests_text_is_kept, _TRIMMED),
    Mutant("no text for the next owner", "a change of owner loses no text", the_next_owner_asks_for_no_text, _NEXT_OWNER),
    Mutant("nobody waits for a text", "a text that comes soon is waited for", nobody_waits_for_a_text, _NEXT_OWNER),
    Mutant("another's text", "each goes on from its own text", anothers_text_is_gone_on_from, _OTHERS),
    Mutant("the whole charged again", "a rest is charged as a rest", the_whole_is_charged_again, _GOES_ON),
    Mutant("a failure leaves its text", "what may have failed by its text begins anew", a_failure_leaves_its_text, _FAILED),
    Mutant("a death leaves a text", "what may have died of its text begins anew", a_failure_leaves_its_text, _DEATH),
    Mutant("another's text in a run", "each goes on from its own", anothers_text_is_gone_on_from, _TWO),
    Mutant("goes on for any reader", "a gap isn't shown over", readers_go_on_whatever_they_were_shown, _LAST_WORDS),
    Mutant("goes on for no reader", "who was shown just that reads on", no_reader_goes_on, _SEEN),
    Mutant("a part counted as the whole", "each token counts once", a_result_counts_its_last_attempt_alone, _SEEN),
    Mutant("a worker keeps no text", "what was said isn't lost by a stop", a_worker_keeps_no_text, _OVER_OWNERS),
    Mutant("stops in vain uncounted", "nobody is stopped in vain again and again", stops_in_vain_are_not_counted, _AGAIN),
)  # fmt: skip
