import asyncio
import gc
import io
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
import structlog

from headrace.contracts.mistakes import CannotRunError
from headrace.runtime.clock import ManualClock
from headrace.runtime.health import Health
from headrace.runtime.heartbeat import Vitals
from headrace.runtime.logging import configure_logging
from headrace.runtime.loop_supervisor import run_loop
from headrace.runtime.metrics import LoopMetrics, Metrics
from headrace.runtime.supervisor import Service, run_async, serve_async

MOMENT = timedelta(milliseconds=20)


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    monkeypatch.setattr("headrace.runtime.logging._route_standard_library", lambda *_: None)
    configure_logging("test", stream=stream)
    yield stream
    structlog.reset_defaults()


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in log.getvalue().splitlines()]


async def obedient(stop: asyncio.Event) -> None:
    await stop.wait()


async def broken(stop: asyncio.Event) -> None:  # noqa: ARG001
    raise RuntimeError("broken pipe dream")


async def deaf(stop: asyncio.Event) -> None:  # noqa: ARG001
    await asyncio.Event().wait()


async def self_cancelling(stop: asyncio.Event) -> None:  # noqa: ARG001
    raise asyncio.CancelledError


async def impatient(stop: asyncio.Event) -> None:
    signal.raise_signal(signal.SIGTERM)
    await stop.wait()
    signal.raise_signal(signal.SIGINT)
    await asyncio.Event().wait()


async def test_services_drain_when_told_and_the_end_is_clean() -> None:
    stop = asyncio.Event()
    health = Health(ManualClock())
    asyncio.get_running_loop().call_soon(stop.set)
    vitals = Vitals(health, LoopMetrics(Metrics("a")))
    assert await serve_async([Service("a", obedient, vitals), Service("b", obedient)], stop) == 0
    assert [trouble.reason for trouble in health.verdict().not_ready] == ["draining"]


@pytest.mark.parametrize("wrong", [broken, self_cancelling])
async def test_a_crash_is_logged_once_and_stops_the_others(
    wrong: Callable[[asyncio.Event], Coroutine[Any, Any, None]], log: io.StringIO
) -> None:
    assert await serve_async([Service("good", obedient), Service("bad", wrong)], asyncio.Event()) == 1
    (line,) = lines(log)
    assert (line["event"], line["service"], line["level"]) == ("service crashed", "bad", "error")


async def unfit(_stop: asyncio.Event) -> None:
    raise CannotRunError("the topic work.main is missing: run `headrace topics apply`")


async def test_what_a_person_must_mend_is_told_as_a_sentence_without_a_traceback(log: io.StringIO) -> None:
    assert await serve_async([Service("unfit", unfit)], asyncio.Event()) == 1
    (line,) = lines(log)
    assert line["event"] == "service can't run"
    assert line["reason"] == "the topic work.main is missing: run `headrace topics apply`"
    assert "exception" not in line


async def test_a_drain_that_is_cut_short_leaves_asyncio_nothing_to_complain_of(log: io.StringIO) -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    stop = asyncio.Event()
    stop.set()
    assert await serve_async([Service("slow", deaf)], stop, grace=MOMENT) == 1
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
    assert lines(log)[-1]["event"] == "drain cut short"


async def test_a_drain_that_takes_longer_than_its_grace_is_cut_short(log: io.StringIO) -> None:
    stop = asyncio.Event()
    stop.set()
    assert await serve_async([Service("slow", deaf), Service("good", obedient)], stop, grace=MOMENT) == 1
    (line,) = lines(log)
    assert (line["event"], line["services"]) == ("drain cut short", ["slow"])


def test_a_second_signal_stops_at_once_and_handlers_are_put_back(log: io.StringIO) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert run_async([Service("busy", impatient)]) == 1
    assert signal.getsignal(signal.SIGTERM) == before
    assert [line["event"] for line in lines(log)] == ["stopping", "stopping at once", "drain cut short"]


