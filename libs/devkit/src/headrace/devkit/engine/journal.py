"""What the fake engine received and answered, byte for byte. Written by server, read by tests.

In memory (the latest `limit` exchanges), at GET /sim/journal as JSON, and in a file of JSON lines if one is
named; bodies are base64 there, which msgspec turns back into bytes: `msgspec.json.decode(body, type=list[Exchange])`.
"""

from collections import deque
from pathlib import Path

import msgspec


class Exchange(msgspec.Struct):
    """One request with its answer; `response` grows while it streams, without chunked framing.

    `status` 0: no answer was begun. `limits`: headers of the answer that say what is left of a minute's limit. `ended`:
    answered, aborted (the caller left) or cut (a fault ended it).
    """

    number: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    request: bytes
    status: int = 0
    limits: dict[str, str] = {}
    response: bytes = b""
    ended: str = ""

    def header(self, name: str) -> str | None:
        """The first received header of that name, in whatever case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Journal:
    """The latest exchanges, oldest first. `limit` 0 keeps none, for benchmarks."""

    def __init__(self, limit: int = 20_000, file: Path | None = None) -> None:
        self.exchanges: deque[Exchange] = deque(maxlen=limit)
        self._file = file.open("ab", buffering=0) if file else None
        self.keeps = bool(limit or file)

    def begin(self, exchange: Exchange) -> None:
        """Notes a request that has arrived."""
        self.exchanges.append(exchange)

    def end(self, exchange: Exchange, how: str) -> None:
        """Notes how it ended; writes it to the file."""
        exchange.ended = how
        if self._file:
            self._file.write(msgspec.json.encode(exchange) + b"\n")

    def with_text(self, text: str) -> list[Exchange]:
        """Those whose request body contains `text`, which must need no JSON escapes."""
        needle = text.encode()
        return [one for one in self.exchanges if needle in one.request]

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()
