"""A pool in which few requests of a tenant stay whole in memory, and whose worker runs what a test lets it.

Used by tests of what is spilled, of operators' orders for many requests and of fairness keys.
"""

from dataclasses import replace
from typing import Any

from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import place
from tests.support.scheduler.reports import held_of

FEW = SpillBounds(records=4, size=1_000_000, reach=2, run=5, gap=1, under_way=100)


class Flood(Case):
    """Each tenant may have four requests in memory whole, unless `spill` says otherwise."""

    def __init__(self, spill: SpillBounds | None = FEW, limit: int = 0) -> None:
        super().__init__()
        self.owner.setting = replace(self.owner.setting, spill=spill, window=Window())
        self.limit, self.epoch, self.done = limit, 1, set[str]()
        self.run(200)

    def run(self, ms: int = 600) -> None:
        """Let time pass; the worker says what it holds, twice a second."""
        while ms > 0:
            held = [held_of(run) for run in self.commands(Run) if run.request.id not in self.done]
            self.report(limit=self.limit, epoch=self.epoch, held=tuple(held))
            super().run(min(ms, 500))
            ms -= 500

    def finish(self, run: Run) -> None:
        """The worker has done this."""
        self.done.add(run.request.id)
        self.answer(run, Verdict.DONE, status=Status.SUCCEEDED)

    @property
    def spilled(self) -> int:
        """How many are."""
        return len(self.core.state.spilled)

    def flood(self, count: int, **more: Any) -> list[RequestRecord]:
        """So many requests of tenant a, read."""
        found = [self.submit(b"body-%d" % self.count, **more) for _ in range(count)]
        self.run(200)
        return found

    def ended(self) -> dict[str, tuple[Status, FailureKind | None]]:
        """What became of those that have ended."""
        return {request_id: (status, kind) for request_id, status, kind in self.results()}

    def run_all(self) -> list[Run]:
        """Every request, one after the other on one slot; in the order of their runs."""
        runs: list[Run] = []
        self.limit = 1
        while (run := self.next_run(len(runs))) is not None:
            runs.append(run)
            self.finish(run)
        return runs

    def next_run(self, number: int) -> Run | None:
        """The run of this number, once its worker has it; None: nothing is left to run."""
        for _ in range(100):
            self.run(50)
            runs: list[Run] = self.commands(Run)
            if len(runs) > number:
                return runs[number]
            if not self.core.state.tracked:
                return None
        raise AssertionError("a request waits, and nothing runs")

    def values(self) -> list[bytes | None]:
        """The payloads that workers were sent."""
        log = self.world.logs[place(TopicKind.WORK, 0)]
        return [each.value for each in log if each.value]
