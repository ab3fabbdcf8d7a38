"""What the logs tell of a pool: who owns it, who stands by, how full it is. Pure; called by `headrace pools`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.contracts.checkpoints import Ownership
from headrace.contracts.durations import ms
from headrace.contracts.observations import QueueState, Standby

SILENT_AFTER = timedelta(seconds=5)
GONE_AFTER = timedelta(seconds=15)
"""A standby says each 5 s that it is there."""


@dataclass(frozen=True, slots=True)
class PoolPicture:
    """`owner` None: nobody owns it now. `seen_ms`: when its last checkpoint was written, Unix ms."""

    pool: str
    owner: str | None = None
    successor: str | None = None
    epoch: int = 0
    since_ms: int | None = None
    seen_ms: int = 0
    gate_open: bool = False
    in_flight: int = 0
    waiting: int = 0
    slots: int = 0
    paused_partitions: int = 0
    standbys: tuple[Standby, ...] = field(default_factory=tuple)

    def silent(self, wall_ms: int) -> bool:
        """Whether its owner has written no checkpoint for too long."""
        return self.owner is not None and wall_ms - self.seen_ms > ms(SILENT_AFTER)


def picture_of(
    pool: str,
    owners: Iterable[tuple[int, Ownership]],
    states: Iterable[QueueState | Standby],
    wall_ms: int,
) -> PoolPicture:
    """`owners` with the instant at which each was written; both in log order."""
    last = max(owners, key=lambda each: (each[1].epoch, each[1].number), default=None)
    mine = [state for state in states if state.pool == pool]
    standbys = {s.replica: s for s in mine if isinstance(s, Standby)}
    there = [s for s in standbys.values() if wall_ms - s.as_of_ms <= ms(GONE_AFTER)]
    if last is None:
        return PoolPicture(pool, standbys=tuple(there))
    seen_ms, owner = last
    tiers = {s.tier: s for s in mine if isinstance(s, QueueState) and s.epoch == owner.epoch}
    return PoolPicture(
        pool=pool,
        owner=None if owner.released else owner.owner,
        successor=owner.successor,
        epoch=owner.epoch,
        since_ms=owner.since_ms,
        seen_ms=seen_ms,
        gate_open=owner.gate_open and not owner.released,
        in_flight=sum(tier.held for tier in tiers.values()),
        waiting=sum(tier.depth for tier in tiers.values()),
        slots=max((tier.limit for tier in tiers.values()), default=0),
        paused_partitions=sum(tier.paused_partitions for tier in tiers.values()),
        standbys=tuple(
            sorted((s for s in there if s.replica != owner.owner or owner.released), key=_by_rank)
        ),
    )


def _by_rank(standby: Standby) -> tuple[int, str]:
    return standby.rank, standby.replica
