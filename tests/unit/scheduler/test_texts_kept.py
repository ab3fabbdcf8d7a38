"""A text outlives its owner and is kept as long as it is needed, in bounded memory; one that is lost costs its work alone."""

import pytest

from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import MAX_TEXT_BYTES
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.state.kept_texts import KeptTexts
from tests.support.scheduler.going_on import (
    SAID,
    answer,
    began,
    began_anew,
    leave,
    lives,
    runs_of,
    state_of,
    text_beside,
    text_of_next,
)
from tests.support.scheduler.pure import place
from tests.support.scheduler.reports import held_of
from tests.support.scheduler.trimming import ATTEMPTS, HISTORY, finished


def test_the_next_owner_reads_the_text_again_and_goes_on_from_it() -> None:
    case, request, first = began()
    leave(case, first)
    case.run(25)
    case.report(0)
    case.run(1_500)
    before = len(runs_of(case, request))
    case.owner.crash()
    case.run(4_000)
    case.report(1, epoch=2)
    case.run(2_500)
    last = runs_of(case, request)[-1]
    assert len(runs_of(case, request)) > before
    assert (last.attempt.epoch, text_beside(case, last)) == (2, SAID)
    assert last.text is not None
    assert last.text.attempt == first.attempt


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "not there in time"])
def test_a_text_that_the_next_owner_can_not_have_costs_the_work_and_nothing_else(gone: bool) -> None:
    case, request, first = began()
    leave(case, first)
    case.run(25)
    case.report(0)
    case.run(1_500)
    where = place(TopicKind.ATTEMPTS, request.partition)
    if gone:
        log = case.world.logs[where]
        log[:] = [each if (each.value or b"") != SAID else began_anew(each) for each in log]
    case.owner.crash()
    case.owner.answers_runs = gone
    case.run(4_000)
    for _ in range(10):
        case.report(1, epoch=2)
        case.run(1_000)
    last = runs_of(case, request)[-1]
    assert (last.attempt.epoch, last.text, text_beside(case, last)) == (2, None, None)


def test_a_text_that_comes_late_makes_no_retry_early() -> None:
    """It runs under the next owner when that asks for its text, and fails before the text comes."""
    case, request, first = began()
    leave(case, first)
    case.run(600)
    (_, second) = runs_of(case, request)
    lives(case, request, 2)
    case.owner.crash()
    case.owner.answers_runs = False
    case.run(4_000)
    held = held_of(second)
    case.report(4, epoch=2, held=(held,))
    case.run(400)
    assert state_of(case).held.of(request.id) is not None
    failure = Failure(kind=FailureKind.BACKEND_OVERLOADED, retry_after_ms=8_000)
    answer(case, second, failure=failure)
    case.run(100)
    case.report(4, epoch=2)
    case.owner.answers_runs = True
    case.run(500)
    assert text_of_next(case, request) == SAID
    waited = 0
    while len(runs_of(case, request)) == 2 and waited < 20:
        case.report(4, epoch=2)
        case.run(950)
        waited += 1
    assert waited >= 6
    assert [text_beside(case, run) for run in runs_of(case, request)] == [None, SAID, SAID]


@pytest.mark.interpreted
def test_attempts_is_not_trimmed_past_a_text_that_is_needed_until_its_request_has_ended() -> None:
    case = finished(HISTORY + 2_000)
    case.report(1)
    case.run(100)
    tenant = next(name for name in "abcdefgh" if partition_of(name, 2) == ATTEMPTS.partition)
    request = case.submit(tenant=tenant, plain_text=True)
    case.run(300)
    state = state_of(case)
    (run,) = runs_of(case, request)
    at = len(case.world.logs[ATTEMPTS])
    leave(case, run)
    case.run(600)
    for _ in range(3_000):
        case.world.logs[ATTEMPTS].append(case.world.logs[ATTEMPTS][at])
    state.attempts_read[0] = case.owner.at[ATTEMPTS] = len(case.world.logs[ATTEMPTS])
    case.deliver(ATTEMPTS, len(case.world.logs[ATTEMPTS]))
    lives(case, request, 15)
    asked = [each[ATTEMPTS] for each in case.asked if ATTEMPTS in each]
    assert max(asked) == at - HISTORY
    case.answer(runs_of(case, request)[-1], Verdict.DONE, status=Status.SUCCEEDED)
    lives(case, request, 25)
    assert max(each[ATTEMPTS] for each in case.asked if ATTEMPTS in each) > at - HISTORY


def test_texts_take_no_more_memory_than_is_meant_for_them() -> None:
    texts, at = KeptTexts(3 * MAX_TEXT_BYTES), began()[2].origin
    for number in range(3):
        assert texts.keep(str(number), at, MAX_TEXT_BYTES, None)
    assert not texts.keep("3", at, 1, b"x")
    assert not texts.drop("3")
    assert texts.keep("1", at, MAX_TEXT_BYTES, b"y"), "in place of its own"
    assert texts.drop("0")
    assert texts.keep("3", at, 1, b"x")
    assert (texts.of("3"), texts.of("2"), set(texts.missing())) == (b"x", None, {"2"})


@pytest.mark.interpreted
def test_a_checkpoint_needs_what_it_tells_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of a text counts from the checkpoint on that tells of it, until one is committed that doesn't."""
    case, request, first = began()
    leave(case, first)
    case.run(50)
    at = state_of(case).retrying[request.id].text_at
    assert at is not None
    case.run(1_500)
    attempts = place(TopicKind.ATTEMPTS, request.partition)
    assert state_of(case).checkpointed[attempts] <= at.offset
    monkeypatch.setattr(Checkpoints, "due", lambda _: [])
    case.answer(runs_of(case, request)[-1], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(3_000)
    assert state_of(case).checkpointed[attempts] <= at.offset
