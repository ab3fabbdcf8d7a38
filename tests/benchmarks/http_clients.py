"""aiohttp against httpx2 as the worker would use them: plain calls to the fast fake engine, alternating, CPU and time.

    python -m tests.benchmarks.http_clients

Evidence for docs/decisions/0004-one-http-client.md.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp
import httpx2

from headrace.devkit.served import EngineProcess
from tests.support.callers import chat_body
from tests.support.entry import parser_of

CALLS, IN_FLIGHT, ROUNDS = 2_000, 16, 4
BODY = chat_body("a small request", model="fake", max_tokens=4)


async def lanes(call: Callable[[], Awaitable[bytes]]) -> tuple[float, float]:
    """Microseconds of CPU of this process, and of time, for each call."""
    left = iter(range(CALLS))

    async def lane() -> None:
        for _ in left:
            await call()

    cpu, begun = time.process_time(), time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))
    return (time.process_time() - cpu) / CALLS * 1e6, (time.perf_counter() - begun) / CALLS * 1e6


async def by_aiohttp(url: str) -> tuple[float, float]:
    async with aiohttp.ClientSession(url) as session:

        async def call() -> bytes:
            async with session.post("/v1/chat/completions", json=BODY) as response:
                return await response.read()

        return await lanes(call)


async def by_httpx2(url: str) -> tuple[float, float]:
    async with httpx2.AsyncClient(base_url=url) as client:

        async def call() -> bytes:
            return (await client.post("/v1/chat/completions", json=BODY)).content

        return await lanes(call)


def main() -> None:
    with EngineProcess("--journal-limit", "0") as engine:
        for number in range(ROUNDS):
            for client in (by_aiohttp, by_httpx2):
                cpu, took = asyncio.run(client(engine.url))
                sys.stdout.write(
                    f"round {number}: {client.__name__}: {cpu:.0f} us CPU, {took:.0f} us a call\n"
                )


if __name__ == "__main__":
    parser_of(__spec__, __doc__).parse_args()
    main()
