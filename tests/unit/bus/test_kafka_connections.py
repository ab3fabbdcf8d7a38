"""A write that uvloop refuses, since the connection was just reset, is a lost connection and nothing worse."""

from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest

from headrace.bus.kafka.aiokafka_connections import MendedConnection, mend_connections


class ClosedWriter:
    def write(self, _: bytes) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    def close(self) -> None:
        pass


def new_connection() -> Any:
    untyped: Any = AIOKafkaConnection
    return untyped("127.0.0.1", 1)


class Inner:
    """As much of an AIOKafkaClient as gives connections."""

    def __init__(self, connection: AIOKafkaConnection | None, error: Exception | None = None) -> None:
        self._connection, self._error, self.updates = connection, error, 0

    async def _get_conn(self, node_id: int, *, group: int = 0) -> AIOKafkaConnection | None:
        assert (node_id, group) == (1, 2)
        if self._error is not None:
            raise self._error
        return self._connection

    def force_metadata_update(self) -> None:
        self.updates += 1


async def test_a_write_to_a_closed_transport_closes_the_connection_and_is_told_as_such() -> None:
    connection = new_connection()
    inner = Inner(connection)
    mend_connections(inner)
    got: Any = await inner._get_conn(1, group=2)
    assert got is connection
    assert type(got) is MendedConnection
    closed: list[object] = []
    connection._writer, connection._reader = ClosedWriter(), object()
    connection.close = lambda **named: closed.append(named)
    with pytest.raises(KafkaConnectionError, match="the handler is closed"):
        connection.send(ApiVersionRequest())
    assert len(closed) == 1
    connection._writer = connection._reader = None


async def test_no_connection_stays_none() -> None:
    inner = Inner(None)
    mend_connections(inner)
    assert await inner._get_conn(1, group=2) is None


async def test_a_connection_that_is_reset_while_it_is_made_is_none() -> None:
    inner = Inner(None, RuntimeError("the handler is closed"))
    mend_connections(inner)
    assert await inner._get_conn(1, group=2) is None
    assert inner.updates == 1
