"""The records of `replies`: what flows back to the gateway that accepted a request. A wire, kept an hour."""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.explanations import Offer, Why
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.selections import Found
from headrace.contracts.values import Count, Failure, Name, Payload, Port16, Usage, WallMs


class Chunk(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="chunk"):
    """A piece of a live answer, from a worker. The value is whole server-sent events as the backend sent them
    (`data: {...}` + blank line, one or more), to be relayed untouched.

    `number` counts an attempt's chunks from 0; `characters` is the length of the text (all choices) after this chunk.
    Readers follow the highest attempt; a gap in `number` means that a chunk was lost and the stored text must mend it.
    `after`: this attempt goes on from the text of that one, its first `since` characters. They count as its chunk 0, so that
    the first that is sent is 1: who has been shown exactly these reads on, to all others a chunk is missing.
    """

    id: str
    attempt: AttemptId
    number: Count
    characters: Count
    payload: Payload
    after: AttemptId | None = None
    since: Count = 0


class Final(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="final"):
    """The committed result, from result-delivery, after its SQL commit. The value is the stored body when somebody waits
    for it and it fits; otherwise the value is empty, `stored` is true, and SQL has it. `model` is the name that the backend
    which served it knows; None in records of writers that didn't say.
    """

    id: str
    attempt: AttemptId
    status: Status
    http_status: Annotated[int, Meta(ge=200, le=599)]
    payload: Payload
    stored: bool = False
    partial: bool = False
    failure: Failure | None = None
    usage: Usage = Usage()
    model: Name | None = None


class Answer(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="answer"):
    """The owner's answer to a Query. `known` false: the owner doesn't hold this id (finished, or not read yet).

    `position` is the number of requests ahead in its tenant's queue and tier; half of all start within `estimated_wait_ms`,
    19 of 20 within `estimated_wait_p95_ms` (None: nobody knows); `tokens` the completion tokens so far; `model` the name that
    the backend knows. `why`, `offers` and `found` where the query asked for them: an offer for each tier that it named and
    the owner knows, in its order.
    """

    id: str
    nonce: str
    epoch: Count
    as_of_ms: WallMs
    known: bool
    status: Status | None = None
    position: Count | None = None
    estimated_wait_ms: Count | None = None
    estimated_wait_p95_ms: Count | None = None
    tokens: Count = 0
    attempts: Count = 0
    gateway: Port16 | None = None
    model: str | None = None
    why: Why | None = None
    offers: tuple[Offer, ...] = ()
    found: Found | None = None


ReplyRecord = Chunk | Final | Answer
