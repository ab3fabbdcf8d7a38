"""What an answer costs the owner of a pool with long queues, and how soon it is there: status, why, quote.

    python -m tests.benchmarks.answers [QUEUED]

First the owner's core alone, with 1,000 and with QUEUED (100,000) requests by one tenant, a thousand, and one for each:
time of this thread's processor, and calls, which are the same on every machine. Then over HTTP: real broker (as
HEADRACE_BROKER says), the scheduler as a process, ingest here, QUEUED requests in the log; beside a route that asks
nobody, which tells how busy the machine is. Exit status 1 when an aim is missed.
"""

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Received
from headrace.contracts.control import Query
from headrace.contracts.explanations import Quote
from headrace.contracts.policy import hash_key
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin, Payload
from headrace.devkit.broker import choose_broker
from headrace.runtime.policy_file import load_policy
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.pick_next import order_of
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.state.tracked import Tracked
from tests.benchmarks.saying import say
from tests.benchmarks.takeover import POLICY, Bench
from tests.support.entry import count_of, parser_of
from tests.support.ingest import Replica, running
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import POOL, WALL

AIM_MS = 100.0
ASKED = 50
SMALL = 1_000
KEYED = POLICY + f'key_sha256 = ["{hash_key("key-a")}"]\n'
PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much waits."""

    tenants: int
    queued: int


def record_of(number: int, tenant: str) -> RequestRecord:
    """One request."""
    return RequestRecord(
        id=f"req_{number}", tenant=tenant, pool=POOL, tier="batch", partition=0, model="m", route="/v1/chat/completions",
        accepted_ms=WALL + number, payload=Payload(size=0), gateway=0, max_tokens=100, prompt_tokens=100,
    )  # fmt: skip


def owner_with(size: Size) -> PoolCore:
    """An owner whose only worker is full."""
    case = Case()
    case.owner.setting = replace(case.owner.setting, window=Window())
    case.run()
    case.report(limit=0)
    case.run(200)
    core = case.owner.core
    assert core is not None
    for number in range(size.queued):
        record = record_of(number, f"tenant-{number % size.tenants}")
        received = Received("requests", 0, number, WALL, b"", (), None)
        tracked = Tracked(
            record, Origin("requests", 0, number), received, (), order_of(record, number, timedelta(hours=1)),
            charge=300_000_000,
        )  # fmt: skip
        core.state.tracked[record.id] = tracked
        core.state.queue.put(tracked)
    return core


def questions(size: Size) -> dict[str, Query]:
    """All three of whoever came last."""
    last, tenant = f"req_{size.queued - 1}", f"tenant-{(size.queued - 1) % size.tenants}"
    quote = Quote(request=record_of(size.queued, tenant), tiers=("batch", "interactive"))
    return {
        "status": Query(id=last, nonce="n", gateway=0),
        "why": Query(id=last, nonce="n", gateway=0, why=True),
        "quote": Query(id="req_quoted", nonce="n", gateway=0, quote=quote),
    }


def times_ms(ask: Callable[[], None]) -> list[float]:
    """Of each of many, the garbage collector included."""
    found = []
    for _ in range(ASKED):
        began = time.thread_time_ns()
        ask()
        found.append((time.thread_time_ns() - began) / 1e6)
    return found


def calls(ask: Callable[[], None]) -> int:
    """How many functions of Python and C one answer calls."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return count


def judged(what: str, figures: Sequence[float], beside: str = "") -> bool:
    """Prints a line; whether the aim was missed, by the 99th of a hundred."""
    ordered = sorted(figures)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    missed = p99 > AIM_MS
    say(
        f"{'MISSED' if missed else 'held  '}  {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms (aim <= {AIM_MS:g}){beside}"
    )
    return missed


def alone(queued: int) -> bool:
    """The owner's core."""
    missed = False
    for size in (Size(1, SMALL), Size(1, queued), Size(1_000, queued), Size(queued, queued)):
        core = owner_with(size)
        gc.collect()
        gc.freeze()
        for name, query in questions(size).items():

            def ask(core: PoolCore = core, query: Query = query) -> None:
                core.state.out.sends.clear()
                core._control._answering.answer(query)

            what = f"{name}, {size.tenants:,} tenants, {size.queued:,} queued"
            missed |= judged(what, times_ms(ask), f", {calls(ask):,} calls")
    return missed


async def over_http(replica: Replica, path: str, body: object = None) -> tuple[float, dict[str, object]]:
    """Milliseconds, and the document."""
    headers, method = {"Authorization": "Bearer key-a"}, "GET" if body is None else "POST"
    began = time.monotonic()
    async with replica.session.request(method, path, json=body, headers=headers) as answer:
        document = await answer.json(content_type=None)
        if answer.status >= 300:
            return float("inf"), document
    return (time.monotonic() - began) * 1_000, document


async def ask_all(bootstrap: str, folder: Path, queued: int) -> bool:
    """Over HTTP, once the owner has read all that waits."""
    policy = load_policy(folder / "policy.toml")
    chat = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello"}]}
    bus, missed = KafkaBus(KafkaConnection(bootstrap)), False
    async with running(
        bus, folder, "takeover.", policy=policy, lost_final_poll=timedelta(hours=1)
    ) as replica:
        _, submitted = await over_http(replica, "/v1/requests", chat)
        path, began = f"/v1/requests/{submitted['id']}", time.monotonic()
        while (await over_http(replica, path))[1]["position"] is None:
            await asyncio.sleep(0.5)
            if time.monotonic() - began > PATIENCE:
                raise SystemExit("the owner hasn't read the queue")
        _, why = await over_http(replica, f"{path}/why")
        say(f"ahead of it: {why['ahead']}")
        routes = (
            ("models (asks nobody)", "/v1/models", None),
            ("status", path, None),
            ("why", f"{path}/why", None),
            ("quote", "/v1/quote", chat),
        )
        for name, at, body in routes:
            found = [(await over_http(replica, at, body))[0] for _ in range(4 * ASKED)]
            missed |= judged(f"{name} over HTTP, {queued:,} queued", found)
    return missed


def live(queued: int) -> bool:
    """Everything real."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(choose_broker())
        bench = Bench(broker.bootstrap, folder, KEYED)
        stack.callback(bench.close)
        bench.worker.limit = 0
        with bench.scheduler("one"):
            bench.work_until(lambda: bench.owners.open_by("one"))
            bench.fill(queued, ("a",))
            return asyncio.run(ask_all(broker.bootstrap, folder, queued))


def main(queued: int) -> int:
    """1 when an aim is missed."""
    return int(alone(queued) | live(queued))


if __name__ == "__main__":
    sys.exit(main(count_of(parser_of(__spec__, __doc__), "queued", 100_000, "requests that wait")))
