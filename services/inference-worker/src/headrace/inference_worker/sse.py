"""Server-sent events from bytes, as they come (WHATWG HTML 9.2). Called for every streamed call of a backend.

Invariant: however the bytes are cut, the events are the same. Comments are skipped and are no progress; an event without
its closing blank line never happened.
"""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"
MOST_BYTES = 16 * 1024 * 1024


class EventTooLargeError(Exception):
    """An event is larger than the parser keeps."""


@dataclass(frozen=True, slots=True)
class Event:
    """`data` is all data lines joined; `raw` the event's own lines, ready to be relayed."""

    data: bytes
    raw: bytes


class SseParser:
    """Feed bytes, get whole events."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._rest, self._lines = b"", list[bytes]()
        self._size, self._after_cr, self._begun = 0, False, False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes. Raises EventTooLargeError."""
        if self._after_cr and piece[:1] == b"\n":
            piece, self._after_cr = piece[1:], False
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        *lines, self._rest = _LINE_END.split(self._rest + piece)
        events = [event for line in lines if (event := self._line(line)) is not None]
        if self._size + len(self._rest) > self._most:
            raise EventTooLargeError(f"an event of more than {self._most} bytes")
        return events

    def _line(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun, line = True, line.removeprefix(_MARK)
        if not line:
            return self._event()
        if not line.startswith(b":"):
            self._lines.append(line)
            self._size += len(line)
        return None

    def _event(self) -> Event | None:
        lines, self._lines, self._size = self._lines, [], 0
        data = [value for line in lines if (value := _data(line)) is not None]
        if not data:
            return None
        return Event(b"\n".join(data), b"\n".join(lines) + b"\n\n")


def _data(line: bytes) -> bytes | None:
    name, _, value = line.partition(b":")
    return value.removeprefix(b" ") if name == b"data" else None
