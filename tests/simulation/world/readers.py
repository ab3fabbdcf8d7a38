"""Callers who read a live answer: what they were sent, over broken connections, and what they make of it.

Turned by world.gateways. The product's own decisions say what is sent (NativeEvents, RelayedStream); what a caller reads out
of it is written here anew, so that both can be compared. Invariant: a connection may break between any two events.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import msgspec

from headrace.bus.messages import Place, Received
from headrace.contracts.ids import AttemptId
from headrace.contracts.replies import Chunk
from headrace.contracts.requests import RequestRecord
from headrace.ingest.decisions.mend_stream import DONE
from headrace.ingest.decisions.native_events import EventId, NativeEvents, event_id_from
from headrace.ingest.decisions.relay_stream import RelayedStream
from headrace.ingest.decisions.what_to_answer import Ended
from tests.simulation.world.stage import Stage


@dataclass(slots=True)
class Had:
    """What a caller has. `restarts`: how often it was told to forget all; `ended`: the stream said that this is all."""

    text: str = ""
    restarts: int = 0
    ended: bool = False
    status: str | None = None
    refused: bool = False
    """Whether the stream ended by saying that the stored answer is another."""


class Reader(ABC):
    """One caller's stream of one request."""

    def __init__(self, stage: Stage, record: RequestRecord) -> None:
        self.stage, self.record, self.had = stage, record, Had()

    @abstractmethod
    def hear(self, received: Received, chunk: Chunk) -> None:
        """A chunk of its request, in the order of the log."""

    @abstractmethod
    def end(self, ended: Ended) -> None:
        """The result is committed."""


class OpenAIReader(Reader):
    """A caller of OpenAI's door with `stream`: it can't come back."""

    def __init__(self, stage: Stage, record: RequestRecord) -> None:
        super().__init__(stage, record)
        self._stream = RelayedStream(route=record.route, sends_usage=record.sends_usage)

    def hear(self, received: Received, chunk: Chunk) -> None:
        """As Reader.hear."""
        if self._stream.shows(chunk):
            raw = received.value or b""
            self._take(raw)
            self._stream.relayed(raw)

    def end(self, ended: Ended) -> None:
        """As Reader.end, as the door does it."""
        events = self._stream.mended(ended.body, ended.attempt) if ended.status.value == "succeeded" else None
        self.had.ended = True
        if events is None:
            self.had.refused = True
            if ended.status.value == "succeeded":
                self.stage.saw("stream that could not be mended")
            return
        if events:
            self.stage.saw("mended stream")
        for event in [*events, DONE]:
            self._take(event)

    def _take(self, raw: bytes) -> None:
        for line in raw.splitlines():
            if line.startswith(b"data: {"):
                for choice in msgspec.json.decode(line[6:])["choices"]:
                    self.had.text += choice["delta"].get("content", "")


class NativeReader(Reader):
    """A reader of the native event stream: it comes back with the last id that it has seen, to any replica."""

    def __init__(self, stage: Stage, record: RequestRecord) -> None:
        super().__init__(stage, record)
        self._id, self._text_at_id = "", ""
        self._events: NativeEvents | None = None
        self.connection = 0
        """Which connection this is: what an earlier one still brings is nothing to it."""
        self.to_break = False
        """Whether the connection breaks in the midst of the next events."""

    def connect(self) -> tuple[Place | None, int | None]:
        """Come (back): the partition of `replies` and the offset to read from; None: from when it was accepted."""
        self.connection += 1
        resumed = event_id_from(self._id or None)
        at = resumed or EventId(self.record.gateway)
        self._events = NativeEvents(at, resumed=resumed is not None)
        self.had.text = self._text_at_id if resumed is not None else ""
        return Place("t.replies", at.partition), None if resumed is None else at.offset

    def disconnect(self) -> None:
        """The connection breaks."""
        self._events = None

    @property
    def connected(self) -> bool:
        """Whether it listens now."""
        return self._events is not None

    def hear(self, received: Received, chunk: Chunk) -> None:
        """As Reader.hear."""
        if self._events is not None:
            frames = self._events.on_chunk(chunk, received.value or b"", received.partition, received.offset)
            self._take_all(frames)

    def end(self, ended: Ended) -> None:
        """As Reader.end."""
        if self._events is not None:
            self.had.status = ended.status.value
            self._take_all(self._events.on_end(ended, b"{}"))

    def _take_all(self, frames: list[bytes]) -> None:
        for frame in frames:
            if self.to_break and self.stage.rng.random() < 0.5:
                self.to_break = False
                self.stage.saw("reader's connection broken in the midst of events")
                self.disconnect()
                return
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        fields = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
        event, data = fields["event"], msgspec.json.decode(fields["data"])
        if event == "restart":
            self.had.restarts += 1
            self.had.text = ""
            self.stage.saw("restart shown to a reader")
        elif event == "text":
            self.had.text += data["text"]
        elif event == "end":
            self.had.ended = True
        if "id" in fields:
            self._id, self._text_at_id = fields["id"], self.had.text
            self._check(AttemptId(*(int(part) for part in self._id.split("-")[2:4])))

    def _check(self, attempt: AttemptId) -> None:
        """What is shown is the beginning of one attempt's text, at every moment."""
        whole = self.stage.texts.get((self.record.id, attempt), "")
        if not whole.startswith(self.had.text):
            self.stage.broken.append(f"read: {self.had.text!r} was shown as the text of {attempt}")
