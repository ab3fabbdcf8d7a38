"""Small requests through headrace and straight to the same engine, in one run: throughput, CPU, added latency.

    make bench            or: python -m tests.benchmarks.small_requests [REQUESTS]

Prints a table for docs/performance.md. The engine is the fast fake one, so that what is seen is headrace's own cost; CPU is
user + system time of each process from /proc, the broker's shown apart.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.served import EngineProcess
from tests.support.callers import chat_body
from tests.support.entry import count_of, parser_of
from tests.support.stacks import FAKE, running

IN_FLIGHT, ALONE, WARM_UP = 128, 500, 500
PRODUCTION_JVM = ("-XX:+UseG1GC",)
BODY = chat_body("a small request", model="fake", max_tokens=4)


@dataclass(frozen=True)
class Target:
    """Where the same client sends the same body."""

    name: str
    url: str
    headers: dict[str, str]


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def cpu_of(pids: dict[str, int]) -> dict[str, float]:
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


async def one(session: aiohttp.ClientSession) -> float:
    """Seconds until the whole answer is there. Raises AssertionError for anything but a 200."""
    begun = time.perf_counter()
    async with session.post("/v1/chat/completions", json=BODY) as response:
        body = await response.read()
        assert response.status == 200, body
    return time.perf_counter() - begun


async def many(session: aiohttp.ClientSession, count: int, in_flight: int) -> list[float]:
    left = iter(range(count))

    async def lane() -> list[float]:
        return [await one(session) for _ in left]

    lanes = await asyncio.gather(*(lane() for _ in range(in_flight)))
    return [latency for some in lanes for latency in some]


async def with_session(target: Target, work: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(target.url, headers=target.headers, connector=connector) as session:
        return await work(session)


def percentiles(latencies: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    ranked = statistics.quantiles(latencies, n=100)
    return ranked[49] * 1000, ranked[98] * 1000


async def measure(target: Target, count: int, pids: dict[str, int]) -> list[str]:
    """The lines of one target: under load with CPU by process, then alone, when the broker's JVM is warm."""
    await with_session(target, lambda session: many(session, WARM_UP, IN_FLIGHT))
    before, begun = cpu_of(pids), time.perf_counter()
    await with_session(target, lambda session: many(session, count, IN_FLIGHT))
    took, after = time.perf_counter() - begun, cpu_of(pids)
    alone = await with_session(target, lambda session: many(session, ALONE, 1))
    p50, p99 = percentiles(alone)
    lines = [
        f"{target.name}: {count / took:.0f} requests/s at {IN_FLIGHT} in flight; alone p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    ]
    lines += [f"  {name}: {(after[name] - before[name]) / count * 1e6:.0f} us CPU a request" for name in pids]
    return lines


def pids_of(stack: Stack, engine: EngineProcess, broker: KafkaCluster) -> dict[str, int]:
    services = {name: service.pid for name, service in stack.services.items()}
    return {**services, "engine": engine.child.pid, "broker": broker.pid(1)}


def main(count: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster(jvm=PRODUCTION_JVM, heap="1g") as broker,
        EngineProcess("--journal-limit", "0") as engine,
        running(
            Path(folder), broker.bootstrap, "bench.", [Backend("main", engine.url, "vllm", 64)], FAKE
        ) as stack,
    ):
        pids = pids_of(stack, engine, broker)
        headrace = Target("headrace", stack.url, {"Authorization": f"Bearer {stack.keys['atlas']}"})
        straight = Target("the engine alone", engine.url, {})
        for target in (straight, headrace):
            for line in asyncio.run(
                measure(target, count, pids if target is headrace else {"engine": pids["engine"]})
            ):
                sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main(count_of(parser_of(__spec__, __doc__), "requests", 10_000, "in each of the two runs"))
