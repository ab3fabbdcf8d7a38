"""What the native event stream says: `status`, `text`, `restart`, `end`. Fed by doors/event_stream.py.

An event's id says how far a reader is: with it any replica goes on behind it. Invariant: the texts since the last
`restart` (or since the place that was resumed from) add up to the stored text when `end` comes.
"""

import re
from typing import NamedTuple

import msgspec

from headrace.contracts.ids import AttemptId
from headrace.contracts.replies import Chunk
from headrace.ingest.decisions.follow_chunks import ChunkOrder, Shown
from headrace.ingest.decisions.mend_stream import StoredAnswer, read_stored
from headrace.ingest.decisions.sent_text import SentText, events_of
from headrace.ingest.decisions.what_to_answer import Ended
from headrace.ingest.refusal import Refusal

_ID = re.compile(r"(\d{1,5})-(\d{1,18})-(\d{1,15})-(\d{1,15})-(\d{1,15})-(\d{1,9})", re.ASCII)


class EventId(NamedTuple):
    """Where a reader is: a place in `replies`, the attempt and the chunk that stands there, how much of the text it has."""

    partition: int
    offset: int = 0
    epoch: int = 0
    sequence: int = 0
    number: int = 0
    characters: int = 0

    def __str__(self) -> str:
        return "-".join(map(str, self))


def event_id_from(header: str | None) -> EventId | None:
    """Last-Event-ID, None when there is none. Raises Refusal (422)."""
    if not header:
        return None
    found = _ID.fullmatch(header)
    if found is None:
        raise Refusal(422, "invalid_event_id", "Last-Event-ID takes an id that an event of this stream had.")
    return EventId(*(int(part) for part in found.groups()))


def frame(event: str, data: bytes, at: EventId | None = None) -> bytes:
    """One server-sent event."""
    tail = b"" if at is None else b"id: " + str(at).encode() + b"\n"
    return b"event: " + event.encode() + b"\n" + tail + b"data: " + data + b"\n\n"


class NativeEvents:
    """One reader's stream. `at` is its place."""

    def __init__(self, at: EventId, *, resumed: bool) -> None:
        self.at = at
        self._had = at.characters if resumed else 0
        self._order, self._sent = ChunkOrder(), SentText()
        if resumed and at.sequence:
            self._order.resume(AttemptId(at.epoch, at.sequence), at.number, at.characters)

    def on_chunk(self, chunk: Chunk, raw: bytes, partition: int, offset: int) -> list[bytes]:
        """The events of one chunk. `raw` is the backend's own events."""
        shown = self._order.take(chunk)
        if shown is Shown.SKIP or (shown is Shown.RELAY and chunk.characters <= self._had):
            return []  # who resumes behind a mended end has had the text of chunks that come only now
        frames = [self._restart("another attempt")] if shown is Shown.RESTART else []
        self.at = EventId(partition, offset, *chunk.attempt, chunk.number, chunk.characters)
        self._sent.feed(raw)
        pieces = [
            (choice.index, text)
            for event in events_of(raw)
            for choice in event.choices
            if (text := _text_of(choice.pieces()))
        ]
        return frames + self._texts(pieces)

    def on_end(self, ended: Ended, document: bytes) -> list[bytes]:
        """The last events: what of the stored text is missing, then `end` with the status document."""
        stored = read_stored(ended.body) if ended.body else None
        frames = self._forget() if stored is None else self._mend(stored, ended)
        return [*frames, frame("end", document, self.at)]

    def _forget(self) -> list[bytes]:
        """No text is stored: who was told some, by an attempt that came to nothing, hears that it doesn't count."""
        told = self._had or any(self._sent_text(index) for index in self._sent.begun)
        return [self._restart("no text is stored")] if told else []

    def _mend(self, stored: StoredAnswer, ended: Ended) -> list[bytes]:
        texts = {choice.index: _text_of(choice.texts()) for choice in stored.choices}
        missing = self._missing(texts, whole=self._order.is_whole(ended.attempt))
        frames = []
        if missing is None:
            frames, missing = [self._restart("the stored text differs")], texts
        epoch, sequence = ended.attempt
        had = sum(map(len, texts.values()))
        self.at = self.at._replace(epoch=epoch, sequence=sequence, characters=had)
        return frames + self._texts([(index, text) for index, text in missing.items() if text])

    def _missing(self, texts: dict[int, str], *, whole: bool) -> dict[int, str] | None:
        if self._had:
            # the text before the resumed place isn't known here, so only an unbroken single text can go on
            text = texts.get(0, "")
            done = self._had + len(self._sent_text(0))
            return {0: text[done:]} if whole and len(texts) == 1 and len(text) >= done else None
        if any(not text.startswith(self._sent_text(index)) for index, text in texts.items()):
            return None
        return {index: text[len(self._sent_text(index)) :] for index, text in texts.items()}

    def _sent_text(self, index: int) -> str:
        return self._sent.text(index, "content") or self._sent.text(index, "text")

    def _restart(self, reason: str) -> bytes:
        self._sent, self._had = SentText(), 0
        return frame("restart", msgspec.json.encode({"reason": reason}))

    def _texts(self, pieces: list[tuple[int, str]]) -> list[bytes]:
        """Only the last one of a chunk has an id: what a reader hasn't read whole, it is given again."""
        return [
            frame(
                "text",
                msgspec.json.encode({"choice": index, "text": text}),
                self.at if number == len(pieces) else None,
            )
            for number, (index, text) in enumerate(pieces, 1)
        ]


def _text_of(pieces: dict[str, str]) -> str:
    """The answer's own text of a delta, a message or a completion's choice."""
    found = pieces.get("content") or pieces.get("text") or ""
    return found if isinstance(found, str) else ""
