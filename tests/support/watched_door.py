"""A TCP door before an engine that sees which prompts go through. Called by tests/e2e/test_killer_prompt.py.

Invariant: bytes pass unchanged; a prompt is counted when its number is read, so also one that kills whoever runs it.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from headrace.devkit.ports import LOOPBACK, free_port

NUMBER = re.compile(rb"prompt number (\d+)\.")
_TAIL = 64


class WatchedDoor:
    """Listens on `port` in a thread of its own and forwards to `upstream`. `saw` is told of each number, in that thread."""

    def __init__(self, upstream: int, saw: Callable[[int], None]) -> None:
        self.port, self._upstream, self._saw = free_port(), upstream, saw
        self.seen: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="watched-door", daemon=True)
        self._listening, self._passing = threading.Event(), set[asyncio.Task[None]]()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._accepted, LOOPBACK, self.port)
        )
        self._listening.set()
        self._loop.run_forever()

    async def _close(self) -> None:
        self._server.close()
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        with suppress(OSError):
            there, to_there = await asyncio.open_connection(LOOPBACK, self._upstream)
            await asyncio.gather(
                self._pass(reader, to_there, watched=True), self._pass(there, writer, watched=False)
            )
        writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watched: bool
    ) -> None:
        kept = b""
        with suppress(OSError):
            while chunk := await reader.read(65_536):
                if watched:
                    kept = self._look(kept + chunk)
                writer.write(chunk)
                await writer.drain()
        writer.close()

    def _look(self, text: bytes) -> bytes:
        """Count what is there; the end that may be the beginning of more."""
        end = 0
        for found in NUMBER.finditer(text):
            end = found.end()
            self.seen[int(found[1])] += 1
            self._saw(int(found[1]))
        return text[max(end, len(text) - _TAIL) :]
