"""The engine behind the server: its batch, its counts, its faults, and whether it is alive. Built by server.

Invariant: a dead core holds no sequence, and admits none until it is alive again.
"""

import asyncio
import time
from dataclasses import dataclass
from math import ceil

from headrace.devkit.engine.asks import Ask, Reading
from headrace.devkit.engine.fault_plan import FaultPlan
from headrace.devkit.engine.faults import Fault, FaultCounter, asked_fault
from headrace.devkit.engine.live import Generation, StepLoop
from headrace.devkit.engine.metrics import EngineMetrics
from headrace.devkit.engine.per_minute import PerMinute
from headrace.devkit.engine.profiles import Profile
from headrace.devkit.engine.refusals import TOO_MANY_REQUESTS, bad, busy, dead
from headrace.devkit.engine.sequences import Sequence
from headrace.devkit.engine.stats import Stats
from headrace.devkit.engine.stepper import Step, Stepper


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many requests may wait (None: any number, as vLLM's default), and what the next one is told; and how many may come
    in a minute, as at a hosted API (None: any number).
    """

    most_waiting: int | None = None
    per_minute: int | None = None
    status: int = 503
    retry_after_s: int = 0


class Core:
    """One engine, alive or dead."""

    def __init__(self, profile: Profile, reading: Reading, admission: Admission, scale: float) -> None:
        self.profile, self.reading, self._admission = profile, reading, admission
        self.stepper, self.metrics, self.counts = Stepper(profile), EngineMetrics(), Stats()
        self._per_minute = None if admission.per_minute is None else PerMinute(admission.per_minute)
        self.plan, self._faults = FaultPlan(), FaultCounter()
        self._scale, self._loop = scale, StepLoop(self.stepper, self._observe, scale)
        self._revival: asyncio.TimerHandle | None = None
        self.alive = True

    def start(self) -> None:
        """Begins to step; a dead engine is alive again."""
        self._revive()
        self._loop.start()

    async def stop(self) -> None:
        """Drops everything, and what was cached."""
        self._loop.die()
        self._revive()
        await self._loop.stop()

    def _observe(self, step: Step, end_us: int) -> None:
        self.metrics.observe(step, end_us)
        self.counts.most_running = max(self.counts.most_running, self.stepper.running)

    def kill(self, seconds: int) -> None:
        """The engine dies; it is back after so many seconds (0: when it is started again)."""
        self.alive = False
        self.counts.deaths += 1
        self._loop.die()
        if self._revival:
            self._revival.cancel()
        self._revival = asyncio.get_running_loop().call_later(seconds, self._revive) if seconds else None

    def _revive(self) -> None:
        self.alive = True
        if self._revival:
            self._revival.cancel()
        self._revival = None

    def set_plan(self, plan: FaultPlan) -> None:
        """Replaces the plan of faults."""
        self.plan, self.stepper.slowness = plan, plan.slow

    def wanted_fault(self, header: str | None, number: int, body: bytes) -> Fault | None:
        """What the request asks for, else what the plan has for it. Raises EngineRefusal."""
        try:
            return asked_fault(header, body) or (
                self.plan.fault_for(number, body) if self.plan.rules else None
            )
        except ValueError as error:
            raise bad(str(error)) from error

    def due(self, prompt: str, fault: Fault | None) -> Fault | None:
        """The fault, if this prompt hasn't had it often enough."""
        return self._faults.due(prompt, fault)

    def admit(self, sequence: Sequence, *, whole: bool = False) -> Generation:
        """Lets a sequence into the queue; `whole`: its caller waits for all of it. Raises EngineRefusal: dead, or full."""
        if not self.alive:
            raise dead()
        if self._per_minute is not None and (waits_s := self._per_minute.waits_s(time.monotonic())):
            raise busy(TOO_MANY_REQUESTS, ceil(waits_s))
        most = self._admission.most_waiting
        if most is not None and self.stepper.waiting >= most and self._full():
            self.metrics.rejected += 1
            raise busy(self._admission.status, self._admission.retry_after_s)
        return self._loop.submit(sequence, whole=whole)

    def limits(self) -> dict[str, str]:
        """What headers say is left of a minute's limit; nothing where there is none."""
        return {} if self._per_minute is None else self._per_minute.headers(time.monotonic())

    def _full(self) -> bool:
        """Whether one more would have to wait."""
        return self.stepper.running + self.stepper.waiting >= self.profile.max_num_seqs

    def left(self, ask: Ask, generation: Generation, *, unnoticed: bool) -> None:
        """The caller has left; `unnoticed`: the engine works on for nobody."""
        generated = generation.sequence.generated
        if unnoticed:
            self.counts.wasted_tokens += ask.max_tokens
            return
        self._loop.abort(generation)
        self.metrics.finished["abort"] += 1
        self.counts.wasted_tokens += generated
        self.counts.aborted_tokens += ask.max_tokens - generated

    def pace_us(self, fault: Fault | None) -> int:
        """How far apart a request's tokens are, in the engine's time; a fault's milliseconds are the caller's."""
        return round(fault.number * 1000 * self._scale) if fault and fault.kind == "slow" else 0

    def drop(self, generation: Generation) -> None:
        """Takes out of the batch what is still in it."""
        if not generation.done:
            self._loop.abort(generation)

    @property
    def stats(self) -> Stats:
        """The counts, with what is so now."""
        counts, stepper, metrics = self.counts, self.stepper, self.metrics
        counts.running, counts.waiting = stepper.running, stepper.waiting
        counts.preemptions, counts.recomputed_tokens = stepper.preemptions, stepper.recomputed_tokens
        counts.prompt_tokens, counts.cached_tokens = metrics.prompt_tokens, metrics.cached_tokens
        counts.generated_tokens = metrics.generated_tokens
        counts.kv_blocks_total, counts.kv_blocks_used = stepper.pool.total, stepper.pool.used
        counts.kv_blocks_cached = stepper.pool.cached
        return counts
