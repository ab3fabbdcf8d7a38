"""The demo from preflight to the last answer. Called by `headrace demo`; tells an Audience, and draws nothing itself.

Invariant: whatever happens, everything it started is stopped in order before it returns.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import aiohttp

from headrace.cli.demo.board import Board, Row
from headrace.cli.demo.callers import Callers, Unanswered
from headrace.cli.demo.prompts import MODEL, POOL, WEIGHTS, asks
from headrace.cli.demo.score import first_answer_ms
from headrace.cli.stack.plan import Backend, policy_for
from headrace.cli.stack.processes import Stack
from headrace.cli.trouble import Trouble
from headrace.cli.until_stopped import Stopped
from headrace.devkit.broker import choose_broker
from headrace.devkit.model import ModelServer
from headrace.devkit.preflight import Finding, preflight
from headrace.runtime.clock import Clock

FRAME_S = 0.15
QUEUE_TIMEOUT = "5m"
GRACE = timedelta(seconds=3)
"""How long a service may take to drain: who ends the demo half-way wants no answers any more."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What someone needs who wants to ask something too. `took` is from the demo's start until all answered /readyz."""

    url: str
    key: str
    took: timedelta


@dataclass(frozen=True, slots=True)
class Ended:
    """What the demo came to. `good`: every prompt ended succeeded, once, and headrace says so itself."""

    good: bool
    problems: tuple[str, ...]
    first_answer: timedelta | None
    """From the demo's start."""


class Audience(Protocol):
    """Who watches: a screen for people, or lines for programs."""

    def preflight(self, findings: list[Finding]) -> None:
        """What this machine has and lacks."""
        ...

    def downloading(self, file_name: str, done: int, total: int) -> None:
        """Bytes of all that is missing."""
        ...

    def starting(self, what: str) -> None:
        """The next thing is being started."""
        ...

    def ready(self, ready: Ready) -> None:
        """Everything is up."""
        ...

    def happened(self, kind: str, row: Row) -> None:
        """A prompt was accepted, answered, or failed."""
        ...

    def frame(self, board: Board, now_ms: int) -> None:
        """A moment for drawing."""
        ...

    def summary(self, board: Board, ready: Ready, ended: Ended) -> None:
        """The end of the prompts."""
        ...

    def stopping(self) -> None:
        """It was told to stop while everything stayed up."""
        ...


def play(audience: Audience, folder: Path, clock: Clock, stopped: Stopped, *, stay: bool) -> Ended:
    """Runs the demo in `folder`; `stay`: keeps everything up until a signal. Raises Trouble and what a start raises."""
    begun_ms = clock.now().boot_ms

    def now_ms() -> int:
        return clock.now().boot_ms - begun_ms

    findings = preflight()
    audience.preflight(findings)
    if lacking := [finding for finding in findings if not finding.ok]:
        raise Trouble("; ".join(f"{one.name}: {one.detail}. {one.remedy}" for one in lacking))
    with ExitStack() as undo:
        stack = _start(audience, folder, undo)
        undo.callback(stopped.calm)
        ready = Ready(stack.url, stack.keys[next(iter(WEIGHTS))], timedelta(milliseconds=now_ms()))
        audience.ready(ready)
        board = Board(WEIGHTS)
        board.plan(asks())
        problems = asyncio.run(_ask_all(audience, board, stack, now_ms))
        ended = _ended(board, problems)
        audience.summary(board, ready, ended)
        stopped.calm()
        if stay:
            stopped.wait()
            audience.stopping()
    return ended


def _start(audience: Audience, folder: Path, undo: ExitStack) -> Stack:
    """Model and broker come up side by side, then the services."""
    audience.starting("the model")
    model = ModelServer(log_path=folder / "model.log")
    undo.callback(model.stop)
    model.launch()
    audience.starting("the broker")
    broker = undo.enter_context(choose_broker(progress=audience.downloading))
    model.await_ready()
    policy = policy_for(WEIGHTS, {POOL: {MODEL: MODEL}}, queue_timeout=QUEUE_TIMEOUT)
    backends = [Backend(POOL, model.url, "llama.cpp", model.slots)]
    stack = Stack(
        folder=folder,
        policy=policy,
        backends=backends,
        bootstrap=broker.bootstrap,
        grace=GRACE,
        prefix=f"headrace-demo-{secrets.token_hex(3)}.",
        awaiting=audience.starting,
    )
    audience.starting("the services")
    return undo.enter_context(stack)


async def _ask_all(audience: Audience, board: Board, stack: Stack, now_ms: Callable[[], int]) -> list[str]:
    """Sends every prompt at once; what headrace says afterwards of those that were answered, where it isn't well."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        callers = Callers(session, stack.url, stack.keys, board, now_ms=now_ms, happened=audience.happened)
        drawing = asyncio.create_task(_draw(audience, board, now_ms))
        try:
            async with asyncio.TaskGroup() as group:
                for row in board.rows.values():
                    group.create_task(callers.ask(row.ask))
        finally:
            drawing.cancel()
        audience.frame(board, now_ms())
        return [problem for row in board.rows.values() if (problem := await _checked(callers, board, row))]


async def _draw(audience: Audience, board: Board, now_ms: Callable[[], int]) -> None:
    while True:
        audience.frame(board, now_ms())
        await asyncio.sleep(FRAME_S)


async def _checked(callers: Callers, board: Board, row: Row) -> str:
    """What is wrong with a prompt at the end, in a sentence; empty when nothing is."""
    if row.problem:
        return f"prompt {row.ask.number} of {row.ask.tenant}: {row.problem}"
    try:
        standing = await callers.standing(row)
    except (Unanswered, aiohttp.ClientError) as error:
        return f"prompt {row.ask.number} of {row.ask.tenant} can't be looked up: {error}"
    board.recorded(
        row.ask.number,
        started_ms=standing.started_ms,
        queued_ms=standing.queued_ms,
        first_token_ms=standing.first_token_ms,
    )
    if standing.status == "succeeded":
        return ""
    return f"prompt {row.ask.number} of {row.ask.tenant} was answered but stands as {standing.status}"


def _ended(board: Board, problems: list[str]) -> Ended:
    if not problems and not board.every_one_once:
        problems = ["an answer came twice, or two prompts had one id"]
    first = first_answer_ms(board)
    return Ended(not problems, tuple(problems), None if first is None else timedelta(milliseconds=first))
