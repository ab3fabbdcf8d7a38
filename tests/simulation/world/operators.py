"""An operator who gives orders for many requests at once, at moments that the seed draws. Made by world.run.

Orders are in the log at once, whatever is away: an operator's tool tries until they are. Invariant: what is frozen is thawed
again, so that everything can come to rest.
"""

from collections.abc import Callable
from functools import partial

from headrace.bus.messages import message_of
from headrace.contracts.barriers import Barrier
from headrace.contracts.control import (
    CancelMatching,
    ControlRecord,
    Freeze,
    MoveMatching,
    MovePool,
    Reprioritise,
    Thaw,
)
from headrace.contracts.selections import Selection, Stage
from headrace.contracts.topics import TopicKind
from tests.simulation.world.callers import Callers
from tests.simulation.world.stage import AWAY, TENANTS, TIERS
from tests.simulation.world.stage import Stage as Shared
from tests.support.scheduler.pure import place

_WHO = "operator"
_FAR_AHEAD_MS = 4 * 10**12
"""Unix time in the next century: only the offsets say who is meant."""


class Operator:
    """One, of the first pool. `cancels`: (virtual ms, whom) of those that were ordered."""

    def __init__(self, stage: Shared, callers: Callers, owners: tuple[str, ...]) -> None:
        self._stage, self._callers, self._owners = stage, callers, owners
        self.cancels: list[tuple[int, Selection]] = []

    def plan(self, count: int, over_ms: int) -> None:
        """So many orders within this time."""
        for _ in range(count):
            self._stage.clockwork.at(self._stage.rng.randint(1_000, over_ms), self._order)

    def _order(self) -> None:
        kinds: list[Callable[[], ControlRecord]] = [
            self._cancel,
            self._reprioritise,
            self._freeze,
            self._give,
        ]
        if AWAY in self._stage.policy.pools:
            kinds.append(self._move)
        self._write(self._stage.rng.choice(kinds)())

    def _write(self, record: ControlRecord) -> None:
        told = type(record).__name__
        self._stage.saw(f"order {told}")
        self._stage.note(_WHO, f"orders {record}")
        self._stage.broker.append(message_of(place(TopicKind.CONTROL), record), _WHO)

    def _selection(self) -> Selection:
        rng = self._stage.rng
        return Selection(
            tier=rng.choice((None, None, *TIERS)),
            tenant=rng.choice((None, *TENANTS)),
            stage=rng.choice((None, Stage.QUEUED)),
            stands_before=ends_of_requests(self._stage),
        )

    def _cancel(self) -> ControlRecord:
        chosen = self._selection()
        self.cancels.append((self._stage.now_ms, chosen))
        for asked in self._callers.asked.values():
            asked.cancel_tried = asked.cancel_tried or fits(chosen, asked.record.tenant, asked.record.tier)
        return CancelMatching(selection=chosen, before_ms=_FAR_AHEAD_MS)

    def _reprioritise(self) -> ControlRecord:
        return Reprioritise(selection=self._selection(), priority=self._stage.rng.choice((-3, 0, 4)))

    def _move(self) -> ControlRecord:
        return MoveMatching(selection=self._selection(), to=AWAY)

    def _give(self) -> ControlRecord:
        return MovePool(to=self._stage.rng.choice(self._owners))

    def _freeze(self) -> ControlRecord:
        rng = self._stage.rng
        tier, tenant = rng.choice((None, *TIERS)), rng.choice((None, *TENANTS))
        thaw = partial(self._write, Thaw(tier=tier, tenant=tenant))
        self._stage.clockwork.after(rng.randint(500, 6_000), thaw)
        return Freeze(tier=tier, tenant=tenant)


def fits(selection: Selection, tenant: str, tier: str) -> bool:
    """Whether a selection may mean such a request, wherever it stands."""
    return selection.tenant in (None, tenant) and selection.tier in (None, tier)


def ends_of_requests(stage: Shared) -> dict[str, dict[int, int]]:
    """Before which offsets all stands that was accepted until now, as the CLI's barriers prove it."""
    broker, found = stage.broker, dict[str, dict[int, int]]()
    for where in [each for each in broker.logs if ".requests." in f".{each.topic}"]:
        found.setdefault(where.topic, {})[where.partition] = broker.logs[where].end
        broker.append(message_of(where, Barrier()), "an operator")
    return found
