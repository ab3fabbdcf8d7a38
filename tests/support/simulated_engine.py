"""An engine in virtual time, and whoever keeps it busy: for tests of how much a backend may hold.

The engine is devkit's own step loop (continuous batching, prefill budget, KV blocks, preemption). `Busy` plays the worker and
the owner around it: reports each half second, gauges that trail, commands and outcomes that take their time. Deterministic.
"""

import random
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Values
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

from msgspec import structs

from headrace.contracts.reports import Gauges
from headrace.devkit.engine import Profile, Sequence, Stepper
from headrace.devkit.engine.profiles import BLOCK
from headrace.scheduler.decisions.how_many_tokens_fit import Load, left_of
from tests.support.engine_holders import Held, Holder, Learning
from tests.support.engine_load import Kind, Span

WIRE_MS = 20
REPORT_MS, SAMPLE_MS = 500, 1_000


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
        self._back: deque[tuple[Held, Load]] = deque()
        self.taken_back = 0
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

    def take_back(self, number: int) -> None:
        """The owner stops an attempt; it goes on from its text when its turn comes, before those who haven't begun."""
        held = self.held[number]

        def stop() -> None:
            if self.stepper.abort(held.sequence):
                self.taken_back += 1
                self._later(self.wire_ms, come_back)

        def come_back() -> None:
            self._let_go(held)
            said = held.sequence.generated
            self._back.append((held, Load(held.prompt + said, left_of(said, held.mean, held.most, None))))

        self._later(self.wire_ms, stop)

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
        while self._back:
            held, load = self._back[0]
            if not self.holder.may_take(self, load):
                return
            self._back.popleft()
            said = held.sequence.generated
            self._send(
                held.prompt + said, held.sequence.max_tokens - said, held.mean, held.most, stopped=True
            )
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

    def _let_go(self, held: Held) -> None:
        del self.held[held.sequence.owner]
        if isinstance(self.holder, Learning):
            self.holder.limits.loads.drop(str(held.sequence.owner))

    def _send(self, prompt: int, answer: int, mean: int, most: int, *, stopped: bool = False) -> None:
        sequence = Sequence(prompt, answer, owner=next(self._ids))
        held = Held(prompt, mean, most, self.now_ms, sequence, stopped=stopped)
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
            held = self.held[sequence.owner]
            self._let_go(held)
            if isinstance(self.holder, Learning):
                limits, now_ms = self.holder.limits, self.now_ms
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
            before, held.tokens = held.tokens, held.sequence.generated if self.streamed else 0
            held.moved_ms = now_ms if held.tokens != before else held.moved_ms
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
