"""The texts of stopped requests, from which their next attempts go on. Kept by core.continuing; part of core.pool_state.

Where in `attempts` each stands is checkpointed with what is known of its request, and `attempts` isn't trimmed past it; its
bytes are in memory, so that going on waits for nothing. A new owner reads them again. Invariant: no more than MOST_BYTES of
them; a text for which there is no room isn't kept, and its request begins anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.contracts.values import Origin

MOST_BYTES = 64 * 1024 * 1024
"""Of 500 texts of the greatest size, thousands of the usual: as many as are stopped in a pool and wait."""


@dataclass(slots=True)
class _Text:
    at: Origin
    stored: bytes | None
    size: int


class KeptTexts:
    """By request: where its text stands, and its bytes; None: they must be read again."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._texts, self._size = most_bytes, dict[str, _Text](), 0

    def keep(self, request_id: str, at: Origin, size: int, stored: bytes | None) -> bool:
        """From now on it goes on from this. False: there is no room for it, and none is kept."""
        self.drop(request_id)
        if self._size + size > self._most:
            return False
        self._texts[request_id] = _Text(at, stored, size)
        self._size += size
        return True

    def came(self, request_id: str, stored: bytes) -> None:
        """Its bytes were read again."""
        self._texts[request_id].stored = stored

    def of(self, request_id: str) -> bytes | None:
        """Its bytes, as they are stored."""
        text = self._texts.get(request_id)
        return None if text is None else text.stored

    def drop(self, request_id: str) -> bool:
        """It doesn't go on from there any more; whether it would have."""
        text = self._texts.pop(request_id, None)
        self._size -= 0 if text is None else text.size
        return text is not None

    def missing(self) -> Mapping[str, Origin]:
        """Those whose bytes must be read again, and where they stand."""
        return {name: text.at for name, text in self._texts.items() if text.stored is None}

    def places(self) -> Iterable[Origin]:
        """Where all of them stand."""
        return (text.at for text in self._texts.values())

    def __len__(self) -> int:
        return len(self._texts)
