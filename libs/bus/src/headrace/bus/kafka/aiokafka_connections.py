"""Mends aiokafka's connections for uvloop, where a write to a connection that was just reset raises RuntimeError.

Called by async_clients for each client that starts. aiokafka expects OSError there: the other one ends its sender and its
fetcher for ever. Invariant: a write that can't be done closes its connection, and is told as a lost connection.
"""

from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

_Connection: Any = AIOKafkaConnection


class MendedConnection(_Connection):  # type: ignore[misc] # aiokafka has no types
    """One connection to a broker."""

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: ANN401 - as aiokafka has it
        """As aiokafka's. Raises KafkaConnectionError when the connection is gone, on any event loop."""
        try:
            return super().send(request, expect_response)
        except RuntimeError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(
                f"the connection to {self.host}:{self.port} is gone: {error}"
            ) from error


def mend_connections(inner: Any) -> None:  # noqa: ANN401
    """All later connections of this AIOKafkaClient."""
    get = inner._get_conn  # noqa: SLF001

    async def mended(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            connection = await get(*arguments, **named)
        except RuntimeError:  # reset while it was being made: as aiokafka does for any other failure
            inner.force_metadata_update()
            return None
        if connection is not None:
            connection.__class__ = MendedConnection
        return connection

    inner._get_conn = mended  # noqa: SLF001
