"""Which events of a live answer a caller of OpenAI's doors is sent, and what the stored answer adds at the end.

Fed by doors/streaming.py. Invariant: what a caller has read can't be taken back here, so after a restart nothing live is
relayed any more, and the stored text decides at the end.
"""

from headrace.contracts.ids import AttemptId
from headrace.contracts.replies import Chunk
from headrace.ingest.decisions.follow_chunks import ChunkOrder, Shown
from headrace.ingest.decisions.mend_stream import mend_stream
from headrace.ingest.decisions.sent_text import SentText


class RelayedStream:
    """One caller's stream. `route` is the backend's path; `sends_usage`: the caller asked for a usage chunk."""

    def __init__(self, *, route: str, sends_usage: bool) -> None:
        self._route, self._sends_usage = route, sends_usage
        self._order, self._sent, self._restarted = ChunkOrder(), SentText(), False

    def shows(self, chunk: Chunk) -> bool:
        """Whether this chunk is relayed; then `relayed` is to be told its events."""
        shown = self._order.take(chunk)
        self._restarted = self._restarted or shown is Shown.RESTART
        return shown is Shown.RELAY and not self._restarted

    def relayed(self, raw: bytes) -> None:
        """These events were sent."""
        self._sent.feed(raw)

    def mended(self, body: bytes, attempt: AttemptId) -> list[bytes] | None:
        """The events still to be sent before [DONE]; None: what was sent isn't the beginning of this stored body."""
        whole = self._order.is_whole(attempt) and not self._restarted
        return mend_stream(self._sent, body, route=self._route, sends_usage=self._sends_usage, whole=whole)
