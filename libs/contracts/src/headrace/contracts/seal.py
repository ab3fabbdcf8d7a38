"""The port through which payloads are sealed before Kafka and opened where their owner's work or read needs them.

Implemented by `Unsealed` until a keyed adapter exists; called by ingest, workers and result-delivery. Invariant: a record's
header says `encoding`, so a sealed and an unsealed record may stand side by side in one log.
"""

from enum import StrEnum
from typing import Protocol


class Encoding(StrEnum):
    """How a record's value is encoded. The value is always raw bytes, never base64."""

    NONE = "none"
    SEALED = "sealed"


class CannotOpenError(Exception):
    """The payload is sealed and there is no key for it here."""


class Seal(Protocol):
    """Seals and opens payloads of one tenant's request."""

    def seal(self, plain: bytes, *, tenant: str, request_id: str) -> tuple[Encoding, bytes]:
        """The encoding and the bytes to store."""
        ...

    def open(self, stored: bytes, encoding: Encoding, *, tenant: str, request_id: str) -> bytes:
        """The plain bytes. Raises CannotOpenError."""
        ...


class Unsealed:
    """The null adapter: bytes in, the same bytes out."""

    def seal(self, plain: bytes, *, tenant: str, request_id: str) -> tuple[Encoding, bytes]:  # noqa: ARG002
        """The bytes as they are."""
        return Encoding.NONE, plain

    def open(self, stored: bytes, encoding: Encoding, *, tenant: str, request_id: str) -> bytes:  # noqa: ARG002
        """The bytes as they are. Raises CannotOpenError for a sealed payload."""
        if encoding is not Encoding.NONE:
            raise CannotOpenError(f"the payload of {request_id} is {encoding} and no key is configured")
        return stored
