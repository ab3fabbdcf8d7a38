"""The fault proxy passes bytes, swallows them while it is silent, and resets and refuses while it is slammed."""

import gc
import socket
import warnings
from collections.abc import Iterator

import pytest

from headrace.devkit.ports import LOOPBACK
from tests.support.eventually import eventually
from tests.support.fault_proxy import Cut, FaultProxy

SHORT_S, LONG_S = 0.2, 10.0
ROUNDS, CALLERS = 30, 20


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(LONG_S)
        yield server


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture
def port(proxy: FaultProxy, upstream: socket.socket) -> int:
    return proxy.door(upstream.getsockname()[1])


def connected(port: int, upstream: socket.socket) -> tuple[socket.socket, socket.socket]:
    here = socket.create_connection((LOOPBACK, port), timeout=LONG_S)
    there, _ = upstream.accept()
    there.settimeout(LONG_S)
    return here, there


def refused(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(LONG_S)
        return probe.connect_ex((LOOPBACK, port)) != 0


def test_an_open_door_passes_bytes_both_ways_and_the_end(port: int, upstream: socket.socket) -> None:
    here, there = connected(port, upstream)
    with here, there:
        here.sendall(b"ask")
        assert there.recv(10) == b"ask"
        there.sendall(b"answer")
        assert here.recv(10) == b"answer"
        there.close()
        assert here.recv(10) == b""


def test_a_silent_door_holds_the_bytes_until_it_is_healed(
    proxy: FaultProxy, port: int, upstream: socket.socket
) -> None:
    here, there = connected(port, upstream)
    with here, there:
        proxy.cut([port], Cut.SILENT)
        here.sendall(b"late")
        there.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            there.recv(10)
        with socket.create_connection((LOOPBACK, port), timeout=LONG_S):
            upstream.settimeout(SHORT_S)
            with pytest.raises(TimeoutError):
                upstream.accept()
        proxy.heal([port])
        there.settimeout(LONG_S)
        assert there.recv(10) == b"late"


def test_a_slammed_door_resets_and_refuses_until_it_is_healed(
    proxy: FaultProxy, port: int, upstream: socket.socket
) -> None:
    here, there = connected(port, upstream)
    with here, there:
        proxy.cut([port], Cut.SLAMMED)
        with pytest.raises(ConnectionResetError):
            here.recv(10)
        eventually(lambda: refused(port), "the door refuses")
    proxy.heal([port])
    here, there = connected(port, upstream)
    with here, there:
        here.sendall(b"again")
        assert there.recv(10) == b"again"


def test_an_upstream_that_does_not_listen_is_a_reset(proxy: FaultProxy, upstream: socket.socket) -> None:
    nobody = upstream.getsockname()[1]
    port = proxy.door(nobody)
    upstream.close()
    with (
        pytest.raises(ConnectionResetError),
        socket.create_connection((LOOPBACK, port), timeout=LONG_S) as here,
    ):
        here.recv(10)


def test_a_proxy_that_stops_while_callers_connect_leaves_nothing_open(upstream: socket.socket) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(ROUNDS):
            with FaultProxy() as proxy:
                port = proxy.door(upstream.getsockname()[1])
                callers = [socket.create_connection((LOOPBACK, port), timeout=LONG_S) for _ in range(CALLERS)]
            for caller in callers:
                caller.close()
            gc.collect()
