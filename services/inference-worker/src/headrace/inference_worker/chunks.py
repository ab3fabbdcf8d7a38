"""Sends a stream's events to the gateway that waits for them, as Chunk records. One relay for each streaming attempt.

Invariant: the stream never waits for the log. Events are coalesced; what can't be sent is lost with a gap in `number`, and
the stored text mends it. A text that is gone on with counts as chunk 0.
"""

import asyncio
from datetime import timedelta

from headrace.bus.messages import Headers, Place, message_of
from headrace.bus.ports import AsyncProducer, BusError
from headrace.contracts.commands import Run
from headrace.contracts.replies import Chunk
from headrace.contracts.seal import Seal
from headrace.contracts.values import Payload

COALESCE = timedelta(milliseconds=8)
MOST_WAITING_BYTES = 256 * 1024
LAST_WORDS = timedelta(milliseconds=250)


class ChunkRelay:
    """As ports.Relay. Make it inside of a running loop, `finish` it when the stream has ended."""

    def __init__(
        self, producer: AsyncProducer, place: Place, run: Run, seal: Seal, trace: Headers = ()
    ) -> None:
        self._producer, self._place, self._run, self._seal, self._trace = producer, place, run, seal, trace
        self._waiting, self._size, self._characters = list[bytes](), 0, 0
        self._text, self._number = run.text, 0 if run.text is None else 1
        self._wake, self._ending, self._sent_at = asyncio.Event(), False, 0.0
        self._task = asyncio.create_task(self._pump(), name=f"chunks of {run.request.id}")
        self.lost = 0

    def add(self, raw: bytes, characters: int) -> None:
        """As Relay.add. More than is kept waiting is dropped, all at once, and leaves a gap."""
        if self._size > MOST_WAITING_BYTES:
            self._waiting, self._size = [], 0
            self._number += 1
            self.lost += 1
        self._waiting.append(raw)
        self._size += len(raw)
        self._characters = characters
        self._wake.set()

    def goes_on_from_nothing(self) -> None:
        """As Relay.goes_on_from_nothing."""
        self._text, self._number = None, 0

    async def finish(self) -> None:
        """Send what waits, within a moment: the stored answer brings the rest."""
        self._ending = True
        self._wake.set()
        _, late = await asyncio.wait({self._task}, timeout=LAST_WORDS.total_seconds())
        if late:
            self.drop()

    def drop(self) -> None:
        """Send nothing more."""
        self._task.cancel()

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._ending or self._waiting:
            await self._wake.wait()
            early = self._sent_at + COALESCE.total_seconds() - loop.time()
            if early > 0 and not self._ending:
                await asyncio.sleep(early)
            self._wake.clear()
            if self._waiting:
                await self._send()
                self._sent_at = loop.time()

    async def _send(self) -> None:
        request = self._run.request
        value = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        encoding, stored = self._seal.seal(value, tenant=request.tenant, request_id=request.id)
        chunk = Chunk(
            id=request.id,
            attempt=self._run.attempt,
            number=self._number,
            characters=self._characters,
            payload=Payload(size=len(stored), encoding=encoding, content_type="text/event-stream"),
            after=None if self._text is None else self._text.attempt,
            since=0 if self._text is None else self._text.characters,
        )
        self._number += 1
        try:
            await self._producer.send(message_of(self._place, chunk, stored, trace=self._trace))
        except BusError:
            self.lost += 1
