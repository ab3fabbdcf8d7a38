"""Which of the near requests runs next, and where: what saves most by what caches hold. Called by core.releasing.

Invariant: a request without hints, in a pool of one model, goes where there is least load, and costs nothing more; neither
whose turn it is nor how much a backend may hold is decided here.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, hashes_of
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.room import room_at
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.decisions.how_long_to_wait_for_a_cache import waits_ms
from headrace.scheduler.decisions.which_backend import Candidate, Warmth, by_preference, home_of
from headrace.scheduler.decisions.who_may_pass import (
    MOST_PASSED,
    MOST_TENANTS,
    may_be_passed,
    may_go_before,
    near,
    saved_most,
)
from headrace.scheduler.state.cached_prefixes import CachedPrefixes
from headrace.scheduler.state.held import Expected, HeldAttempt
from headrace.scheduler.state.tenant_queue import FlowQueue
from headrace.scheduler.state.tracked import Tracked
from headrace.scheduler.state.workers import Worker

_SESSION, _ADAPTER = "session/", "adapter/"

_Fits = Callable[[Tracked, Worker], bool]


class Roomy(NamedTuple):
    """A worker that may be given more; least loaded first where they are sorted."""

    load: tuple[int, int, str]
    candidate: Candidate
    worker: Worker


def recall(state: PoolState, record: RequestRecord, boot: str) -> None:
    """Another owner sent it there, and it is there now: so are its prompt and its session."""
    keys = hashes_of(record.prefix)
    if record.session:
        keys.append(_SESSION + record.session)
    if keys:
        state.workers.caches.used(boot, keys, record.prompt_tokens)


class Routing:
    """The hints' effect."""

    def __init__(self, state: PoolState, estimating: Estimating) -> None:
        self._state, self._estimating = state, estimating
        self._largest: dict[str, int] = {}
        """By tier: the most by which a charge with hints has moved a counter."""
        self._setting: Setting | None = None
        self._adapters = False

    @property
    def _caches(self) -> CachedPrefixes:
        """Those of the workers that are known now: a new owner gets those that it followed while it stood by."""
        return self._state.workers.caches

    def instead_of(self, first: Tracked, roomy: Sequence[Roomy], slots: int, fits: _Fits) -> Tracked | None:
        """Who runs now of those near the first in line: the first, or one that has more in a cache where there is room.

        Of its own flow, if one of them loses nothing by running now; else of another tenant whose turn is near, if one of
        theirs loses nothing; else of its own, unless it waits a moment for the one backend (None). `fits`: whether a worker's
        cache has room for a request.
        """
        self._keep_up()
        flow = self._state.queue.flow_queue_of(first)
        if not may_be_passed(
            passed=flow.passed,
            has_deadline=first.record.finish_by_ms is not None,
            start_by_ms=first.start_by_ms,
            wall_ms=self._state.now.wall_ms,
        ):
            flow.passed = 0
            return first
        free, able = {each.candidate.boot for each in roomy}, self._able()
        chosen, lost = self._best_near(first, free, able)
        if lost:
            others = self._others_near(first, free, able, slots)
            may = (each for each in others if self._may_go(each, first, self._goes_to(each, roomy, fits)))
            other = next(may, None)
            if other is None and self._waits(first, flow, lost):
                return None
            chosen = other or chosen
        if chosen is first:
            flow.passed = 0
            return first
        flow.passed += 1
        self._state.count(Counted.PASSED)
        return chosen

    def by_preference(self, record: RequestRecord, roomy: Sequence[Roomy]) -> list[Roomy] | None:
        """Where a request had best go, the best first; None: wherever there is least load."""
        self._keep_up()
        if len(roomy) < 2 or not (record.prefix or record.session or self._adapters):
            return None
        of = {each.candidate.boot: each for each in roomy}
        live = self._state.workers.live.values()
        ordered = by_preference(
            [each.candidate for each in roomy],
            self._warmth_of(record),
            held=len(self._state.held),
            limits=sum(worker.report.limit for worker in live),
            homes=self._homes_of(record, roomy),
        )
        return [of[candidate.boot] for candidate in ordered]

    def cached_at(self, record: RequestRecord, boot: str) -> tuple[Expected | None, int]:
        """What a backend's cache is believed to have of its prompt, and how many tokens it is charged as cached there."""
        expected = self._expected(record, boot)
        return expected, self._estimating.cached_of(record, 0 if expected is None else expected.counted)

    def _expected(self, record: RequestRecord, boot: str) -> Expected | None:
        keys = hashes_of(record.prefix) if record.prefix else ()
        known = self._caches.blocks_of(keys).get(boot, 0) if keys else 0
        if not known:
            return None
        since = self._caches.since(boot, keys[ENDS.index(known)])
        age = self._caches.age(boot, since)
        return Expected(_tokens(known, record), since, age, self._caches.reaches(boot, age))

    def sent(self, record: RequestRecord, held: HeldAttempt) -> None:
        """It goes there now."""
        if not (record.prefix or record.session or self._adapters):
            return
        keys = hashes_of(record.prefix)
        if keys:
            step = self._state.accounts.of(held.tier, held.tenant).step_of(held.charge)
            self._largest[held.tier] = max(self._largest.get(held.tier, 0), step)
        if held.expected is not None:
            self._state.count(Counted.WARM)
        keys += self._others_of(record)
        if keys:
            self._caches.used(held.boot, keys, record.prompt_tokens)

    def ended(self, outcome: Outcome) -> None:
        """Its engine said how much it had found in its cache: less than half of what was expected: the rest is gone."""
        record, own = outcome.record, outcome.own
        cached, boot = record.usage.cached_tokens, record.boot or ""
        if cached:
            self._caches.told(boot)
        told = record.started and record.usage.prompt_tokens and not record.usage.estimated
        if own is None or own.expected is None or not told:
            return
        there = 2 * cached >= own.expected.tokens
        self._caches.found(boot, own.expected.age, there=there)
        if not there:
            self._state.count(Counted.WARM_MISSED)
            self._caches.were_gone(boot, own.expected.since)

    def _keep_up(self) -> None:
        """With the policy: other weights make other steps of charges."""
        if self._state.setting is not self._setting:
            self._setting = self._state.setting
            self._adapters = len(set(self._setting.pool_policy.models.values())) > 1
            self._largest.clear()

    def _best_near(self, first: Tracked, free: set[str], able: set[str]) -> tuple[Tracked, int]:
        """Of a flow whose first this is: who runs now, and how many blocks it has in a cache where there is no room."""
        some = [first]
        if first.record.prefix:
            some = self._state.queue.flow_queue_of(first).first_few(MOST_PASSED)
            some = [some[number] for number in near((each.order, _has_deadline(each)) for each in some)]
        blocks = [self._saved(each.record, free, able) for each in some]
        chosen = saved_most(blocks)
        here, anywhere = blocks[chosen]
        return some[chosen], anywhere - here

    def _others_near(self, first: Tracked, free: set[str], able: set[str], slots: int) -> Iterator[Tracked]:
        """Of each of the next tenants one that loses nothing, if there is one."""
        for other in self._state.queue.next_tenants(first, slots, MOST_TENANTS):
            chosen, lost = self._best_near(other, free, able)
            if not lost:
                yield chosen

    def _goes_to(self, tracked: Tracked, roomy: Sequence[Roomy], fits: _Fits) -> str:
        """The boot that it would be given to."""
        ordered = self.by_preference(tracked.record, roomy) or sorted(roomy)
        return next((each.candidate.boot for each in ordered if fits(tracked, each.worker)), "")

    def _waits(self, first: Tracked, flow: FlowQueue, lost: int) -> bool:
        """Whether the flow whose turn it is waits for a backend that has no room yet."""
        state = self._state
        if flow.awaits is None or flow.awaits[0] != first.id:
            flow.awaits = (first.id, state.now.boot_ms)
        speed = state.speeds.now(state.now.boot_ms)
        alone = all(name == first.record.tier or not state.queue.depth(name) for name in state.accounts.tiers)
        longest_ms = waits_ms(lost, None if speed is None else speed.prompt_us, alone=alone)
        return state.now.boot_ms - flow.awaits[1] < longest_ms

    def _may_go(self, other: Tracked, first: Tracked, boot: str) -> bool:
        """Whether this tenant's turn is near enough, by what it would be charged there."""
        state, tier = self._state, first.record.tier
        own, (_, cached) = state.accounts.of(tier, other.record.tenant), self.cached_at(other.record, boot)
        return may_go_before(
            own.value,
            own.step_of(self._estimating.charge_of(other.record, cached)),
            least=state.accounts.of(tier, first.record.tenant).value,
            largest=self._largest.get(tier, 0),
        )

    def _saved(self, record: RequestRecord, free: set[str], able: set[str]) -> tuple[int, int]:
        """Blocks that a backend with room has of it, and that any has that may have room again soon."""
        found = self._caches.blocks_of(hashes_of(record.prefix)) if record.prefix else {}
        here = max((blocks for boot, blocks in found.items() if boot in free), default=0)
        return here, max((blocks for boot, blocks in found.items() if boot in able), default=0)

    def _able(self) -> set[str]:
        """Boots that take work, once they have room."""
        state, apart = self._state, self._state.suspects.apart
        able = {each.boot for each in state.workers.live.values() if room_at(state, each, held=0) > 0}
        return able - {None if apart is None else apart.boot}

    def _warmth_of(self, record: RequestRecord) -> dict[str, Warmth]:
        blocks = self._caches.blocks_of(hashes_of(record.prefix))
        found = {boot: Warmth(number) for boot, number in blocks.items()}
        if record.session:
            for boot in self._caches.who_has(_SESSION + record.session):
                found[boot] = found.get(boot, Warmth())._replace(session=True)
        if self._adapters:
            for boot in self._caches.who_has(_ADAPTER + record.model):
                found[boot] = found.get(boot, Warmth())._replace(adapter=True)
        return found

    def _homes_of(self, record: RequestRecord, roomy: Sequence[Roomy]) -> dict[str, int] | None:
        key = record.session or (record.model if self._adapters else None)
        return (
            None if key is None else {each.candidate.boot: home_of(key, each.worker.name) for each in roomy}
        )

    def _others_of(self, record: RequestRecord) -> list[str]:
        session = [_SESSION + record.session] if record.session else []
        return [*session, _ADAPTER + record.model] if self._adapters else session


def _tokens(blocks: int, record: RequestRecord) -> int:
    """Of so many blocks, which are counted in bytes: an image's bytes are many and its tokens few."""
    return min(blocks * BLOCK_TOKENS, record.prompt_tokens)


def _has_deadline(tracked: Tracked) -> bool:
    return tracked.record.finish_by_ms is not None
