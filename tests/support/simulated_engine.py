"""An engine in virtual time, and whoever keeps it busy: for tests of how much a backend may hold.

The engine is devkit's own step loop (continuous batching, prefill budget, KV blocks, preemption). `Busy` plays the worker and
the owner around it: reports each half second, gauges that trail, commands and outcomes that take their time. Deterministic.
"""

import random
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Values
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple, Protocol

from msgspec import structs

from headrace.contracts.reports import Gauges
from headrace.devkit.engine import Profile, Sequence, Stepper
from headrace.devkit.engine.profiles import BLOCK
from headrace.scheduler.decisions.how_many_tokens_fit import Load, left_of
from headrace.scheduler.state.backend_limits import BackendLimits
from tests.support.engine_load import Kind, Span

WIRE_MS = 20
REPORT_MS, SAMPLE_MS = 500, 1_000
LATE_MS = 600


@dataclass(slots=True)
class Held:
    """One attempt as the owner sees it. `tokens` as of the last report."""

    prompt: int
    mean: int
    most: int
    sent_ms: int
    sequence: Sequence
    freed_ms: int | None = None
    tokens: int = 0
    begun_ms: int = 0

    def load(self) -> Load:
        return Load(self.prompt + self.tokens, left_of(self.tokens, self.mean, self.most, None))


class Holder(Protocol):
    """How much may be held."""

    def may_take(self, busy: "Busy", load: Load) -> bool: ...

    def reported(self, busy: "Busy", gauges: Gauges | None) -> None: ...


class Fixed:
    """A limit that never moves, for comparison."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def may_take(self, busy: "Busy", load: Load) -> bool:  # noqa: ARG002
        return len(busy.held) < self.limit

    def reported(self, busy: "Busy", gauges: Gauges | None) -> None:
        pass


class Looked(NamedTuple):
    """What came of one look at the engine. `limit`: with those that are sent `ahead`."""

    at_ms: int
    limit: int
    ahead: int
    theta: int
    kv_tokens: int | None


class Learning:
    """The product's own, as core.holding does it. `ceiling`: what the operator allows."""

    def __init__(self, ceiling: int = 1_000) -> None:
        self.ceiling = ceiling
        self.limits = BackendLimits.of(ceiling, gauged=False)
        self.trace: list[Looked] = []

    def may_take(self, busy: "Busy", load: Load) -> bool:
        """As core.releasing asks."""
        limits = self.limits
        return len(busy.held) < min(self.ceiling, limits.limit) and limits.may_take(load)

    def reported(self, busy: "Busy", gauges: Gauges | None) -> None:
        """As Holding.reported."""
        limits, now_ms = self.limits, busy.now_ms
        limits.heard(gauges, now_ms)
        for number, held in busy.held.items():
            limits.loads.put(str(number), held.load())
        limits.look(
            ceiling=self.ceiling, in_flight=len(busy.held),
            own_waiting=sum(self._is_late(held, now_ms) for held in busy.held.values()),
            peak=0 if limits.kv_tokens is None else limits.loads.peak,
            held_tokens=sum(each.load().so_far for each in busy.held.values() if each.tokens),
            boot_ms=now_ms,
        )  # fmt: skip
        limit = min(self.ceiling, limits.limit)
        self.trace.append(Looked(now_ms, limit, limits.ahead, limits.theta.percent, limits.kv_tokens))

    def _is_late(self, held: Held, now_ms: int) -> bool:
        latencies, waits_ms = self.limits.latencies, now_ms - held.sent_ms
        return not held.tokens and latencies.is_late(held.prompt, waits_ms - LATE_MS, now_ms)


