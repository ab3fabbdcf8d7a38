"""Does a server answer? Blocking probes with a deadline, for whoever starts one. Called by broker and served.

Plain sockets, no client library: only the bus speaks Kafka, and a probe must not need an event loop.
"""

import http.client
import socket
import struct
import time
from collections.abc import Callable
from datetime import timedelta

POLL_S = 0.05
ONE_TRY_S = 2.0
API_VERSIONS, CORRELATION = 18, 1789


def wait_until(condition: Callable[[], bool], within: timedelta) -> bool:
    """Whether `condition` came true within the time."""
    deadline = time.monotonic() + within.total_seconds()
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def kafka_answers(address: str) -> bool:
    """Whether the first of `host:port[,…]` answers Kafka's ApiVersions request."""
    host, _, port = address.split(",", maxsplit=1)[0].rpartition(":")
    client_id = b"headrace-probe"
    request = struct.pack(f">hhih{len(client_id)}s", API_VERSIONS, 0, CORRELATION, len(client_id), client_id)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ONE_TRY_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(8, socket.MSG_WAITALL)
    except (OSError, ValueError):
        return False
    return len(answer) == 8 and struct.unpack(">ii", answer)[1] == CORRELATION


def http_answers(port: int, path: str) -> bool:
    """Whether `GET path` on the loopback answers 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ONE_TRY_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
