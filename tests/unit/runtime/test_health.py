import asyncio
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from headrace.contracts.mistakes import CannotRunError
from headrace.runtime.clock import ManualClock
from headrace.runtime.health import ComponentState, Health, HealthVerdict, Trouble, evaluate
from headrace.runtime.metrics import Metrics
from headrace.runtime.probes import answer, serving_probes, serving_probes_in_thread

SECOND = timedelta(seconds=1)


def test_a_loop_that_stopped_turning_is_neither_live_nor_ready() -> None:
    clock = ManualClock(boot_ms=0)
    state = ComponentState("loop", stalls_after=2 * SECOND, turned_ms=0)
    assert evaluate([state], clock.advance(2 * SECOND)) == HealthVerdict((), ())
    late = evaluate([state], clock.advance(SECOND))
    assert late.not_live == late.not_ready == (Trouble("loop", "its loop hasn't turned for 3.0 s"),)


def test_a_component_is_ready_when_it_says_so_until_the_service_drains() -> None:
    clock = ManualClock()
    health = Health(clock)
    kafka = health.component("kafka")
    loop = health.component("loop", stalls_after=SECOND, not_ready=None)
    assert health.verdict() == HealthVerdict((), (Trouble("kafka", "starting"),))
    kafka.ready()
    clock.advance(2 * SECOND)
    loop.turned()
    assert health.verdict() == HealthVerdict((), ())
    kafka.not_ready("the producer is being recreated")
    health.drain()
    assert [trouble.reason for trouble in health.verdict().not_ready] == [
        "the producer is being recreated",
        "draining",
    ]
    assert health.verdict().not_live == ()


def test_the_wall_clock_has_no_say_in_health() -> None:
    clock = ManualClock()
    health = Health(clock)
    health.component("loop", stalls_after=SECOND, not_ready=None)
    clock.jump_wall(timedelta(hours=5))
    assert health.verdict() == HealthVerdict((), ())


def test_probes_say_which_component_is_not_well_and_what_else_there_is() -> None:
    health = Health(ManualClock())
    health.component("kafka").not_ready("no broker answers")
    registry = CollectorRegistry()
    assert answer(health, registry, "/livez", "").status == 200
    ready = answer(health, registry, "/readyz", "")
    assert ready.status == 503
    assert msgspec.json.decode(ready.body) == {
        "status": "not ready",
        "components": [{"component": "kafka", "reason": "no broker answers"}],
    }
    assert answer(health, registry, "/", "").status == 404


async def fetched(port: int, path: str) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, response.content_type, await response.text()


async def check(port: int) -> None:
    assert await fetched(port, "/livez") == (200, "application/json", '{"status":"live","components":[]}')
    status, content_type, text = await fetched(port, "/metrics")
    assert (status, content_type) == (200, "text/plain")
    assert "headrace_build_info" in text
    assert (await fetched(port, "/nothing"))[0] == 404
    assert (await fetched(port, "/readyz?x=1"))[0] == 503


def unready() -> tuple[Health, Any]:
    health = Health(ManualClock())
    health.component("kafka")
    return health, Metrics("ingest").registry


async def test_probes_are_answered_on_an_event_loop() -> None:
    async with serving_probes(*unready(), "127.0.0.1", 0) as port:
        await check(port)
    with pytest.raises(aiohttp.ClientConnectorError):
        await fetched(port, "/livez")


def test_probes_are_answered_beside_a_plain_loop() -> None:
    with serving_probes_in_thread(*unready(), "127.0.0.1", 0) as port:
        asyncio.run(check(port))


async def test_a_port_that_is_taken_is_told_with_the_settings_that_choose_it() -> None:
    async with serving_probes(*unready(), "127.0.0.1", 0) as port:
        told = f"can't be served at 127.0.0.1:{port}: Address already in use; .* HEADRACE_HEALTH_PORT"
        with pytest.raises(CannotRunError, match=told):
            async with serving_probes(*unready(), "127.0.0.1", port):
                raise AssertionError("two serve one port")
        with (
            pytest.raises(CannotRunError, match=told),
            serving_probes_in_thread(*unready(), "127.0.0.1", port),
        ):
            raise AssertionError("two serve one port")
