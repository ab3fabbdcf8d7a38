"""Error answers in vLLM's shape. Raised by asks, faults and server; turned into bytes by server. Pure."""

import orjson

BUSY = (
    "The engine is currently busy and cannot accept new requests. "
    "Please try again later or on a different instance."
)
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
TOO_MANY_REQUESTS, UNAVAILABLE = 429, 503
BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body><center>502</center></body></html>\r\n"


class EngineRefusal(Exception):  # noqa: N818 - an answer, not a defect
    """An error answer with vLLM's body; `retry_after_s` sets a Retry-After header (0: none, as vLLM)."""

    content_type = "application/json"

    def __init__(
        self, status: int, kind: str, message: str, param: str | None = None, *, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
        self.body = error_body(status, kind, message, param)


class ProxyRefusal(EngineRefusal):
    """What a proxy in front of a dead engine answers: a page for people."""

    content_type = "text/html"

    def __init__(self) -> None:
        super().__init__(502, "", "")
        self.body = BAD_GATEWAY


def error_body(status: int, kind: str, message: str, param: str | None = None) -> bytes:
    """vLLM's error object."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": status}})


def bad(message: str, param: str | None = None) -> EngineRefusal:
    """A request that is wrong in itself."""
    return EngineRefusal(400, "BadRequestError", message, param)


def dead() -> EngineRefusal:
    """The engine behind the server is dead."""
    return EngineRefusal(500, "InternalServerError", DEAD)


def busy(status: int = UNAVAILABLE, retry_after_s: int = 0) -> EngineRefusal:
    """The queue is full: as vLLM says it, or with 429 as others do."""
    if status == TOO_MANY_REQUESTS:
        message = "Rate limit reached. Please try again later."
        return EngineRefusal(429, "Too Many Requests", message, retry_after_s=retry_after_s)
    return EngineRefusal(UNAVAILABLE, "Service Unavailable", BUSY, retry_after_s=retry_after_s)


def no_such_model(name: object) -> EngineRefusal:
    """A model that isn't served here."""
    return EngineRefusal(404, "NotFoundError", f"The model `{name}` does not exist.", "model")


def too_long(tokens: int, limit: int) -> EngineRefusal:
    """A prompt that leaves no room for an answer."""
    return bad(
        f"This model's maximum context length is {limit} tokens. However, your prompt contains {tokens} input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
        f"prompt. (parameter=input_tokens, value={tokens})",
        "input_tokens",
    )
