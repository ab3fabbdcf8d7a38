"""Where the members of a JSON object stand in its bytes. Called by what must change one member and no other byte.

Invariant: the text was found to be one valid JSON object before (read_submission), so this only looks for its seams.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")
_SPACE = b" \t\n\r"


class Member(NamedTuple):
    """One member: its decoded name, and the half-open byte ranges of the whole and of its value."""

    name: str
    start: int
    value_start: int
    end: int


def members_of(document: bytes) -> Iterator[Member]:
    """The top-level members in the order of the text, repeated ones too."""
    depth, start, value_start, name = 0, 0, 0, b""
    for token in _TOKEN.finditer(document):
        text = token.group()
        if text in _OPENING:
            depth += 1
        elif depth == 1 and (text in _CLOSING or text == b","):
            if value_start:
                yield _member(document, name, start, value_start, token.start())
            value_start = 0
            depth -= text in _CLOSING
        elif text in _CLOSING:
            depth -= 1
        elif depth == 1 and not value_start:
            if text == b":":
                value_start = token.end()
            else:
                name, start = text, token.start()


def _member(document: bytes, name: bytes, start: int, value_start: int, stop: int) -> Member:
    value = document[value_start:stop]
    lead = len(value) - len(value.lstrip(_SPACE))
    end = stop - (len(value) - len(value.rstrip(_SPACE)))
    return Member(msgspec.json.decode(name, type=str), start, value_start + lead, end)
