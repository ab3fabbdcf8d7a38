"""What the reader of a stream has been sent, told from the backend's own events. Fed by the streaming doors.

Invariant: an event that isn't understood is relayed all the same and changes nothing here; the mending then finds the
texts unequal and says so, rather than sending something twice.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

_DONE = b"[DONE]"
_BLANK = re.compile(rb"\r?\n\r?\n")


class Choice(msgspec.Struct):
    """One choice of a chunk: `delta` in chats, `text` in completions. Only the index has a type to be relied on."""

    index: int = 0
    delta: Any = None
    text: Any = None
    finish_reason: Any = None

    def pieces(self) -> dict[str, Any]:
        """What it adds, by field; the role says nothing."""
        delta = dict(self.delta) if isinstance(self.delta, dict) else {}
        delta.pop("role", None)
        if isinstance(self.text, str):
            delta["text"] = self.text
        return {name: value for name, value in delta.items() if value not in (None, "", [], {})}


class Event(msgspec.Struct):
    """One server-sent event of a backend, as far as it concerns us."""

    id: Any = None
    created: Any = None
    model: Any = None
    choices: list[Choice] = []
    usage: Any = None


_EVENT = msgspec.json.Decoder(Event)


def events_of(raw: bytes) -> Iterator[Event]:
    """The events of whole server-sent event text; those that aren't understood are left out."""
    for event in _BLANK.split(raw):
        lines = [line[5:] for line in event.splitlines() if line.startswith(b"data:")]
        if not lines or (data := b"\n".join(lines).strip()) == _DONE:
            continue
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
