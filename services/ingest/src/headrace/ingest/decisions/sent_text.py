"""What the reader of a stream has been sent, told from the backend's own events. Fed by the streaming doors.

Invariant: an event that isn't understood is relayed all the same and changes nothing here; the mending then finds the
texts unequal and says so, rather than sending something twice.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

_DONE = b"[DONE]"


class Choice(msgspec.Struct):
    """One choice of a chunk: `delta` in chats, `text` in completions."""

    index: int = 0
    delta: dict[str, Any] | None = None
    text: str | None = None
    finish_reason: str | None = None

    def pieces(self) -> dict[str, Any]:
        """What it adds, by field; the role says nothing."""
        delta = dict(self.delta or {})
        delta.pop("role", None)
        if self.text is not None:
            delta["text"] = self.text
        return {name: value for name, value in delta.items() if value not in (None, "", [], {})}


class Event(msgspec.Struct):
    """One server-sent event of a backend, as far as it concerns us."""

    id: str | None = None
    created: int | None = None
    model: str | None = None
    choices: list[Choice] = []
    usage: dict[str, Any] | None = None


_EVENT = msgspec.json.Decoder(Event)


def events_of(raw: bytes) -> Iterator[Event]:
    """The events of whole server-sent event text; those that aren't understood are left out."""
    for line in raw.splitlines():
        if line.startswith(b"data:") and (data := line[5:].strip()) != _DONE:
            try:
                yield _EVENT.decode(data)
            except (msgspec.DecodeError, RecursionError):
                continue


class SentText:
    """Adds up a stream: texts by choice and field, which choices ended, whether usage was told."""

    def __init__(self) -> None:
        self.head = Event()
        self.finished: set[int] = set()
        self.others: set[tuple[int, str]] = set()
        self.begun: set[int] = set()
        self.usage = False
        self._texts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)

    def feed(self, raw: bytes) -> None:
        """What was just relayed."""
        for event in events_of(raw):
            if self.head.id is None:
                self.head = event
            self.usage = self.usage or event.usage is not None
            for choice in event.choices:
                self._add(choice)

    def text(self, index: int, field: str) -> str:
        """The text of one field of one choice so far."""
        return "".join(self._texts.get((index, field), ()))

    def fields(self, index: int) -> set[str]:
        """The text fields that a choice has had."""
        return {field for at, field in self._texts if at == index}

    def _add(self, choice: Choice) -> None:
        self.begun.add(choice.index)
        if choice.finish_reason is not None:
            self.finished.add(choice.index)
        for name, value in choice.pieces().items():
            if isinstance(value, str):
                self._texts[choice.index, name].append(value)
            else:
                self.others.add((choice.index, name))
