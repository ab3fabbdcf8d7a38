"""What was learned of one backend: how many requests and tokens it holds well, and what that was learned from.

Used by core.holding. Invariant: moved by looks alone, each at a report of its worker. Not checkpointed: a new owner begins
with what it finds held. Instants in ms since boot.
"""

from collections import deque
from dataclasses import dataclass, field, replace

from headrace.contracts.reports import Gauges
from headrace.scheduler.decisions.does_its_cache_thrash import Thrash, after_sample, over_its_cache
from headrace.scheduler.decisions.how_many_requests_fit import Look, RequestLimit, first_limit, next_limit
from headrace.scheduler.decisions.how_many_to_send_ahead import to_send_ahead
from headrace.scheduler.decisions.how_many_tokens_fit import CacheLook, Load, Theta, fits, next_theta
from headrace.scheduler.decisions.whom_to_take_back import is_large
from headrace.scheduler.state.cache_loads import CacheLoads
from headrace.scheduler.state.latencies import Latencies

_UNKNOWN_MS, _LONG_MS = 1_000, 60_000
"""A service time that isn't known, as it is taken for cuts, which must come soon, and for promising more."""
_TELLING_PERMILLE, _FULL_PERMILLE = 200, 800
"""So full a cache must be before its size is learned from what it holds, and before a size that nobody told counts."""
_SHARED_PERCENT = 125
_FREED = 64
_HELD_LOOKS = 14
"""Looks within which the least is taken that was held: gauges trail by 6 s, and reports come each half second."""


