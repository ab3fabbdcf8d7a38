"""Changes single members of a JSON object and keeps every other byte. Called where a caller's body must say one thing more.

Invariant: what isn't the named member's value stays as the caller wrote it, white space, order and duplicates included.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_SPACE = b" \t\r\n"


class NotAnObjectError(ValueError):
    """The bytes aren't a JSON object."""


class _Member(NamedTuple):
    name: str
    start: int
    end: int


def with_member(body: bytes, name: str, value: bytes) -> bytes:
    """The object with the top-level member `name` set to `value` (JSON). Raises NotAnObjectError.

    A member that is there, also twice, is replaced where it stands, or left alone if it says so already; else it comes first.
    """
    found = [member for member in _members(body) if member.name == name]
    for member in reversed(found):
        if not _same(body[member.start : member.end], value):
            body = body[: member.start] + value + body[member.end :]
    return body if found else _with_first(body, name, value)


def with_usage(body: bytes, *, all_along: bool = False) -> bytes:
    """The object with `stream_options.include_usage` true, its other stream options kept. Raises NotAnObjectError.

    `all_along`: also `continuous_usage_stats`, by which vLLM and SGLang tell in each chunk how many tokens there are so far.
    """
    present = member_of(body, "stream_options")
    try:
        options = _asking_for_usage(present or b"{}", all_along=all_along)
    except NotAnObjectError:
        if present != b"null":
            return body  # not what the backend takes: it will say so itself
        options = _asking_for_usage(b"{}", all_along=all_along)
    return with_member(body, "stream_options", options)


def member_of(body: bytes, name: str) -> bytes | None:
    """The bytes of a top-level member's value; of the last of its name, as JSON parsers read it."""
    found = [member for member in _members(body) if member.name == name]
    return body[found[-1].start : found[-1].end] if found else None


def _asking_for_usage(options: bytes, *, all_along: bool) -> bytes:
    options = with_member(options, "include_usage", b"true")
    return with_member(options, "continuous_usage_stats", b"true") if all_along else options


def _with_first(body: bytes, name: str, value: bytes) -> bytes:
    opening = body.index(b"{") + 1
    comma = b"" if body[opening:].lstrip(_SPACE).startswith(b"}") else b","
    return body[:opening] + msgspec.json.encode(name) + b":" + value + comma + body[opening:]


def _members(body: bytes) -> Iterator[_Member]:
    if not body.lstrip(_SPACE).startswith(b"{"):
        raise NotAnObjectError("the body is not a JSON object")
    depth, key, start = 0, None, None
    for token in _TOKEN.finditer(body):
        mark = token[0]
        if depth == 1 and start is None and mark[:1] == b'"':
            key = _key(mark)
        elif depth == 1 and mark == b":":
            start = token.end()
        elif depth == 1 and mark in b",}" and key is not None and start is not None:
            yield _Member(key, *_trimmed(body, start, token.start()))
            key = start = None
        depth += (mark in b"{[") - (mark in b"}]")
    if depth:
        raise NotAnObjectError("the body is not a whole JSON object")


def _key(mark: bytes) -> str:
    try:
        return msgspec.json.decode(mark, type=str)
    except msgspec.DecodeError as error:
        raise NotAnObjectError("a member's name is not JSON") from error


def _trimmed(body: bytes, start: int, end: int) -> tuple[int, int]:
    value = body[start:end]
    start += len(value) - len(value.lstrip(_SPACE))
    return start, start + len(value.strip(_SPACE))


def _same(present: bytes, wanted: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(present) == msgspec.json.decode(wanted))
    except msgspec.DecodeError:
        return False
