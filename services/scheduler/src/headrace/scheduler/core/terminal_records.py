"""Builds the records with which the owner itself ends a request: result, attempt and dead letter. Called by core.endings.

Pure. Invariant: always in this order: dead letter (if any), result, attempt; each is acknowledged before the next is sent.
"""

from typing import NamedTuple

from headrace.bus.dead_letters import dead_letter
from headrace.bus.messages import Message, Received, message_of
from headrace.contracts.clock import Now
from headrace.contracts.deaths import Death
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Origin, Payload, Times, cut_sentence
from headrace.scheduler.core.setting import Setting

_SERVICE = "scheduler"


def failure_of(kind: FailureKind, detail: str = "") -> Failure:
    """The failure of a kind, with the table's sentence unless there is a better one."""
    return Failure(kind=kind, message=cut_sentence(detail or rule_of(kind).sentence))


class OwnEnd(NamedTuple):
    """How the owner ends a request: by an attempt id of its own, after so many `attempts` of workers."""

    record: RequestRecord
    origin: Origin
    attempt: AttemptId
    attempts: int
    status: Status
    failure: Failure
    at: Now


def result_message(setting: Setting, end: OwnEnd) -> Message:
    """What becomes the request's result, unless an earlier one stands in the log."""
    record, origin = end.record, end.origin
    result = ResultRecord(
        id=record.id,
        tenant=record.tenant,
        pool=record.pool,
        tier=record.tier,
        partition=origin.partition,
        origin=origin,
        attempt=end.attempt,
        attempts=end.attempts,
        status=end.status,
        http_status=rule_of(end.failure.kind).http_status,
        accepted_ms=record.accepted_ms,
        gateway=record.gateway,
        model=record.model,
        route=record.route,
        payload=Payload(size=0),
        waits=record.waits,
        stream=record.stream,
        failure=end.failure,
        times=Times(finished_ms=end.at.wall_ms),
    )
    return message_of(setting.place(TopicKind.RESULTS, origin.partition), result)


def attempt_message(setting: Setting, end: OwnEnd) -> Message:
    """Says to whoever folds `attempts` that the request is finished; it spent nothing."""
    record, origin = end.record, end.origin
    dead = end.status is Status.DEAD_LETTERED
    done = AttemptRecord(
        id=record.id,
        tenant=record.tenant,
        tier=record.tier,
        origin=origin,
        attempt=end.attempt,
        attempts=end.attempts,
        verdict=Verdict.DEAD if dead else Verdict.DONE,
        status=end.status,
        started=False,
        failure=end.failure,
        times=Times(finished_ms=end.at.wall_ms),
        model=record.model,
        hop=record.hop,
    )
    return message_of(setting.place(TopicKind.ATTEMPTS, origin.partition), done)


def dead_letter_message(
    setting: Setting,
    received: Received,
    failure: Failure,
    now: Now,
    record: RequestRecord | None = None,
    attempts: int = 0,
    deaths: tuple[Death, ...] = (),
) -> Message:
    """The record's own bytes, for whoever looks into it."""
    return dead_letter(
        setting.place(TopicKind.DLQ, received.partition),
        received,
        failure.kind,
        by=_SERVICE,
        at_ms=now.wall_ms,
        detail=failure.message,
        id=None if record is None else record.id,
        tenant=None if record is None else record.tenant,
        attempts=attempts,
        deaths=deaths,
    )
