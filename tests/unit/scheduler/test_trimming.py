"""What is deleted from the logs: never what a takeover or result-delivery still needs, and never without being asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import Place, message_of
from headrace.contracts.checkpoints import Positions
from headrace.contracts.codec import decode
from headrace.contracts.control import CancelRequest
from headrace.contracts.failures import FailureKind
from headrace.contracts.how_far_to_trim import Trimmed
from headrace.contracts.topics import TopicKind
from headrace.scheduler.decisions.what_to_trim import first_needed, undelivered
from tests.support.scheduler.pure import place
from tests.support.scheduler.trimming import ATTEMPTS, CONTROL, HISTORY, REQUESTS, finished

OFFSETS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 50))
BARRIER = 1
"""That of the gate in the other partition of `attempts`."""


@given(OFFSETS, OFFSETS, st.sets(st.sampled_from("abcd")), st.integers(0, 30))
def test_nothing_that_a_checkpoint_or_result_delivery_needs_is_ever_due(
    checkpointed: dict[str, int], delivered: dict[str, int], unread: set[str], history: int
) -> None:
    trimmed: Trimmed[str] = Trimmed(history)
    for name, before in trimmed.due(first_needed(checkpointed, delivered, unread)).items():
        assert 0 < before <= checkpointed[name] - history
        assert name in unread or before <= delivered[name] - history
    waiting = undelivered(checkpointed, delivered, unread)
    assert (waiting == 0) == all(
        name in unread or delivered.get(name, 0) >= offset for name, offset in checkpointed.items()
    )


def test_a_few_records_are_not_worth_a_question_and_what_is_gone_is_not_asked_for_again() -> None:
    trimmed: Trimmed[str] = Trimmed(100)
    assert trimmed.due({"a": 109, "b": 110}) == {"b": 10}
    assert trimmed.done({"b": 10}) == 10
    assert trimmed.due({"a": 109, "b": 119}) == {}
    assert trimmed.due({"b": 120}) == {"b": 20}
    assert trimmed.done({}) == 0, "it failed"
    assert trimmed.due({"b": 120}) == {"b": 20}


@pytest.mark.interpreted
def test_an_owner_trims_its_control_log_and_nothing_that_result_delivery_has_not_committed() -> None:
    case = finished(HISTORY + 2_000)
    case.run(13_000)
    assert case.asked == [{CONTROL: 2_000}]
    assert case.undelivered[-1] == 2 * (HISTORY + 2_000) + BARRIER


@pytest.mark.interpreted
def test_an_owner_trims_what_result_delivery_has_committed_less_the_history() -> None:
    case = finished(HISTORY + 2_000)
    case.deliver(REQUESTS, HISTORY + 2_000)
    case.deliver(ATTEMPTS, HISTORY + 1_500)
    case.deliver(Place("t.somebody.elses", 0), HISTORY + 2_000)
    case.run(13_000)
    assert case.asked == [{CONTROL: 2_003, REQUESTS: 2_000, ATTEMPTS: 1_500}]
    assert case.undelivered[-1] == 500 + BARRIER
    positions: list[Positions] = [
        record
        for received in case.world.logs[place(TopicKind.STATE)]
        if isinstance(record := decode(TopicKind.STATE, received.header), Positions)
    ]
    told = {"t.requests.small.batch": {0: HISTORY + 2_000}, "t.attempts.small": {0: HISTORY + 1_500}}
    assert positions[-1].delivered == told, "the next owner knows it too"


@pytest.mark.interpreted
def test_a_position_beyond_the_end_of_its_log_lies_and_lets_nothing_be_deleted() -> None:
    case = finished(HISTORY + 2_000)
    case.deliver(ATTEMPTS, 2**53)
    case.deliver(REQUESTS, HISTORY + 2_001)
    case.run(13_000)
    assert case.asked == [{CONTROL: 2_002}]
    letters: list[Any] = case.world.records(TopicKind.DLQ)
    assert [letter.reason for letter in letters] == 2 * [FailureKind.LYING_RECORD]


@pytest.mark.interpreted
def test_a_lie_about_a_log_and_what_is_ahead_of_the_owner_hide_no_later_word() -> None:
    case = finished(HISTORY + 2_000)
    case.world.logs[REQUESTS] += [None] * 3  # type: ignore[list-item]
    case.world.out_until[REQUESTS] = 10**9  # the owner hasn't read what result-delivery has
    case.deliver(ATTEMPTS, 2**53)
    case.deliver(ATTEMPTS, HISTORY + 1_500)
    case.deliver(REQUESTS, HISTORY + 2_003)
    case.run(13_000)
    assert case.asked == [{CONTROL: 2_003, REQUESTS: 2_000, ATTEMPTS: 1_500}]


@pytest.mark.interpreted
def test_a_lower_word_of_result_delivery_counts_too() -> None:
    case = finished(HISTORY + 2_000)
    case.deliver(ATTEMPTS, HISTORY + 2_000)
    case.deliver(ATTEMPTS, HISTORY + 50)
    case.run(13_000)
    assert case.asked == [{CONTROL: 2_002}]


@pytest.mark.interpreted
def test_control_is_not_trimmed_past_a_cancel_that_is_not_applied() -> None:
    case = finished(HISTORY + 2_000)
    record = case.submit()
    where = place(TopicKind.REQUESTS, record.partition, "batch")
    case.world.out_until[where] = 10**9  # nobody can read yet what is to be cancelled
    case.world.append(
        message_of(CONTROL, CancelRequest(id=record.id, tenant="a", at_ms=case.world.now.wall_ms))
    )
    for _ in range(5_000):
        case.deliver(Place("t.somebody.elses", 0), 1)
    case.run(13_000)
    assert case.asked == [{CONTROL: 2_000}]
    case.world.out_until[where] = 0
    case.run(13_000)
    assert case.asked[1] == {CONTROL: 7_001}


@pytest.mark.interpreted
def test_what_no_checkpoint_has_committed_is_not_trimmed() -> None:
    case = finished(HISTORY + 2_000)
    core = case.owner.core
    assert core is not None
    committed = core.state.checkpointed
    assert committed[CONTROL] == 0
    core._checkpoints.under_way = True  # and is never committed
    case.run(13_000)
    assert case.asked == []
