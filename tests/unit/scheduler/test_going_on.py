"""A stopped request goes on from its text: its next attempt is given it, also by the next owner, and none other's."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.bus.messages import Message, Received
from headrace.bus.ports import Confirmation, TooLargeError
from headrace.contracts.codec import decode, find_header
from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import MAX_TEXT_BYTES, TEXT_HEADER, KeptText
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.reports import Held
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Usage
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.which_text_is_kept import has_gained, is_text_blameless
from headrace.scheduler.state.answer_lengths import AnswerLengths
from headrace.scheduler.state.kept_texts import KeptTexts
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import place
from tests.unit.scheduler.test_headroom import full_of, policy, preempted, reported
from tests.unit.scheduler.test_trimming import ATTEMPTS, HISTORY, finished

SAID = b"Once upon a time"


def runs_of(case: Case, request: RequestRecord) -> list[Run]:
    return [run for run in case.commands(Run) if run.request.id == request.id]


def text_beside(case: Case, run: Run) -> bytes | None:
    """The text in the record of a `run`."""
    log = case.world.logs[place(TopicKind.WORK, 0)]
    (received,) = [each for each in log if decode(TopicKind.WORK, each.header) == run]
    return find_header(received.headers, TEXT_HEADER)


def leave(
    case: Case,
    run: Run,
    said: bytes = SAID,
    *,
    kind: FailureKind = FailureKind.PREEMPTED,
    tokens: int = 4,
    **more: Any,
) -> None:
    """The worker was told to stop this attempt, and hands it back with what it has said."""
    told = KeptText(attempt=run.attempt, size=max(1, len(said)), tokens=tokens, characters=max(1, len(said)))
    answer(case, run, said, failure=Failure(kind=kind), **{"text": told if said else None, **more})


def answer(case: Case, run: Run, value: bytes = b"", **more: Any) -> None:
    case.answer(run, Verdict.RETRY_AT, boot=BOOT, **more)
    log = case.world.logs[place(TopicKind.ATTEMPTS, run.request.partition)]
    log[-1] = replace(log[-1], value=value)


def began(case: Case | None = None) -> tuple[Case, RequestRecord, Run]:
    """A batch request that runs."""
    case = case or Case(policy())
    case.run()
    case.report(1)
    case.run(100)
    request = case.submit(plain_text=True, prompt_tokens=10, max_tokens=100)
    case.run(300)
    (run,) = runs_of(case, request)
    return case, request, run


def lives(case: Case, request: RequestRecord, seconds: int) -> None:
    """The worker reports, and holds the request's last attempt as long as its owner does."""
    for _ in range(seconds):
        run, of = runs_of(case, request)[-1], state_of(case).held.of(request.id)
        held = Held(
            attempt=run.attempt, id=request.id, tenant=request.tenant, tier=request.tier, origin=run.origin,
            attempts=run.attempts, charge=run.charge, running=True,
        )  # fmt: skip
        case.report(1, held=() if of is None else (held,))
        case.run(950)


def state_of(case: Case) -> PoolState:
    assert case.owner.core is not None
    return case.owner.core.state


def test_a_stopped_request_goes_on_from_its_text_and_only_the_rest_is_charged() -> None:
    case, request, first = began()
    assert (first.stoppable, first.text, text_beside(case, first)) == (True, None, None)
    leave(case, first, SAID * 5, tokens=60)
    case.run(600)
    second = runs_of(case, request)[1]
    assert second.text == KeptText(attempt=first.attempt, size=80, tokens=60, characters=80)
    assert text_beside(case, second) == SAID * 5
    weights = state_of(case).setting.pool_policy.cost
    assert second.charge == (10 + 60) * weights.prompt + 40 * weights.completion < first.charge
    held = state_of(case).held.of(request.id)
    assert held is not None
    assert held.said == 60
    case.answer(
        second,
        Verdict.DONE,
        status=Status.SUCCEEDED,
        before=60,
        usage=Usage(prompt_tokens=70, completion_tokens=40),
    )
    case.run(300)
    assert len(state_of(case).texts) == 0
    assert not any(tier.account.in_flight for tier in state_of(case).accounts.tiers.values())


def test_the_whole_answer_teaches_how_long_answers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    case, request, first = began()
    leave(case, first, SAID * 5, tokens=60)
    case.run(600)
    learnt = list[int]()
    monkeypatch.setattr(AnswerLengths, "learn", lambda _self, _like, tokens, **_: learnt.append(tokens))
    done = Usage(prompt_tokens=70, completion_tokens=40)
    case.answer(runs_of(case, request)[1], Verdict.DONE, status=Status.SUCCEEDED, before=60, usage=done)
    case.run(100)
    assert learnt == [100]


def test_a_tier_that_nobody_stops_isnt_told_to_keep_anything() -> None:
    case = Case(policy())
    case.run()
    case.report(4)
    case.run(100)
    for tier in ("standard", "interactive"):
        case.submit(into=tier, plain_text=True)
    case.run(300)
    assert [run.stoppable for run in case.commands(Run)] == [False, False]


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
    held = Held(
        attempt=second.attempt, id=request.id, tenant=request.tenant, tier=request.tier, origin=second.origin,
        attempts=second.attempts, charge=second.charge, running=True,
    )  # fmt: skip
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


