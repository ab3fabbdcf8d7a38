"""The step loop in real time: one task an engine, which steps, waits as long as the step takes, and tells who got a token.

Started by server. Real time times `scale` is the engine's time. Steps follow each other without drift: sleeps are coarser
than short steps, so after one as many steps are made up for as were due, but never more than CATCH_UP's worth, since an
engine that was paused has not worked meanwhile.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from headrace.devkit.engine.sequences import Sequence
from headrace.devkit.engine.stepper import Step, Stepper

CATCH_UP_US = timedelta(milliseconds=20) // timedelta(microseconds=1)
STEPS_AT_ONCE = 16
"""Steps that take no time are made so many at a time before others in this loop have their turn."""
SECOND_US = 1_000_000


class EngineDead(Exception):  # noqa: N818 - what happened
    """The engine died while it held this request."""


class Generation:
    """One sequence on its way, and the one coroutine that waits for it. `ready`: tokens it may have by now."""

    __slots__ = ("_dead", "_waiter", "_wanted", "done", "ready", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        self.sequence, self.ready, self.done = sequence, 0, False
        self._waiter: asyncio.Future[None] | None = None
        self._wanted, self._dead = 0, False

    async def reached(self, count: int) -> int:
        """Waits until `count` tokens are ready, or all; how many are. Raises EngineDead."""
        if self.ready < count and not self.done and not self._dead:
            self._wanted = count
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._dead:
            raise EngineDead
        return self.ready

    def tell(self, *, done: bool = False) -> None:
        """A step has ended that brought a token, or the end."""
        self.ready, self.done = self.sequence.generated, done
        if done or self.ready >= self._wanted:
            self._wake()

    def die(self) -> None:
        """The engine is dead."""
        self._dead = True
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():
            waiter.set_result(None)


class StepLoop:
    """Steps while there is work. `observe(step, end_us)` is called at the end of each step, before callers are told."""

    def __init__(self, stepper: Stepper, observe: Callable[[Step, int], None], scale: float = 1.0) -> None:
        self.stepper, self._observe, self._scale = stepper, observe, scale
        self._task: asyncio.Task[None] | None = None
        self._resting: asyncio.Future[None] | None = None
        self._at = self.now_us()
        self._step: Step | None = None
        self._wake_us: int | None = None

    def now_us(self) -> int:
        """The engine's clock."""
        return int(time.monotonic() * self._scale * SECOND_US)

    def start(self) -> None:
        """Begins to step."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Ends stepping. Raises what the loop failed with."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        self._step = None
        if not task.cancelled():
            task.result()

    def submit(self, sequence: Sequence, *, whole: bool = False) -> Generation:
        """Hands a sequence to the engine. `whole`: nobody looks before it is done, so without time it is at once."""
        generation, now = Generation(sequence), self.now_us()
        if whole and (step := self.stepper.at_once(sequence, now)):
            self._observe(step, now)
            generation.ready, generation.done = sequence.generated, True
            return generation
        sequence.owner = generation
        self.stepper.add(sequence, now)
        self._rouse()
        return generation

    def abort(self, generation: Generation) -> None:
        """The caller has left."""
        if self.stepper.abort(generation.sequence):
            self._rouse()

    def die(self) -> None:
        """Everyone who is inside gets EngineDead, and nothing stays cached."""
        for sequence in list(self.stepper.everyone()):
            self.stepper.abort(sequence)
            sequence.owner.die()
        self.stepper.pool.forget()
        self._rouse()

    def _rouse(self) -> None:
        resting, self._resting = self._resting, None
        if resting and not resting.done():
            resting.set_result(None)

    async def _run(self) -> None:
        try:
            await self._step_for_ever()
        except Exception:
            self.die()  # callers must not wait for a loop that has failed; stop() raises what it was
            raise

    async def _step_for_ever(self) -> None:
        while True:
            early_us = self._advance()
            if early_us is None:
                await self._rest(self._wake_us)
                self._at = self.now_us()
            else:
                await asyncio.sleep(early_us / SECOND_US / self._scale)

    def _advance(self) -> int | None:
        """Steps until one must be waited for: microseconds until it ends; 0: others' turn; None: nothing to do."""
        for _ in range(STEPS_AT_ONCE):
            if self._step:
                self._deliver(self._step)
            self._at = max(self._at, self.now_us() - CATCH_UP_US)
            step = self.stepper.step(self._at)
            if not step.tokens:
                self._step, self._wake_us = None, step.wake_us
                return None
            self._step = step
            self._at += step.took_us
            if step.took_us and (early_us := self._at - self.now_us()) > 0:
                return early_us
        return 0

    def _deliver(self, step: Step) -> None:
        self._observe(step, self._at)
        for sequence in step.emitted:
            sequence.owner.tell()
        for sequence in step.finished:
            sequence.owner.tell(done=True)

    async def _rest(self, until_us: int | None) -> None:
        """Until something is added or taken away, or until then."""
        loop = asyncio.get_running_loop()
        self._resting = loop.create_future()
        alarm = None
        if until_us is not None:
            alarm = loop.call_later(max(0, until_us - self.now_us()) / SECOND_US / self._scale, self._rouse)
        await self._resting
        if alarm:
            alarm.cancel()