class Loop:
    """A plain loop that notes what is asked of it; `turns` may raise signals or fail."""

    def __init__(self, clock: ManualClock, turns: list[Any], drains: int = 1) -> None:
        self.name = "loop"
        self.asked: list[str] = []
        self.turned = threading.Event()
        self._clock, self._turns, self._drains = clock, iter(turns), drains

    def start(self) -> None:
        self.asked.append("start")

    def turn(self) -> None:
        self.asked.append("turn")
        self.turned.set()
        self._clock.advance(timedelta(milliseconds=150))
        act = next(self._turns)
        if isinstance(act, BaseException):
            raise act
        if isinstance(act, signal.Signals):
            signal.raise_signal(act)

    def drain(self) -> bool:
        self.asked.append("drain")
        self._clock.advance(timedelta(seconds=1))
        self._drains -= 1
        return self._drains <= 0

    def stop(self) -> None:
        self.asked.append("stop")


def test_a_plain_loop_turns_then_drains_then_stops() -> None:
    clock = ManualClock()
    health, metrics = Health(clock), Metrics("scheduler")
    loop = Loop(clock, [None, signal.SIGTERM], drains=2)
    assert run_loop(loop, clock, Vitals(health, LoopMetrics(metrics))) == 0
    assert loop.asked == ["start", "turn", "turn", "drain", "drain", "stop"]
    assert health.verdict().not_live == ()
    clock.advance(timedelta(seconds=11))
    assert [trouble.component for trouble in health.verdict().not_live] == ["loop loop"]
    assert metrics.registry.get_sample_value("headrace_loop_turns_total", {"loop": "loop"}) == 4
    assert metrics.registry.get_sample_value(
        "headrace_event_loop_lag_seconds_sum", {"loop": "loop"}
    ) == pytest.approx(2 * 0.05 + 2 * 0.9)


def test_a_plain_loop_that_crashes_is_stopped_and_logged_once(log: io.StringIO) -> None:
    clock = ManualClock()
    loop = Loop(clock, [RuntimeError("no")])
    assert run_loop(loop, clock) == 1
    assert loop.asked == ["start", "turn", "stop"]
    assert [line["event"] for line in lines(log)] == ["service crashed"]


def test_a_plain_loop_tells_what_a_person_must_mend_as_a_sentence(log: io.StringIO) -> None:
    clock = ManualClock()
    assert run_loop(Loop(clock, [CannotRunError("mend me")]), clock) == 1
    assert [(line["event"], line["reason"]) for line in lines(log)] == [("service can't run", "mend me")]


def test_a_plain_loop_that_drains_too_long_is_cut_short_and_still_let_go(log: io.StringIO) -> None:
    clock = ManualClock()
    loop = Loop(clock, [signal.SIGTERM], drains=100)
    assert run_loop(loop, clock, grace=timedelta(seconds=3)) == 1
    assert loop.asked == ["start", "turn", "drain", "drain", "drain", "stop"]
    assert lines(log)[-1]["event"] == "drain cut short"


def test_a_second_signal_interrupts_a_plain_loop_in_the_middle_of_a_turn(log: io.StringIO) -> None:
    clock = ManualClock()
    before = signal.getsignal(signal.SIGTERM)

    class Wedged(Loop):
        def drain(self) -> bool:
            signal.raise_signal(signal.SIGTERM)
            return False

    loop = Wedged(clock, [signal.SIGINT])
    assert run_loop(loop, clock) == 1
    assert loop.asked == ["start", "turn"]
    assert lines(log)[-1]["event"] == "stopped at once"
    assert signal.getsignal(signal.SIGTERM) == before


ASYNC_PROCESS = """
import asyncio, sys
from headrace.runtime.supervisor import Service, run_async

async def run(stop: asyncio.Event) -> None:
    print("up", flush=True)
    await stop.wait()
    print("drained", flush=True)

sys.exit(run_async([Service("it", run)]))
"""

PLAIN_PROCESS = """
import sys, time
from headrace.runtime.clock import SystemClock
from headrace.runtime.loop_supervisor import run_loop

class It:
    name = "it"
    def start(self): print("up", flush=True)
    def turn(self): time.sleep(0.01)
    def drain(self): print("drained", flush=True); return True
    def stop(self): pass

sys.exit(run_loop(It(), SystemClock()))
"""


@pytest.mark.parametrize("program", [ASYNC_PROCESS, PLAIN_PROCESS], ids=["asyncio", "plain"])
def test_sigterm_drains_a_real_process_which_then_ends_with_0(program: str) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert "drained\n" in process.stdout.read()
        assert process.wait(10) == 0
