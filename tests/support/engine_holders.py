"""Who holds what in a simulated engine: a fixed limit, or the product's own rules. Used by simulated_engine and its tests.

Invariant: `Learning` asks the decisions and the state that core.holding and core.taking_back ask.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import Gauges
from headrace.devkit.engine import Sequence
from headrace.scheduler.decisions.does_its_cache_thrash import after_remedy
from headrace.scheduler.decisions.how_many_tokens_fit import Load, left_of
from headrace.scheduler.decisions.whom_to_take_back import STANDS_MS, Inside, whom_to_take_back
from headrace.scheduler.state.backend_limits import BackendLimits

if TYPE_CHECKING:
    from tests.support.simulated_engine import Busy

LATE_MS = 600


@dataclass(slots=True)
class Held:
    """One attempt as the owner sees it. `tokens` by the last report, grown last at `moved_ms`; `stopped`: it was before."""

    prompt: int
    mean: int
    most: int
    sent_ms: int
    sequence: Sequence
    freed_ms: int | None = None
    tokens: int = 0
    begun_ms: int = 0
    moved_ms: int = 0
    stopped: bool = False

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
        if limits.over_cache:
            self._take_back(busy, limits)
        limit = min(self.ceiling, limits.limit)
        self.trace.append(Looked(now_ms, limit, limits.ahead, limits.theta.percent, limits.kv_tokens))

    def _take_back(self, busy: "Busy", limits: BackendLimits) -> None:
        """As core.taking_back, of requests that keep their text."""
        now_ms, kv_tokens = busy.now_ms, limits.kv_tokens or 0
        inside = [
            Inside(AttemptId(1, number), str(number), held.load().so_far, self._still_ms(held, now_ms), stopped=held.stopped)
            for number, held in busy.held.items()
        ]  # fmt: skip
        for chosen in whom_to_take_back(inside, over=limits.over_cache, kv_tokens=kv_tokens):
            limits.thrash = after_remedy(now_ms)
            busy.take_back(chosen.attempt.sequence)

    def _still_ms(self, held: Held, now_ms: int) -> int | None:
        if held.tokens:
            return now_ms - held.moved_ms
        return STANDS_MS if self._is_late(held, now_ms) else None

    def _is_late(self, held: Held, now_ms: int) -> bool:
        latencies, waits_ms = self.limits.latencies, now_ms - held.sent_ms
        return not held.tokens and latencies.is_late(held.prompt, waits_ms - LATE_MS, now_ms)
