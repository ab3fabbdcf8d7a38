"""The record of `requests.{pool}.{tier}`: the truth of what was accepted. Written by ingest, and by owners that
pass a request on to another pool; read by the scheduler and result-delivery.

Invariant: the header holds all that a decision needs, so that no decision opens a payload.
"""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.prefixes import Prefix
from headrace.contracts.values import Count, Mark, Name, Payload, Port16, Priority, WallMs

MOST_HOPS = 3
"""A request is passed on from pool to pool so often at most."""


class RequestRecord(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="request"):
    """An accepted request. The record's value is the caller's body.

    `model` is the name the backend is called with; `route` the backend's path. `prompt_tokens` is an estimate; `max_tokens`
    the caller's cap on the answer, times `choices`. `plain_text`: the answer is text alone (one choice, no tools, no schema,
    no logprobs), so that it may be streamed upstream, assembled, and resumed. `answer` is what sort it is (plain, tools,
    schema, reasoning, or a later writer's word), for estimates alone; None in records of writers that didn't say.
    `gateway` is the partition of `replies` that the accepting replica reads; `waits`: somebody is on an open connection and
    wants the answer itself there. `sends_usage`: the caller asked for a usage chunk in the stream. `hop` counts the pools
    that it was passed on from, and `through` names them, the one that its id names first: it never comes back to one. Then
    the body may still say another model than `model`. `stays`: its caller wants no other pool's answer. `prefix` (see
    prefixes.py) and `session` are hints for where it runs best, hashed for its tenant alone: a lie in them costs its sender.
    `sequences`: so many answers its engine makes to choose from (`best_of`); 0: as many as `choices`. `media`: so many things
    belong to its prompt whose tokens its bytes don't tell: images, sound, films, files, tools that the backend runs itself.
    `replay_of` is in the format and has no writer.
    """

    id: Mark
    tenant: Name
    pool: Name
    tier: Name
    partition: Port16
    model: Name
    route: str
    accepted_ms: WallMs
    payload: Payload
    gateway: Port16
    waits: bool = False
    stream: bool = False
    sends_usage: bool = False
    plain_text: bool = False
    answer: Name | None = None
    prompt_tokens: Count = 0
    max_tokens: Count | None = None
    choices: Count = 1
    sequences: Count = 0
    media: Count = 0
    priority: Priority = 0
    fairness_key: Name | None = None
    prefix: Prefix = ""
    session: Name | None = None
    start_by_ms: WallMs | None = None
    finish_by_ms: WallMs | None = None
    hop: Count = 0
    through: Annotated[tuple[Name, ...], Meta(max_length=MOST_HOPS)] = ()
    stays: bool = False
    replay_of: str | None = None
    metadata: dict[str, str] = {}
