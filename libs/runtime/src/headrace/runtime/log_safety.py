"""What may stand in a log line. A step of every log chain (headrace.runtime.logging), for our lines and for libraries'.

Invariant: nothing under a key that could carry a prompt or an answer is written, only its size; no text is longer than
1 KiB; exceptions are told without source lines and without local variables.
"""

import sys
import traceback
from collections.abc import Iterator, Mapping, Sized

from structlog.typing import EventDict, WrappedLogger

FORBIDDEN = frozenset({"prompt", "messages", "body", "payload", "value", "content", "text"})
"""Keys whose content is never logged, in any case of letters and at any depth."""

MAX_TEXT = 1024
"""Characters of one text in a line, exceptions included."""

_MAX_MESSAGE = 300
_FRAMES = 4


def refuse_payloads(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replaces what could be a prompt by its size, and bounds the rest."""
    return {key: _safe(key, value) for key, value in event.items()}


def short_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Turns `exc_info` into one bounded text under `exception`."""
    exception = _exception_of(event.pop("exc_info", None))
    if exception is not None:
        event["exception"] = describe(exception)
    return event


def describe(exception: BaseException) -> str:
    """What went wrong, where, and what caused it, innermost place first; at most 1 KiB."""
    return _bounded("\ncaused by ".join(_told(each) for each in _chain(exception)), MAX_TEXT)


def _exception_of(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return exc_info[1] if isinstance(exc_info[1], BaseException) else None
    return sys.exc_info()[1] if exc_info else None


def _chain(exception: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = exception
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        inner = following.exceptions[0] if isinstance(following, BaseExceptionGroup) else None
        context = None if following.__suppress_context__ else following.__context__
        following = inner or following.__cause__ or context


def _told(exception: BaseException) -> str:
    frames = traceback.extract_tb(exception.__traceback__)[-_FRAMES:]
    places = " < ".join(f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    message = _bounded(str(exception), _MAX_MESSAGE)
    name = type(exception).__qualname__
    return f"{name}: {message}" + (f" at {places}" if places else "")


def _short(filename: str) -> str:
    return "/".join(filename.split("/")[-2:])


def _bounded(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    tail = f"… ({len(text)} characters)"
    return text[: limit - len(tail)] + tail


def _safe(key: str, value: object) -> object:
    if key.lower() in FORBIDDEN:
        return _size(value)
    if isinstance(value, str):
        return _bounded(value, MAX_TEXT)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _size(value)
    if isinstance(value, Mapping):
        return {str(inner): _safe(str(inner), each) for inner, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_safe("", each) for each in value]
    return _bounded(str(value), MAX_TEXT)


def _size(value: object) -> str:
    if not isinstance(value, Sized):
        return f"<{type(value).__name__}>"
    unit = {str: "characters", bytes: "bytes", bytearray: "bytes", memoryview: "bytes"}.get(
        type(value), "items"
    )
    return f"<{len(value)} {unit}>"
