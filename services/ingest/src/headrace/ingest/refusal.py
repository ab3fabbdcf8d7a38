"""The one error of the API, and its two faces: problem details (RFC 9457) and OpenAI's error object.

Raised by decisions, the service and the doors; turned into an answer in doors/app.py, by the door that was knocked at.
Invariant: a refused request has no state, and no message quotes a prompt.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

PROBLEM_TYPE = "application/problem+json"
JSON_TYPE = "application/json"
_TYPE_URI = "https://headrace.dev/problems/"


class Limit(NamedTuple):
    """What binds: its name, its value, and how far over it one more request would be; both in service units."""

    name: str
    value: int
    over: int


class Refusal(Exception):  # noqa: N818 - not every refusal is somebody's error
    """Why there is no answer. `pointer` is the JSON pointer of what is wrong in the body; `retry_after` is in seconds.

    `may_retry` false: a client that retries by itself would do the work twice, or in vain.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        pointer: str | None = None,
        openai_type: str | None = None,
        retry_after: int | None = None,
        may_retry: bool | None = None,
        request_id: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        limit: Limit | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.pointer, self.retry_after, self.may_retry = pointer, retry_after, may_retry
        self.openai_type = openai_type or _openai_type(status)
        self.request_id = request_id
        self.headers, self.limit = tuple(headers), limit

    def http_headers(self) -> list[tuple[str, str]]:
        """The headers that go with either face."""
        found = list(self.headers)
        if self.retry_after is not None:
            found.append(("Retry-After", str(self.retry_after)))
        if self.may_retry is not None:
            found.append(("X-Should-Retry", "true" if self.may_retry else "false"))
        if self.request_id is not None:
            found.append(("X-Request-Id", self.request_id))
        return found


def as_problem(refusal: Refusal) -> bytes:
    """The body of `application/problem+json`."""
    document: dict[str, object] = {
        "type": _TYPE_URI + refusal.code.replace("_", "-"),
        "title": refusal.code.replace("_", " ").capitalize(),
        "status": refusal.status,
        "detail": refusal.message,
        "code": refusal.code,
    }
    if refusal.request_id is not None:
        document["request_id"] = refusal.request_id
        document["instance"] = f"/v1/requests/{refusal.request_id}"
    if refusal.pointer is not None:
        document["errors"] = [{"pointer": refusal.pointer, "detail": refusal.message}]
    if refusal.limit is not None:
        document["limit"] = refusal.limit._asdict()
    return msgspec.json.encode(document)


def as_openai(refusal: Refusal) -> bytes:
    """OpenAI's error object; `param` in OpenAI's spelling, `messages[0].content`."""
    error: dict[str, object] = {
        "message": refusal.message,
        "type": refusal.openai_type,
        "param": None if refusal.pointer is None else _param(refusal.pointer),
        "code": refusal.code,
    }
    if refusal.request_id is not None:
        error["request_id"] = refusal.request_id
    if refusal.limit is not None:
        error["limit"] = refusal.limit._asdict()
    return msgspec.json.encode({"error": error})


def _param(pointer: str) -> str:
    parts = pointer.strip("/").split("/")
    return parts[0] + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts[1:])


def _openai_type(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 403:
        return "permission_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


def wrong_key(sentence: str = "The API key is wrong.") -> Refusal:
    """Nobody knows who asks."""
    return Refusal(401, "invalid_api_key", sentence, headers=[("WWW-Authenticate", "Bearer")])
