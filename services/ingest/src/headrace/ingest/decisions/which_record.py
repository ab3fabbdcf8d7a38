"""What is written down of an accepted submission. Called by the service once per request.

Invariant: the record holds all that any later decision needs, so that nobody opens the payload again.
"""

from dataclasses import dataclass

from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Payload
from headrace.ingest.decisions.read_submission import Submission
from headrace.ingest.decisions.which_deadline import Deadlines


@dataclass(frozen=True, slots=True)
class Placed:
    """Whose request it is, where it goes, and when it came. `model` is the name the backend knows; `fairness_key`: whose it
    is inside its tenant; `stays`: no other pool's model may answer it; `prefix` and `session`: what it may find in a
    backend's cache.
    """

    id: str
    tenant: str
    pool: str
    tier: str
    partition: int
    model: str
    accepted_ms: int
    gateway: int
    waits: bool
    fairness_key: str | None
    stays: bool = False
    prefix: str = ""
    session: str | None = None


def which_record(
    placed: Placed, submission: Submission, payload: Payload, limits: Deadlines
) -> RequestRecord:
    """The record."""
    options = submission.options
    return RequestRecord(
        id=placed.id,
        tenant=placed.tenant,
        pool=placed.pool,
        tier=placed.tier,
        partition=placed.partition,
        model=placed.model,
        route=submission.route,
        accepted_ms=placed.accepted_ms,
        payload=payload,
        gateway=placed.gateway,
        waits=placed.waits,
        stream=submission.stream,
        sends_usage=submission.sends_usage,
        plain_text=submission.plain_text,
        answer=submission.answer,
        prompt_tokens=submission.prompt_tokens,
        max_tokens=submission.max_tokens,
        choices=submission.choices,
        sequences=submission.sequences,
        media=submission.media,
        priority=options.priority,
        fairness_key=placed.fairness_key,
        prefix=placed.prefix,
        session=placed.session,
        start_by_ms=limits.start_by_ms,
        finish_by_ms=limits.finish_by_ms,
        metadata=options.metadata,
        stays=placed.stays,
    )
