"""What a terminal outcome is over HTTP. Called by every door that hands out an answer.

| outcome | OpenAI's doors | GET /v1/requests/{id}/result |
|---|---|---|
| succeeded | the stored body and status | the same |
| failed, with the backend's own error body | that body and status | the same |
| failed, expired or dead, with a partial answer | an error object, its status | the partial body, its status |
| the same without a body | an error object, its status | a problem, its status |
| cancelled, with a partial answer | an error object, 499 | 200 and the partial body |
| cancelled without | an error object, 499 | a 409 problem |

Invariant: what a caller gets is what is stored. A caller that asks again by itself would repeat work that headrace has
repeated already, so `X-Should-Retry` is false.
"""

from dataclasses import dataclass

from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.values import Failure, Usage
from headrace.ingest.refusal import JSON_TYPE, Refusal

_LONGEST_RETRY_AFTER = 60
"""Seconds: OpenAI's clients ignore a longer one."""

_NO_USAGE = Usage()
_WITHOUT_FAILURE = {
    Status.CANCELLED: FailureKind.CANCELLED_BY_CALLER,
    Status.EXPIRED: FailureKind.QUEUE_TIMEOUT,
    Status.DEAD_LETTERED: FailureKind.ATTEMPTS_EXHAUSTED,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """One committed terminal outcome, from a Final or from SQL. `body` is opened (unsealed) and may be empty. `model`:
    which served it, by the name that its backend knows; None: nobody said.
    """

    id: str
    status: Status
    http_status: int
    attempt: AttemptId
    body: bytes = b""
    content_type: str = JSON_TYPE
    partial: bool = False
    failure: Failure | None = None
    usage: Usage = _NO_USAGE
    model: str | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer with a body as it was stored; `model`: which made it."""

    status: int
    content_type: str
    body: bytes
    model: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What says so, where it is known and fits in a header."""
        told = self.model is not None and self.model.isascii() and self.model.isprintable()
        return {"X-Headrace-Model": self.model} if told and self.model else {}


def what_to_answer(ended: Ended) -> HttpAnswer:
    """The answer at OpenAI's doors. Raises Refusal where the stored body isn't the answer."""
    relayed = ended.status is Status.SUCCEEDED or (ended.status is Status.FAILED and not ended.partial)
    if relayed and ended.body:
        return HttpAnswer(ended.http_status, ended.content_type, ended.body, ended.model)
    raise refusal_of(ended)


def what_result(ended: Ended) -> HttpAnswer:
    """The answer at the native result route. Raises Refusal when nothing is stored."""
    cancelled = ended.status is Status.CANCELLED
    if ended.body:
        status = 200 if cancelled else ended.http_status
        return HttpAnswer(status, ended.content_type, ended.body, ended.model)
    raise refusal_of(ended, 409 if cancelled else None)


def refusal_of(ended: Ended, status: int | None = None) -> Refusal:
    """An outcome without an answer, as an error with the failure's own code and sentence."""
    fallback = _WITHOUT_FAILURE.get(ended.status, FailureKind.BACKEND_ERROR)
    failure = ended.failure or Failure(kind=fallback)
    rule = rule_of(failure.kind)
    status = status or (ended.http_status if ended.http_status >= 400 else rule.http_status)
    return Refusal(
        status,
        failure.kind.value,
        failure.message or rule.sentence,
        openai_type=rule.openai_type,
        retry_after=_retry_after(status, failure),
        may_retry=False,
        request_id=ended.id,
    )


def _retry_after(status: int, failure: Failure) -> int | None:
    if status not in (429, 503):
        return None
    waiting = -(-(failure.retry_after_ms or 1000) // 1000)
    return min(max(1, waiting), _LONGEST_RETRY_AFTER)
