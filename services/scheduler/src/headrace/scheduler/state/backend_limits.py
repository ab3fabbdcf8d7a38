"""What was learned of one backend: how many requests and tokens it holds well, and what that was learned from.

Used by core.holding. Invariant: moved by looks alone, each at a report of its worker. Not checkpointed: a new owner begins
with what it finds held. Instants in ms since boot.
"""

from collections import deque
from dataclasses import dataclass, field, replace

from headrace.contracts.reports import Gauges
from headrace.scheduler.decisions.how_many_requests_fit import Look, RequestLimit, first_limit, next_limit
from headrace.scheduler.decisions.how_many_to_send_ahead import to_send_ahead
from headrace.scheduler.decisions.how_many_tokens_fit import CacheLook, Theta, fits, next_theta
from headrace.scheduler.state.latencies import Latencies

_UNKNOWN_MS = 1_000
_TELLING_PERMILLE = 200
"""So full a cache must be before its size is learned from what it holds."""
_FREED = 64


@dataclass(slots=True)
class BackendLimits:
    """One backend, as its worker's name stands for it.

    `freed`: when attempts ended by the worker's clock (Unix ms) whose slots no other has taken yet. `kept_back`: a request
    wasn't given since it didn't fit the cache, since the last look.
    """

    requests: RequestLimit
    theta: Theta = Theta()  # noqa: RUF009 frozen
    latencies: Latencies = field(default_factory=Latencies)
    gauges: Gauges | None = None
    heard_ms: int = 0
    fresh: bool = False
    preempted: bool = False
    refused: bool = False
    kept_back: bool = False
    learned_kv: int | None = None
    ahead: int = 0
    freed: deque[int] = field(default_factory=lambda: deque(maxlen=_FREED))

    @classmethod
    def of(cls, ceiling: int, held: int = 0) -> "BackendLimits":
        """One of which nothing is known but what it holds; its operator allows `ceiling`."""
        return cls(first_limit(ceiling, held))

    @property
    def limit(self) -> int:
        """How many attempts it may hold, those on their way to it included."""
        return self.requests.limit + self.ahead

    @property
    def kv_tokens(self) -> int | None:
        """The size of its cache; None: it isn't known, and nothing is kept back for it."""
        told = None if self.gauges is None else self.gauges.kv_tokens
        return self.learned_kv if told is None else told

    def heard(self, gauges: Gauges | None, boot_ms: int) -> None:
        """Its worker's report said this of the engine; None: it has no gauges."""
        if gauges is None:
            return
        before, self.gauges = self.gauges, gauges
        self.heard_ms = boot_ms
        if before is None or gauges.sample != before.sample:
            self.fresh = True
            risen = before is not None and (gauges.preemptions or 0) > (before.preemptions or 0)
            self.preempted = self.preempted or risen

    def holds(self, in_flight: int) -> None:
        """It was given one more."""
        self.requests = replace(self.requests, peak=max(self.requests.peak, in_flight))

    def may_promise(self, peak: int) -> bool:
        """Whether its cache may be asked for so many tokens at the worst."""
        kv_tokens = self.kv_tokens
        if kv_tokens is None or fits(peak, kv_tokens, self.theta.percent):
            return True
        self.kept_back = True
        return False

    def look(
        self, *, ceiling: int, in_flight: int, own_waiting: int, peak: int, held_tokens: int, boot_ms: int
    ) -> None:
        """Think again. `peak`, `held_tokens`: what is held will come to, and comes to now, in tokens of its cache."""
        service_ms = self.latencies.whole_ms or _UNKNOWN_MS
        self._learn_kv(held_tokens)
        self._look_at_requests(ceiling, in_flight, own_waiting, service_ms, boot_ms)
        self._look_at_cache(peak, service_ms, boot_ms)
        self.ahead = to_send_ahead(self.latencies.rate_milli(boot_ms), self.latencies.gap_ms)
        self.fresh = self.preempted = self.refused = self.kept_back = False

    def _look_at_requests(
        self, ceiling: int, in_flight: int, own_waiting: int, service_ms: int, boot_ms: int
    ) -> None:
        gauges = self.gauges
        slow = gauges is None and self.latencies.have_slowed(boot_ms)
        look = Look(
            ceiling=ceiling,
            in_flight=in_flight,
            ttft_ms=self.latencies.first_ms or service_ms,
            service_ms=service_ms,
            fresh=self.fresh,
            waiting=None if gauges is None else gauges.waiting,
            running=None if gauges is None else gauges.running,
            own_waiting=own_waiting,
            ahead=self.ahead,
            sample_age_ms=None if gauges is None else gauges.age_ms + boot_ms - self.heard_ms,
            refused=self.refused or slow,
        )
        self.requests = next_limit(self.requests, look, boot_ms)

    def _look_at_cache(self, peak: int, service_ms: int, boot_ms: int) -> None:
        kv_tokens, gauges = self.kv_tokens, self.gauges
        if kv_tokens is None or gauges is None:
            return
        look = CacheLook(
            service_ms=service_ms,
            preempted=self.preempted,
            waiting=bool(gauges.waiting),
            fits=fits(peak, kv_tokens, self.theta.percent),
            binding=self.kept_back,
        )
        self.theta = next_theta(self.theta, look, boot_ms)

    def _learn_kv(self, held_tokens: int) -> None:
        """Where the engine says how full its cache is, but not how large."""
        gauges = self.gauges
        if gauges is None or not self.fresh or (gauges.kv_permille or 0) < _TELLING_PERMILLE:
            return
        told = held_tokens * 1000 // (gauges.kv_permille or 1)
        self.learned_kv = told if self.learned_kv is None else (7 * self.learned_kv + told) // 8
