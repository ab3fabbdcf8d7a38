"""A stopped request goes on from its text: its next attempt is given it, and only the rest is charged."""

import pytest

from headrace.bus.messages import Message
from headrace.bus.ports import Confirmation, TooLargeError
from headrace.contracts.codec import find_header
from headrace.contracts.commands import Run
from headrace.contracts.kept_text import TEXT_HEADER, KeptText
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Usage
from headrace.scheduler.state.answer_lengths import AnswerLengths
from tests.support.scheduler.case import Case
from tests.support.scheduler.going_on import SAID, began, leave, runs_of, state_of, text_beside
from tests.support.scheduler.owned_slots import full_of, policy, preempted, reported


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


@pytest.mark.interpreted
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
