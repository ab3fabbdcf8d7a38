"""Cuts connections on the loopback: a TCP proxy whose doors can be made silent, or slammed. Called by the drill.

Each door listens on a port of its own and forwards to one upstream. Silent, it holds all bytes and opens nothing upstream,
as a network that swallows packets does; healed, what it held arrives. Slammed, it resets what is open and refuses the rest.
Invariant: bytes that pass keep their order and are never dropped from within a connection.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import Any, Self, TypeVar

from headrace.devkit.ports import LOOPBACK, free_port

T = TypeVar("T")
CHUNK = 65_536
PATIENCE_S = 120


class Cut(StrEnum):
    """How a door is shut."""

    SILENT = "silent"
    SLAMMED = "slammed"


class Door:
    """One listening port and its upstream."""

    def __init__(self, port: int, upstream: int) -> None:
        self.port, self._upstream = port, upstream
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._closed = False
        self._passing: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        """Take connections."""
        self._open.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, LOOPBACK, self.port)

    async def shut(self, how: Cut) -> None:
        """Pass nothing from now on."""
        if how is Cut.SILENT:
            self._open.clear()
            return
        if self._server is not None:
            server, self._server = self._server, None
            loop = asyncio.get_running_loop()
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
            # asyncio leaves open for ever what it accepted just before its server closes: let that begin first.
            await asyncio.sleep(0)
            server.close()
        for writer in list(self._writers):
            _reset(writer)

    async def close(self) -> None:
        """End all of it."""
        self._closed = True
        await self.shut(Cut.SLAMMED)
        self._open.set()  # whoever waits at a silent door sees that it is too late
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._writers.add(writer)
        try:
            await self._join(reader, writer)
        finally:
            _reset(writer)
            self._writers.discard(writer)
            self._passing.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connects one connection with the upstream, until both directions have ended."""
        await self._open.wait()
        if self._closed:
            return
        try:
            back, there = await asyncio.open_connection(LOOPBACK, self._upstream)
        except OSError:
            return
        self._writers.add(there)
        try:
            await asyncio.gather(self._pass(reader, there), self._pass(back, writer))
        finally:
            _reset(there)
            self._writers.discard(there)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction, until its end; then the other side is closed as well."""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection by a reset: an end in good order would tell the other side too much."""
    with suppress(OSError):  # closed already
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
    writer.transport.abort()


async def _all_over() -> None:
    """Waits until nothing else is under way in this loop."""
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    await asyncio.sleep(0)  # an aborted transport closes its socket one round later


class FaultProxy:
    """All doors, in a thread of their own. A context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._doors: dict[int, Door] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for door in self._doors.values():
            self._do(door.close())
        self._do(_all_over())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def door(self, upstream: int, port: int | None = None) -> int:
        """Opens a door to an upstream port, which may not listen yet; its own port."""
        door = Door(port or free_port(), upstream)
        self._doors[door.port] = door
        self._do(door.listen())
        return door.port

    def cut(self, ports: Iterable[int], how: Cut) -> None:
        """Shuts these doors."""
        for port in ports:
            self._do(self._doors[port].shut(how))

    def heal(self, ports: Iterable[int]) -> None:
        """Opens these doors again."""
        for port in ports:
            self._do(self._doors[port].listen())

    def _do(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(PATIENCE_S)
