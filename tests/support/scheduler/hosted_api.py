"""A pool before a hosted API that says with each answer what is left, as its worker reads and reports it. Used by tests."""

from collections import deque
from math import ceil
from typing import Protocol

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Allowed
from headrace.inference_worker.decisions.what_is_left import what_is_left
from headrace.inference_worker.protocol.allowances import Allowances
from tests.support.scheduler.limited_backends import Pool


class Limit(Protocol):
    """How an API counts. Instants are ms."""

    refused: int

    def takes(self, now_ms: int) -> dict[str, str]:
        """One more request comes: what its answer's head says; counts it as refused where it is too many."""
        ...


class Window:
    """So many in each period, which begins and ends by the clock."""

    def __init__(self, most: int, period_ms: int, *, says_limit: bool = True) -> None:
        self.most, self.period_ms, self.says_limit = most, period_ms, says_limit
        self.refused, self._number, self._left = 0, -1, most

    def takes(self, now_ms: int) -> dict[str, str]:
        if now_ms // self.period_ms != self._number:
            self._number, self._left = now_ms // self.period_ms, self.most
        self.refused += not self._left
        self._left = max(0, self._left - 1)
        reset_ms = self.period_ms - now_ms % self.period_ms
        said = {
            "x-ratelimit-remaining-requests": str(self._left),
            "x-ratelimit-reset-requests": f"{reset_ms / 1000:.3f}s",
        }
        return said | ({"x-ratelimit-limit-requests": str(self.most)} if self.says_limit else {})


class Bucket:
    """So many a minute, which come back evenly, as OpenAI counts."""

    def __init__(self, most: int) -> None:
        self.most, self.refused = most, 0
        self._left, self._at_ms = float(most), 0

    def takes(self, now_ms: int) -> dict[str, str]:
        self._left = min(self.most, self._left + (now_ms - self._at_ms) * self.most / 60_000)
        self._at_ms = now_ms
        if self._left < 1:
            self.refused += 1
        else:
            self._left -= 1
        return {
            "x-ratelimit-limit-requests": str(self.most),
            "x-ratelimit-remaining-requests": str(int(self._left)),
            "x-ratelimit-reset-requests": f"{ceil((self.most - self._left) * 60_000 / self.most)}ms",
        }


class HostedPool(Pool):
    """One worker, `api`, that knows nothing of its backend's limits but what answers say."""

    def __init__(self, limit: Limit, slots: int = 4) -> None:
        self.counts_by, self.allowances = limit, Allowances()
        self._coming: deque[tuple[int, Run, dict[str, str]]] = deque()
        super().__init__({"api": None})
        self.limit, self.took_ms = slots, (100, 100)
        self.report()
        self.case.run(100)

    def allowed_of(self, name: str) -> Allowed | None:  # noqa: ARG002 - there is but one
        return self.allowances.told(self.case.world.now)

    def live(self, seconds: float) -> None:
        """In steps of 25 ms; it reports twice a second, and at once where little is left."""
        for number in range(round(seconds * 40)):
            self.case.run(25)
            self._take()
            if number % 20 == 0:
                self.report()

    def _take(self) -> None:
        commands, now_ms = self.case.commands(Run), self.case.world.now_ms
        for run in commands[self._read :]:
            self.started["api"].append(now_ms)
            self.held["api"][run.request.id] = run, now_ms
            self.allowances.begins(run)
            self._coming.append((now_ms + self.took_ms[0], run, self.counts_by.takes(now_ms)))
        self._read = len(commands)
        while self._coming and self._coming[0][0] <= now_ms:
            self._answer(*self._coming.popleft()[1:])

    def _answer(self, run: Run, headers: dict[str, str]) -> None:
        now = self.case.world.now
        allowed = what_is_left(headers, now)
        if allowed is not None and self.allowances.heard(run.attempt, allowed, self.limit, now):
            self.report()
        self.allowances.ended(run.attempt)
        del self.held["api"][run.request.id]
        self.case.answer(
            run, Verdict.DONE, status=Status.SUCCEEDED, usage=self.usage, worker="api", boot=self.boots["api"]
        )
