"""The records of `results` and `attempts.{pool}`: what came of a request, and of one try at it.

Written by workers and by the owning scheduler, always `results` first, acknowledged, then `attempts`. Read by result-delivery
and the scheduler. Invariant: the first ResultRecord of a request in log order is its result.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import KeptText, MostSaid
from headrace.contracts.lifecycle import Status, is_terminal
from headrace.contracts.values import (
    Count,
    Failure,
    Mark,
    Name,
    Origin,
    Payload,
    Port16,
    Times,
    Usage,
    WallMs,
)


class Verdict(StrEnum):
    """What an attempt came to: Done(status), RetryAt(when, started) or Dead(reason). A closed set."""

    DONE = "done"
    RETRY_AT = "retry_at"
    DEAD = "dead"


class ResultRecord(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="result"):
    """A terminal outcome. The record's value is the answer's body; empty when there is none (`failure` then says why).

    `http_status` is what a waiting caller gets. `partial`: the text ends early and is kept all the same. For a request that
    asked for a stream the body is the assembled, non-streamed answer.
    """

    id: Mark
    tenant: Name
    pool: Name
    tier: Name
    partition: Port16
    origin: Origin
    attempt: AttemptId
    attempts: Count
    status: Status
    http_status: Annotated[int, Meta(ge=200, le=599)]
    accepted_ms: WallMs
    gateway: Port16
    model: Name
    route: str
    payload: Payload
    waits: bool = False
    stream: bool = False
    partial: bool = False
    failure: Failure | None = None
    usage: Usage = Usage()
    times: Times = Times()
    worker: Name | None = None

    def __post_init__(self) -> None:
        if not is_terminal(self.status):
            raise ValueError(f"a result's status is terminal, got {self.status}")


class AttemptRecord(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="attempt"):
    """One finished attempt: settles fairness, frees capacity, feeds estimates and the ledger. No payload, but for `text`.

    `charge` is what the scheduler charged at dispatch, in micro service units, `expects` how many tokens it expected, echoed.
    `retry_ms` (RetryAt) is the earliest instant of the next try as far as the worker knows; `started` false: the backend
    never saw it. `model` is the name that the backend is called with; None in records of writers that didn't say. `trial` is
    echoed from the `run`, `hop` from its request. `usage` is what this attempt spent; where it went on from a kept text,
    `before` is the tokens of that. `text` (RetryAt): what was said so far is kept, and is the record's value.
    """

    id: Mark
    tenant: Name
    tier: Name
    origin: Origin
    attempt: AttemptId
    attempts: Count
    verdict: Verdict
    status: Status | None = None
    worker: Name | None = None
    boot: Mark | None = None
    charge: Count = 0
    expects: Count = 0
    started: bool = True
    retry_ms: WallMs | None = None
    failure: Failure | None = None
    usage: Usage = Usage()
    times: Times = Times()
    model: Name | None = None
    trial: Count = 0
    before: MostSaid = 0
    text: KeptText | None = None
    hop: Count = 0
