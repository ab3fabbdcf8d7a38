"""What every route needs of the process and of the HTTP request: the caller, the body, the submit options.

Called by the routes. Invariant: a key is checked before a body is read, and no more of a body is read than may be taken.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from fastapi import Request

from headrace.bus.messages import Headers
from headrace.ingest.decisions.may_admit import declared_size, may_be_read
from headrace.ingest.decisions.which_deadline import read_timeout_of
from headrace.ingest.ports import GoneError, ReplyLog
from headrace.ingest.preparing import Asked
from headrace.ingest.refusal import Refusal, wrong_key
from headrace.ingest.service import Ingest
from headrace.ingest.settings import IngestSettings
from headrace.runtime.telemetry import Telemetry

_SCHEME = "bearer "
_FAIRNESS_HEADERS = ("x-headrace-fairness-key", "x-llm-d-inference-fairness-id")
"""The second is llm-d's."""
_SESSION_HEADERS = ("x-headrace-session", "x-session-id")
"""The second is vLLM's."""
_LONGEST_UPLOAD_SECONDS = 60
OPENING_AT_ONCE = 20
"""Event streams that connect to Kafka at a time. While no broker answers each holds a client for seconds and tries again."""


@dataclass(frozen=True, slots=True)
class Front:
    """What the routes are given; found at `app.state.front`. `reply_log` makes a reader for one event stream.

    `opening`: the turn to connect such a reader. `stopping`: whoever only listens is to go elsewhere.
    """

    ingest: Ingest
    settings: IngestSettings
    telemetry: Telemetry
    reply_log: Callable[[], ReplyLog]
    streams: set[object] = field(default_factory=set)
    opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPENING_AT_ONCE))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Seen:
    """What became known of one HTTP request on its way: for its log line, its metrics and its trace."""

    trace: Headers = ()
    tenant: str | None = None
    tier: str = ""
    route: str | None = None
    request_id: str | None = None
    refused: Refusal | None = None


def front_of(request: Request) -> Front:
    """What this process's routes are given."""
    return cast("Front", request.app.state.front)


def seen_of(request: Request) -> Seen:
    """What is known of this request; made by doors/observed.py."""
    return cast("Seen", request.scope["headrace"])


def tenant_of(request: Request) -> str:
    """Whose key this is. Raises Refusal (401)."""
    said = request.headers.get("authorization", "")
    key = said[len(_SCHEME) :].strip() if said[: len(_SCHEME)].lower() == _SCHEME else ""
    tenant = front_of(request).ingest.parts.policy.tenant_of(key) if key else None
    if tenant is None:
        raise wrong_key() if key else wrong_key("Send your API key as `Authorization: Bearer KEY`.")
    seen_of(request).tenant = tenant
    return tenant


async def body_of(request: Request) -> bytes:
    """The whole body. Raises Refusal (408, 413, 415) before more is read than may be taken; GoneError."""
    limit = front_of(request).settings.max_body
    declared_size(request.headers.get("content-length"), limit)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "unsupported_encoding", "Send the body as it is, without Content-Encoding.")
    try:
        async with asyncio.timeout(_LONGEST_UPLOAD_SECONDS):
            parts = await _parts_of(request, limit)
    except TimeoutError:
        sentence = f"The body didn't come within {_LONGEST_UPLOAD_SECONDS} s."
        raise Refusal(408, "body_timeout", sentence) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _parts_of(request: Request, limit: int) -> list[bytes]:
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        may_be_read(size, limit)
        parts.append(part)
    return parts


def asked_by(request: Request, tenant: str, body: bytes, route: str | None) -> Asked:
    """The submission, with the options that stand in headers. OpenAI's doors (with a `route`) wait."""
    headers = request.headers
    waits = route is not None
    return Asked(
        tenant=tenant,
        body=body,
        route=route,
        waits=waits,
        tier=headers.get("x-priority"),
        deadline=headers.get("x-headrace-deadline"),
        queue_timeout=headers.get("x-headrace-queue-timeout"),
        fallback=headers.get("x-headrace-fallback"),
        read_timeout=read_timeout_of(headers.get("x-stainless-read-timeout")) if waits else None,
        fairness_keys=tuple(headers.get(name) for name in _FAIRNESS_HEADERS),
        sessions=tuple(headers.get(name) for name in _SESSION_HEADERS),
        trace=seen_of(request).trace,
    )
