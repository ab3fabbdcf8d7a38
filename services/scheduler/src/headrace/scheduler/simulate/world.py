"""The event loop of a simulated run: arrivals, backends, one contender. Called by comparing for each contender and seed.

Invariant: time only moves forward, to the next instant at which anything happens; every request has one fate at the end,
or is still under way when the run's time is over.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.contender import Cancel, Contender, Drop, Left, Order, PutBack, Start
from headrace.scheduler.simulate.gap import GapWatch
from headrace.scheduler.simulate.jobs import Fate, Job

_SAMPLE_MS = 1_000


@dataclass(slots=True)
class Window:
    """The part of a run that is measured, in ms, and what was summed up over it."""

    from_ms: int
    to_ms: int
    busy_ms: int = 0
    """Slot-milliseconds in which a slot had work."""
    idle_ms: int = 0
    """Slot-milliseconds in which a slot had none although a request waited."""
    lost_ms: int = 0
    """Slot-milliseconds of what was put back."""
    inside: list[int] = field(default_factory=list)
    """Requests that waited inside each backend, once a second."""

    @property
    def length_ms(self) -> int:
        """How long it is."""
        return max(1, self.to_ms - self.from_ms)


class Sample(NamedTuple):
    """One look. `waiting` by tier; `busy` slots; `inside`: requests that wait in all backends together; `gap`: by how much
    the service of two tenants has come apart since both wait, of the worst pair, micro service units over weight.
    """

    at_ms: int
    waiting: Mapping[str, int]
    busy: int
    inside: int
    gap: int


class World:
    """One run. `seen` is told of each look, once a second."""

    def __init__(
        self,
        jobs: Sequence[Job],
        backends: Sequence[Backend],
        contender: Contender,
        *,
        window: Window,
        gap: GapWatch,
        until_ms: int,
        seen: Callable[[Sample], None] | None = None,
    ) -> None:
        self._jobs, self._backends, self._contender = jobs, backends, contender
        self._window, self._gap, self._until_ms = window, gap, until_ms
        self._now_ms, self._next, self._queued, self._open = 0, 0, 0, len(jobs)
        self._where: dict[Job, Backend] = {}
        self._tell = seen
        self._waiting: Counter[str] = Counter()

    def run(self) -> None:
        """Until every request has its end, or the time is over."""
        while self._open and self._now_ms < self._until_ms:
            self._turn()
            self._pass_time(self._next_ms())

    def _turn(self) -> None:
        left = [each for backend in self._backends for each in self._done_at(backend)]
        arrived = self._arrived()
        if self._now_ms % _SAMPLE_MS == 0:
            self._sample()
        for order in self._contender.turn(self._now_ms, arrived, left):
            self._carry_out(order)

    def _done_at(self, backend: Backend) -> list[Left]:
        found = []
        for running in backend.turn(self._now_ms):
            self._end(running.job, Fate.FINISHED)
            found.append(Left(running.job, running.job.output_tokens, running.first_ms))
            self._gap.left(running.job, running.job.output_tokens)
        return found

    def _arrived(self) -> list[Job]:
        begin = self._next
        while self._next < len(self._jobs) and self._jobs[self._next].at_ms <= self._now_ms:
            self._gap.waits(self._jobs[self._next])
            self._waiting[self._jobs[self._next].tier] += 1
            self._next += 1
        self._queued += self._next - begin
        return list(self._jobs[begin : self._next])

    def _carry_out(self, order: Order) -> None:
        match order:
            case Start(job, number, said):
                self._queued -= 1
                self._waiting[job.tier] -= 1
                if said:
                    self._keep(job, said, self._backends[number])
                job.sent_ms, job.said = self._now_ms, said
                self._where[job] = self._backends[number]
                self._gap.waits_no_more(job)
                self._backends[number].start(job, self._now_ms)
            case Drop(job):
                self._queued -= 1
                self._waiting[job.tier] -= 1
                self._gap.waits_no_more(job)
                self._end(job, Fate.DROPPED)
            case Cancel(job) | PutBack(job):
                self._stop(job, again=isinstance(order, PutBack))

    def _stop(self, job: Job, *, again: bool) -> None:
        """The contender learns of it by its next turn, as it does of whatever ends."""
        backend = self._where.get(job)
        if backend is None:
            return
        tokens = backend.tokens_of(job, self._now_ms)
        backend.stop(job, self._now_ms)
        self._gap.left(job, tokens)
        if again:
            job.stopped_at = tokens
            self._wait_again(job)
        else:
            self._end(job, Fate.CANCELLED)
        for order in self._contender.turn(self._now_ms, (), (Left(job, tokens, None),)):
            self._carry_out(order)

    def _wait_again(self, job: Job) -> None:
        """What it had of its slot is lost until it goes on from there."""
        window = self._window
        since_ms = self._now_ms if job.kept_ms is None else job.kept_ms
        job.stopped_ms = max(0, min(self._now_ms, window.to_ms) - max(since_ms, window.from_ms))
        window.lost_ms += job.stopped_ms
        job.kept_ms = None
        self._where.pop(job)
        self._queued += 1
        self._waiting[job.tier] += 1
        self._gap.waits(job)

    def _keep(self, job: Job, said: int, backend: Backend) -> None:
        """It goes on: lost is only what its prompt took, and will take longer, with what is said."""
        more_ms = backend.model.prefill_ms(job.input_tokens + said) - backend.model.prefill_ms(
            job.input_tokens
        )
        gained_ms = backend.model.decode_ms(said - job.said) if said == job.stopped_at else 0
        kept_ms = max(0, min(job.stopped_ms, gained_ms) - more_ms)
        self._window.lost_ms -= kept_ms
        job.gained_ms += kept_ms
        job.stopped_ms = 0

    def _end(self, job: Job, fate: Fate) -> None:
        job.fate, job.ended_ms = fate, self._now_ms
        self._where.pop(job, None)
        self._open -= 1

    def _next_ms(self) -> int:
        wakes = [backend.next_ms(self._now_ms) for backend in self._backends]
        wakes.append(self._contender.wake_ms())
        if self._next < len(self._jobs):
            wakes.append(self._jobs[self._next].at_ms)
        wakes.append((self._now_ms // _SAMPLE_MS + 1) * _SAMPLE_MS)
        return max(self._now_ms + 1, min(at for at in wakes if at is not None))

    def _pass_time(self, to_ms: int) -> None:
        window = self._window
        span_ms = max(0, min(to_ms, window.to_ms) - max(self._now_ms, window.from_ms))
        if span_ms:
            slots = sum(backend.model.slots for backend in self._backends)
            busy = sum(len(backend.running) for backend in self._backends)
            window.busy_ms += busy * span_ms
            window.idle_ms += (slots - busy) * span_ms if self._queued else 0
        self._now_ms = to_ms

    def _sample(self) -> None:
        if self._window.from_ms <= self._now_ms <= self._window.to_ms:
            self._window.inside += [len(backend.waiting) for backend in self._backends]
            running = {job: backend.tokens_of(job, self._now_ms) for job, backend in self._where.items()}
            self._gap.sample(running, self._contender.aside())
        if self._tell is not None:
            self._tell(self._seen())

    def _seen(self) -> Sample:
        busy = sum(len(backend.running) for backend in self._backends)
        inside = sum(len(backend.waiting) for backend in self._backends)
        return Sample(self._now_ms, dict(self._waiting), busy, inside, self._gap.now)
