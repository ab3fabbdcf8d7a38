"""What is spilled is found, cancelled, expired and seen twice without its payload; only a dead letter waits for that."""

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import HEADER, encode
from headrace.contracts.commands import Run
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Origin
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.pure import place


def test_a_spilled_request_is_cancelled_at_once_without_its_payload() -> None:
    flood = Flood()
    last = flood.flood(20)[-1]
    flood.owner.answers_runs = False
    cancel = CancelRequest(id=last.id, tenant="a", at_ms=flood.world.now.wall_ms)
    flood.world.append(message_of(place(TopicKind.CONTROL), cancel))
    flood.run(1_000)
    assert flood.ended() == {last.id: (Status.CANCELLED, FailureKind.CANCELLED_BY_CALLER)}
    assert flood.core.state.queue.depth("batch") == 19
    assert flood.spilled == 15


def test_a_spilled_request_expires_at_its_time_without_its_payload() -> None:
    flood = Flood()
    flood.flood(10)
    late = flood.submit(start_by_ms=flood.world.now.wall_ms + 500, priority=-5)
    flood.owner.answers_runs = False
    flood.run(200)
    assert late.id in flood.core.state.spilled
    flood.run(325)
    assert flood.core.state.tracked[late.id].phase.name == "ENDING"
    flood.run(500)
    assert flood.ended() == {late.id: (Status.EXPIRED, FailureKind.QUEUE_TIMEOUT)}


def test_a_spilled_request_that_is_written_again_is_a_duplicate() -> None:
    flood = Flood()
    last = flood.flood(10)[-1]
    where = place(TopicKind.REQUESTS, last.partition, "batch")
    flood.world.append(Message(where.topic, where.partition, b"again", ((HEADER, encode(last)),)))
    flood.run(200)
    assert len(flood.core.state.tracked) == 10
    assert [run.request.id for run in flood.run_all()].count(last.id) == 1


def test_a_spilled_request_knows_its_place_in_the_queue() -> None:
    flood = Flood()
    records = flood.flood(20)
    flood.world.append(message_of(place(TopicKind.CONTROL), Query(id=records[13].id, nonce="n", gateway=0)))
    flood.run(200)
    (answer,) = [each for each in flood.world.records(TopicKind.REPLIES) if isinstance(each, Answer)]
    assert (answer.known, answer.status, answer.position) == (True, Status.QUEUED, 13)
    assert flood.spilled == 16, "whoever asks changes nothing"


def test_a_spilled_request_that_must_be_dead_lettered_waits_for_its_bytes() -> None:
    flood = Flood()
    last = flood.flood(12)[-1]
    flood.owner.answers_runs = False
    state, where = flood.core.state, place(TopicKind.REQUESTS, last.partition, "batch")
    attempt = AttemptId(1, 10**6)
    state.sequence = attempt.sequence
    run = Run(
        epoch=1, boot="b", attempt=attempt, attempts=4, origin=Origin(where.topic, where.partition, 11),
        request=last, charge=1, dispatched_ms=flood.world.now.wall_ms,
    )  # fmt: skip
    flood.answer(run, Verdict.RETRY_AT, failure=Failure(kind=FailureKind.BACKEND_ERROR))
    flood.run(1_000)
    assert flood.ended() == {}
    flood.owner.answers_runs = True
    flood.run(1_000)
    assert flood.ended() == {last.id: (Status.DEAD_LETTERED, FailureKind.ATTEMPTS_EXHAUSTED)}
    assert [each.value for each in flood.world.logs[place(TopicKind.DLQ, last.partition)]] == [b"body-11"]
