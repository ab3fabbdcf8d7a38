"""A connection to the API sends what it has at once, also in asyncio's own loop, which leaves that to the socket."""

import socket

from headrace.ingest.http_server import listen_on


def test_accepted_connections_wait_for_nobodys_acknowledgement() -> None:
    with listen_on("127.0.0.1", 0) as listening:
        listening.setblocking(True)
        listening.listen()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
