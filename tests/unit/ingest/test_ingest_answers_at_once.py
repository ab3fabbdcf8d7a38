"""The API's socket: a connection sends what it has at once, also in asyncio's own loop; a port that is taken is told."""

import socket

import pytest

from headrace.contracts.mistakes import CannotRunError
from headrace.ingest.http_server import listen_on


def test_accepted_connections_wait_for_nobodys_acknowledgement() -> None:
    with listen_on("127.0.0.1", 0) as listening:
        listening.setblocking(True)
        listening.listen()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_port_that_is_taken_is_told_with_the_settings_that_choose_it() -> None:
    with listen_on("127.0.0.1", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(
            CannotRunError, match=f"at 127.0.0.1:{port}: Address already in use; .* HEADRACE_INGEST_PORT"
        ):
            listen_on("127.0.0.1", port)