@dataclass(slots=True)
class BackendLimits:
    """One backend, as one boot of its worker stands for it.

    `loads`: what it holds, in tokens of its cache; `held_tokens`: what that was at the latest looks. `freed`: when attempts
    ended by the worker's clock (Unix ms) whose slots no other has taken yet. `kept_back`: a request wasn't given since it
    didn't fit the cache, since the last look.
    """

    requests: RequestLimit
    theta: Theta = Theta()  # noqa: RUF009 frozen
    thrash: Thrash = Thrash()  # noqa: RUF009 frozen
    latencies: Latencies = field(default_factory=Latencies)
    gauges: Gauges | None = None
    heard_ms: int = 0
    fresh: bool = False
    preempted: bool = False
    refused: bool = False
    kept_back: bool = False
    learned_kv: int | None = None
    ahead: int = 0
    loads: CacheLoads = field(default_factory=CacheLoads)
    held_tokens: deque[int] = field(default_factory=lambda: deque(maxlen=_HELD_LOOKS))
    freed: deque[int] = field(default_factory=lambda: deque(maxlen=_FREED))

    @classmethod
    def of(cls, ceiling: int, held: int = 0, *, gauged: bool = True) -> "BackendLimits":
        """One of which nothing is known but what it holds, and whether it has gauges; its operator allows `ceiling`."""
        return cls(first_limit(ceiling, held, gauged=gauged))

    @property
    def gauged(self) -> bool:
        """Whether it tells how many wait in it."""
        return self.gauges is not None and self.gauges.waiting is not None

    @property
    def limit(self) -> int:
        """How many attempts it may hold, those on their way to it included."""
        return self.requests.limit + self.ahead

    @property
    def kv_tokens(self) -> int | None:
        """The size of its cache, counted as we count what it holds; None: it isn't known, and nothing is kept back for it.

        Prompts that share their beginnings take less than we count: a cache that holds clearly more than fits it is larger
        to us. (Long prompts that are being computed take less, too, but not for long.)
        """
        told, learned = None if self.gauges is None else self.gauges.kv_tokens, self.learned_kv
        if told is None:
            return learned
        return learned if learned is not None and 100 * learned >= _SHARED_PERCENT * told else told

    @property
    def over_cache(self) -> int:
        """By how many tokens what it holds is more than its cache, if that thrashes; else 0."""
        gauges = self.gauges
        if gauges is None or gauges.kv_tokens is None:
            return 0
        so_far, kv_tokens = self.loads.so_far, self.kv_tokens
        return over_its_cache(self.thrash, waiting=gauges.waiting, so_far=so_far, kv_tokens=kv_tokens)

    def may_want_back(self, load: Load) -> bool:
        """Whether it would be told if its cache thrashed, and such a request were worth taking back then."""
        gauges, kv_tokens = self.gauges, self.kv_tokens
        told = gauges is not None and gauges.kv_tokens is not None and gauges.preemptions is not None
        return told and kv_tokens is not None and is_large(load.so_far + load.left, kv_tokens)

    def heard(self, gauges: Gauges | None, boot_ms: int) -> None:
        """Its worker's report said this of the engine; None: it has no gauges."""
        if gauges is None:
            return
        before, self.gauges = self.gauges, gauges
        self.heard_ms = boot_ms
        if before is not None and before.kv_tokens != gauges.kv_tokens:
            self.learned_kv = None  # another engine
        if before is None or gauges.sample != before.sample:
            self.fresh = True
            risen = before is not None and (gauges.preemptions or 0) > (before.preemptions or 0)
            self.preempted = self.preempted or risen
            self.thrash = after_sample(self.thrash, preempted=risen, boot_ms=boot_ms)

    def holds(self, in_flight: int) -> int | None:
        """It was given one more, and holds so many now. When the slot was freed that it takes; None: it had been free."""
        if in_flight > self.requests.peak:
            self.requests = replace(self.requests, peak=in_flight)
        free = max(1, self.limit - in_flight + 1)
        while len(self.freed) > free:  # ends that a lower limit left without a successor
            self.freed.popleft()
        return self.freed.popleft() if self.freed else None

    def may_promise(self, peak: int) -> bool:
        """Whether its cache may be asked for so many tokens at the worst."""
        kv_tokens = self.kv_tokens
        if kv_tokens is None or fits(peak, kv_tokens, self.theta.percent):
            return True
        self.kept_back = True
        return False

    def may_take(self, load: Load) -> bool:
        """Whether its cache has room for one more, too. What holds nothing takes anything: it fits alone or nowhere."""
        kv_tokens = self.kv_tokens
        if kv_tokens is None or not self.loads or self._is_unsure:
            return True
        if fits(self.loads.most_with(load), kv_tokens, self.theta.percent):
            return True
        return self.may_promise(self.loads.peak_with(load))

    def look(
        self, *, ceiling: int, in_flight: int, own_waiting: int, peak: int, held_tokens: int, boot_ms: int
    ) -> None:
        """Think again. `peak`, `held_tokens`: what is held will come to, and comes to now, in tokens of its cache."""
        self.held_tokens.append(held_tokens)
        service_ms = self.latencies.whole_ms or _UNKNOWN_MS
        self._learn_kv()
        self._look_at_requests(ceiling, in_flight, own_waiting, service_ms, boot_ms)
        self._look_at_cache(peak, self.latencies.whole_ms or _LONG_MS, boot_ms)
        step_ms = -(-(self.latencies.token_us or 0) // 1_000)
        self.ahead = to_send_ahead(self.latencies.rate_milli(boot_ms), self.latencies.gap_ms, step_ms)
        self.fresh = self.preempted = self.refused = self.kept_back = False

    def _look_at_requests(
        self, ceiling: int, in_flight: int, own_waiting: int, service_ms: int, boot_ms: int
    ) -> None:
        gauges = self.gauges if self.gauged else None
        unknown_ms = service_ms if gauges is None else min(service_ms, _UNKNOWN_MS)
        look = Look(
            ceiling=ceiling,
            in_flight=in_flight,
            ttft_ms=self.latencies.first_ms or unknown_ms,
            service_ms=service_ms,
            fresh=self.fresh,
            waiting=None if gauges is None else gauges.waiting,
            running=None if gauges is None else gauges.running,
            own_waiting=own_waiting,
            ahead=self.ahead,
            sample_age_ms=None if gauges is None else gauges.age_ms + boot_ms - self.heard_ms,
            refused=self.refused,
            slow=gauges is None and self.latencies.have_slowed(boot_ms),
        )
        self.requests = next_limit(self._begun(ceiling, in_flight), look, boot_ms)

    def _begun(self, ceiling: int, in_flight: int) -> RequestLimit:
        """The limit before this look. Of one that never was too much, and that the gauges didn't find: its operator's word,
        until the first gauges are there.
        """
        now = self.requests
        if now.cut_from or (now.searching and self.gauged):
            return now
        return first_limit(ceiling, in_flight, gauged=self.gauged)

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

    @property
    def _is_unsure(self) -> bool:
        """Whether nobody told the size of the cache, and it is far from full."""
        gauges = self.gauges
        return gauges is None or (gauges.kv_tokens is None and (gauges.kv_permille or 0) < _FULL_PERMILLE)

    def _learn_kv(self) -> None:
        """What the engine says of how full its cache is, beside the least of what it may have held then."""
        gauges = self.gauges
        if gauges is None or not self.fresh or gauges.kv_permille is None:
            return
        if gauges.waiting or gauges.kv_permille < _TELLING_PERMILLE:
            return  # whoever waits in it is in no cache
        told = min(self.held_tokens) * 1000 // gauges.kv_permille
        self.learned_kv = told if self.learned_kv is None else (7 * self.learned_kv + told) // 8
