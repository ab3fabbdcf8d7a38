"""What kind of failure is this? Maps what a backend did to a row of the contracts' failure table, and to nothing else.

Called when a call didn't succeed. Invariant: status and error code decide together (a 429 for quota is final, a 501 isn't
retried, a 500 of a dead engine is a suspect); what the caller did wrong is relayed as the backend said it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from headrace.contracts.failures import FailureKind

_K = FailureKind
_QUOTA = frozenset(
    {"insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "quota_exceeded"}
)
_TOO_LONG = re.compile(
    r"maximum context length|exceeds? the (available )?context|context[ _]length|longer than the maximum model length"
    r"|inputs` must have less than|max_new_tokens` must be",
    re.IGNORECASE,
)
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_ENGINE_DEAD = re.compile(r"EngineDead|EngineCore encountered an issue", re.IGNORECASE)
_LOADING = re.compile(r"loading model|is loading", re.IGNORECASE)
_STATUS = re.compile(r"[45][0-9]{2}")
_REFUSED = frozenset({400, 413, 422})
_BY_STATUS = {
    401: _K.BACKEND_REFUSES_US,
    402: _K.QUOTA_EXHAUSTED,
    403: _K.BACKEND_REFUSES_US,
    404: _K.MODEL_NOT_FOUND,
    408: _K.BACKEND_TIMEOUT,
    424: _K.BACKEND_ERROR,
    425: _K.BACKEND_UNAVAILABLE,
    429: _K.BACKEND_OVERLOADED,
    501: _K.NOT_IMPLEMENTED,
    503: _K.BACKEND_OVERLOADED,
    504: _K.BACKEND_TIMEOUT,
    529: _K.BACKEND_OVERLOADED,
}
_RELAYED = frozenset({_K.INVALID_REQUEST, _K.CONTEXT_LENGTH_EXCEEDED, _K.MODEL_NOT_FOUND, _K.NOT_IMPLEMENTED})


class Broken(StrEnum):
    """How a call broke off without an answer that could be read, as its caller is told."""

    NOT_CONNECTED = "No connection to the backend could be opened."
    CUT_OFF = "The connection to the backend broke off."
    STALLED = "The backend said nothing for too long."
    OVER_TIME = "The backend took too long."
    PAST_DEADLINE = "The request's deadline passed."
    TOO_LARGE = "The backend's answer is larger than may be stored."
    MALFORMED = "The backend's answer can't be read."
    MALFORMED_STREAM = "The backend's stream can't be read."
    UNFINISHED = "The backend's stream ended before its answer did."


@dataclass(frozen=True, slots=True)
class BackendSays:
    """An error body in any backend's shape, reduced to what decides."""

    message: str = ""
    code: str = ""
    type: str = ""


def read_error(body: bytes) -> BackendSays:
    """From the body of an error answer; whatever it is, also HTML or nothing."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return BackendSays(body[:200].decode(errors="replace"))
    return says_of(found)


def says_of(found: Any) -> BackendSays:  # noqa: ANN401 - whatever JSON a backend may send
    """From decoded JSON: `{"error": {...}}`, `{"error": "text"}`, or the error's members at the top."""
    if not isinstance(found, dict):
        return BackendSays(str(found)[:200])
    error = found.get("error", found)
    if not isinstance(error, dict):
        return BackendSays(str(error), type=str(found.get("error_type") or ""))
    message = error.get("message") or error.get("detail") or error.get("error") or ""
    return BackendSays(str(message), str(error.get("code") or ""), str(error.get("type") or ""))


def classify_answer(status: int, says: BackendSays) -> FailureKind:
    """The kind of an error answer."""
    if {says.code, says.type} & _QUOTA:
        return _K.QUOTA_EXHAUSTED
    if status == 500 and (_ENGINE_DEAD.search(says.message) or _ENGINE_DEAD.search(says.type)):
        return _K.ENGINE_DIED
    if status == 503 and _LOADING.search(says.message):
        return _K.BACKEND_UNAVAILABLE
    if status in _REFUSED and ({says.code, says.type} & _TOO_LONG_CODES or _TOO_LONG.search(says.message)):
        return _K.CONTEXT_LENGTH_EXCEEDED
    return _BY_STATUS.get(status) or (_K.INVALID_REQUEST if 400 <= status < 500 else _K.BACKEND_ERROR)


def classify_event(says: BackendSays) -> FailureKind:
    """The kind of an error object inside of a stream."""
    return classify_answer(status_said(says), says)


def status_said(says: BackendSays) -> int:
    """The status of an error that came as a success: its code where that is an error's status, else 500."""
    return int(says.code) if _STATUS.fullmatch(says.code) else 500


def classify_broken(how: Broken, *, backend_alive: bool) -> FailureKind:
    """The kind of a call that broke off. `backend_alive`: it answers its health probe now."""
    if how is Broken.CUT_OFF:
        return _K.STREAM_BROKEN if backend_alive else _K.ENGINE_DIED
    return {
        Broken.NOT_CONNECTED: _K.BACKEND_UNAVAILABLE,
        Broken.STALLED: _K.BACKEND_TIMEOUT,
        Broken.OVER_TIME: _K.BACKEND_TIMEOUT,
        Broken.PAST_DEADLINE: _K.DEADLINE_PASSED,
        Broken.TOO_LARGE: _K.ANSWER_TOO_LARGE,
        Broken.MALFORMED: _K.BACKEND_ERROR,
    }.get(how, _K.STREAM_BROKEN)


def is_relayed(kind: FailureKind) -> bool:
    """Whether the caller gets the backend's own status and body."""
    return kind in _RELAYED
