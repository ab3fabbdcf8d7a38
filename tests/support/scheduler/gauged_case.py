"""One owner, and a worker whose engine tells gauges. Used by tests of what the owner learns of them."""

from dataclasses import replace
from typing import Any

from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Gauges
from headrace.contracts.values import Failure, Times, Usage
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler import case as by_hand
from tests.support.scheduler.case import BOOT
from tests.support.scheduler.reports import held_of

CALM = {"waiting": 0, "running": 1}


class Case(by_hand.Case):
    """One owner; a worker that tells what it holds, and its engine's gauges."""

    def __init__(self, limit: int = 64, **gauges: int) -> None:
        super().__init__()
        self.tokens = 0
        self.limit, self.gauges, self.samples, self.boot, self.epoch = limit, gauges, 0, BOOT, 1
        self.over: set[AttemptId] = set()
        self.owner.setting = replace(self.owner.setting, window=Window())
        self.run()
        self.tell()
        self.run(100)

    @property
    def holds(self) -> list[Run]:
        """What the worker has in its hands."""
        mine = [run for run in self.commands(Run) if run.boot == self.boot]
        return [run for run in mine if run.attempt not in self.over]

    def tell(self, *, fresh: bool = True, **gauges: int) -> None:
        """A report; with a new sample, if it has gauges."""
        self.samples += fresh
        self.gauges |= gauges
        sample = Gauges(sample=self.samples, **self.gauges) if self.gauges else None
        held = tuple(held_of(run, tokens=self.tokens) for run in self.holds)
        before = None if self.boot == BOOT else BOOT
        self.report(
            self.limit, self.epoch, boot=self.boot, held=held, gauges=sample, instead_of=before
        )  # fmt: skip

    def end(self, count: int = 1, kind: FailureKind | None = None, took_ms: int = 1_000) -> None:
        """So many of what it holds end: well, or in this way."""
        for run in self.holds[:count]:
            self.over.add(run.attempt)
            wall_ms = self.world.now.wall_ms
            times = Times(started_ms=wall_ms - took_ms, first_token_ms=wall_ms - 900, finished_ms=wall_ms)
            more: dict[str, Any] = {"boot": self.boot, "worker": "w", "times": times}
            if kind is None:
                more |= {"status": Status.SUCCEEDED, "usage": Usage(prompt_tokens=1, completion_tokens=1)}
            else:
                more["failure"] = Failure(kind=kind)
            self.answer(run, Verdict.DONE if kind is None else Verdict.RETRY_AT, **more)

    def wants(self, count: int, **more: Any) -> None:
        """So many requests, and time for their release."""
        for _ in range(count):
            self.submit(**more)
        self.passes(1_500)

    def passes(self, ms: int) -> None:
        """Time passes, and the worker tells nothing new."""
        for _ in range(ms // 500):
            self.run(500)
            self.tell(fresh=False)

    @property
    def core(self) -> PoolCore:
        """The owner's."""
        assert self.owner.core is not None
        return self.owner.core

    @property
    def learned(self) -> int:
        """What the owner takes the backend to hold well."""
        return self.core.state.limits[self.boot].limit