class Busy:
    """An engine that always has work (`backlog`), or `rate` requests a second; run in stretches, each a Span.

    `lag_ms`: how far its gauges trail; `gauges` False: it has none. `wire_ms`: of a command, and of an outcome.
    """

    def __init__(
        self, profile: Profile, kinds: Values[Kind], holder: Holder, *, lag_ms: int = 0, seed: int = 0,
        rate: float | None = None, gauges: bool = True, streamed: bool = True, wire_ms: int = WIRE_MS,
    ) -> None:  # fmt: skip
        self.stepper = Stepper(profile)
        self.kinds, self.holder, self.lag_ms, self.rate = kinds, holder, lag_ms, rate
        self.has_gauges, self.streamed, self.wire_ms = gauges, streamed, wire_ms
        self.rng = random.Random(seed)  # noqa: S311
        self.typical = [self._typical(kind) for kind in kinds]
        self.held: dict[int, Held] = {}
        self.now_us = 0
        self._ids, self._number = count(), count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._past: deque[tuple[int, Gauges]] = deque()
        self._sample = self._reports = self._sampled_ms = 0
        self._shown: Gauges | None = None
        self._next: tuple[int, int, int] | None = None
        self._queued = 0
        self.span = Span()
        self._later(0, self._report)
        if rate is not None:
            self._later(0, self._arrive)

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def change(self, **limits: int) -> None:
        """The engine has other limits from now on: max_num_seqs, kv_blocks."""
        self.stepper.profile = replace(self.stepper.profile, **limits)  # type: ignore[arg-type]
        self.stepper.pool.total = self.stepper.profile.kv_blocks

    def run(self, seconds: float) -> Span:
        """So much longer; what was seen."""
        self.span, end = Span(), self.now_us + round(seconds * 1e6)
        before = self.stepper.preemptions
        while self.now_us < end:
            self._due()
            step = self.stepper.step(self.now_us)
            took = step.took_us if step.tokens else self._events[0][0] - self.now_us
            self.now_us += took
            span, stepper = self.span, self.stepper
            span.us += took
            span.tokens += len(step.emitted)
            span.queue.append((stepper.waiting, took))
            span.running.append((stepper.running, took))
            span.held.append((len(self.held), took))
            for sequence in step.emitted:
                if sequence.generated == 1:
                    sequence.first_us = self.now_us
            for sequence in step.finished:
                span.finished += 1
                self._later(self.wire_ms, self._outcome(sequence, self.now_ms))
        self.span.preemptions = self.stepper.preemptions - before
        return self.span

    def _typical(self, kind: Kind) -> tuple[int, int]:
        rng = random.Random(0)  # noqa: S311
        lengths = sorted(kind.draw(rng)[1] for _ in range(1_000))
        return sum(lengths) // len(lengths), lengths[900]

    def _later(self, ms: int, act: Callable[[], None]) -> None:
        heappush(self._events, (self.now_us + ms * 1000, next(self._number), act))

    def _due(self) -> None:
        while self._events[0][0] <= self.now_us:
            heappop(self._events)[2]()

    def _arrive(self) -> None:
        assert self.rate is not None
        self._queued += 1
        self._release()
        self._later(max(1, round(1000 * self.rng.expovariate(self.rate))), self._arrive)

    def _release(self) -> None:
        while self.rate is None or self._queued:
            if self._next is None:
                which = self.rng.choices(range(len(self.kinds)), [kind.share for kind in self.kinds])[0]
                self._next = (which, *self.kinds[which].draw(self.rng))
            which, prompt, answer = self._next
            mean, most = self.typical[which]
            if not self.holder.may_take(self, Load(prompt, left_of(0, mean, most, None))):
                return
            self._next, self._queued = None, self._queued - 1
            self._send(prompt, answer, mean, most)

    def _send(self, prompt: int, answer: int, mean: int, most: int) -> None:
        sequence = Sequence(prompt, answer, owner=next(self._ids))
        held = Held(prompt, mean, most, self.now_ms, sequence)
        if isinstance(self.holder, Learning):
            limits = self.holder.limits
            held.freed_ms = limits.holds(len(self.held) + 1)
            limits.loads.put(str(sequence.owner), held.load())
        self.held[sequence.owner] = held

        def arrive() -> None:
            held.begun_ms = self.now_ms
            self.stepper.add(sequence, self.now_us)

        self._later(self.wire_ms, arrive)

    def _outcome(self, sequence: Sequence, finished_ms: int) -> Callable[[], None]:
        def read() -> None:
            held = self.held.pop(sequence.owner)
            if isinstance(self.holder, Learning):
                limits, now_ms = self.holder.limits, self.now_ms
                limits.loads.drop(str(sequence.owner))
                first_ms = sequence.first_us // 1000 - held.begun_ms if self.streamed else None
                limits.latencies.took(
                    whole_ms=finished_ms - held.begun_ms, first_ms=first_ms, prompt_tokens=held.prompt,
                    answer_tokens=sequence.generated, boot_ms=now_ms,
                )  # fmt: skip
                limits.latencies.ended(now_ms)
                if held.freed_ms is not None:
                    limits.latencies.had_gap(held.begun_ms - held.freed_ms)
                limits.freed.append(finished_ms)
            self._release()

        return read

    def _report(self) -> None:
        now_ms = self.now_ms
        self._reports += 1
        if self._reports % (SAMPLE_MS // REPORT_MS) == 1:
            self._sample_gauges()
        if self._shown is not None:
            self._shown = structs.replace(self._shown, age_ms=now_ms - self._sampled_ms)
        for held in self.held.values():
            held.tokens = held.sequence.generated if self.streamed else 0
        self.holder.reported(self, self._shown)
        self._release()
        self._later(REPORT_MS, self._report)

    def _sample_gauges(self) -> None:
        """Asks the engine for its metrics: they are those of a while ago where they trail."""
        stepper, now_ms = self.stepper, self.now_ms
        self._sample += 1
        self._sampled_ms = now_ms
        self._past.append(
            (now_ms, Gauges(
                sample=0, running=stepper.running, waiting=stepper.waiting, kv_tokens=stepper.pool.total * BLOCK,
                kv_permille=1000 * stepper.pool.used // stepper.pool.total, preemptions=stepper.preemptions,
            ))
        )  # fmt: skip
        while len(self._past) > 1 and self._past[1][0] <= now_ms - self.lag_ms:
            self._past.popleft()
        if self.has_gauges:
            self._shown = structs.replace(self._past[0][1], sample=self._sample)
