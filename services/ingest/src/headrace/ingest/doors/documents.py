"""What the native routes say, as models for the API's description and for the answers themselves.

Invariant: one status document for all states; what isn't known is null.
"""

from datetime import UTC, datetime

from pydantic import BaseModel, Field

from headrace.contracts.ids import RequestAddress
from headrace.contracts.lifecycle import Status, is_terminal
from headrace.contracts.replies import Answer
from headrace.ingest.ports import StoredResult


class Links(BaseModel):
    """Where to go on."""

    self: str
    result: str
    events: str
    cancel: str
    why: str


class Estimate(BaseModel):
    """What the owner expects."""

    start_in_seconds: float = Field(description="half of all start within so many seconds")
    start_in_seconds_p95: float | None = Field(
        None, description="19 of 20 start within so many; null: nobody knows yet how far off estimates are"
    )


class UsageDocument(BaseModel):
    """Tokens as the engine reported them."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    total_tokens: int
    estimated: bool = Field(description="the engine reported none, so these were counted")


class FailureDocument(BaseModel):
    """Why there is no whole answer."""

    code: str
    message: str


class TimesDocument(BaseModel):
    """When the last attempt reached its stages."""

    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    first_token_at: datetime | None = None
    finished_at: datetime | None = None


class StatusDocument(BaseModel):
    """Where a request is. A terminal status never changes."""

    id: str
    status: Status
    tier: str
    model: str | None = Field(None, description="null while its owner doesn't say")
    created_at: datetime
    position: int | None = Field(None, description="requests ahead of it in your queue of this tier")
    estimate: Estimate | None = None
    tokens: int = Field(0, description="completion tokens so far")
    attempts: int = 0
    usage: UsageDocument | None = None
    failure: FailureDocument | None = None
    partial: bool = Field(False, description="the answer ends early and was kept all the same")
    times: TimesDocument | None = None
    as_of: datetime = Field(description="when this was known to be so")
    links: Links

    def to_json(self) -> bytes:
        """The document's bytes."""
        return self.model_dump_json().encode()


class FieldProblem(BaseModel):
    """One thing that is wrong in a body."""

    pointer: str = Field(description="JSON pointer")
    detail: str


class LimitDocument(BaseModel):
    """Which limit binds. In service units: 1 for a prompt token, 2 for one of the answer, unless the pool says otherwise."""

    name: str = Field(
        description="tenant_queue: what is served for you in time; pool_queue: for all in this tier"
    )
    value: int
    over: int = Field(description="how far over it one more request would be")


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str | None = None
    instance: str | None = None
    errors: list[FieldProblem] | None = None
    limit: LimitDocument | None = None


def links_of(request_id: str) -> Links:
    """The links of a request."""
    at = f"/v1/requests/{request_id}"
    return Links(
        self=at, result=f"{at}/result", events=f"{at}/events", cancel=f"{at}/cancel", why=f"{at}/why"
    )


def live_document(
    request_id: str, address: RequestAddress, answer: Answer | None, *, now_ms: int, model: str | None = None
) -> StatusDocument:
    """A request without a result: what its owner says, else queued as of its acceptance or now."""
    document = StatusDocument(
        id=request_id,
        status=Status.QUEUED,
        tier=address.tier,
        model=model,
        created_at=_instant(address.accepted_ms),
        as_of=_instant(now_ms),
        links=links_of(request_id),
    )
    if answer is None or not answer.known or answer.status is None or is_terminal(answer.status):
        return document
    return document.model_copy(update=_told(answer))


def ended_document(result: StoredResult) -> StatusDocument:
    """A request with a result."""
    ended, usage, times = result.ended, result.ended.usage, result.times
    failure = ended.failure
    return StatusDocument(
        id=ended.id,
        status=ended.status,
        tier=result.tier,
        model=result.model,
        created_at=_instant(result.accepted_ms),
        tokens=usage.completion_tokens,
        attempts=result.attempts,
        usage=UsageDocument(
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
            estimated=usage.estimated,
        ),
        failure=None
        if failure is None
        else FailureDocument(code=failure.kind.value, message=failure.message),
        partial=ended.partial,
        times=TimesDocument(
            dispatched_at=_maybe(times.dispatched_ms),
            started_at=_maybe(times.started_ms),
            first_token_at=_maybe(times.first_token_ms),
            finished_at=_maybe(times.finished_ms),
        ),
        as_of=_maybe(times.finished_ms) or _instant(result.accepted_ms),
        links=links_of(ended.id),
    )


def estimate_of(answer: Answer) -> Estimate | None:
    """When it starts, as its owner expects it."""
    wait_ms, most_ms = answer.estimated_wait_ms, answer.estimated_wait_p95_ms
    if wait_ms is None:
        return None
    most = None if most_ms is None else most_ms / 1000
    return Estimate(start_in_seconds=wait_ms / 1000, start_in_seconds_p95=most)


def _told(answer: Answer) -> dict[str, object]:
    return {
        "status": answer.status,
        "position": answer.position,
        "estimate": estimate_of(answer),
        "tokens": answer.tokens,
        "attempts": answer.attempts,
        "model": answer.model,
        "as_of": _instant(answer.as_of_ms),
    }


def _instant(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(wall_ms / 1000, UTC)


def _maybe(wall_ms: int | None) -> datetime | None:
    return None if wall_ms is None else _instant(wall_ms)
