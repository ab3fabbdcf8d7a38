"""One pass over all unfinished requests that were read, a bounded piece at a time. Used by core.finding,
core.carrying_out and core.reprioritising.

Invariant: whoever was read before the pass began, and is unfinished when it ends, was looked at. So the spilled come first:
they may get into memory meanwhile, but nothing that was read before goes the other way.
"""

from collections import deque
from collections.abc import Iterator

from headrace.contracts.requests import RequestRecord
from headrace.contracts.selections import Selection, Stage
from headrace.contracts.values import Origin
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit
from headrace.scheduler.decisions.pick_next import priority_of
from headrace.scheduler.state.tracked import Phase, Tracked

_STAGES: dict[Phase, Stage | None] = {
    Phase.WAITING: Stage.QUEUED,
    Phase.DELAYED: Stage.QUEUED,
    Phase.HELD: Stage.RUNNING,
}


def facts_of(tracked: Tracked) -> Facts:
    """What an operator may ask of a request in memory."""
    facts = facts_in(tracked.record, tracked.origin)
    return facts._replace(stage=_STAGES.get(tracked.phase), priority=priority_of(tracked.order))


def facts_in(record: RequestRecord, origin: Origin) -> Facts:
    """What an operator may ask of a request that was just read."""
    return Facts(
        record.id, record.tenant, record.tier, record.model, record.accepted_ms, None, origin, record.priority
    )


class Walk:
    """A pass. `over` once all were looked at."""

    def __init__(self, state: PoolState, selection: Selection) -> None:
        self._state, self._selection = state, selection
        tiers = [tier for tier in state.accounts.tiers if selection.tier in (None, tier)]
        self._tiers = deque(tiers)
        self._after = (0, 0)
        self._here: Iterator[str] | None = None
        self.over = False

    def step(self, most: int) -> list[Facts]:
        """Those that fit of the next `most`."""
        looked: list[Facts] = []
        while len(looked) < most and not self.over:
            room = most - len(looked)
            looked += self._spilled(room) if self._tiers else self._in_memory(room)
        return [facts for facts in looked if does_it_fit(self._selection, facts)]

    def _spilled(self, most: int) -> list[Facts]:
        found = self._state.spilled.accepted_after(self._tiers[0], self._after, most)
        if found:
            self._after = found[-1][0]
        if len(found) < most:
            self._tiers.popleft()
            self._after = (0, 0)
        return [facts for _, facts in found]

    def _in_memory(self, most: int) -> list[Facts]:
        if self._here is None:
            self._here = iter(self._state.tracked.ids_in_memory())
        found: list[Facts] = []
        for request_id in self._here:
            tracked = self._state.tracked.look(request_id)
            if tracked is not None:
                found.append(facts_of(tracked))
                if len(found) == most:
                    return found
        self.over = True
        return found
