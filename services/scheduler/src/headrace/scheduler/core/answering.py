"""Tells others how things stand: answers to queries on `replies`, and `queue-state` each second. Called by PoolCore.

Invariant: reads the state and changes nothing; every record carries the epoch, so that readers keep the highest owner's word.
"""

from collections import Counter, deque

from headrace.bus.messages import message_of
from headrace.contracts.control import Query
from headrace.contracts.durations import ms
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import QueueState
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_wait import (
    WINDOW,
    expected_rate,
    per_second,
    rate_milli_of,
    wait_ms,
)
from headrace.scheduler.state.fair_queue import Waiting
from headrace.scheduler.state.tracked import Phase, Tracked

RATE_OVER_MS = ms(WINDOW)


class Answering:
    """The owner's word on its queue."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._began_ms: int | None = None
        self._completed: deque[tuple[int, int]] = deque()
        self._told_ms = -(10**12)
        self.states: dict[str, QueueState] = {}
        """The last word on each tier, for the metrics."""

    def completed(self, count: int) -> None:
        """So many requests were finished in this step."""
        now = self._state.now.boot_ms
        self._state.served.passed(now, at_work=bool(self._state.tracked))
        self._began_ms = now if self._began_ms is None else self._began_ms
        if count:
            self._completed.append((now, count))
        while self._completed and self._completed[0][0] <= now - RATE_OVER_MS:
            self._completed.popleft()

    def rate_milli(self) -> int:
        """Completions per 1,000 s over the last 30 s, or over what there has been of them."""
        began = self._state.now.boot_ms if self._began_ms is None else self._began_ms
        over_ms = min(RATE_OVER_MS, max(1_000, self._state.now.boot_ms - began))
        return rate_milli_of(sum(count for _, count in self._completed), over_ms)

    def answer(self, query: Query) -> None:
        """Answer a query from what is known now."""
        state, tracked = self._state, self._state.tracked.get(query.id)
        held = state.held.of(query.id)
        status, ahead = self._status(query.id, tracked)
        attempts = held.attempts if held is not None else tracked.used if tracked is not None else 0
        answer = Answer(
            id=query.id,
            nonce=query.nonce,
            epoch=state.epoch,
            as_of_ms=state.now.wall_ms,
            known=status is not None,
            status=status,
            position=None if ahead is None else ahead.requests,
            estimated_wait_ms=None if tracked is None or ahead is None else self._wait_ms(tracked, ahead),
            tokens=0 if held is None else held.tokens,
            attempts=attempts,
            gateway=None if tracked is None else tracked.record.gateway,
            model=None if tracked is None else tracked.record.model,
        )
        state.send(message_of(state.setting.place(TopicKind.REPLIES, query.gateway), answer))

    def tell(self) -> None:
        """Write `queue-state` when it is due."""
        state = self._state
        if state.now.boot_ms - self._told_ms < ms(state.setting.timings.observe):
            return
        self._told_ms = state.now.boot_ms
        held = Counter(attempt.tier for attempt in state.held.all())
        limit = sum(worker.report.limit for worker in state.workers.live.values() if worker.report.healthy)
        for tier in state.accounts.tiers:
            told = self.states[tier] = self._of(tier, held[tier], limit)
            key = f"{state.setting.pool}/{tier}".encode()
            state.send(message_of(state.setting.place(TopicKind.QUEUE_STATE), told, key=key))

    def _of(self, tier: str, held: int, limit: int) -> QueueState:
        state, oldest = self._state, self._state.ages[tier].first()
        waited = 0 if oldest is None else max(0, state.now.wall_ms - oldest.record.accepted_ms)
        paused = [p for p in state.partitions.by_place.values() if p.tier == tier and p.paused]
        return QueueState(
            pool=state.setting.pool,
            tier=tier,
            epoch=state.epoch,
            as_of_ms=state.now.wall_ms,
            depth=state.queue.depth(tier),
            oldest_wait_ms=waited,
            held=held,
            limit=limit,
            rate_milli=self.rate_milli(),
            paused_partitions=len(paused),
        )

    def _wait_ms(self, tracked: Tracked, ahead: Waiting) -> int | None:
        """How long until it starts, by what its tenant gets of the pool's work."""
        return wait_ms(ahead.cost, tracked.charge, self._rate_of(tracked.record.tier, tracked.record.tenant))

    def _rate_of(self, tier: str, tenant: str) -> int:
        """What a tenant is served per second."""
        served = self._state.served
        own, pool = (per_second(n, served.busy_ms) for n in (served.of_tenant(tier, tenant), served.total))
        return expected_rate(own, pool, self._state.queue.share(tier, tenant))

    def _status(self, request_id: str, tracked: Tracked | None) -> tuple[Status | None, Waiting | None]:
        held = self._state.held.of(request_id)
        if held is not None:
            return (Status.RUNNING if held.running else Status.DISPATCHED), None
        if tracked is None:
            return None, None
        return Status.QUEUED, self._state.queue.ahead_of(tracked) if tracked.phase is Phase.WAITING else None