def text_of_next(case: Case, request: RequestRecord) -> bytes | None:
    return state_of(case).texts.of(request.id)


def began_anew(received: Received) -> Received:
    """Another record stands at its place."""
    return Received(received.topic, received.partition, received.offset, 0, b"x", ())


def leave_of_another(case: Case, run: Run) -> None:
    another = run.attempt._replace(sequence=0)
    leave(case, run, text=KeptText(attempt=another, size=16, tokens=1, characters=1))


def leave_less_than_told(case: Case, run: Run) -> None:
    leave(case, run, text=KeptText(attempt=run.attempt, size=17, tokens=1, characters=1))


def leave_more_tokens_than_bytes(case: Case, run: Run) -> None:
    leave(case, run, tokens=17)


def leave_after_a_failure(case: Case, run: Run) -> None:
    leave(case, run, kind=FailureKind.BACKEND_ERROR)


def leave_nothing(case: Case, run: Run) -> None:
    leave(case, run, b"")


@pytest.mark.parametrize(
    "leaves",
    [
        leave_of_another,
        leave_less_than_told,
        leave_more_tokens_than_bytes,
        leave_after_a_failure,
        leave_nothing,
    ],
)
def test_a_text_that_is_not_what_it_says_or_comes_of_a_failure_is_left(
    leaves: Callable[[Case, Run], None],
) -> None:
    case, request, first = began()
    leaves(case, first)
    case.run(2_000)
    second = runs_of(case, request)[1]
    assert (second.text, text_beside(case, second)) == (None, None)


@pytest.mark.parametrize(
    ("kind", "started", "stays"),
    [
        (FailureKind.WORKER_NOT_LEASED, False, True),
        (FailureKind.BACKEND_UNAVAILABLE, False, True),
        (FailureKind.BACKEND_OVERLOADED, True, True),
        (FailureKind.BACKEND_ERROR, True, False),
        (FailureKind.STREAM_BROKEN, True, False),
        (FailureKind.ENGINE_DIED, True, False),
    ],
)
def test_an_outage_leaves_a_text_and_a_failure_that_may_be_due_to_it_does_not(
    kind: FailureKind, started: bool, stays: bool
) -> None:
    assert is_text_blameless(kind, started=started) is stays
    case, request, first = began()
    leave(case, first)
    case.run(600)
    answer(case, runs_of(case, request)[1], failure=Failure(kind=kind), started=started)
    case.run(500)
    known = state_of(case).retrying[request.id]
    assert ((known.text is not None), known.text_at is not None) == (stays, stays)
    assert (state_of(case).texts.of(request.id) == SAID) is stays


def test_a_failure_that_may_be_due_to_a_text_leaves_none() -> None:
    case, request, first = began()
    leave(case, first)
    case.run(600)
    answer(case, runs_of(case, request)[1], failure=Failure(kind=FailureKind.BACKEND_ERROR))
    case.run(1_000)
    assert runs_of(case, request)[2].text is None
    assert len(state_of(case).texts) == 0


def test_each_of_two_goes_on_from_its_own_text() -> None:
    case = Case(policy())
    case.run()
    case.report(2)
    case.run(100)
    said = {case.submit(plain_text=True).id: text for text in (b"Once", b"Twice")}
    case.run(300)
    for run in case.commands(Run):
        leave(case, run, said[run.request.id])
    case.run(600)
    again = case.commands(Run)[2:]
    assert {run.request.id: text_beside(case, run) for run in again} == said


def test_a_request_that_says_more_each_time_is_stopped_as_often_as_is_needed() -> None:
    case = full_of("batch", limit=1)
    first = case.commands(Run)[0]
    for times in range(1, 5):
        reported(case, {case.commands(Run)[-1].attempt: times}, limit=1)
        urgent = case.submit(into="interactive")
        case.run(600)
        run = case.commands(Run)[-1]
        assert (run.request.id, len(preempted(case))) == (first.request.id, times)
        leave(case, run, SAID * times, tokens=4 * times)
        case.run(500)
        assert case.commands(Run)[-1].request == urgent
        case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED)
        case.run(500)
        assert state_of(case).retrying[first.request.id].preempted == 0
    leave(case, case.commands(Run)[-1], SAID * 4, tokens=16)
    case.run(100)
    assert state_of(case).retrying[first.request.id].preempted == 1, "it had said nothing new"


def test_a_run_that_is_too_large_with_its_text_is_sent_without() -> None:
    case, request, first = began()
    sender, refused = case.owner.sender, list[object]()

    def refuse(message: Message, token: object = None) -> None:
        if find_header(message.headers, TEXT_HEADER) is not None:
            refused.append(token)
            error = TooLargeError("too large")
            sender.confirmations.append(Confirmation(token, message.place, None, error))
        else:
            type(sender).send(sender, message, token)

    sender.send = refuse  # type: ignore[method-assign]
    leave(case, first)
    case.run(600)
    last = runs_of(case, request)[-1]
    assert (len(refused), last.text, last.attempts) == (1, None, 1)
    assert case.results() == []


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


def test_who_leaves_no_more_than_it_found_has_gained_nothing() -> None:
    assert not has_gained(None, None)


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
